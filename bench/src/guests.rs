//! What a guest costs: to start, to freeze and to thaw, for the refund program at the call that asks.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use protocol::time::Time;
use sandbox::{
    Answer, Binding, Event, Guest, GuestLimits, Outcome, Program, Replies, Reply, Sandbox, SandboxConfig, Tool, cache,
};

use crate::{Figures, clock, median, say, sources};

pub(crate) const FIGURES: &[&str] = &["guest_fresh_to_first_call_ms", "guest_freeze_ms", "guest_thaw_ms"];

const TIMES: usize = 101;
/// 2026-11-30T09:30:00Z.
const NOW: Time = Time::from_millis(1_796_031_000_000);
const BINDING: Binding = Binding { run: [7; 16], hop: 1, position: 2 };
const ORDER: &str = r#"{"customer":"ana@example.com","id":"o-7","lines":[{"price":140.0,"quantity":1,"sku":"lamp"}],"paid":140.0,"refunded":0.0}"#;

pub(crate) fn measure() -> Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sandbox = open()?;
    say("guests: the refund program, started, frozen at the call that asks, and thawed");
    let mut rounds = Vec::new();
    // The first guests of a process also fill caches that all later ones share.
    for round in 0..TIMES + 5 {
        let figures = runtime.block_on(one(&sandbox))?;
        if round >= 5 {
            rounds.push(figures);
        }
    }
    let middle = |part: fn(&Round) -> Duration| median(rounds.iter().map(|r| part(r).as_secs_f64() * 1e3).collect());
    Ok(Figures::from([
        ("guest_fresh_to_first_call_ms", middle(|round| round.fresh)),
        ("guest_freeze_ms", middle(|round| round.freeze)),
        ("guest_thaw_ms", middle(|round| round.thaw)),
    ]))
}

struct Round {
    fresh: Duration,
    freeze: Duration,
    thaw: Duration,
}

async fn one(sandbox: &Sandbox) -> Result<Round> {
    let start = clock();
    let mut guest = sandbox.start(&refund(), GuestLimits::default()).await?;
    call(&mut guest).await?;
    let fresh = start.elapsed();
    answer(&mut guest, 1, "payments.order", ORDER, None);
    call(&mut guest).await?;

    let start = clock();
    let snapshot = guest.freeze(&BINDING).await?.into_bytes();
    let freeze = start.elapsed();

    // From the bytes to the program's next call: a thaw is over when the guest goes on.
    let start = clock();
    let mut guest = sandbox.thaw(&snapshot, &BINDING, GuestLimits::default()).await?;
    answer(&mut guest, 2, "payments.refund", r#"{"amount":140.0}"#, Some([3; 32]));
    call(&mut guest).await?;
    Ok(Round { fresh, freeze, thaw: start.elapsed() })
}

fn open() -> Result<Sandbox> {
    let config = SandboxConfig::new(cache::default_dir()?);
    Sandbox::open(&config, &mut |progress| say(&format!("guests: {progress:?}"))).context("cannot open the sandbox")
}

fn refund() -> Program {
    let tool = |name: &str| Tool { name: name.to_owned(), description: String::new() };
    Program {
        name: "refund.py".to_owned(),
        source: sources::REFUND.to_owned(),
        inputs: r#"{"id":"o-7"}"#.to_owned(),
        tools: ["payments.order", "payments.refund", "mail.send"].map(tool).into(),
        now: NOW,
        entropy: [7; 32],
        next: 1,
    }
}

async fn call(guest: &mut Guest) -> Result<()> {
    match guest.next().await {
        Event::Call(_) => Ok(()),
        other => bail!("the program was to make a call, and there came {other:?}"),
    }
}

fn answer(guest: &mut Guest, n: u64, tool: &str, result: &str, entropy: Option<[u8; 32]>) {
    let outcome = Outcome::Ok { result: result.to_owned() };
    let reply = Reply { n, call: format!("{tool}/{n}"), approval: None, outcome, edited: None };
    guest.answer(Answer { now: NOW, entropy, next: n + 1, replies: Replies::One(reply) });
}
