//! Signals (I-29).

use super::Service;
use super::failure::told;
use super::problem::{Answer, problem};
use crate::view;
use api::{Signal, SignalRequest};
use engine::SendSignal;
use protocol::code::Code;
use protocol::command::{Caller, Target};
use protocol::json::{Canonical, canonicalize};
use protocol::principal::Right;

impl Service {
    /// Sends a signal. `changed` of the answer says whether this request brought it.
    pub async fn signal(&self, by: &Caller, to: Target, request: &SignalRequest) -> Answer<Signal> {
        self.need(by, &[Right::SignalsSend])?;
        let payload = match &request.payload {
            None => Canonical::null(),
            Some(payload) => canonicalize(payload.as_str().as_bytes()).map_err(|fault| {
                problem(Code::InvalidJson, format!("field `payload`: {} at byte {}", fault.reason, fault.offset))
            })?,
        };
        let send = SendSignal { to, id: request.id.clone(), payload };
        let sent = self.engine.send(by.clone(), send).await.map_err(|failure| told(failure, by))?;
        let (run, row, changed) = sent;
        Ok(view::signal::signal(&row, run.status(), changed))
    }
}
