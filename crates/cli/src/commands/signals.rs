//! `stasis signal` (I-8).

use super::{now, runs};
use crate::app::App;
use crate::args::operate::Signal;
use crate::carry;
use crate::failure::{Exit, Failure};
use crate::input;
use crate::render;
use api::SignalRequest;
use api::run::Until;

/// Sends it under an id of ours where none is given, so that asking again sends it once. Without a server the run is
/// carried on to its next stop.
pub(crate) async fn send(app: &App, given: &Signal) -> Result<Exit, Failure> {
    let payload = given.payload.as_deref().map(|text| input::json(text, &mut std::io::stdin())).transpose()?;
    let id = given.id.clone().unwrap_or_else(|| app.new_signal().to_string());
    let door = app.open(runs::carrying(app)).await?;
    app.works_on(given.run);
    let request = SignalRequest { id: Some(id), payload };
    let signal = door.client.signal(given.run, &given.name, &request).await?;
    if door.carries(&app.globals, given.wait) {
        let run = carry::wait(&door, given.run, Until::Stopped, None).await?.0;
        app.out.say(render::run::brief(&run, now()).trim_end());
    }
    app.out.object(&signal, render::lists::signal)?;
    Ok(Exit::Fine)
}
