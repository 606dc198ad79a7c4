//! A signal as the wire shows it (I-29).

use api::{Signal, SignalState};
use protocol::run::Status;
use protocol::signal::{self, State, To};

pub(crate) fn signal(row: &signal::Signal, run_status: Status, changed: bool) -> Signal {
    let (state, wait) = match row.state {
        State::Kept => (SignalState::Kept, None),
        State::Taken(wait) => (SignalState::Taken, Some(wait)),
        State::SetAside => (SignalState::SetAside, None),
    };
    let name = match &row.to {
        To::Name(name) => Some(name.clone()),
        To::Wait(_) => None,
    };
    Signal {
        id: row.id.clone(),
        run: row.run,
        name,
        state,
        wait,
        principal: row.by.clone(),
        payload_digest: row.payload.digest,
        created_at: row.at,
        run_status,
        changed,
    }
}
