//! What helps a person to say what became of a call whose outcome is unknown (C-237, C-238).
//!
//! Reads only: the shape that a result has to have, what an earlier call of the tool answered, what the attempts saw.

use super::Service;
use super::failure::unread;
use super::problem::Answer;
use super::reading::{self, Bodies};
use api::Json;
use api::approval::{Earlier, Settle};
use protocol::approval::Approval;
use protocol::call::{Call, OutcomeStatus, State};
use protocol::command::Caller;
use protocol::digest::Digest;
use protocol::event::{Event, Kind};
use protocol::json::Value;
use protocol::principal::Right;
use protocol::tool::ToolSpec;

/// Writes that are looked through for an earlier answer of the same tool.
const LOOKED_THROUGH: usize = 100;
/// Events of one read.
const EVENTS: usize = 1_000;

impl Service {
    pub(super) async fn about_settling(&self, by: &Caller, row: &Approval, spec: Option<&ToolSpec>) -> Answer<Settle> {
        let found = self.engine.ledger().call(row.call).await.map_err(|error| unread(error, by))?;
        let call = found.as_ref().map(|found| &found.call);
        Ok(Settle {
            output: spec
                .map(|spec| &spec.output_schema)
                .filter(|schema| schema.as_str() != "{}")
                .map(crate::view::json),
            earlier: self.earlier(by, row).await?,
            attempts: call.and_then(Call::gate).map_or(0, |gate| u32::from(gate.attempt)),
            seen: match call {
                Some(call) => self.all_seen(by, call).await?,
                None => None,
            },
        })
    }

    /// The latest good answer of the same tool that the caller may read: of this run, else of any other.
    async fn earlier(&self, by: &Caller, row: &Approval) -> Answer<Option<Earlier>> {
        let (ledger, tool) = (self.engine.ledger(), &row.binding.tool);
        if let Some(shown) = ledger.rows(row.run).await.map_err(|error| unread(error, by))? {
            let theirs = |call: &&Call| reading::of_call(by, &shown.run, call, &shown.approvals) == Bodies::Shown;
            if let Some(call) = shown.calls.iter().rev().filter(theirs).find(|call| answer_of(call, tool).is_some()) {
                return self.answer(by, call, tool).await;
            }
        }
        if !by.principal.can(Right::RunsRead) {
            return Ok(None);
        }
        let writes = ledger.effects(false, None, None, LOOKED_THROUGH).await.map_err(|error| unread(error, by))?;
        for found in writes.items.iter().filter(|found| found.run.namespace == by.principal.namespace) {
            if answer_of(&found.call, tool).is_some() && self.of_one_call(by, found).await? == Bodies::Shown {
                return self.answer(by, &found.call, tool).await;
            }
        }
        Ok(None)
    }

    async fn answer(&self, by: &Caller, call: &Call, tool: &str) -> Answer<Option<Earlier>> {
        let Some(digest) = answer_of(call, tool) else { return Ok(None) };
        let result: Json = self.json(by, call.run, digest).await?;
        Ok(Some(Earlier { run: call.run, call: call.id, result }))
    }

    /// What the attempts of an ambiguous call saw; nothing for any other call.
    pub(super) async fn seen(&self, by: &Caller, call: &Call) -> Answer<Option<String>> {
        match call.state {
            State::Ambiguous(_) => self.all_seen(by, call).await,
            State::Entered | State::Asked | State::Dispatched(_) | State::Ended(_) => Ok(None),
        }
    }

    /// What each attempt without an answer saw, in their order: that the last one found nobody there says nothing of the
    /// first.
    async fn all_seen(&self, by: &Caller, call: &Call) -> Answer<Option<String>> {
        let id = call.id.to_string();
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let events = self.engine.ledger().events(call.run, after, EVENTS).await;
            let events = events.map_err(|error| unread(error, by))?.unwrap_or_default();
            seen.extend(events.iter().filter_map(|event| seen_by(event, &id)));
            if events.len() < EVENTS {
                break;
            }
            after = events.last().map(|event| event.seq);
        }
        let mut told: Vec<(Vec<u64>, String)> = Vec::new();
        for (attempt, digest) in seen {
            let text = self.text(by, call.run, digest).await?;
            match told.last_mut().filter(|(_, known)| *known == text) {
                Some((attempts, _)) => attempts.push(attempt),
                None => told.push((vec![attempt], text)),
            }
        }
        Ok(in_words(told))
    }
}

/// The result of a call of this tool that ended well.
fn answer_of(call: &Call, tool: &str) -> Option<Digest> {
    let outcome = call.outcome().filter(|outcome| outcome.status == OutcomeStatus::Ok)?;
    (call.tool.name == tool).then_some(outcome.body?.digest)
}

/// `attempt 1: no answer in 10 s; attempts 2, 3: connection refused`.
fn in_words(mut told: Vec<(Vec<u64>, String)>) -> Option<String> {
    if told.len() < 2 {
        return told.pop().map(|(_, only)| only);
    }
    let line = |(attempts, text): &(Vec<u64>, String)| {
        let numbers: Vec<String> = attempts.iter().map(u64::to_string).collect();
        let plural = if attempts.len() == 1 { "" } else { "s" };
        format!("attempt{plural} {}: {text}", numbers.join(", "))
    };
    Some(told.iter().map(line).collect::<Vec<_>>().join("; "))
}

/// Which attempt of this call saw what, if the event tells of one; what it saw is a body.
fn seen_by(event: &Event, call: &str) -> Option<(u64, Digest)> {
    if event.kind != Kind::CallAmbiguous {
        return None;
    }
    let facts = event.facts.value();
    let fact = |key: &str| facts.get(key).and_then(Value::as_str);
    let digest = (fact("call") == Some(call)).then(|| fact("seen_digest")?.parse().ok()).flatten()?;
    Some((facts.get("attempt").and_then(Value::as_u64)?, digest))
}
