//! What helps a person to say what became of a call whose outcome is unknown (C-237, C-238).
//!
//! Reads only: the shape that a result has to have, what an earlier call of the tool answered, what the last attempt saw.

use super::Service;
use super::failure::unread;
use super::problem::Answer;
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
                Some(call) => self.last_seen(by, call).await?,
                None => None,
            },
        })
    }

    /// The latest good answer of the same tool: of this run, else of any run that the caller may read.
    async fn earlier(&self, by: &Caller, row: &Approval) -> Answer<Option<Earlier>> {
        let ledger = self.engine.ledger();
        let calls = ledger.calls(row.run).await.map_err(|error| unread(error, by))?.unwrap_or_default();
        if let Some(earlier) = self.answer_of(by, calls.iter().rev(), &row.binding.tool).await? {
            return Ok(Some(earlier));
        }
        if !by.principal.can(Right::RunsRead) {
            return Ok(None);
        }
        let writes = ledger.effects(false, None, None, LOOKED_THROUGH).await.map_err(|error| unread(error, by))?;
        let of_namespace = writes.items.iter().filter(|found| found.run.namespace == by.principal.namespace);
        self.answer_of(by, of_namespace.map(|found| &found.call), &row.binding.tool).await
    }

    async fn answer_of<'a>(
        &self,
        by: &Caller,
        mut calls: impl Iterator<Item = &'a Call>,
        tool: &str,
    ) -> Answer<Option<Earlier>> {
        let good = |call: &Call| {
            let outcome = call.outcome().filter(|outcome| outcome.status == OutcomeStatus::Ok)?;
            (call.tool.name == tool).then_some(outcome.body?.digest)
        };
        let Some((call, digest)) = calls.find_map(|call| Some((call, good(call)?))) else { return Ok(None) };
        let result: Json = self.json(by, call.run, digest).await?;
        Ok(Some(Earlier { run: call.run, call: call.id, result }))
    }

    /// What the last attempt of an ambiguous call saw; nothing for any other call.
    pub(super) async fn seen(&self, by: &Caller, call: &Call) -> Answer<Option<String>> {
        match call.state {
            State::Ambiguous(_) => self.last_seen(by, call).await,
            State::Entered | State::Asked | State::Dispatched(_) | State::Ended(_) => Ok(None),
        }
    }

    async fn last_seen(&self, by: &Caller, call: &Call) -> Answer<Option<String>> {
        let id = call.id.to_string();
        let (mut after, mut last) = (None, None);
        loop {
            let events = self.engine.ledger().events(call.run, after, EVENTS).await;
            let events = events.map_err(|error| unread(error, by))?.unwrap_or_default();
            last = events.iter().filter_map(|event| seen_by(event, &id)).next_back().or(last);
            if events.len() < EVENTS {
                break;
            }
            after = events.last().map(|event| event.seq);
        }
        match last {
            Some(digest) => self.text(by, call.run, digest).await.map(Some),
            None => Ok(None),
        }
    }
}

/// The body with what an attempt of this call saw, if the event tells of one.
fn seen_by(event: &Event, call: &str) -> Option<Digest> {
    if event.kind != Kind::CallAmbiguous {
        return None;
    }
    let facts = event.facts.value();
    let fact = |key: &str| facts.get(key).and_then(Value::as_str);
    (fact("call") == Some(call)).then(|| fact("seen_digest")?.parse().ok()).flatten()
}
