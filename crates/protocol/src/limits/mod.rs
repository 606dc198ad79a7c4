//! Every limit and default in one place, each with the clause that states it.
//!
//! What an operator may change stands in [`WorkerSettings`] and [`Limits`]; the constants are their defaults, the bounds
//! of what may be asked for, and what is fixed. A count n means: the n-th is served, the next is refused.

mod settings;
mod size;

use std::time::Duration;

pub use settings::{Limits, WorkerSettings};
pub use size::{SizeError, bytes_text, parse_size};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

// Bodies. The same for everybody, since they decide what has a digest at all (C-37).

/// Bytes of one JSON body: C-25.
pub const BODY_BYTES: usize = 1_048_576;
/// Bytes of a guest's request, envelope included: C-69.
pub const REQUEST_BYTES: usize = BODY_BYTES + 4_096;
/// Arrays and objects inside each other: C-31.
pub const JSON_DEPTH: usize = 64;
/// Values of one body: C-32.
pub const JSON_NODES: usize = 16_384;
/// Bytes of one number literal: C-30.
pub const NUMBER_BYTES: usize = 256;
/// The written exponent, either way: C-30.
pub const NUMBER_EXPONENT: u32 = 400;

// Tools.

/// Bytes of a schema: C-8.
pub const SCHEMA_BYTES: usize = 65_536;
/// Bytes that a compiled pattern may take; it bounds the automaton, as linear time alone does not (C-17).
pub const PATTERN_BYTES: usize = 1 << 20;
/// Schemas that apply inside each other to one value: with a body's depth it bounds the stack of a check.
pub const SCHEMA_DEPTH: usize = 32;
/// Schemas that apply to one value at all, counted once for each way that leads there.
pub const SCHEMA_WAYS: u64 = 4_096;
/// Members and items that one check may ask for: above what the largest body costs under an ordinary schema.
pub const SCHEMA_STEPS: u64 = 4_000_000;
/// Bytes of a tool's description: C-8.
pub const DESCRIPTION_BYTES: usize = 1_024;
/// Bytes of a tool's version: C-8.
pub const VERSION_BYTES: usize = 64;
/// Bytes of a tool's title, tags and notes together: C-8.
pub const TOOL_TEXT_BYTES: usize = 4_096;
/// How long the other side remembers a key: C-8.
pub const KEY_LIFE: Duration = DAY;
pub const KEY_LIFE_MIN: Duration = SECOND;
/// No wait of a run is longer than the longest approval lease.
pub const KEY_LIFE_MAX: Duration = APPROVAL_LEASE_MAX;
/// How long a handler runs: C-8.
pub const TOOL_TIMEOUT: Duration = Duration::from_secs(30);
pub const TOOL_TIMEOUT_MIN: Duration = Duration::from_millis(1);
pub const TOOL_TIMEOUT_MAX: Duration = HOUR;
/// Handlers of one tool at once: C-8.
pub const TOOL_CONCURRENCY: u32 = 16;
pub const TOOL_CONCURRENCY_MAX: u32 = 1_024;
/// Content that one call may name, bytes of each, and how long it is read, at the asking and at the gate: C-142.
pub const OPERANDS: usize = 16;
pub const OPERAND_BYTES: u64 = 64 << 20;
pub const OPERAND_TIME: Duration = Duration::from_secs(30);
/// Calls in one batch: C-71.
pub const BATCH_CALLS: usize = 64;
/// Numbers behind the scope in a call's id: C-59.
pub const CALL_DEPTH: usize = 4;
/// Bytes of the detail that a guest is told of an error: C-90.
pub const DETAIL_BYTES: usize = 2_048;
/// How long past a tool's limit a call may run before it is ambiguous: runs.md section 20.
pub const BEYOND_TOOL_LIMIT: Duration = MINUTE;
/// Further attempts with an effect key: runs.md section 20, C-230.
pub const EFFECT_ATTEMPTS: u32 = 3;
/// Starts of a `retry` handler: C-229.
pub const RETRY_STARTS: u32 = 3;
/// How long a `pending` lookup is asked again: C-236.
pub const LOOKUP_PENDING: Duration = DAY;
/// Bytes of bodies kept for one run, and the most that may be set: W-165.
pub const RUN_BYTES: u64 = 1 << 30;
pub const RUN_BYTES_MAX: u64 = 16 << 30;
/// Results of reads that wait to be written before a commit is made for them: C-100.
pub const UNWRITTEN_BYTES: u64 = 16 << 20;

// Plans and policy.

/// Counted calls of one run, the most a plan may allow: C-40.
pub const CALLS_MAX: u32 = 10_000;
/// Who decides where no rule names anybody: C-55.
pub const DEFAULT_ROLE: &str = "approver";
/// Roles and principals of one rule together: C-55.
pub const ELIGIBLE_MAX: usize = 64;
/// People that one decision may need: C-55.
pub const QUORUM_MAX: u32 = 16;
/// How long an approval stays open: C-55, R-383.
pub const APPROVAL_LEASE: Duration = Duration::from_secs(7 * 86_400);
pub const APPROVAL_LEASE_MIN: Duration = SECOND;
pub const APPROVAL_LEASE_MAX: Duration = Duration::from_secs(400 * 86_400);
/// Steps of an escalation: C-55.
pub const ESCALATION_STEPS: usize = 3;
/// Reminders of one approval: C-55.
pub const REMINDERS: usize = 16;
/// The longest hot window that a rule may ask for: C-55.
pub const HOT_MAX: Duration = Duration::from_secs(600);
/// How long a yes stays good: C-55, C-114.
pub const DISPATCH_WITHIN: Duration = Duration::from_secs(900);
pub const DISPATCH_WITHIN_MAX: Duration = DAY;
/// Bytes of a `when`, and how deep its brackets nest; both far above what a person reads.
pub const WHEN_BYTES: usize = 4_096;
pub const WHEN_DEPTH: usize = 64;
/// Bytes of a role, a subject or another name.
pub const NAME_BYTES: usize = 256;
/// When a start that found its queue full is worth another try: about as long as a short hop lasts.
pub const CAPACITY_RETRY: Duration = SECOND;
/// Signals kept for waits of one run that are still to come: R-239.
pub const KEPT_SIGNALS: usize = 256;
/// Bytes of their payloads together: what a command that opens a wait has to read.
pub const KEPT_SIGNAL_BYTES: u64 = 4 << 20;
/// How soon an agent has to be heard of again, as it may ask for itself: often enough to be missed the same day, seldom
/// enough not to be a load.
pub const JOB_LEASE_MIN: Duration = SECOND;
pub const JOB_LEASE_MAX: Duration = HOUR;
/// Bytes of what an agent tells of its progress: R-218.
pub const PROGRESS_BYTES: usize = 4_096;
/// How often a job that may be done twice is given to another agent, at most.
pub const JOB_RETRIES: u32 = 3;
/// Reports of one job that came too late and are kept; an agent that sends more sends noise.
pub const LATE_REPORTS: usize = 8;
/// Jobs that one claim may take: as many as a page of work for one worker.
pub const JOB_CLAIMS: usize = 64;
/// Cleared pauses that are remembered of one workflow or queue, for the clocks of runs that waited meanwhile; the time of
/// older ones counts as time in the queue. An operator makes a handful.
pub const PAUSE_SPANS: usize = 64;
/// Labels of a run; each key and value is a name. They are shown with the run in every list.
pub const LABELS: usize = 64;
/// Bytes of a reason: as much as a failure's text.
pub const REASON_BYTES: usize = 4_096;

// Approvals.

/// Arguments larger than this are not shown whole: C-141.
pub const RENDER_BYTES: usize = 65_536;
/// Approvals that one run publishes in a minute: C-144.
pub const APPROVALS_A_MINUTE: u32 = 128;
/// How often a changed policy makes the same call ask again: C-115.
pub const ASKED_AGAIN: u32 = 3;
/// Approvals of one batch decision: C-199.
pub const BATCH_DECISIONS: usize = 100;

/// Bytes of the facts of one event, and the least that may be set: R-358.
pub const FACTS_BYTES: u64 = 8_192;
pub const FACTS_BYTES_MIN: u64 = 4_096;

// Fixed, whatever the configuration: runs.md section 20.

/// Reversals of one change of resources.
pub const REVERSALS: u32 = 1;
/// Depth of a chain of causes.
pub const CAUSE_DEPTH: usize = 5;
/// Bytes of a checkpoint that is deleted with the end of its run: R-244.
pub const SMALL_CHECKPOINT_BYTES: u32 = 65_536;
/// The most active time that a run may be given: runs.md section 20, W-161.
pub const ACTIVE_MAX: Duration = HOUR;
/// The priority of a run that names none, and the highest: runs.md section 20.
pub const PRIORITY: u8 = 50;
pub const PRIORITY_MAX: u8 = 100;
/// The queue of a run that names none: runs.md section 20.
pub const DEFAULT_QUEUE: &str = "default";
/// Memory of a guest: what it gets, what an interpreter needs to start, and the most: W-160.
pub const GUEST_MEMORY: u64 = 512 << 20;
pub const GUEST_MEMORY_MIN: u64 = 64 << 20;
pub const GUEST_MEMORY_MAX: u64 = 1 << 30;
/// Guest time that a replay may take beside twice what is journaled: W-179.
pub const REPLAY_TIME: Duration = Duration::from_secs(10);
/// Log of a script: one line, one run: W-163.
pub const LOG_LINE_BYTES: usize = 16_384;
pub const LOG_BYTES: u64 = 1 << 20;
/// Bytes of one `stasis.random_bytes`: W-125.
pub const RANDOM_BYTES: u32 = 65_536;
