//! The clocks of a run: where its time went.
//!
//! Owns: the rule that exactly one clock runs at any moment, so that the clocks add up to the run's age.

use crate::time::Time;

/// Which clock runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The run waits for a worker; pauses take their part of this time.
    Queued,
    /// The run is active; a hop's charges divide this time among guest, handlers and people.
    Hop,
    Hold,
    Person,
    Machine,
    Stopping,
    /// The run has ended.
    Stopped,
}

/// Microseconds spent, by clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clocks {
    pub queued: u64,
    pub active: u64,
    pub calls: u64,
    pub hold: u64,
    pub person: u64,
    pub machine: u64,
    pub paused: u64,
    pub stopping: u64,
    /// Since when the present clock runs.
    pub since: Time,
    pub running: Clock,
}

/// What a hop reports of the time since its last report, in microseconds; what is left of the elapsed time was spent
/// waiting for handlers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Charge {
    /// Guest or step code executed.
    pub active: u64,
    /// Every open call waited for a person.
    pub person: u64,
}

impl Clocks {
    pub fn start(now: Time) -> Clocks {
        Clocks {
            queued: 0,
            active: 0,
            calls: 0,
            hold: 0,
            person: 0,
            machine: 0,
            paused: 0,
            stopping: 0,
            since: now,
            running: Clock::Queued,
        }
    }

    /// Charges the time up to `now` to the clock that ran. A hop's own report divides an active stretch; it can never
    /// charge more than really passed.
    pub fn charge(&mut self, now: Time, hop: Charge) {
        let passed = now.since(self.since).as_micros() as u64;
        match self.running {
            Clock::Queued => self.queued += passed,
            Clock::Hop => {
                let active = hop.active.min(passed);
                let person = hop.person.min(passed - active);
                self.active += active;
                self.person += person;
                self.calls += passed - active - person;
            }
            Clock::Hold => self.hold += passed,
            Clock::Person => self.person += passed,
            Clock::Machine => self.machine += passed,
            Clock::Stopping => self.stopping += passed,
            Clock::Stopped => return,
        }
        self.since = now;
    }

    /// Charges the time in the queue up to `now`; in `paused` microseconds of it a pause kept the run from a claim.
    pub fn charge_queue(&mut self, now: Time, paused: u64) {
        let passed = now.since(self.since).as_micros() as u64;
        let paused = paused.min(passed);
        self.paused += paused;
        self.queued += passed - paused;
        self.since = now;
    }

    /// Charges as [`Clocks::charge`] and starts another clock.
    pub fn switch(&mut self, now: Time, hop: Charge, to: Clock) {
        self.charge(now, hop);
        self.since = now;
        self.running = to;
    }

    /// Microseconds on all clocks: the age of the run at the last charge.
    pub fn total(&self) -> u64 {
        self.queued + self.active + self.calls + self.hold + self.person + self.machine + self.paused + self.stopping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_add_up_to_the_age() {
        let t = |us| Time::from_micros(us);
        let mut clocks = Clocks::start(t(100));
        clocks.switch(t(150), Charge::default(), Clock::Hop);
        clocks.switch(t(1_150), Charge { active: 300, person: 200 }, Clock::Person);
        clocks.switch(t(9_150), Charge::default(), Clock::Stopped);
        clocks.charge(t(99_999), Charge::default());
        assert_eq!(clocks.total(), 9_050);
        assert_eq!((clocks.active, clocks.calls, clocks.person), (300, 500, 8_200));
    }

    #[test]
    fn a_hop_cannot_charge_more_than_passed() {
        let mut clocks = Clocks::start(Time::from_micros(0));
        clocks.switch(Time::from_micros(0), Charge::default(), Clock::Hop);
        clocks.charge(Time::from_micros(10), Charge { active: 50, person: 50 });
        assert_eq!((clocks.active, clocks.person, clocks.calls), (10, 0, 0));
    }
}
