//! A program that has Stasis inside: a workflow of two steps, the second only after somebody said yes, on a ledger of its own.
//!
//! `embedded LEDGER start AMOUNT` begins a run and stays with it to its end; kill it whenever you like.
//! `embedded LEDGER approve` answers what waits, in whichever process, and shows what came of it.

#![expect(clippy::print_stdout, reason = "it talks to a person")]

use anyhow::{Context as _, Result, bail};
use engine::protocol::approval::Verdict;
use engine::protocol::json::to_canonical;
use engine::protocol::run::Run;
use engine::store::{ApprovalFilter, Ledger, StoreConfig};
use engine::workflow::{Cx, Step, StepError, Workflow};
use engine::{DecideRequest, Engine, EngineConfig, StartRun, Until};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Pays out an amount that somebody has approved.
struct Payout;

/// Where a run stands.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum At {
    Ask,
    Pay,
}

/// What a run knows between two steps, and all that is stored of it.
#[derive(Serialize, Deserialize)]
struct Payment {
    amount: u32,
    approved_by: Vec<String>,
}

impl Workflow for Payout {
    const KEY: &'static str = "payout";
    const REVISION: u32 = 1;
    const IMPLEMENTATION: &'static str = "1";
    const SCHEMA: &'static str = "payout.state.v1";
    type Input = u32;
    type Output = String;
    type Node = At;
    type State = Payment;

    fn start(&self, amount: u32) -> (At, Payment) {
        (At::Ask, Payment { amount, approved_by: Vec::new() })
    }

    async fn step(&self, at: At, payment: &mut Payment, cx: &Cx) -> Result<Step<Self>, StepError> {
        match at {
            // Here the run parks: the step ends, and runs again when there is an answer.
            At::Ask => {
                let decision = cx.gate(format!("Pay out {}?", payment.amount)).await?;
                if !decision.approved() {
                    return Ok(Step::End("not paid".to_owned()));
                }
                payment.approved_by = decision.by;
                Ok(Step::Next(At::Pay))
            }
            At::Pay => Ok(Step::End(format!("paid {}, as {} said", payment.amount, payment.approved_by.join(", ")))),
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [ledger, command @ ..] = words.as_slice() else { bail!("embedded LEDGER start AMOUNT | approve") };
    let engine = open(ledger).await?;
    match command {
        ["start", amount] => start(&engine, amount.parse().context("AMOUNT is a whole number")?).await?,
        ["approve"] => approve(&engine).await?,
        _ => bail!("embedded LEDGER start AMOUNT | approve"),
    }
    engine.shutdown().await;
    Ok(())
}

/// The engine on its ledger, one process at a time.
async fn open(path: &str) -> Result<Engine> {
    let ledger = Ledger::open(StoreConfig::new(path))?;
    // There is one person here, who may answer what they began.
    let config = EngineConfig { separate_requester: false, ..EngineConfig::new(ledger) }.workflow(Payout);
    let engine = Engine::start(config).await?;
    engine.install(engine.local()).await?;
    Ok(engine)
}

async fn start(engine: &Engine, amount: u32) -> Result<()> {
    let request = StartRun::new("payout", to_canonical(&amount)?);
    let started = engine.start_run(engine.local(), request).await?;
    let stopped = engine.wait(started.run.id, Until::Stopped, DAY).await?.context("nothing happened for a day")?;
    println!("{} {}", stopped.id, stopped.status());
    told(engine, &engine.wait(stopped.id, Until::Terminal, DAY).await?.context("nobody answered for a day")?).await
}

async fn approve(engine: &Engine) -> Result<()> {
    let waiting = engine.ledger().approvals(ApprovalFilter::default(), None, 100).await?;
    for item in waiting.items {
        let verdict = DecideRequest::new(&item.approval, Verdict::Approve);
        engine.decide(engine.local(), verdict).await?;
        let ended = engine.wait(item.approval.run, Until::Terminal, DAY).await?;
        told(engine, &ended.context("it did not end for a day")?).await?;
    }
    Ok(())
}

async fn told(engine: &Engine, run: &Run) -> Result<()> {
    match (engine.result(run).await?, run.failure()) {
        (Some(result), _) => println!("{} {}: {}", run.id, run.status(), result.as_str()),
        (None, Some(failure)) => println!("{} {}: {}", run.id, run.status(), failure.message),
        (None, None) => println!("{} {}", run.id, run.status()),
    }
    Ok(())
}

const DAY: Duration = Duration::from_secs(86_400);
