//! `stasis dev` and `serve`: the host that stays (I-1, I-3).

use crate::app::App;
use crate::args::{Dev, Serve};
use crate::failure::{Exit, Failure};
use crate::signals;
use serde::Serialize;
use server::{Host, HostOptions};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// What `dev` and `serve` print once they answer.
#[derive(Serialize)]
struct Up {
    url: String,
    /// The console with a one-time sign-in; `dev` only.
    sign_in_url: Option<String>,
    /// A token for the API; `dev` only.
    token: Option<String>,
    socket: PathBuf,
    data: PathBuf,
}

pub(crate) async fn dev(app: &App, dev: &Dev) -> Result<Exit, Failure> {
    let host = start(app, Some(dev.listen), true).await?;
    let sign_in = host.sign_in_url();
    if dev.open
        && let Some(url) = &sign_in
        && let Err(error) = std::process::Command::new("xdg-open").arg(url).spawn()
    {
        app.out.say(&format!("cannot open a browser: {error}"));
    }
    until_interrupted(app, host).await
}

pub(crate) async fn serve(app: &App, serve: &Serve) -> Result<Exit, Failure> {
    let host = start(app, serve.listen, false).await?;
    until_interrupted(app, host).await
}

async fn start(app: &App, listen: Option<SocketAddr>, sign_in: bool) -> Result<Host, Failure> {
    if app.globals.server.is_some() {
        return Err(Failure::usage("--server names another server; this command is one"));
    }
    let out = app.out;
    let options = HostOptions {
        config: app.config()?,
        lasting: true,
        listen,
        // A person who develops alone has to be able to answer the own programs (C-55).
        separate_requester: !sign_in,
        sign_in,
        progress: Some(Arc::new(move |line: &str| out.say(line))),
        ..HostOptions::new(&app.globals.data)
    };
    Host::start(options).await.map_err(|error| Failure::of(error.problem()))
}

/// Prints how to reach it, and closes it cleanly when the process is asked to end.
async fn until_interrupted(app: &App, host: Host) -> Result<Exit, Failure> {
    let up = Up {
        url: host.url(),
        sign_in_url: host.sign_in_url(),
        token: host.api_token(),
        socket: host.socket().to_owned(),
        data: app.globals.data.clone(),
    };
    if host.address().is_some_and(|address| address.ip().is_unspecified()) {
        app.out.say(
            "warning: this listens on every address of the machine, without encryption; put a proxy with TLS before it",
        );
    }
    let printed = app.out.object(&up, text);
    if printed.is_ok() {
        signals::interrupted().await;
        app.out.say("closing: runs stay where they are");
    }
    host.shutdown().await;
    printed.map(|()| Exit::Fine)
}

fn text(up: &Up) -> String {
    let mut text = format!("API      {}\n", up.url);
    if let Some(url) = &up.sign_in_url {
        text += &format!("console  {url}\n");
    }
    if let Some(token) = &up.token {
        text += &format!("token    {token}\n");
    }
    text + &format!("data     {}\n", up.data.display())
}
