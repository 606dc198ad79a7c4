//! The plain settings: one table a section, from which the type, its defaults, its reader and the example are made.
//!
//! Owns every key of `[server]`, `[worker]`, `[limits]` and the switches of `[guest]`, with default and bounds (I-67).
//! A key stands here once; nothing else in the project names a default.

use std::path::PathBuf;
use std::time::Duration;

use super::reader::{Section, Value, format_size};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
const MS: Duration = Duration::from_millis(1);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// How one kind of setting is read and written.
trait Kind {
    type Type: Clone;
    type Bounds;
    fn read(value: &Value<'_>, bounds: Self::Bounds) -> Option<Self::Type>;
    /// As TOML; `None` where absence is the value.
    fn show(value: &Self::Type) -> Option<String>;
}

struct Span;
impl Kind for Span {
    type Type = Duration;
    type Bounds = std::ops::RangeInclusive<Duration>;
    fn read(value: &Value<'_>, bounds: Self::Bounds) -> Option<Duration> {
        value.duration(bounds)
    }
    fn show(value: &Duration) -> Option<String> {
        Some(format!("\"{}\"", protocol::time::format_duration(*value)))
    }
}

struct MaybeSpan;
impl Kind for MaybeSpan {
    type Type = Option<Duration>;
    type Bounds = std::ops::RangeInclusive<Duration>;
    fn read(value: &Value<'_>, bounds: Self::Bounds) -> Option<Option<Duration>> {
        value.duration(bounds).map(Some)
    }
    fn show(value: &Option<Duration>) -> Option<String> {
        value.as_ref().and_then(Span::show)
    }
}

struct Size;
impl Kind for Size {
    type Type = u64;
    type Bounds = std::ops::RangeInclusive<u64>;
    fn read(value: &Value<'_>, bounds: Self::Bounds) -> Option<u64> {
        value.size(bounds)
    }
    fn show(value: &u64) -> Option<String> {
        Some(format!("\"{}\"", format_size(*value)))
    }
}

struct Count;
impl Kind for Count {
    type Type = u32;
    type Bounds = std::ops::RangeInclusive<u64>;
    fn read(value: &Value<'_>, bounds: Self::Bounds) -> Option<u32> {
        value.whole(bounds).map(|n| u32::try_from(n).expect("every bound of the tables fits 32 bits"))
    }
    fn show(value: &u32) -> Option<String> {
        Some(value.to_string())
    }
}

struct MaybeCount;
impl Kind for MaybeCount {
    type Type = Option<u32>;
    type Bounds = std::ops::RangeInclusive<u64>;
    fn read(value: &Value<'_>, bounds: Self::Bounds) -> Option<Option<u32>> {
        Count::read(value, bounds).map(Some)
    }
    fn show(value: &Option<u32>) -> Option<String> {
        value.as_ref().and_then(Count::show)
    }
}

struct Flag;
impl Kind for Flag {
    type Type = bool;
    type Bounds = ();
    fn read(value: &Value<'_>, (): ()) -> Option<bool> {
        value.boolean()
    }
    fn show(value: &bool) -> Option<String> {
        Some(value.to_string())
    }
}

struct Word;
impl Kind for Word {
    type Type = String;
    type Bounds = ();
    fn read(value: &Value<'_>, (): ()) -> Option<String> {
        let text = value.text()?;
        if text.is_empty() {
            value.fault("may not be empty");
            return None;
        }
        Some(text.to_owned())
    }
    fn show(value: &String) -> Option<String> {
        Some(format!("{value:?}"))
    }
}

struct MaybeWord;
impl Kind for MaybeWord {
    type Type = Option<String>;
    type Bounds = ();
    fn read(value: &Value<'_>, (): ()) -> Option<Option<String>> {
        Word::read(value, ()).map(Some)
    }
    fn show(value: &Option<String>) -> Option<String> {
        value.as_ref().and_then(Word::show)
    }
}

struct MaybePath;
impl Kind for MaybePath {
    type Type = Option<PathBuf>;
    type Bounds = ();
    fn read(value: &Value<'_>, (): ()) -> Option<Option<PathBuf>> {
        value.path().map(Some)
    }
    fn show(value: &Option<PathBuf>) -> Option<String> {
        value.as_ref().map(|path| format!("{:?}", path.display().to_string()))
    }
}

/// Makes the type of a section, its defaults, its reader and its part of the example from one table.
macro_rules! settings {
    ($(#[doc = $about:literal])+ $name:ident at $path:literal {
        $($(#[doc = $doc:literal])+ $key:ident: $kind:ident = $default:expr, in $bounds:expr;)+
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $key: <$kind as Kind>::Type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl $name {
            /// Reads what the section says and leaves the rest at its default.
            pub(super) fn read(section: &Section<'_>) -> Self {
                let mut out = Self::default();
                $(
                    if let Some(value) = section.get(stringify!($key)).and_then(|value| $kind::read(&value, $bounds)) {
                        out.$key = value;
                    }
                    let shown = $kind::show(&out.$key).unwrap_or_else(|| "(none)".to_owned());
                    section.note(stringify!($key), shown);
                )+
                out
            }

            /// The section as the example shows it: every key as a comment, with its default.
            pub(super) fn example(out: &mut String) {
                let defaults = Self::default();
                $(describe(out, $about);)+
                out.push_str(concat!("[", $path, "]\n"));
                $(
                    $(describe(out, $doc);)+
                    let shown = $kind::show(&defaults.$key);
                    setting(out, stringify!($key), shown.as_deref(), $kind::show_sample(&$bounds).as_deref());
                )+
                out.push('\n');
            }
        }
    };
}

fn describe(out: &mut String, doc: &str) {
    out.push('#');
    out.push_str(doc);
    out.push('\n');
}

/// `#key = value`: without the mark the line is a setting; a setting without a default shows its largest value.
fn setting(out: &mut String, key: &str, default: Option<&str>, sample: Option<&str>) {
    let line = match (default, sample) {
        (Some(value), _) => format!("#{key} = {value}\n"),
        (None, Some(sample)) => format!("#{key} = {sample}  # default: none\n"),
        (None, None) => format!("#{key} = \"\"  # default: none\n"),
    };
    out.push_str(&line);
}

/// What stands in the example for a key without a default.
trait Sample: Kind {
    fn show_sample(_: &Self::Bounds) -> Option<String> {
        None
    }
}

impl Sample for Span {}
impl Sample for Size {}
impl Sample for Count {}
impl Sample for Flag {}
impl Sample for Word {}
impl Sample for MaybeWord {}
impl Sample for MaybePath {}
impl Sample for MaybeSpan {
    fn show_sample(bounds: &Self::Bounds) -> Option<String> {
        Span::show(bounds.end())
    }
}
impl Sample for MaybeCount {
    fn show_sample(bounds: &Self::Bounds) -> Option<String> {
        Some(bounds.end().to_string())
    }
}

settings! {
    /// The door: the HTTP interface and the console.
    Server at "server" {
        /// Address and port; loopback unless told (I-39).
        listen: Word = "127.0.0.1:7878".to_owned(), in ();
        /// Where people reach the console, for links; by default the address above.
        public_url: MaybeWord = None, in ();
    }
}

settings! {
    /// Times and counts of this process (runs.md, section 20).
    Worker at "worker" {
        /// A claim lapses after this time without renewal.
        claim_ttl: Span = 30 * SECOND, in SECOND..=HOUR;
        /// A live claim is renewed this often.
        renew_every: Span = 10 * SECOND, in 100 * MS..=HOUR;
        /// A hop that cannot renew stops this long before its claim lapses.
        stop_margin: Span = 5 * SECOND, in 10 * MS..=HOUR;
        /// Recovery looks for lapsed claims this often.
        recover_every: Span = 5 * SECOND, in 100 * MS..=HOUR;
        /// Due rows are looked for this often, hints or not.
        scan_every: Span = SECOND, in 10 * MS..=MINUTE;
        /// Rows of one page of a scan.
        page_size: Count = 128, in 1..=10_000;
        /// First back-off of a row that failed; it doubles.
        row_backoff: Span = SECOND, in 10 * MS..=HOUR;
        /// Longest back-off of a row that failed.
        row_backoff_max: Span = 5 * MINUTE, in 10 * MS..=DAY;
        /// First pause before the relay starts again; it doubles.
        relay_restart: Span = 100 * MS, in 10 * MS..=MINUTE;
        /// Longest pause before the relay starts again.
        relay_restart_max: Span = 5 * SECOND, in 10 * MS..=HOUR;
        /// Longest time of one publication to a carrier.
        publish_limit: Span = 10 * SECOND, in 100 * MS..=HOUR;
        /// Longest time of one question to a carrier.
        carrier_probe_limit: Span = 5 * SECOND, in 100 * MS..=HOUR;
        /// A delivery nobody took is published again after this time.
        republish_after: Span = MINUTE, in SECOND..=DAY;
        /// Tries to withdraw a message.
        withdrawal_tries: Count = 3, in 1..=100;
        /// A held run that nobody releases is refused after this time.
        release_within: Span = 10 * MINUTE, in SECOND..=30 * DAY;
        /// Most runs that may wait in a queue.
        max_queued: MaybeCount = None, in 1..=1_000_000_000;
        /// Most runs of a queue that may be active at once.
        max_running: MaybeCount = None, in 1..=1_000_000;
        /// Queue of a run that names none.
        queue: Word = "default".to_owned(), in ();
        /// Priority of a run that names none.
        priority: Count = 50, in 0..=100;
        /// A run waits this long for a worker that has its pinned pattern; 0s with the embedded store.
        pin_grace: Span = DAY, in Duration::ZERO..=30 * DAY;
        /// A clean shutdown waits this long for hops to park.
        shutdown_grace: Span = 30 * SECOND, in Duration::ZERO..=HOUR;
        /// Continuations of a run without progress.
        continuations: Count = 3, in 1..=100;
        /// A drain of a resource may last this long.
        drain_timeout: Span = 120 * SECOND, in SECOND..=HOUR;
        /// Start and readiness of a resource may last this long.
        start_limit: Span = 180 * SECOND, in SECOND..=HOUR;
        /// A hardware hold may last this long.
        hold_max: Span = 30 * MINUTE, in SECOND..=DAY;
        /// No second resource change of the same host within this time.
        swap_floor: Span = Duration::ZERO, in Duration::ZERO..=HOUR;
        /// Approval lease where no rule names one.
        approval_lease: Span = 7 * DAY, in SECOND..=400 * DAY;
        /// Longest hot wait before a run parks; 0s parks at once.
        hot_window: Span = 30 * SECOND, in Duration::ZERO..=10 * MINUTE;
        /// A handler that outlives its tool's limit by this much is recorded as it then stands.
        overrun: Span = MINUTE, in SECOND..=HOUR;
        /// Calls under way to one server at once, over all tools.
        server_concurrency: Count = 64, in 1..=1_024;
        /// A delegated job without a heartbeat for this long is taken back.
        job_heartbeat: Span = MINUTE, in SECOND..=DAY;
        /// A delegated job ends after this time.
        job_deadline: MaybeSpan = None, in SECOND..=400 * DAY;
        /// A job that is safe to repeat is taken again this often.
        job_retries: Count = 3, in 0..=100;
        /// Further attempts of an effect that has a key.
        effect_attempts: Count = 3, in 0..=3;
        /// Longest time of one try at an obligation.
        obligation_try: Span = 10 * SECOND, in 100 * MS..=HOUR;
        /// Heartbeat of an event stream.
        stream_heartbeat: Span = 15 * SECOND, in 100 * MS..=HOUR;
        /// Longest long poll.
        long_poll: Span = 55 * SECOND, in SECOND..=HOUR;
        /// Lines kept for a reader of a stream that does not read.
        reader_buffer: Count = 1_000, in 1..=1_000_000;
        /// Heads of changed runs are anchored this often.
        anchor_every: Span = MINUTE, in SECOND..=DAY;
        /// Final runs are kept this long.
        retention: Span = 90 * DAY, in HOUR..=3_650 * DAY;
    }
}

settings! {
    /// Sizes, and counts of one run. A count n serves the n-th and refuses the next; a size is inclusive.
    Limits at "limits" {
        /// Input of a run.
        input: Size = MIB, in 2..=MIB;
        /// Arguments of a call whose tool names no limit.
        arguments: Size = MIB, in 2..=MIB;
        /// Result of a call whose tool names no limit, and of a run.
        result: Size = MIB, in 2..=MIB;
        /// Task text of a delegated job.
        job_text: Size = MIB, in 1..=MIB;
        /// Artifacts of a job.
        artifacts: Count = 256, in 0..=256;
        /// Source of a workflow.
        source: Size = MIB, in 1..=MIB;
        /// Checkpoint of a run.
        checkpoint: Size = 64 * MIB, in 64 * KIB..=64 * MIB;
        /// Snapshot of a guest; a larger one is left out and replay serves.
        snapshot_max: Size = GIB, in 0..=16 * GIB;
        /// Bodies kept for one run.
        bodies: Size = GIB, in MIB..=16 * GIB;
        /// Text of a failure.
        failure_text: Size = 4 * KIB, in 256..=4 * KIB;
        /// Facts of one event.
        event_facts: Size = 8 * KIB, in KIB..=8 * KIB;
        /// Depth of JSON.
        json_depth: Count = 64, in 1..=64;
        /// Values in one JSON text.
        json_nodes: Count = 16_384, in 1..=16_384;
        /// Calls of one run.
        calls: Count = 10_000, in 1..=10_000;
        /// Open waits of one run.
        open_waits: Count = 256, in 1..=256;
        /// Signals kept for one run before anybody waits for them.
        kept_signals: Count = 256, in 0..=256;
        /// Nodes of a graph.
        graph_nodes: Count = 1_024, in 1..=1_024;
        /// Open approvals of one run.
        open_approvals: Count = 256, in 1..=256;
        /// Pending approvals of a namespace.
        pending_approvals: Count = 100_000, in 1..=10_000_000;
        /// Approval rounds of an agent run.
        approval_rounds: Count = 3, in 1..=3;
        /// Resource changes a run may cause in all.
        convergence: Count = 8, in 1..=8;
        /// Resource changes a run may cause in a row for one resource.
        convergence_in_row: Count = 3, in 1..=3;
        /// Time a guest itself may execute.
        active: Span = MINUTE, in 10 * MS..=HOUR;
        /// Memory of a guest.
        memory: Size = 512 * MIB, in 16 * MIB..=GIB;
        /// One line of a program's log.
        log_line: Size = 16 * KIB, in 64..=16 * KIB;
        /// The whole log of a run.
        log: Size = MIB, in KIB..=16 * MIB;
    }
}

settings! {
    /// Guests: the image and the mechanisms around it (workflows.md, 5.4).
    Guest at "guest" {
        /// Path of the guest image; by default the one in the binary, else the newest fitting one in the cache.
        image: MaybePath = None, in ();
        /// Start guests from a prepared image.
        prepared: Flag = true, in ();
        /// Share that image copy-on-write; needs `prepared`.
        cow: Flag = true, in ();
        /// Advise the pages of waiting guests cold; needs `cow` and a policy in `[guest.cold]`.
        cold: Flag = false, in ();
        /// Page waiting guests out; needs `cold`.
        page_out: Flag = false, in ();
        /// Act only while memory is short; needs `cold`.
        pressure: Flag = false, in ();
        /// Freeze guests at a park; needs `prepared`.
        freeze: Flag = true, in ();
    }
}
