//! The configuration: `stasis.toml`, the environment over it, and the defaults under both (interfaces.md section 4).
//!
//! Owns the step from text to typed values with every fault told at once (I-47), and the source of every value. It opens
//! no store and resolves no secret: a secret is a name here. What a key means to others is theirs; what it may be is
//! judged here or by the type of `protocol` that it becomes.

mod agents;
mod audit;
mod document;
mod doubt;
mod example;
mod fault;
mod people;
mod plain;
mod policy;
mod reader;
mod resources;
pub mod script;
mod store;
mod tools;
mod tree;

use std::path::{Path, PathBuf};

use protocol::digest::Digest;
use protocol::limits::{Limits, WorkerSettings};
use protocol::policy::Policy;
use protocol::principal::Principal;

use crate::audit::AuditConfig;
use fault::Place;
use reader::{Reader, Section};
use tree::Table;

pub use agents::Agent;
pub use example::example;
pub use fault::{ConfigFaults, Fault};
pub use plain::{Guest, Server};
pub use reader::{Setting, Source};
pub use resources::Resource;
pub use store::Store;
pub use tools::ConfiguredTool;

/// The configuration in force.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which ledger.
    pub store: Store,
    /// Where its anchors go.
    pub audit: AuditConfig,
    /// The door.
    pub server: Server,
    /// Times and counts of this process.
    pub worker: WorkerSettings,
    /// Sizes, and counts of one run.
    pub limits: Limits,
    /// The guest image.
    pub guest: Guest,
    /// The policy, the tools' own rules in it.
    pub policy: Policy,
    /// In the order of the file.
    pub tools: Vec<ConfiguredTool>,
    /// In the order of the file.
    pub principals: Vec<Principal>,
    /// In the order of the file.
    pub resources: Vec<Resource>,
    /// In the order of the file.
    pub agents: Vec<Agent>,
    /// Of the text of the file, if there is one.
    pub digest: Option<Digest>,
    /// Every value in force with its source, for `stasis config check`.
    pub settings: Vec<Setting>,
    /// What is valid and probably not what was meant.
    pub doubts: Vec<Fault>,
}

/// Where a configuration comes from.
#[derive(Debug, Clone)]
pub struct Origin<'a> {
    /// The file; without one the defaults and the environment count.
    pub file: Option<&'a Path>,
    /// The data directory, where the ledger is unless the file says otherwise.
    pub data: &'a Path,
    /// Variables of the environment; those that begin with `STASIS__` override keys.
    pub environment: Vec<(String, String)>,
}

/// The environment of this process. Variables that are no UTF-8 cannot override anything.
pub fn process_environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

impl Config {
    /// Reads a configuration, or tells everything that is wrong with it.
    pub fn load(origin: &Origin<'_>) -> Result<Self, ConfigFaults> {
        let Some(file) = origin.file else { return Self::read("", "", Path::new("."), origin) };
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|error| {
            let place = Place { file: name.as_str().into(), line: None, column: None };
            ConfigFaults(vec![Fault::at(&place, "", format!("cannot be read: {error}"))])
        })?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Self::read(&name, &text, folder, origin)
    }

    /// Reads the text of a file; `folder` is where its relative paths start.
    pub fn read(name: &str, text: &str, folder: &Path, origin: &Origin<'_>) -> Result<Self, ConfigFaults> {
        let (mut root, mut faults) = tree::parse(name, text);
        tree::overlay(&mut root, origin.environment.iter().cloned(), &mut faults);
        let folder: PathBuf = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let reader = Reader::new(&folder, faults);
        let mut config = read_root(&reader, &root, name, origin.data);
        let faults = reader.faults();
        if !faults.is_empty() {
            return Err(ConfigFaults(faults));
        }
        config.digest = origin.file.map(|_| Digest::of(text));
        config.doubts = doubt::doubts(&root, &config, &folder, &origin.environment);
        Ok(config)
    }
}

/// Sections of I-60 that this version does not act on. Ignoring them would be a promise.
const NOT_YET: [&str; 5] = ["mcp", "model", "queue", "webhook", "telemetry"];

fn read_root(reader: &Reader, root: &Table, name: &str, data: &Path) -> Config {
    let section = Section::root(reader, root, Place { file: name.into(), line: Some(1), column: Some(1) });
    for key in NOT_YET {
        if section.get(key).is_some() {
            section.fault(key, "is known, but not available in this version");
        }
    }
    let store = store::read(&section, data);
    let audit = audit::read(&section, data);
    let server = section.section("server");
    let (worker, limits, guest) = (section.section("worker"), section.section("limits"), section.section("guest"));
    let (server_read, guest_read) = (plain::read(&server, &[]), read_guest(&guest));
    plain::check_public_url(&server, &server_read);
    let worker_read: WorkerSettings = plain::read(&worker, &[]);
    plain::judged(&worker, worker_read.check());
    let limits_read: Limits = plain::read(&limits, &[]);
    plain::judged(&limits, limits_read.check());
    let tools = tools::read(&section);
    let config = Config {
        store,
        audit,
        server: server_read,
        worker: worker_read,
        limits: limits_read,
        guest: guest_read,
        policy: policy::read(&section, &tools),
        tools,
        principals: people::read(&section),
        resources: resources::read(&section),
        agents: agents::read(&section),
        digest: None,
        settings: reader.settings(),
        doubts: Vec::new(),
    };
    section.finish();
    config
}

fn read_guest(section: &Section<'_>) -> Guest {
    let mut guest: Guest = plain::read(section, &["cold"]);
    // `cold` is both a switch and, as a table, the policy that belongs to it.
    if let Some(value) = section.get("cold") {
        if value.is_table() {
            value.fault("a tier policy is known, but not available in this version");
        } else if let Some(cold) = value.boolean() {
            guest.cold = cold;
        }
    }
    section.note("cold", guest.cold.to_string());
    plain::refuse_switches(section, &guest);
    guest.image = guest.image.map(|image| section.reader.folder.join(image));
    guest
}
