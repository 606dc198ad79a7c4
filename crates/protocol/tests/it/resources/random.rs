//! Random questions and outcomes: whatever comes, one change is made at a time, the host holds what it started, nobody is
//! forgotten, and nothing stays closed but what is contained.

use super::{Host, local, run};
use proptest::prelude::*;
use protocol::resource::{Done, Given, LeaseId, Place, State, Ticket};
use std::collections::BTreeSet;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const COSTS: [u64; 4] = [8, 5, 3, 3];
const HAS: u64 = 8;

#[derive(Clone, Debug)]
enum Move {
    Converge {
        name: usize,
        run: u64,
        priority: u8,
    },
    Lease(usize),
    Release(usize),
    Withdraw(usize),
    /// 0 to 5 succeeds, 6 fails, 7 is unknown.
    Finish(u8),
    DrainOver,
    Die(usize),
    Reset(usize),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (0..4_usize, 0..5_u64, prop_oneof![Just(50_u8), 0..3_u8])
            .prop_map(|(name, run, priority)| Move::Converge { name, run, priority }),
        3 => (0..4_usize).prop_map(Move::Lease),
        5 => any::<usize>().prop_map(Move::Release),
        2 => any::<usize>().prop_map(Move::Withdraw),
        8 => (0..8_u8).prop_map(Move::Finish),
        1 => Just(Move::DrainOver),
        1 => (0..4_usize).prop_map(Move::Die),
        2 => (0..4_usize).prop_map(Move::Reset),
    ]
}

struct Play {
    host: Host,
    leases: Vec<LeaseId>,
    /// Who waits for an answer.
    open: BTreeSet<Ticket>,
    /// Orders to reset that wait for one.
    resets: BTreeSet<Ticket>,
}

impl Play {
    fn new() -> Play {
        let declared = NAMES.iter().zip(COSTS).map(|(name, cost)| local(name, cost)).collect();
        Play { host: Host::new(HAS, declared), leases: Vec::new(), open: BTreeSet::new(), resets: BTreeSet::new() }
    }

    fn step(&mut self, step: Move) {
        match step {
            Move::Converge { name, run: n, priority } => {
                let ticket = self.host.converge(NAMES[name], n, priority);
                self.open.insert(ticket);
            }
            Move::Lease(name) => {
                let was = self.host.state(NAMES[name]);
                let lease = self.host.manager.lease(NAMES[name], run(7), None);
                assert_eq!(lease.is_ok(), was == State::Warm);
                self.leases.extend(lease);
            }
            Move::Release(n) if !self.leases.is_empty() => {
                let lease = self.leases.remove(n % self.leases.len());
                self.host.release(lease);
            }
            Move::Withdraw(n) if !self.open.is_empty() => {
                let ticket = *self.open.iter().nth(n % self.open.len()).expect("one of them");
                self.open.remove(&ticket);
                self.host.withdraw(ticket);
            }
            Move::Finish(n) if self.host.effect.is_some() => self.host.comes_to(match n {
                0..=5 => Done::Succeeded,
                6 => Done::Failed("failed".to_owned()),
                _ => Done::Unknown("unknown".to_owned()),
            }),
            Move::DrainOver if self.host.drain.is_some() => self.host.drain_is_over(),
            Move::Die(name) => self.host.dies(NAMES[name]),
            Move::Reset(name) => {
                if let Some((ticket, actions)) = self.host.manager.reset(NAMES[name]) {
                    self.resets.insert(ticket);
                    self.host.withdraw(ticket); // It stands all the same.
                    self.host.take(actions);
                }
            }
            Move::Release(_) | Move::Withdraw(_) | Move::Finish(_) | Move::DrainOver => {}
        }
        self.check();
    }

    fn check(&mut self) {
        for (ticket, answer) in std::mem::take(&mut self.host.answers) {
            assert!(self.open.remove(&ticket) || self.resets.remove(&ticket), "{ticket:?} was not waiting any more");
            if let Ok(Given::Lease(lease)) = answer {
                self.leases.push(lease);
            }
        }
        let all = self.host.manager.list();
        let paid = all.iter().filter(|view| runs(&view.state)).map(|view| match view.place {
            Place::Local { cost } => cost.memory_mib,
            Place::Remote { .. } => 0,
        });
        assert!(paid.sum::<u64>() <= HAS, "{all:?}");
        let under_way = all.iter().filter(|view| matches!(view.state, State::Starting | State::Stopping));
        assert_eq!(under_way.count(), usize::from(self.host.effect.is_some()), "{all:?}");
        for ticket in self.open.union(&self.resets) {
            assert!(self.host.manager.place(*ticket).is_some(), "{ticket:?} is forgotten");
        }
    }

    /// Everything that is under way comes to a good end, and every lease is given back.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            if self.host.effect.is_some() {
                self.step(Move::Finish(0));
            } else if !self.leases.is_empty() {
                self.step(Move::Release(0));
            } else {
                return;
            }
        }
        panic!("it never comes to rest");
    }
}

/// Whether something of it may run.
fn runs(state: &State) -> bool {
    !matches!(state, State::Cold | State::Contained { may_run: false, .. })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_forgotten_and_nothing_is_overcommitted(steps in prop::collection::vec(moves(), 1..120)) {
        let mut play = Play::new();
        for step in steps {
            play.step(step);
        }
        play.settle();
        assert_eq!((play.open.clone(), play.resets.clone()), Default::default()); // no request wedges the line
        for view in play.host.manager.list() {
            let open = matches!(view.state, State::Cold | State::Warm | State::Contained { .. });
            assert!(open, "{view:?} stays closed"); // R-161 R-162
        }
        // What is not contained can be had, one after the other.
        for (n, name) in NAMES.iter().enumerate() {
            let contained = |view: &protocol::resource::View| matches!(view.state, State::Contained { .. });
            if !play.host.manager.list().iter().any(contained) {
                play.step(Move::Converge { name: n, run: 1, priority: 50 });
                play.settle();
                assert_eq!(play.host.state(name), State::Warm);
            }
        }
    }
}
