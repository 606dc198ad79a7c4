//! What is written once: events, receipts, bodies, logs; and time.

use std::time::Duration;

use protocol::call::OutcomeStatus;
use protocol::code::Code;
use protocol::command::{Act, Admit, Command, Opened, Progress, Read};
use protocol::digest::Digest;
use protocol::event::Event;
use protocol::rows::NewBody;
use protocol::run::{Head, Status};

use super::world::{START, World, refused};

pub async fn events_are_a_chain_without_gaps(world: World) {
    let (run, asked) = world.dispatched().await;
    let conclusions = vec![world.outcome(asked.call, OutcomeStatus::Ok, None)];
    let run = world.step(&run, Progress { conclusions, ..Progress::default() }, world.finish("{}")).await.unwrap();
    let events = world.ledger.events(run.id, None, 1_000).await.unwrap().unwrap();
    let mut head = Head { len: 0, digest: Event::origin(run.id, run.pattern.digest) };
    for event in &events {
        assert_eq!((event.seq, event.prev), (head.len, head.digest));
        assert_eq!(event.computed(), event.digest);
        head = event.head();
    }
    assert_eq!(head, run.events);
    assert!(events.len() > 9);
}

pub async fn a_command_s_events_are_read_once_and_in_order(world: World) {
    let (first, second) = (world.parked().await.0, world.parked().await.0);
    let all = world.ledger.events(first.id, None, 1_000).await.unwrap().unwrap();
    let mut read = Vec::new();
    while let Some(page) = world.ledger.events(first.id, read.last().map(|e: &Event| e.seq), 2).await.unwrap() {
        if page.is_empty() {
            break;
        }
        read.extend(page);
    }
    assert_eq!(read, all);
    let beyond = world.ledger.events(first.id, Some(10_000), 10).await.unwrap().unwrap();
    assert!(beyond.is_empty());
    let (mut cursor, mut seen) = (None, Vec::new());
    loop {
        let page = world.ledger.events_all(cursor, 3).await.unwrap();
        if page.items.is_empty() {
            break;
        }
        cursor = page.next;
        seen.extend(page.items);
    }
    let of = |run| seen.iter().map(|(_, event)| event).filter(move |event| event.run == run).cloned();
    assert_eq!(of(first.id).collect::<Vec<_>>(), all); // I-32
    assert_eq!(seen.len() as u32, first.events.len + second.events.len); // I-32
    for (place, event) in &seen {
        let text = place.to_string();
        let after = world.ledger.events_all(Some(text.parse().unwrap()), 1).await.unwrap();
        assert!(after.items.first().is_none_or(|(_, next)| next != event)); // I-32
    }
    let end = world.ledger.last_event().await.unwrap();
    assert!(world.ledger.events_all(Some(end), 1).await.unwrap().items.is_empty());
    let third = world.queued().await;
    let next = world.ledger.events_all(Some(end), 10).await.unwrap();
    assert!(next.items.len() == 1 && next.items[0].1.run == third.id);
}

pub async fn bodies_come_back_by_digest(world: World) {
    let run = world.running().await;
    let texts = ["x".to_owned(), "long and dull ".repeat(1_000), noise(40_000)];
    let bodies: Vec<NewBody> = texts.iter().map(|text| NewBody::new(text.clone().into_bytes())).collect();
    let progress = Progress { bodies: bodies.clone(), ..Progress::default() };
    world.step(&run, progress.clone(), Act::Record).await.unwrap();
    world.step(&run, progress, Act::Record).await.unwrap();
    for (body, text) in bodies.iter().zip(&texts) {
        let found = world.ledger.body(run.id, body.body.digest).await.unwrap().unwrap();
        assert_eq!(found, text.as_bytes()); // C-7
        assert_eq!(Digest::of(&found), body.body.digest);
    }
    let other = world.queued().await;
    assert_eq!(world.ledger.body(other.id, bodies[0].body.digest).await.unwrap(), None);
    assert_eq!(world.ledger.body(run.id, Digest::of("never stored")).await.unwrap(), None);
}

/// Text that does not compress.
fn noise(len: usize) -> String {
    let mut digest = Digest::of("noise");
    let mut text = String::new();
    while text.len() < len {
        digest = Digest::of(digest.as_bytes());
        text.extend(digest.as_bytes().iter().map(|byte| char::from(byte % 94 + 33)));
    }
    text
}

pub async fn a_reading_is_told_in_the_run_of_what_was_read(world: World) {
    let (first, asked) = world.parked().await;
    let (second, _) = world.parked().await;
    let read = |opened, namespace: &str| {
        let mut by = world.by("aude");
        by.principal.namespace = namespace.to_owned();
        world.settle(Command::Read(Read { by, opened, reason: None }))
    };
    for opened in [Opened::Approval(asked.approval), Opened::Call(asked.call)] {
        let (run, _) = read(opened, "default").await.unwrap();
        assert_eq!(run.id, first.id); // C-282: whatever a door takes it to belong to
        assert_eq!(refused(read(opened, "elsewhere").await), Code::NotFound);
    }
    let kinds = async |run| {
        let events = world.ledger.events(run, None, 100).await.unwrap().unwrap();
        events.iter().map(|event| event.kind.as_str()).filter(|kind| kind.ends_with(".read")).collect::<Vec<_>>()
    };
    assert_eq!(kinds(first.id).await, ["approval.read", "call.read"]); // C-282
    assert!(kinds(second.id).await.is_empty()); // C-282
    for unknown in [Opened::Approval(world.id()), Opened::Call(world.id())] {
        assert_eq!(refused(read(unknown, "default").await), Code::NotFound);
    }
}

pub async fn a_log_is_read_in_lines(world: World) {
    let run = world.running().await;
    let lines = |from: usize, to: usize| (from..to).map(|n| format!("line {n}")).collect::<Vec<_>>();
    let progress = Progress { log: lines(0, 5), ..Progress::default() };
    let run = world.step(&run, progress, Act::Record).await.unwrap();
    assert_eq!(run.log_lines, 5);
    let again = Progress { log: lines(3, 8), log_base: 3, ..Progress::default() };
    world.step(&run, again, Act::Record).await.unwrap();
    let read = world.ledger.log(run.id, None, 100).await.unwrap().unwrap();
    assert_eq!(read.iter().map(|line| line.text.clone()).collect::<Vec<_>>(), lines(0, 8)); // W-177
    let tail = world.ledger.log(run.id, Some(5), 1).await.unwrap().unwrap();
    assert_eq!(tail.iter().map(|line| line.n).collect::<Vec<_>>(), [6]);
}

pub async fn receipts_are_a_chain(world: World) {
    let (run, asked) = world.dispatched().await;
    let conclusions = vec![world.outcome(asked.call, OutcomeStatus::Ok, None)];
    let run = world.step(&run, Progress { conclusions, ..Progress::default() }, Act::Record).await.unwrap();
    let (progress, asked) = world.asks(&run);
    let run = world.step(&run, progress, Act::Record).await.unwrap();
    let run = world.step(&run, world.denied(asked.call), world.finish("{}")).await.unwrap();
    let receipts = world.ledger.receipts(run.id).await.unwrap().unwrap();
    assert_eq!(receipts.len(), 2); // C-125
    let prev = |n: usize| receipts[n].record.value().pointer("/prev").and_then(|v| v.as_str().map(str::to_owned));
    assert_eq!((prev(0), prev(1)), (None, Some(receipts[0].digest.to_string()))); // C-127
    assert_eq!(run.receipts, receipts[1].head()); // C-127
}

pub async fn everything_of_a_run_is_shown(world: World) {
    let (run, asked) = world.parked().await;
    let decide = protocol::command::Decide {
        taker: Some(world.taker()),
        ..world.verdict(&asked, protocol::approval::Verdict::Reject, "bo")
    };
    let run2 = world.decide(decide).await.unwrap().run;
    let done = world.step(&run2, world.denied(asked.call), world.finish("{}")).await.unwrap();
    let shown = world.shown(run.id).await;
    assert_eq!(shown.run, done);
    assert_eq!(shown.calls.iter().map(|call| call.id).collect::<Vec<_>>(), [asked.call]);
    assert_eq!(shown.approvals.iter().map(|approval| approval.id).collect::<Vec<_>>(), [asked.approval]);
    assert_eq!(world.ledger.calls(run.id).await.unwrap().unwrap(), shown.calls);
    let total = done.clocks.total() as u128;
    assert_eq!(total, done.finished_at().unwrap().since(done.created_at).as_micros());
}

pub async fn what_is_read_is_a_copy(world: World) {
    let input = NewBody::new(&b"{\"order\":\"A-1\"}"[..]);
    let mut admit = Admit { input: input.clone(), ..world.admission() };
    let submitted = admit.clone();
    let (mut run, _) = world.admit(admit.clone()).await.unwrap();
    // Whatever the caller does with what it gave, or with what it was given, is its own affair.
    admit.labels.insert("late".to_owned(), "change".to_owned());
    admit.input = NewBody::new(&b"{}"[..]);
    run.priority = 99;
    run.labels.insert("late".to_owned(), "change".to_owned());
    let mut shown = world.shown(run.id).await;
    shown.run.queue = "elsewhere".to_owned();
    let mut page = world.ledger.runs(Default::default(), None, 10).await.unwrap().items;
    page[0].requester.subject = "nobody".to_owned();
    let mut bytes = world.ledger.body(run.id, input.body.digest).await.unwrap().unwrap();
    bytes.fill(b'x');
    let mut registry = (*world.ledger.registry()).clone();
    registry.workflows.clear();
    let stored = world.ledger.run(run.id).await.unwrap().unwrap();
    assert_eq!((stored.priority, &stored.labels), (submitted.priority, &submitted.labels));
    assert_eq!((stored.queue, stored.requester.subject), (submitted.queue, submitted.by.principal.id));
    assert_eq!(world.ledger.body(run.id, input.body.digest).await.unwrap().unwrap(), &input.bytes[..]);
    assert!(world.ledger.registry().workflows.contains_key("refunds"));
}

pub async fn hints_follow_the_commit(world: World) {
    let mut hints = world.ledger.subscribe();
    let (run, asked) = world.parked().await;
    let mut last = None;
    while let Ok(hint) = hints.try_recv() {
        assert_eq!(hint.run, run.id);
        last = Some(hint);
    }
    let last = last.expect("a hint is sent for each change");
    assert_eq!((last.status, last.seq, last.events), (Status::AwaitingConsent, run.seq, run.events.len));
    assert_eq!(last.approvals, [asked.approval]);
    let due = world.shown(run.id).await.waits[0].due_at;
    assert!(due.is_some() && last.due_at == due && world.ledger.next_due().await.unwrap() == due);
}

pub async fn time_never_goes_back(world: World) {
    world.pass(Duration::from_secs(100));
    let run = world.queued().await;
    let at = world.ledger.now();
    world.set_clock(START);
    assert_eq!(world.ledger.now(), at);
    let later = world.queued().await;
    assert!(later.created_at >= run.created_at); // C-1
}
