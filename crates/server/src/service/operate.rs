//! Guests, tools, tokens, readiness and counts (I-31, I-11, I-35).

use super::failure::{told, unread};
use super::list;
use super::problem::{Answer, not_found};
use super::{Service, invalid};
use crate::http::metrics::Gauge;
use crate::view;
use api::operate::{NewToken, Queue};
use api::page::{ListQuery, Page};
use api::run::Tier;
use api::{Guest, Ready, Resource, Token, Tool};
use engine::MintToken;
use protocol::command::Caller;
use protocol::id::TokenId;
use protocol::limits::DEFAULT_QUEUE;
use protocol::pause::Shared;
use protocol::principal::{Right, Rights};
use protocol::registry::{self, Registry};
use protocol::resource::State;

impl Service {
    /// The guests of this process that belong to runs of the caller's namespace.
    pub async fn guests(&self, by: &Caller) -> Answer<Page<Guest>> {
        self.reads(by)?;
        let mut items = Vec::new();
        for guest in self.engine.guests().into_iter().filter(|guest| guest.resident) {
            let row = self.engine.ledger().run(guest.run).await.map_err(|error| unread(error, by))?;
            if row.is_some_and(|row| row.namespace == by.principal.namespace) {
                items.push(Guest {
                    run: guest.run,
                    tier: Tier::Hot,
                    resident_bytes: guest.resident_bytes(),
                    waiting_since_at: guest.waiting_since,
                    waits_for: guest.waits_for,
                });
            }
        }
        Ok(Page::whole(items))
    }

    /// Every version of every tool, by name, the newest version first.
    pub async fn tools(&self, by: &Caller, query: &ListQuery) -> Answer<Page<Tool>> {
        self.reads(by)?;
        let limit = list::limit(query.limit)?;
        let registry = self.engine.ledger().registry();
        let built_in = protocol::builtin::all()
            .map(|spec| view::workflow::tool(spec, spec.digest(), spec.approval.as_ref(), None));
        let mut all: Vec<Tool> =
            registry.tools.keys().flat_map(|name| versions(&registry, name)).chain(built_in).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        list::page_of(all, |tool| format!("{}@{}", tool.name, tool.version), query.cursor.as_deref(), limit)
    }

    /// Every version of one tool, newest first.
    pub async fn tool(&self, by: &Caller, name: &str) -> Answer<Page<Tool>> {
        self.reads(by)?;
        self.versions(name)
    }

    fn versions(&self, name: &str) -> Answer<Page<Tool>> {
        let registry = self.engine.ledger().registry();
        let mut found = versions(&registry, name);
        if let Some(spec) = protocol::builtin::spec(name).filter(|_| found.is_empty()) {
            found.push(view::workflow::tool(&spec, spec.digest(), spec.approval.as_ref(), None));
        }
        if found.is_empty() { Err(not_found()) } else { Ok(Page::whole(found)) }
    }

    /// Withdraws a tool, in one version (`name@version`) or in all.
    pub async fn withdraw(&self, by: &Caller, name: &str, reason: Option<&str>) -> Answer<Page<Tool>> {
        let (tool, version) = match name.split_once('@') {
            Some((tool, version)) => (tool, Some(version)),
            None => (name, None),
        };
        let withdrawn = self.engine.withdraw(by.clone(), tool, version, reason).await;
        withdrawn.map_err(|failure| told(failure, by))?;
        self.versions(tool)
    }

    /// What this process can make warm, by name.
    pub async fn resources(&self, by: &Caller) -> Answer<Page<Resource>> {
        self.reads(by)?;
        let mut items = Vec::new();
        for found in self.engine.resources() {
            items.push(self.resource_for(by, view::resource(found)).await?);
        }
        Ok(Page::whole(items))
    }

    /// The resource without runs of other namespaces; how many there are may be known.
    async fn resource_for(&self, by: &Caller, mut resource: Resource) -> Answer<Resource> {
        for runs in [&mut resource.lease_runs, &mut resource.waiting_runs] {
            let mut known = Vec::new();
            for run in runs.drain(..) {
                let row = self.engine.ledger().run(run).await.map_err(|error| unread(error, by))?;
                known.extend(row.filter(|row| row.namespace == by.principal.namespace).map(|row| row.id));
            }
            *runs = known;
        }
        Ok(resource)
    }

    /// Resets a contained resource. `changed` of the answer says whether it was contained.
    pub async fn reset_resource(&self, by: &Caller, name: &str) -> Answer<Resource> {
        let reset = self.engine.reset_resource(by, name).await;
        let changed = Some(reset.map_err(|failure| told(failure, by))?);
        let found = self.engine.resources().into_iter().find(|resource| resource.name == name);
        let resource = self.resource_for(by, found.map(view::resource).ok_or_else(not_found)?).await?;
        Ok(Resource { changed, ..resource })
    }

    /// Every queue, with how many runs wait in it.
    pub async fn queues(&self, by: &Caller) -> Answer<Page<Queue>> {
        self.reads(by)?;
        Ok(Page::whole(vec![self.queue(by, DEFAULT_QUEUE).await?]))
    }

    async fn queue(&self, by: &Caller, name: &str) -> Answer<Queue> {
        let ledger = self.engine.ledger();
        let queued = ledger.queued(name).await.map_err(|error| unread(error, by))?;
        let paused = view::run::shade(&Shared::Queue(name.to_owned()), &ledger.registry());
        let max_queued = self.engine.settings().max_queued;
        Ok(Queue { name: name.to_owned(), queued, max_queued, paused, changed: None })
    }

    /// Keeps every run of a queue from workers. `changed` of the answer says whether it was not paused before.
    pub async fn pause_queue(&self, by: &Caller, name: &str, reason: Option<&str>) -> Answer<Queue> {
        let paused = self.engine.pause_all(by.clone(), Shared::Queue(name.to_owned()), reason).await;
        let changed = paused.map_err(|failure| told(failure, by))?;
        Ok(Queue { changed: Some(changed), ..self.queue(by, name).await? })
    }

    /// Clears the pause of a queue, and no other.
    pub async fn resume_queue(&self, by: &Caller, name: &str) -> Answer<Queue> {
        let resumed = self.engine.resume_all(by.clone(), Shared::Queue(name.to_owned())).await;
        let changed = resumed.map_err(|failure| told(failure, by))?;
        Ok(Queue { changed: Some(changed), ..self.queue(by, name).await? })
    }

    /// Makes a token. The answer alone has its secret.
    pub async fn new_token(&self, by: &Caller, request: &NewToken) -> Answer<Token> {
        self.need(by, &[Right::Admin])?;
        let mut rights = Vec::new();
        for word in &request.rights {
            let right = word.parse::<Right>().map_err(|error| {
                let mut problem = invalid(format!("field `rights`: {error}"));
                problem.hint = Some(format!("known: {}", Right::ALL.map(Right::as_str).join(", ")));
                problem
            })?;
            rights.push(right);
        }
        let mint = MintToken {
            principal: request.principal.clone(),
            rights: (!rights.is_empty()).then(|| rights.into_iter().collect::<Rights>()),
            expires_at: request.expires_at,
        };
        let (row, secret) = self.engine.mint_token(by.clone(), mint).await.map_err(|failure| told(failure, by))?;
        Ok(Token { secret: Some(secret), ..self.drawn_token(&row) })
    }

    /// The tokens that the caller has a say in, newest first.
    pub async fn tokens(&self, by: &Caller, query: &ListQuery) -> Answer<Page<Token>> {
        self.need(by, &[Right::Admin])?;
        let limit = list::limit(query.limit)?;
        let registry = self.engine.ledger().registry();
        let seen = registry.tokens.values().rev().filter(|row| registry.keeps_tokens(&by.principal, &row.principal));
        let all: Vec<Token> = seen.map(|row| self.drawn_token(row)).collect();
        list::page_of(all, |token| token.id.to_string(), query.cursor.as_deref(), limit)
    }

    /// Revokes a token. `changed` of the answer says whether this request did.
    pub async fn revoke_token(&self, by: &Caller, id: TokenId) -> Answer<Token> {
        self.need(by, &[Right::Admin])?;
        let registry = self.engine.ledger().registry();
        let row = registry.tokens.get(&id).ok_or_else(not_found)?;
        if !registry.keeps_tokens(&by.principal, &row.principal) {
            return Err(not_found());
        }
        let changed = self.engine.revoke_token(by.clone(), id).await.map_err(|failure| told(failure, by))?;
        let registry = self.engine.ledger().registry();
        let row = registry.tokens.get(&id).ok_or_else(not_found)?;
        Ok(Token { changed: Some(changed), ..self.drawn_token(row) })
    }

    /// A token with the rights it works with now.
    fn drawn_token(&self, row: &registry::Token) -> Token {
        let whole = self.principal(&row.principal).map_or_else(Rights::none, |principal| principal.rights);
        let rights = row.rights.as_ref().map_or_else(|| whole.clone(), |rights| whole.and(rights));
        view::workflow::token(row, &rights)
    }

    /// Whether commands are taken (I-35, R-279).
    pub fn ready(&self, closing: bool) -> Ready {
        let ledger = self.engine.ledger();
        let reason = match closing {
            true => Some("this process is closing".to_owned()),
            false if ledger.ready() => None,
            false => Some(ledger.failure().unwrap_or_else(|| "the store takes no commands".to_owned())),
        };
        Ready {
            ready: reason.is_none(),
            recovering: self.engine.recovering(),
            reason,
            degraded: self.degraded(),
            lasting: self.facts.lasting,
            workers: self.facts.carries,
            config_digest: self.facts.config,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        }
    }

    /// In few words, since anybody who reaches the port may read it; the doctor has the rest.
    fn degraded(&self) -> Vec<String> {
        let resources = self.engine.resources().into_iter();
        let contained = resources.filter(|resource| matches!(resource.state, State::Contained { .. }));
        let mut found: Vec<String> =
            contained.map(|resource| format!("resource {} is contained", resource.name)).collect();
        match self.engine.ledger().registry().unreadable.len() {
            0 => {}
            1 => found.push("one row of the registry cannot be read".to_owned()),
            n => found.push(format!("{n} rows of the registry cannot be read")),
        }
        match self.engine.stuck_known() {
            0 => {}
            1 => found.push("one run cannot go on by itself".to_owned()),
            n => found.push(format!("{n} runs cannot go on by themselves")),
        }
        for (name, pass) in ["recovery", "expiry"].iter().zip(self.engine.passes()) {
            if let Some(errors) = pass.map(|pass| pass.errors).filter(|errors| *errors > 0) {
                found.push(format!("the last pass of {name} met {errors} errors"));
            }
        }
        found
    }

    /// What engine and ledger count, for `/metrics`.
    pub(crate) async fn gauges(&self) -> Vec<Gauge> {
        let ledger = self.engine.ledger();
        let ready = self.ready(false);
        let one = |name, help, kind, value: f64| Gauge { name, help, kind, values: vec![(Vec::new(), value)] };
        let guests = self.engine.guests();
        let resident = guests.iter().filter(|guest| guest.resident).count();
        let mut gauges = vec![
            Gauge {
                name: "stasis_build_info",
                help: "The version of this process.",
                kind: "gauge",
                values: vec![(vec![("version", ready.version.clone())], 1.0)],
            },
            one("stasis_ready", "Whether commands are taken.", "gauge", f64::from(u8::from(ready.ready))),
            one(
                "stasis_recovering",
                "Whether the first recovery pass is still to end.",
                "gauge",
                f64::from(u8::from(ready.recovering)),
            ),
            one("stasis_commits_total", "Transactions committed since the start.", "counter", ledger.commits() as f64),
            Gauge {
                name: "stasis_hops_total",
                help: "Hops that ended here, by what they answered.",
                kind: "counter",
                values: self
                    .engine
                    .hops()
                    .into_iter()
                    .map(|(answer, n)| (vec![("answer", answer.to_owned())], n as f64))
                    .collect(),
            },
            one("stasis_hops", "Hops that this process executes.", "gauge", guests.len() as f64),
            one("stasis_guests", "Guests that are alive in this process.", "gauge", resident as f64),
            one(
                "stasis_guest_slots_retired_total",
                "Places of guests that were not used again, since they could not be shown to be as the image is.",
                "counter",
                self.engine.retired_slots() as f64,
            ),
            one(
                "stasis_stuck_runs",
                "Runs of which this process knows that they cannot go on by themselves.",
                "gauge",
                self.engine.stuck_known() as f64,
            ),
        ];
        // Without an answer of the store these series are absent, which is what they say then.
        if let Ok(counts) = ledger.counts().await {
            let by_status =
                counts.statuses.iter().map(|(status, n)| (vec![("status", status.as_str().to_owned())], *n as f64));
            gauges.extend([
                Gauge { name: "stasis_runs", help: "Runs by status.", kind: "gauge", values: by_status.collect() },
                one(
                    "stasis_pending_approvals",
                    "Approvals that wait for a person.",
                    "gauge",
                    counts.pending_approvals as f64,
                ),
                one(
                    "stasis_ambiguous_calls",
                    "Calls of which nobody knows whether they happened.",
                    "gauge",
                    counts.ambiguous_calls as f64,
                ),
                one("stasis_debts", "Cleanups of ended runs that are still to be done.", "gauge", counts.debts as f64),
            ]);
        }
        gauges
    }
}

fn versions(registry: &Registry, name: &str) -> Vec<Tool> {
    let Some(versions) = registry.tools.get(name) else { return Vec::new() };
    let mut rows: Vec<&registry::Tool> = versions.values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.registered_at));
    let draw = |row: &registry::Tool| {
        let rule = registry.policy.tools.get(&row.spec.name).or(row.spec.approval.as_ref());
        view::workflow::tool(&row.spec, row.digest, rule, Some(row))
    };
    rows.into_iter().map(draw).collect()
}
