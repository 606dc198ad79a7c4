//! Starting and stopping one local resource.
//!
//! Invariant: a start that did not succeed has stopped what it started, or says that nobody knows.

use super::Resources;
use super::leftover;
use super::process::{Launch, Process};
use crate::config;
use protocol::resource::Done;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{interval, timeout};
use url::Url;

/// Between two looks whether it is ready.
const LOOK: Duration = Duration::from_millis(200);

/// For a stop command.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// How a resource of this host is run, and its process.
pub(crate) struct Local {
    start: Vec<String>,
    stop: Vec<String>,
    pub(super) ready: Option<Url>,
    env: Vec<String>,
    folder: PathBuf,
    process: Mutex<Option<Arc<Process>>>,
}

impl Local {
    pub(super) fn of(resource: &config::Resource) -> Local {
        Local {
            start: resource.start.clone(),
            stop: resource.stop.clone(),
            ready: resource.ready.clone(),
            env: resource.env.clone(),
            folder: resource.folder.clone(),
            process: Mutex::new(None),
        }
    }

    /// Whether the start command hands over to something that only the stop command ends.
    pub(super) fn hands_over(&self) -> bool {
        !self.stop.is_empty()
    }

    /// Whether this is the process that runs it now.
    pub(super) fn is(&self, process: &Process) -> bool {
        self.process().as_ref().is_some_and(|known| std::ptr::eq(&**known, process))
    }

    fn process(&self) -> MutexGuard<'_, Option<Arc<Process>>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resources {
    /// Starts it and waits until it is ready.
    pub(super) async fn bring_up(&self, name: &str) -> Done {
        let local = &self.0.local[name];
        if self.is_ready(local).await {
            return Done::Failed("something else answers already where it would say that it is ready".to_owned());
        }
        let process = match self.launch(name, &local.start, local.hands_over()) {
            Ok(process) => Arc::new(process),
            Err(error) => return Done::Failed(format!("its program did not start: {error}")),
        };
        *local.process() = Some(process.clone());
        self.watch(name, &process);
        tracing::info!(resource = name, "starting a resource");
        let limit = self.0.start_limit;
        let why = match timeout(limit, self.becomes_ready(local, &process)).await {
            Ok(Ok(())) => return Done::Succeeded,
            Ok(Err(why)) => why,
            Err(_) => format!("it was not ready within {}", protocol::time::format_duration(limit)),
        };
        tracing::warn!(resource = name, why, output = process.output(), "a resource did not become ready");
        match self.stop(name).await {
            Done::Succeeded => Done::Failed(why),
            Done::Failed(also) | Done::Unknown(also) => Done::Unknown(format!("{why}; {also}")),
        }
    }

    async fn becomes_ready(&self, local: &Local, process: &Process) -> Result<(), String> {
        let mut tick = interval(LOOK);
        loop {
            tokio::select! {
                () = process.ended(), if !process.handed_over() => {
                    if !(local.hands_over() && process.hand_over()) {
                        return Err(format!("it ended while it was loading: {}", process.how()));
                    }
                }
                _ = tick.tick() => {
                    if self.is_ready(local).await && (process.handed_over() || process.runs()) {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn is_ready(&self, local: &Local) -> bool {
        match &local.ready {
            Some(url) => self.0.connectors.probe(url).await.is_ok(),
            None => false,
        }
    }

    fn launch(&self, name: &str, argv: &[String], hands_over: bool) -> std::io::Result<Process> {
        let local = &self.0.local[name];
        let launch = Launch { argv, env: &local.env, folder: &local.folder, owner: &self.0.owner, name, hands_over };
        launch.spawn()
    }

    /// Tells the machine when the process ends by itself.
    fn watch(&self, name: &str, process: &Arc<Process>) {
        let (name, process) = (name.to_owned(), process.clone());
        self.spawn(|resources| async move {
            process.ended().await;
            if !process.handed_over() && !process.was_asked() {
                resources.died(&name, &process, format!("it ended by itself: {}", process.how()));
            }
        });
    }

    /// A process may end between its readiness and the moment in which the machine hears of that.
    pub(super) fn notice_death(&self, name: &str) {
        let process = self.0.local[name].process().clone();
        if let Some(process) = process.filter(|process| !process.handed_over() && !process.runs()) {
            self.died(name, &process, format!("it ended by itself: {}", process.how()));
        }
    }

    /// Stops it: by its own command, then politely, then for good; and looks whether anything of it is left.
    pub(super) async fn stop(&self, name: &str) -> Done {
        let local = &self.0.local[name];
        let process = local.process().take();
        if local.hands_over()
            && (process.is_some() || self.is_ready(local).await)
            && let Err(why) = self.order_stop(name, local).await
        {
            tracing::warn!(resource = name, why, "a stop command failed");
        }
        if let Some(process) = &process {
            process.end().await;
        }
        if let Err(why) = leftover::clear(&self.0.owner, name).await {
            return Done::Unknown(why);
        }
        match local.hands_over() && self.is_ready(local).await {
            true => Done::Unknown("it still says that it is ready after its stop command".to_owned()),
            false => Done::Succeeded,
        }
    }

    async fn order_stop(&self, name: &str, local: &Local) -> Result<(), String> {
        let command = self.launch(name, &local.stop, false).map_err(|error| error.to_string())?;
        let in_time = timeout(STOP_LIMIT, command.ended()).await.is_ok();
        let how = command.how();
        command.end().await;
        match in_time {
            true if command.succeeded() => Ok(()),
            true => Err(how),
            false => Err(format!("not ended within {STOP_LIMIT:?}")),
        }
    }
}
