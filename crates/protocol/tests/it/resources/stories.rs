//! Stories of swaps: who waits, what is stopped for whom, and what stays closed.

use super::{Host, local, remote, run};
use protocol::code::Code;
use protocol::resource::{Done, Given, Refused, State, Unleased};

/// Two models of which the host holds one.
fn two() -> Host {
    Host::new(8_000, vec![local("large", 8_000), local("small", 3_000)])
}

fn failed(why: &str) -> Refused {
    Refused::Failed(why.to_owned())
}

#[test]
fn what_is_not_warm_is_a_wait_and_gives_no_lease() {
    let mut host = two();
    assert_eq!(host.lease("small"), Err(Unleased::Cold));
    let ticket = host.converge("small", 1, 50);
    assert_eq!((host.state("small"), host.lease("small")), (State::Starting, Err(Unleased::Cold)));
    assert_eq!((host.answers.len(), host.leases("small")), (0, 0)); // nothing is held meanwhile
    host.succeeds();
    let lease = host.leased(ticket);
    assert_eq!((host.state("small"), host.leases("small")), (State::Warm, 1)); // R-155 R-153
    // Warm and open already: at once, and nothing is done for it.
    let ticket = host.converge("small", 2, 50);
    let second = host.leased(ticket);
    assert_eq!(host.done, ["start small"]);
    host.release(second);
    host.release(second);
    assert_eq!(host.leases("small"), 1); // giving back twice takes nothing from another
    host.release(lease);
    assert_eq!(host.leases("small"), 0);
}

#[test]
fn what_can_never_be_made_warm_here_is_no_wait() {
    let mut host = Host::new(8_000, vec![local("huge", 9_000), remote("far", true), remote("free", false)]);
    let refusal = |host: &mut Host, name: &str, seen| host.manager.lease(name, run(1), seen).expect_err("no lease");
    assert_eq!(refusal(&mut host, "none", None), Unleased::Refused(failed("it is not declared")));
    let lack = failed("it takes 9000 MiB, the host has 8000");
    assert_eq!(refusal(&mut host, "huge", None), Unleased::Refused(lack));
    // One probe decides of what is elsewhere, each time anew.
    assert_eq!(refusal(&mut host, "far", None), Unleased::Unprobed);
    let away = Err("connection refused".to_owned());
    assert_eq!(refusal(&mut host, "far", Some(away)), Unleased::Refused(failed("connection refused")));
    assert!(host.manager.lease("far", run(1), Some(Ok(()))).is_ok());
    assert_eq!(refusal(&mut host, "far", None), Unleased::Unprobed);
    assert!(host.manager.lease("free", run(1), None).is_ok());
    let ticket = host.converge("far", 1, 50);
    assert!(matches!(host.refused(ticket), Refused::Failed(_)));
    assert_eq!(host.done, [""; 0]);
    let told = host.refused(ticket).failure("far");
    assert_eq!(told.code, Code::ResourceFailed);
    assert!(told.message.starts_with("resource 'far' not ready: "), "{}", told.message);
}

#[test]
fn a_swap_closes_drains_stops_and_starts_in_this_order() {
    let mut host = two();
    let using = host.warm("small", 1);
    let ticket = host.converge("large", 2, 50);
    // Closed for new leases, and left to those that use it.
    assert_eq!((host.state("small"), host.lease("small")), (State::Draining, Err(Unleased::Cold))); // R-140 R-158
    assert_eq!((host.leases("small"), host.effect.is_some()), (1, false)); // R-140 R-158
    host.release(using);
    assert_eq!((host.state("small"), host.state("large")), (State::Stopping, State::Cold));
    host.succeeds();
    assert_eq!((host.state("small"), host.state("large")), (State::Cold, State::Starting));
    assert_eq!(host.lease("large"), Err(Unleased::Cold)); // closed until its probe says ready
    host.succeeds();
    assert_eq!(host.done, ["start small", "stop small", "start large"]);
    host.leased(ticket);
    assert_eq!(host.state("large"), State::Warm);
}

#[test]
fn only_what_is_in_the_way_goes_and_idle_ones_first() {
    let declared = vec![local("a", 2_000), local("b", 2_000), local("c", 4_000), local("new", 4_000)];
    let mut host = Host::new(8_000, declared);
    let busy = host.warm("a", 1);
    for name in ["b", "c"] {
        let lease = host.warm(name, 1);
        host.release(lease);
    }
    let ticket = host.converge("new", 2, 50);
    assert_eq!((host.state("a"), host.state("b"), host.state("c")), (State::Warm, State::Warm, State::Stopping));
    host.succeeds();
    host.succeeds();
    host.leased(ticket);
    host.release(busy);
    assert_eq!(host.done, ["start a", "start b", "start c", "stop c", "start new"]);
}

#[test]
fn the_higher_priority_goes_first_then_who_came_first() {
    let declared = vec![local("a", 8_000), local("b", 8_000), local("c", 8_000), local("d", 8_000)];
    let mut host = Host::new(8_000, declared);
    let first = host.converge("a", 1, 50);
    let (second, urgent, third) = (host.converge("b", 2, 50), host.converge("c", 3, 90), host.converge("d", 4, 50));
    let places = |host: &Host| [first, second, urgent, third].map(|ticket| host.manager.place(ticket));
    assert_eq!(places(&host), [Some(0), Some(2), Some(1), Some(3)]);
    for (name, ticket) in [("a", first), ("c", urgent), ("b", second), ("d", third)] {
        while host.answers.is_empty() {
            host.succeeds();
        }
        assert_eq!(host.answers.keys().copied().collect::<Vec<_>>(), [ticket], "{name}");
        let lease = host.leased(ticket);
        host.answers.clear();
        host.release(lease);
    }
    assert_eq!(host.manager.place(third), None);
}

#[test]
fn equal_requests_share_one_execution_and_its_error() {
    let mut host = two();
    let (one, two, other) =
        (host.converge("small", 1, 50), host.converge("small", 2, 50), host.converge("small", 3, 40));
    assert_eq!((host.manager.place(two), host.manager.place(other)), (Some(0), Some(1)));
    host.fails("it exited with status 1");
    assert_eq!(host.refused(one), failed("it exited with status 1"));
    assert_eq!(host.refused(two), failed("it exited with status 1"));
    // Another priority is another execution, and the line is free for it.
    assert!(!host.answers.contains_key(&other));
    host.succeeds();
    host.leased(other);
    assert_eq!(host.done, ["start small", "start small"]);
}

#[test]
fn who_withdraws_takes_nothing_from_those_who_stay() {
    let mut host = two();
    let using = host.warm("small", 1);
    let (leaves, stays, in_line) =
        (host.converge("large", 2, 50), host.converge("large", 3, 50), host.converge("small", 4, 50));
    host.withdraw(leaves);
    host.withdraw(in_line);
    host.release(using);
    host.succeeds();
    host.succeeds();
    host.leased(stays);
    assert!(!host.answers.contains_key(&leaves) && !host.answers.contains_key(&in_line));
    let again = host.converge("large", 2, 50);
    host.leased(again);
}

#[test]
fn a_drain_that_takes_too_long_names_its_holders_and_opens_again() {
    let mut host = two();
    let using = host.warm("small", 1);
    let ticket = host.converge("large", 2, 50);
    host.drain_is_over();
    let told = failed(&format!("what has to go did not become free: 'small' is used by {}", run(1)));
    assert_eq!(host.refused(ticket), told);
    assert_eq!(host.state("small"), State::Warm);
    assert!(host.lease("small").is_ok());
    assert_eq!(host.done, ["start small"]);
    host.release(using);
    assert_eq!(host.effect, None);
}

#[test]
fn a_change_withdrawn_while_it_drains_opens_what_it_closed() {
    let mut host = two();
    let using = host.warm("small", 1);
    let ticket = host.converge("large", 2, 50);
    host.withdraw(ticket);
    assert_eq!((host.state("small"), host.state("large")), (State::Warm, State::Cold));
    host.release(using);
    assert_eq!(host.done, ["start small"]);
    // Once something was stopped it is brought to its end, for whoever comes next.
    let ticket = host.converge("large", 2, 50);
    host.withdraw(ticket);
    host.succeeds();
    host.succeeds();
    assert_eq!((host.state("large"), host.leases("large")), (State::Warm, 0));
}

#[test]
fn a_change_that_fails_is_reversed_once_and_then_told() {
    let mut host = two();
    let using = host.warm("small", 1);
    let ticket = host.converge("large", 2, 50);
    host.release(using);
    host.succeeds();
    host.fails("not ready within 3m");
    assert!(!host.answers.contains_key(&ticket)); // told when all is open again
    // Who asks now does not share a result that is known already.
    let late = host.converge("large", 3, 50);
    assert_eq!(host.lease("small"), Err(Unleased::Cold));
    host.succeeds();
    assert_eq!(host.refused(ticket), failed("not ready within 3m"));
    assert_eq!(host.done[..4], ["start small", "stop small", "start large", "start small"]);
    // The next one in line has its own execution.
    assert!(!host.answers.contains_key(&late));
    host.succeeds();
    host.succeeds();
    host.leased(late);
}

#[test]
fn a_failed_reversal_contains_and_names_what_did_not_come_back() {
    let mut host = two();
    let using = host.warm("small", 1);
    let ticket = host.converge("large", 2, 50);
    host.release(using);
    host.succeeds();
    host.fails("no memory");
    host.fails("no memory either");
    assert_eq!(host.refused(ticket), failed("no memory"));
    let why = "it was stopped to make room and did not come back: no memory either";
    assert_eq!(host.state("small"), State::Contained { why: why.to_owned(), may_run: false });
    let refused = Refused::Contained(why.to_owned());
    assert_eq!(host.lease("small"), Err(Unleased::Refused(refused.clone())));
    let ticket = host.converge("small", 1, 50);
    assert_eq!(host.refused(ticket), refused);
    let told = refused.failure("small");
    assert_eq!(told.code, Code::ResourceContained);
    assert!(told.message.starts_with("resource 'small' contained"), "{}", told.message);
    assert_eq!(host.state("large"), State::Cold);
    // Nothing of it runs, so it takes no room, and a reset has nothing to find out.
    host.warm("large", 2);
    let (reset, actions) = host.manager.reset("small").expect("contained");
    host.take(actions);
    assert_eq!((&host.answers[&reset], host.state("small")), (&Ok(Given::Reset), State::Cold));
}

#[test]
fn an_unknown_result_keeps_it_closed_until_it_is_reset() {
    let mut host = two();
    let ticket = host.converge("large", 1, 50);
    host.comes_to(Done::Unknown("it ignores its end".to_owned()));
    assert_eq!(host.refused(ticket), Refused::Contained("it ignores its end".to_owned()));
    // It may still run, so it has its room: nothing is started into that.
    let ticket = host.converge("small", 2, 50);
    assert_eq!(host.refused(ticket), failed("no room can be made: large may still run"));
    assert!(host.manager.reset("small").is_none());
    let (reset, actions) = host.manager.reset("large").expect("contained");
    host.take(actions);
    // Who asks meanwhile waits for what comes of it.
    assert_eq!(host.lease("large"), Err(Unleased::Cold));
    let waits = host.converge("large", 3, 50);
    host.comes_to(Done::Unknown("still there".to_owned()));
    assert_eq!(host.refused(reset), Refused::Contained("still there".to_owned()));
    assert_eq!(host.refused(waits), Refused::Contained("still there".to_owned()));
    let (reset, actions) = host.manager.reset("large").expect("contained");
    host.take(actions);
    host.succeeds();
    assert_eq!((&host.answers[&reset], host.state("large")), (&Ok(Given::Reset), State::Cold));
    host.warm("large", 3);
}

#[test]
fn a_stop_that_fails_opens_what_still_runs_and_brings_back_the_rest() {
    let mut host = Host::new(8_000, vec![local("a", 4_000), local("b", 4_000), local("large", 8_000)]);
    for name in ["a", "b"] {
        let lease = host.warm(name, 1);
        host.release(lease);
    }
    let ticket = host.converge("large", 2, 50);
    host.succeeds();
    host.fails("exit 1");
    host.succeeds();
    assert_eq!(host.done[2..], ["stop a", "stop b", "start a"]);
    assert_eq!(host.refused(ticket), failed("'b' could not be stopped to make room: exit 1"));
    assert_eq!((host.state("a"), host.state("b"), host.state("large")), (State::Warm, State::Warm, State::Cold));
    // One of which nobody knows whether it stopped stays closed, and keeps its room.
    let ticket = host.converge("large", 2, 50);
    host.succeeds();
    host.comes_to(Done::Unknown("exit unknown".to_owned()));
    host.succeeds();
    assert!(matches!(host.refused(ticket), Refused::Failed(_)));
    assert!(matches!(host.state("b"), State::Contained { .. }));
    assert_eq!(host.state("a"), State::Warm);
}

#[test]
fn what_took_the_room_of_a_reversal_contains_what_cannot_come_back() {
    let mut host = two();
    let using = host.warm("small", 1);
    let ticket = host.converge("large", 2, 50);
    host.release(using);
    host.succeeds();
    host.comes_to(Done::Unknown("it ignores its end".to_owned()));
    assert_eq!(host.refused(ticket), Refused::Contained("it ignores its end".to_owned()));
    assert!(matches!(host.state("large"), State::Contained { .. }));
    assert!(matches!(host.state("small"), State::Contained { .. }));
    assert_eq!(host.done, ["start small", "stop small", "start large"]); // nothing beside what may still run
}

#[test]
fn a_warm_one_that_ends_by_itself_is_cold_and_is_started_again() {
    let mut host = two();
    let using = host.warm("small", 1);
    host.dies("small");
    assert_eq!((host.state("small"), host.lease("small")), (State::Cold, Err(Unleased::Cold)));
    let ticket = host.converge("large", 2, 50);
    // Nothing has to go: it is gone.
    host.succeeds();
    let large = host.leased(ticket);
    assert_eq!(host.done, ["start small", "start large"]);
    host.release(using);
    // One that dies while it drains needs neither its leases nor a stop.
    let ticket = host.converge("small", 1, 50);
    host.dies("large");
    host.succeeds();
    host.leased(ticket);
    assert_eq!(host.done[2..], ["start small"]);
    host.release(large);
}

#[test]
fn what_an_earlier_manager_left_is_stopped_before_anything_is_started() {
    let left = ["small".to_owned(), "gone".to_owned()];
    let mut host = Host::found(8_000, vec![local("large", 8_000), local("small", 3_000)], &left);
    assert_eq!((host.state("small"), host.leases("small")), (State::Stopping, 0));
    let (large, small) = (host.converge("large", 1, 90), host.converge("small", 2, 50));
    assert_eq!(host.lease("small"), Err(Unleased::Cold));
    host.succeeds();
    host.succeeds();
    let lease = host.leased(large);
    host.release(lease);
    host.succeeds();
    host.succeeds();
    host.leased(small); // anew, and known again
    assert_eq!(host.done, ["stop small", "start large", "stop large", "start small"]);
}
