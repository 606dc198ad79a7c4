//! Applying a configuration: its tools, policy and principals are in force from the commit on (I-19).

use crate::config::Config;
use crate::failure::Failure;
use crate::inner::Inner;
use protocol::command::Caller;
use protocol::registry::{Answer, Apply, Change, NewTool};
use std::sync::Arc;

pub(crate) async fn apply(inner: &Inner, by: Caller, config: &Config) -> Result<bool, Failure> {
    let tools = config
        .tools
        .iter()
        .map(|tool| NewTool { spec: Arc::new(tool.spec.clone()), grant: tool.grant.canonical() })
        .collect();
    let apply = Apply { by, tools, policy: Arc::new(config.policy.clone()), principals: config.principals.clone() };
    match inner.ledger.transact_registry(Change::Apply(Box::new(apply))).await? {
        Answer::Changed(changed) => Ok(changed),
        Answer::Registered { created, .. } => Ok(created),
    }
}
