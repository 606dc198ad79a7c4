//! The façade: everything a server or an embedder asks of an engine.
//!
//! Owns: starting and stopping the parts. What each request does is in the module that bears its name; every change of
//! truth is a command of the ledger, decided in `protocol`.

use crate::admit::{self, StartRun, Started};
use crate::agents;
use crate::audit::{self, Audit, AuditConfig};
use crate::broker::Unasked;
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::fork::{self, ForkRun};
use crate::inner::{Inner, Kept};
use crate::migrate::Migrators;
use crate::moves;
use crate::register::{self, RegisterScript, Registered};
use crate::resources::Resources;
use crate::tend::{Relays, tend};
use crate::tokens::{self, MintToken};
use crate::tools::Connectors;
use crate::verdict::{self, DecideRequest};
use crate::waiting::{self, Until};
use crate::webhooks;
use crate::worker::{self, Crew, Renewer, Stop};
use crate::workflow::{self, InstallError, Workflows};
use crate::{
    apply,
    maintenance::{self, Finding, Health, Pass, Stuck},
};
use protocol::code::Code;
use protocol::command::{
    self, Answer, Attest, Caller, Cancel, Command, Decided, Extend, Opened, PauseRun, Read, Target,
};
use protocol::id::{ApprovalId, Ids, RunId, SignalId, TokenId, WorkerId};
use protocol::json::Canonical;
use protocol::limits::{Limits, WorkerSettings};
use protocol::obligation;
use protocol::pause::Shared;
use protocol::principal::{Principal, Right};
use protocol::registry::{self, Change, Token};
use protocol::resource::View;
use protocol::rows::NewBody;
use protocol::run::Run;
use protocol::signal::Signal;
use protocol::time::Time;
use protocol::workflow::Pattern;
use sandbox::{Meter, Sandbox};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::Ledger;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The guest image of this process.
#[derive(Clone)]
pub enum Image {
    Found(Sandbox),
    /// Scripts can neither be registered nor run; everything else works.
    Missing {
        why: String,
    },
}

/// What an engine is made of.
pub struct EngineConfig {
    pub ledger: Ledger,
    /// Where anchors go; nowhere without it.
    pub audit: Option<AuditConfig>,
    pub image: Image,
    pub connectors: Connectors,
    /// What must be warm before work that needs it; started, stopped and leased by an engine that carries runs.
    pub resources: Vec<config::Resource>,
    /// Agents that are called, for the jobs of their kinds.
    pub agents: Vec<config::Agent>,
    /// Marks the processes of resources as of this ledger: the next engine on it ends what this one could not.
    pub owner: String,
    pub limits: Limits,
    pub worker: WorkerSettings,
    /// From the checkpoints of other builds to this one's.
    pub migrators: Migrators,
    /// What this build can run beside scripts.
    pub workflows: Workflows,
    /// How long a call waits in place before its run parks; nothing: it parks at once.
    pub hot_window: Duration,
    /// Whether it claims hops and dispatches calls. A reading command does not (I-19).
    pub carry: bool,
    /// Most hops at once.
    pub capacity: usize,
    /// Whether webhooks may be at addresses that are not public (I-34).
    pub private_webhooks: bool,
    /// The default of `separate_requester` (C-55): `false` in `stasis run` and `stasis dev`.
    pub separate_requester: bool,
}

/// A signal to send.
#[derive(Clone, Debug)]
pub struct SendSignal {
    pub to: Target,
    /// The idempotency key; a new one if there is none.
    pub id: Option<String>,
    pub payload: Canonical,
}

/// A running engine; clones share it.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    renewer: Arc<Mutex<Option<Renewer>>>,
}

/// A guest or waiting hop of this process.
#[derive(Clone, Debug)]
pub struct GuestInfo {
    pub run: RunId,
    /// A guest is resident; else the hop only dispatches calls.
    pub resident: bool,
    pub waiting_since: Option<Time>,
    /// What it waits for.
    pub waits_for: Option<String>,
    meter: Option<Meter>,
}

impl GuestInfo {
    /// Memory that the machine holds for this guest alone, measured now.
    pub fn resident_bytes(&self) -> Option<u64> {
        self.meter.as_ref().and_then(Meter::resident_bytes)
    }
}

/// An engine that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the renewing thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
    /// Two builds differ in the code of one revision.
    #[error(transparent)]
    Workflow(#[from] InstallError),
}

impl Engine {
    /// Starts workers and passes; nothing waits for the first recovery pass. Claims of other workers are taken over
    /// by it: the embedded store is open in one process only.
    pub async fn start(config: EngineConfig) -> Result<Engine, StartError> {
        workflow::check(&config.workflows, &config.ledger.registry())?;
        let mut seed = [0; 16];
        crate::inner::fill(&mut seed);
        let seed = u128::from_le_bytes(seed);
        // The embedded store has one queue and one worker, whose places are its bound.
        let capacity = config.worker.max_running.map_or(config.capacity, |most| config.capacity.min(most as usize));
        let worker: WorkerId = Ids::new(config.ledger.now(), config.ledger.cell(), seed).mint();
        let connectors = Arc::new(config.connectors);
        let resources = match config.carry {
            true => Resources::start(&config.resources, &config.worker, config.owner, connectors.clone()).await,
            false => Resources::none(&config.worker, connectors.clone()),
        };
        let audit = match config.audit {
            Some(audit) => Some(Audit::open(audit, &config.ledger).await),
            None => None,
        };
        let inner = Arc::new(Inner {
            audit,
            image: config.image,
            connectors,
            resources,
            agents: config.agents,
            limits: config.limits,
            settings: config.worker,
            migrators: config.migrators,
            workflows: config.workflows,
            hot_window: config.hot_window,
            carry: config.carry,
            separate_requester: config.separate_requester,
            worker,
            abilities: Mutex::default(),
            crew: Crew::new(capacity),
            hops: Default::default(),
            pinned: Kept::default(),
            unasked: Unasked::default(),
            images: Kept::default(),
            recovering: watch::Sender::new(true),
            health: Health::default(),
            finding: Finding::default(),
            relays: Relays::default(),
            claims: tokio::sync::Mutex::default(),
            private_webhooks: config.private_webhooks,
            resend: Notify::new(),
            job_progress: tokio::sync::broadcast::Sender::new(crate::inner::LIVE_LINES),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            ledger: config.ledger,
        });
        inner.look_at_abilities();
        let renewer = if inner.carry { Some(Renewer::start(&inner)?) } else { None };
        tend(&inner, "passes", maintenance::run);
        if inner.carry {
            tend(&inner, "claims", worker::claim_loop);
            tend(&inner, "hints", worker::watch_loop);
            tend(&inner, "webhooks", webhooks::run);
            if !inner.agents.is_empty() {
                tend(&inner, "agents", agents::run);
            }
            if inner.audit.is_some() {
                tend(&inner, "anchors", audit::run);
            }
        }
        Ok(Engine { inner, renewer: Arc::new(Mutex::new(renewer)) })
    }

    pub fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    pub fn worker(&self) -> WorkerId {
        self.inner.worker
    }

    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub fn settings(&self) -> &WorkerSettings {
        &self.inner.settings
    }

    /// Whether this engine carries runs.
    pub fn carries(&self) -> bool {
        self.inner.carry
    }

    /// The guest image, or why there is none.
    pub fn image(&self) -> &Image {
        &self.inner.image
    }

    /// Places of guests that were not used again, over all images of this process (W-226).
    pub fn retired_slots(&self) -> u64 {
        let newest = match &self.inner.image {
            Image::Found(sandbox) => sandbox.retired(),
            Image::Missing { .. } => 0,
        };
        newest + self.inner.images.all().iter().map(|older| older.retired()).sum::<u64>()
    }

    /// How often each answer of R-93 was given since the start.
    pub fn hops(&self) -> Vec<(&'static str, u64)> {
        self.inner.hops.counted()
    }

    /// Until one full recovery pass is done.
    pub fn recovering(&self) -> bool {
        *self.inner.recovering.borrow()
    }

    /// Resolves when it is done: a command that shows or carries a run wants to see what the pass made of it (I-19).
    pub async fn recovered(&self) {
        let mut recovering = self.inner.recovering.subscribe();
        // The sender lives as long as the engine.
        let _ = recovering.wait_for(|recovering| !recovering).await;
    }

    /// What the last passes did: recovery, and expiry with cleanup; nothing until each was made once.
    pub fn passes(&self) -> [Option<Pass>; 2] {
        self.inner.health.passes()
    }

    /// Every run that cannot go on by itself, with why and since when.
    pub async fn stuck(&self) -> Result<Vec<Stuck>, Failure> {
        maintenance::stuck(&self.inner).await
    }

    /// How many runs are known to this process as such.
    pub fn stuck_known(&self) -> usize {
        self.inner.health.count()
    }

    /// Why this run cannot go on by itself, as far as the passes of this process met it.
    pub fn blocked(&self, run: RunId) -> Option<Stuck> {
        self.inner.health.of(run)
    }

    /// A fresh id for a request at a door.
    pub fn request_id(&self) -> protocol::id::RequestId {
        self.inner.request_id()
    }

    /// Applies a configuration's tools, policy and principals; false if all of it stood already (I-19).
    pub async fn apply(&self, by: Caller, config: &Config) -> Result<bool, Failure> {
        apply::apply(&self.inner, by, config).await
    }

    pub async fn register(&self, by: Caller, request: RegisterScript) -> Result<Registered, Failure> {
        register::register(&self.inner, by, request).await
    }

    /// Registers the workflows in Rust of this build that the ledger does not know yet, with the tools of the configuration
    /// in force, and gives them as they were registered.
    pub async fn install(&self, by: Caller) -> Result<Vec<Pattern>, Failure> {
        workflow::install(&self.inner, &by).await
    }

    pub async fn activate(&self, by: Caller, key: &str, revision: u32) -> Result<bool, Failure> {
        self.change(Change::Activate { by, key: key.to_owned(), revision }).await
    }

    pub async fn withdraw(
        &self,
        by: Caller,
        tool: &str,
        version: Option<&str>,
        reason: Option<&str>,
    ) -> Result<bool, Failure> {
        let version = version.map(str::to_owned);
        let reason = verdict::said(reason)?.map(str::to_owned);
        self.change(Change::Withdraw { by, tool: tool.to_owned(), version, reason }).await
    }

    /// What a tool would lack if this process called it now; `None` if nothing (C-272).
    pub async fn lacking(&self, tool: &str, version: &str) -> Option<String> {
        crate::ready::lacking(&self.inner, tool, version).await
    }

    pub async fn start_run(&self, by: Caller, request: StartRun) -> Result<Started, Failure> {
        let started = admit::start(&self.inner, by, request).await?;
        worker::adopt(&self.inner, &started.run);
        Ok(started)
    }

    /// Begins a run with what another one had come to at an event.
    pub async fn fork_run(&self, by: Caller, request: ForkRun) -> Result<Started, Failure> {
        let started = fork::fork(&self.inner, by, request).await?;
        worker::adopt(&self.inner, &started.run);
        Ok(started)
    }

    pub async fn decide(&self, by: Caller, request: DecideRequest) -> Result<Decided, Failure> {
        let decided = verdict::decide(&self.inner, by, request).await?;
        worker::adopt(&self.inner, &decided.run);
        Ok(decided)
    }

    /// Gives a question more time (C-192).
    pub async fn extend(
        &self,
        by: Caller,
        approval: ApprovalId,
        until: Time,
        reason: Option<&str>,
    ) -> Result<Decided, Failure> {
        let extend = Extend { by, approval, until, reason: verdict::reason(reason)? };
        match self.inner.ledger.transact(Command::Extend(Box::new(extend))).await? {
            Answer::Decided(decided) => Ok(*decided),
            other => unreachable!("an extension is answered with its approval: {other:?}"),
        }
    }

    /// Cancels; false if the run was stopping or final already.
    pub async fn cancel(&self, by: Caller, run: RunId, reason: Option<&str>) -> Result<(Run, bool), Failure> {
        let reason = verdict::reason(reason)?;
        match self.inner.ledger.transact(Command::Cancel(Cancel { by, run, reason })).await? {
            Answer::Settled { run, changed, .. } => Ok((*run, changed)),
            other => unreachable!("a cancel is answered with its run: {other:?}"),
        }
    }

    /// Records a person's word that something of a stopping run has stopped; false if it was known to have.
    pub async fn attest(
        &self,
        by: Caller,
        run: RunId,
        subject: obligation::Subject,
        reason: &str,
    ) -> Result<(Run, bool), Failure> {
        let reason = verdict::said(Some(reason))?.unwrap_or_default().to_owned();
        match self.inner.ledger.transact(Command::Attest(Attest { by, run, subject, reason })).await? {
            Answer::Settled { run, changed, .. } => Ok((*run, changed)),
            other => unreachable!("an attestation is answered with its run: {other:?}"),
        }
    }

    /// Sends a signal; false if that very one was taken in before.
    pub async fn send(&self, by: Caller, request: SendSignal) -> Result<(Run, Signal, bool), Failure> {
        let SendSignal { to, id, payload } = request;
        let id = id.unwrap_or_else(|| self.inner.ids().mint::<SignalId>().to_string());
        let body = NewBody::new(payload.as_bytes());
        let taker = self.inner.crew.taker(&self.inner);
        let send = command::SendSignal { by, to, id, payload: body, text: payload, taker };
        match self.inner.ledger.transact(Command::Send(Box::new(send))).await? {
            Answer::Sent { run, signal, changed } => {
                worker::adopt(&self.inner, &run);
                Ok((*run, *signal, changed))
            }
            other => unreachable!("a signal is answered with itself: {other:?}"),
        }
    }

    /// Keeps a run from workers; its hop, if it has one, gives way. False if it was paused already.
    pub async fn pause(&self, by: Caller, run: RunId, reason: Option<&str>) -> Result<(Run, bool), Failure> {
        let paused = self.set_pause(Command::Pause, by, run, reason).await?;
        self.inner.crew.stop(run, worker::Stop::Paused);
        Ok(paused)
    }

    /// Clears the pause of a run, and no other over it.
    pub async fn resume(&self, by: Caller, run: RunId, reason: Option<&str>) -> Result<(Run, bool), Failure> {
        self.set_pause(Command::Resume, by, run, reason).await
    }

    /// Pins a run that rests to another revision of its workflow, once it is proved that it goes on there; false if it is
    /// pinned to that one already.
    pub async fn move_run(
        &self,
        by: Caller,
        run: RunId,
        revision: u32,
        reason: Option<&str>,
    ) -> Result<(Run, bool), Failure> {
        let reason = verdict::said(reason)?.map(str::to_owned);
        moves::move_run(&self.inner, by, run, revision, reason).await
    }

    async fn set_pause(
        &self,
        command: fn(PauseRun) -> Command,
        by: Caller,
        run: RunId,
        reason: Option<&str>,
    ) -> Result<(Run, bool), Failure> {
        let reason = verdict::said(reason)?.map(str::to_owned);
        match self.inner.ledger.transact(command(PauseRun { by, run, reason })).await? {
            Answer::Settled { run, changed, .. } => Ok((*run, changed)),
            other => unreachable!("a pause is answered with its run: {other:?}"),
        }
    }

    /// Keeps every run of a workflow or queue from workers.
    pub async fn pause_all(&self, by: Caller, scope: Shared, reason: Option<&str>) -> Result<bool, Failure> {
        let reason = verdict::said(reason)?.map(str::to_owned);
        let changed = self.change(Change::Pause { by, scope, reason }).await?;
        worker::heed_pauses(&self.inner).await;
        Ok(changed)
    }

    /// Lets the runs of a workflow or queue go on, but for those that something else pauses.
    pub async fn resume_all(&self, by: Caller, scope: Shared) -> Result<bool, Failure> {
        let changed = self.change(Change::Resume { by, scope }).await?;
        self.inner.crew.look();
        Ok(changed)
    }

    /// Opens bodies to an auditor, which the run's timeline tells of (C-282).
    pub async fn read(&self, by: Caller, opened: Opened, reason: Option<&str>) -> Result<(), Failure> {
        let reason = verdict::reason(reason)?;
        self.inner.ledger.transact(Command::Read(Read { by, opened, reason })).await?;
        Ok(())
    }

    /// Mints a token; its secret is told here and kept nowhere.
    pub async fn mint_token(&self, by: Caller, request: MintToken) -> Result<(Token, String), Failure> {
        tokens::mint(&self.inner, by, request).await
    }

    pub async fn revoke_token(&self, by: Caller, token: TokenId) -> Result<bool, Failure> {
        self.change(Change::RevokeToken { by, token }).await
    }

    /// The principal a secret stands for now, with the token's rights.
    pub fn authenticate(&self, secret: &str) -> Option<Principal> {
        tokens::authenticate(&self.inner, secret)
    }

    /// Waits until the run has stopped or ended; `None` at the time-out.
    pub async fn wait(&self, run: RunId, until: Until, timeout: Duration) -> Result<Option<Run>, Failure> {
        waiting::wait(&self.inner, run, until, timeout).await
    }

    /// The resources of this process.
    pub fn resources(&self) -> Vec<View> {
        self.inner.resources.list()
    }

    /// How many changes are made before the one that a run in a hold waits for; 0 is its own.
    pub fn place_in_line(&self, run: RunId) -> Option<usize> {
        self.inner.resources.place(run)
    }

    /// Brings a contained resource to a known state; false if it is not contained.
    pub async fn reset_resource(&self, by: &Caller, name: &str) -> Result<bool, Failure> {
        needs_admin(by)?;
        if !self.resources().iter().any(|resource| resource.name == name) {
            return Err(Failure::refused(Code::NotFound, format!("there is no resource {name}")));
        }
        tracing::info!(resource = name, by = by.principal.id, request = %by.request, "reset of a resource ordered");
        match self.inner.resources.reset(name).await {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(refused)) => {
                let failure = refused.failure(name);
                Err(Failure::refused(failure.code, failure.message))
            }
        }
    }

    pub fn guests(&self) -> Vec<GuestInfo> {
        let hops = self.inner.crew.list();
        let mut guests: Vec<_> = hops
            .iter()
            .map(|live| {
                let (waiting, meter) = (live.waiting(), live.guest());
                GuestInfo {
                    run: live.run,
                    resident: meter.is_some(),
                    waiting_since: waiting.as_ref().map(|w| w.since),
                    waits_for: waiting.map(|w| w.name),
                    meter,
                }
            })
            .collect();
        guests.sort_by_key(|guest| guest.run);
        guests
    }

    /// Clean shutdown: claims nothing more, parks what waits, hands back what runs, lets the rest lapse. It
    /// cancels nothing.
    pub async fn shutdown(&self) {
        self.inner.stopping.cancel();
        self.inner.crew.stop_all(Stop::Shutdown);
        self.inner.tasks.close();
        let grace = self.inner.settings.shutdown_grace;
        if tokio::time::timeout(grace, self.inner.tasks.wait()).await.is_err() {
            let (hops, relays) = (self.inner.crew.list().len(), self.inner.relays.at_work());
            tracing::warn!(hops, ?relays, "not everything stopped in time; claims of hops lapse");
            self.inner.crew.stop_all(Stop::Lost);
        }
        if self.inner.carry {
            // What it lacks is exported by the next process (C-276).
            drop(self.inner.anchor().await);
        }
        // Nobody uses them any more, or nobody waits for those who do.
        self.inner.resources.shutdown().await;
        let renewer = self.renewer.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(renewer);
    }

    async fn change(&self, change: Change) -> Result<bool, Failure> {
        match self.inner.ledger.transact_registry(change).await? {
            registry::Answer::Changed(changed) => Ok(changed),
            registry::Answer::Registered { created, .. } => Ok(created),
        }
    }
}

/// What changes nothing of a run, and so is no command that checks its right itself.
pub(crate) fn needs_admin(by: &Caller) -> Result<(), Failure> {
    match by.principal.rights.has(Right::Admin) {
        true => Ok(()),
        false => Err(Failure::refused(Code::NotPermitted, format!("{} lacks the right admin", by.principal.id))),
    }
}
