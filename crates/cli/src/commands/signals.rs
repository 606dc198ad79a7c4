//! `stasis signal` (I-8).

use super::{now, runs};
use crate::app::App;
use crate::args::operate::Signal;
use crate::carry;
use crate::failure::{Exit, Failure};
use crate::input;
use crate::render;
use api::explain::ExplainedWait;
use api::run::{Until, WaitKind};
use api::{SignalRequest, SignalState};

/// Sends it under an id of ours where none is given, so that asking again sends it once. Without a server the run is
/// carried on to its next stop.
pub(crate) async fn send(app: &App, given: &Signal) -> Result<Exit, Failure> {
    let payload = given.payload.as_deref().map(|text| input::json(text, &mut std::io::stdin())).transpose()?;
    let id = given.id.clone().unwrap_or_else(|| app.new_signal().to_string());
    let door = app.open(runs::carrying(app)).await?;
    app.works_on(given.run);
    let request = SignalRequest { id: Some(id), payload };
    let signal = door.client.signal(given.run, &given.name, &request).await?;
    if signal.state == SignalState::Kept {
        app.out.say(&nobody_waits(&given.name, &door.client.explain(given.run).await?.waits));
    }
    if door.carries(&app.globals, given.wait) {
        let run = carry::wait(&app.out, &door, given.run, Until::Stopped, None).await?.0;
        app.out.say(render::run::brief(&run, now()).trim_end());
    }
    app.out.object(&signal, render::lists::signal)?;
    Ok(Exit::Fine)
}

/// A name that nobody waits for may be one that comes later, or a slip of the pen: whoever sent it is told which names are
/// waited for now.
fn nobody_waits(name: &str, waits: &[ExplainedWait]) -> String {
    let signals = waits.iter().filter(|wait| wait.kind == WaitKind::Signal);
    let names: Vec<String> = signals.filter_map(|wait| Some(format!("`{}`", wait.name.as_ref()?))).collect();
    let now = if names.is_empty() { String::new() } else { format!("; it waits for {} now", names.join(", ")) };
    format!("nobody waits for `{name}` yet, and the run keeps it{now}")
}
