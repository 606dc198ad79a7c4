//! What an operator may set: `[worker]` and `[limits]` of the configuration (I-67), under the names of runs.md section 20.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{APPROVAL_LEASE, APPROVAL_LEASE_MAX, BODY_BYTES, DAY, HOUR, JOB_RETRIES, MINUTE, SECOND, bytes_text};
use crate::code::Code;
use crate::command::Patience;
use crate::fields::Fault;
use crate::time::{duration_text, format_duration};

macro_rules! settings {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty $(as $with:literal)? = $default:expr;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_doc])* $(#[serde(with = $with)])? pub $field: $kind,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }
    };
}

settings! {
    /// Times and counts of workers and of the relays beside them.
    WorkerSettings {
        /// How long a claim stands without renewal.
        claim_ttl: Duration as "duration_text" = Duration::from_secs(30);
        renew_every: Duration as "duration_text" = Duration::from_secs(10);
        /// How long before its claim lapses a hop stops its own guest.
        stop_margin: Duration as "duration_text" = Duration::from_secs(5);
        recover_every: Duration as "duration_text" = Duration::from_secs(5);
        /// The scan finds within this time what a lost hint hid.
        scan_every: Duration as "duration_text" = SECOND;
        /// Rows of one page of a sweep.
        page_size: u32 = 128;
        /// A row that fails is tried again after this time, doubled each time, with jitter.
        backoff_first: Duration as "duration_text" = SECOND;
        backoff_max: Duration as "duration_text" = Duration::from_secs(300);
        /// A relay that ended is started again after this time, doubled each time.
        restart_first: Duration as "duration_text" = Duration::from_millis(100);
        restart_max: Duration as "duration_text" = Duration::from_secs(5);
        publish_limit: Duration as "duration_text" = Duration::from_secs(10);
        carrier_probe_limit: Duration as "duration_text" = Duration::from_secs(5);
        republish_after: Duration as "duration_text" = MINUTE;
        withdrawal_tries: u32 = 3;
        /// Runs that may wait in the queue, and run, at once; none is no limit.
        max_queued: Option<u64> = None;
        max_running: Option<u64> = None;
        /// How long a queued run waits for a worker that has its pattern.
        pin_grace: Duration as "duration_text" = DAY;
        shutdown_grace: Duration as "duration_text" = Duration::from_secs(30);
        /// Continuations in a row that bring a run no further.
        continuations: u32 = 3;
        drain_timeout: Duration as "duration_text" = Duration::from_secs(120);
        /// Starting a resource and waiting until it is ready.
        start_limit: Duration as "duration_text" = Duration::from_secs(180);
        hold_max: Duration as "duration_text" = Duration::from_secs(1_800);
        swap_floor: u8 = 0;
        /// What the resources of this host may take together; none is no bound.
        resource_memory_mib: Option<u64> = None;
        resource_slots: Option<u64> = None;
        /// How long an approval stays open where no rule says so.
        approval_lease: Duration as "duration_text" = APPROVAL_LEASE;
        /// The longest approval lease that is accepted.
        approval_lease_max: Duration as "duration_text" = APPROVAL_LEASE_MAX;
        job_heartbeat: Duration as "duration_text" = MINUTE;
        /// Jobs with `retry: safe` that are taken again.
        job_retries: u32 = JOB_RETRIES;
        /// Pending approvals of one namespace (C-143).
        pending_approvals: u64 = 100_000;
        /// One try at an obligation.
        obligation_limit: Duration as "duration_text" = Duration::from_secs(10);
        /// How long a call waits hot before its run parks.
        hot_window: Duration as "duration_text" = Duration::from_secs(30);
        /// How long past a tool's limit a call may run before it is ambiguous.
        beyond_tool_limit: Duration as "duration_text" = super::BEYOND_TOOL_LIMIT;
        stream_heartbeat: Duration as "duration_text" = Duration::from_secs(15);
        long_poll: Duration as "duration_text" = Duration::from_secs(55);
        /// Events that may wait for a slow reader of a stream.
        reader_buffer: u32 = 1_000;
        anchor_every: Duration as "duration_text" = MINUTE;
        /// How long final runs are kept.
        retention: Duration as "duration_text" = Duration::from_secs(90 * 86_400);
    }
}

settings! {
    /// Sizes, and counts of one run.
    Limits {
        /// Convergence calls of one run, and in a row for one resource.
        convergence_calls: u32 = 8;
        convergence_in_row: u32 = 3;
        /// Approval rounds of an agent.
        approval_rounds: u32 = 3;
        open_waits: u32 = 256;
        /// Approvals that one run may have open (C-143).
        open_approvals: u32 = 256;
        kept_signals: u32 = 256;
        /// Counted calls.
        calls: u32 = super::CALLS_MAX;
        graph_nodes: u32 = 1_024;
        /// Artifacts of a job.
        artifacts: u32 = 256;
        /// Active time where the workflow names none.
        active_limit: Duration as "duration_text" = MINUTE;
        /// The most that a workflow may ask for.
        active_limit_max: Duration as "duration_text" = HOUR;
        input_bytes: u64 as "bytes_text" = BODY_BYTES as u64;
        argument_bytes: u64 as "bytes_text" = BODY_BYTES as u64;
        result_bytes: u64 as "bytes_text" = BODY_BYTES as u64;
        job_bytes: u64 as "bytes_text" = BODY_BYTES as u64;
        /// Bodies kept for one run; its next call finds no room (W-165).
        run_bytes: u64 as "bytes_text" = super::RUN_BYTES;
        checkpoint_bytes: u64 as "bytes_text" = 64 << 20;
        snapshot_max: u64 as "bytes_text" = 1 << 30;
        /// The text of a failure, and the facts of one event.
        failure_bytes: u64 as "bytes_text" = 4_096;
        facts_bytes: u64 as "bytes_text" = super::FACTS_BYTES;
    }
}

impl WorkerSettings {
    /// What a recovery pass under these settings bears.
    pub fn patience(&self) -> Patience {
        let WorkerSettings { continuations, beyond_tool_limit, pin_grace, .. } = *self;
        Patience { continuations, beyond_tool_limit, pin_grace }
    }

    /// What start refuses (R-383); pointers begin at the section.
    pub fn check(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut refuse = |key: &str, message: String| {
            faults.push(Fault { pointer: format!("/{key}"), code: Code::ConfigInvalid, message });
        };
        if self.renew_every + self.stop_margin >= self.claim_ttl {
            let sum = format_duration(self.renew_every + self.stop_margin);
            refuse("claim_ttl", format!("must be more than renew_every + stop_margin, which are {sum}"));
        }
        if self.approval_lease > self.approval_lease_max {
            refuse("approval_lease", format!("is above its own bound of {}", format_duration(self.approval_lease_max)));
        }
        if self.approval_lease_max > APPROVAL_LEASE_MAX {
            refuse("approval_lease_max", format!("is at most {}", format_duration(APPROVAL_LEASE_MAX)));
        }
        let periods = [
            ("renew_every", self.renew_every),
            ("recover_every", self.recover_every),
            ("scan_every", self.scan_every),
            ("backoff_first", self.backoff_first),
            ("restart_first", self.restart_first),
            ("stream_heartbeat", self.stream_heartbeat),
            ("anchor_every", self.anchor_every),
        ];
        for (key, _) in periods.into_iter().filter(|(_, period)| period.is_zero()) {
            refuse(key, "must be more than nothing".to_owned());
        }
        if self.retention < MINUTE {
            refuse("retention", "must be at least 1m, so that whoever waits for a run sees how it ended".to_owned());
        }
        if self.job_retries > JOB_RETRIES {
            refuse("job_retries", format!("is at most {JOB_RETRIES}"));
        }
        if self.page_size == 0 {
            refuse("page_size", "must be at least 1".to_owned());
        }
        faults
    }
}

impl Limits {
    /// Bytes of a text among the facts of an event: an eighth, since escaping can make it six times as long.
    pub fn event_text(&self) -> usize {
        self.facts_bytes as usize / 8
    }

    /// Ids of waits that the event of a park names: together at most half of its facts.
    pub fn event_waits(&self) -> usize {
        self.facts_bytes as usize / 64
    }

    /// What start refuses: limits above what any body, run or plan can have.
    pub fn check(&self) -> Vec<Fault> {
        let body = BODY_BYTES as u64;
        let bounds = [
            ("input_bytes", self.input_bytes, body),
            ("argument_bytes", self.argument_bytes, body),
            ("result_bytes", self.result_bytes, body),
            ("job_bytes", self.job_bytes, body),
            ("run_bytes", self.run_bytes, super::RUN_BYTES_MAX),
            ("calls", u64::from(self.calls), u64::from(super::CALLS_MAX)),
            ("facts_bytes", self.facts_bytes, super::FACTS_BYTES),
            ("active_limit", self.active_limit.as_secs(), self.active_limit_max.as_secs()),
            ("active_limit_max", self.active_limit_max.as_secs(), super::ACTIVE_MAX.as_secs()),
        ];
        let fault =
            |key: &str, message: String| Fault { pointer: format!("/{key}"), code: Code::ConfigInvalid, message };
        let above = bounds.into_iter().filter(|(_, value, most)| value > most);
        let above = above.map(|(key, value, most)| fault(key, format!("is {value}, at most {most}")));
        let (facts, least) = (self.facts_bytes, super::FACTS_BYTES_MIN);
        let below = (facts < least).then(|| fault("facts_bytes", format!("is {facts}, at least {least}")));
        above.chain(below).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_accepted_and_read_back() {
        assert_eq!(WorkerSettings::default().check(), []);
        assert_eq!(Limits::default().check(), []);
        let text = serde_json::to_string(&Limits::default()).unwrap();
        assert!(text.contains(r#""checkpoint_bytes":"64MiB""#) && text.contains(r#""active_limit":"1m""#), "{text}");
        assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), Limits::default());
        assert_eq!(serde_json::from_str::<Limits>(r#"{"checkpoint_bytes": 5}"#).unwrap().checkpoint_bytes, 5);
    }

    #[test]
    fn start_refuses_settings_that_contradict_each_other() {
        // R-383
        assert!(serde_json::from_str::<WorkerSettings>(r#"{"claim_tll": "30s"}"#).is_err());
        let check = |text: &str| {
            let settings: WorkerSettings = serde_json::from_str(text).unwrap();
            settings.check().into_iter().map(|fault| fault.pointer).collect::<Vec<_>>()
        };
        // R-383
        assert_eq!(check(r#"{"claim_ttl": "15s"}"#), ["/claim_ttl"]);
        assert_eq!(check(r#"{"claim_ttl": "15001ms"}"#), [""; 0]);
        // R-383
        assert_eq!(check(r#"{"approval_lease": "8d", "approval_lease_max": "7d"}"#), ["/approval_lease"]);
        assert_eq!(check(r#"{"approval_lease": "401d", "approval_lease_max": "401d"}"#), ["/approval_lease_max"]);
    }
}
