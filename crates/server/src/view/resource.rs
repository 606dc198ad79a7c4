//! A resource as the wire shows it.

use api::Resource;
use protocol::resource::{Place, State, View};

pub(crate) fn resource(view: View) -> Resource {
    let cost = match view.place {
        Place::Local { cost } => Some(cost),
        Place::Remote { .. } => None,
    };
    let why = match &view.state {
        State::Contained { why, .. } => Some(why.clone()),
        _ => view.last_error,
    };
    Resource {
        name: view.name,
        state: view.state.as_str().to_owned(),
        last_error: why,
        memory_mib: cost.map(|cost| cost.memory_mib),
        slots: cost.map(|cost| cost.slots),
        leases: view.leases.len() as u64,
        waiting: view.waiting.len() as u64,
        lease_runs: view.leases,
        waiting_runs: view.waiting,
        changed: None,
    }
}
