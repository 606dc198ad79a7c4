//! Why a host does not start (I-47): the code, what was found, and what to do about it.

use crate::service::failure::{NO_IMAGE, RESTORED};
use crate::service::problem::with_hint;
use api::{Fault, Problem};
use engine::config::ConfigFaults;
use protocol::code::Code;
use std::net::SocketAddr;
use std::path::PathBuf;
use store::OpenError;

/// Nothing was changed but what its variant says.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Every fault of the configuration.
    #[error("the configuration is not valid: {0}")]
    Config(ConfigFaults),
    /// Another process has the store open (I-18).
    #[error("the store is in use{}", .pid.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Locked { pid: Option<u32> },
    /// A command that only reads found no store; nothing was made.
    #[error("there is no store in {}", .data.display())]
    Absent { data: PathBuf },
    #[error(transparent)]
    Store(OpenError),
    #[error("{}: {error}", .path.display())]
    Folder { path: PathBuf, error: std::io::Error },
    #[error("cannot listen on {address}: {}", in_use(.error))]
    Listen { address: SocketAddr, error: std::io::Error },
    /// A command that carries a run to its next stop cannot; what waits goes on waiting.
    #[error("no run can be carried here: {why}")]
    Image { why: String },
    /// The ledger is older than what it has exported; a server starts, and claims nothing.
    #[error("the ledger was restored from an old copy, and no run is carried: {why}")]
    Restored { why: String },
    #[error(transparent)]
    Engine(#[from] engine::StartError),
    /// The configuration was read but could not be put in force; the one before stays.
    #[error("the configuration cannot be applied: {0}")]
    Apply(engine::Failure),
}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> StartError {
        match error {
            OpenError::Locked { holder, .. } => StartError::Locked { pid: holder },
            other => StartError::Store(other),
        }
    }
}

impl StartError {
    pub fn code(&self) -> Code {
        match self {
            StartError::Config(_) => Code::ConfigInvalid,
            StartError::Locked { .. } => Code::StoreLocked,
            StartError::Absent { .. } => Code::StoreAbsent,
            StartError::Store(error) => error.code(),
            StartError::Folder { .. } => Code::StoreUnavailable,
            StartError::Image { .. } => Code::ImageUnavailable,
            StartError::Restored { .. } => Code::StoreUnavailable,
            StartError::Listen { error, .. } if error.kind() == std::io::ErrorKind::AddrInUse => Code::AddressInUse,
            StartError::Listen { .. } => Code::ConfigInvalid,
            StartError::Engine(_) => Code::Internal,
            StartError::Apply(engine::Failure::Refused(refusal)) => refusal.code,
            StartError::Apply(_) => Code::StoreUnavailable,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            StartError::Config(_) => "`stasis config example` prints every key with its default".to_owned(),
            StartError::Locked { .. } => "stop that process, or use another data directory with --data".to_owned(),
            StartError::Absent { .. } => "--data names the data directory; `stasis run FILE` makes one".to_owned(),
            StartError::Store(error) => error.hint().to_owned(),
            StartError::Folder { .. } => "check that the directory is there, ours, and has room".to_owned(),
            StartError::Listen { address, .. } => {
                format!(
                    "`ss -ltnp` shows who has port {}; --listen takes another address, as 127.0.0.1:0 any free port",
                    address.port()
                )
            }
            StartError::Image { .. } => NO_IMAGE.to_owned(),
            StartError::Restored { .. } => RESTORED.to_owned(),
            StartError::Engine(_) => "the system refuses threads: look at its limits".to_owned(),
            StartError::Apply(engine::Failure::Refused(refusal)) => refusal
                .hint
                .clone()
                .unwrap_or_else(|| "`stasis config check` shows every setting with its source".to_owned()),
            StartError::Apply(_) => "`stasis doctor` checks the store".to_owned(),
        }
    }

    /// As the command line prints it. Statuses are those that give the exit codes of I-47.
    pub fn problem(&self) -> Problem {
        let mut problem = *with_hint(self.code(), self.to_string(), self.hint());
        match self {
            StartError::Config(faults) => {
                problem.status = 422;
                problem.detail = match faults.0.len() {
                    1 => "the configuration is not valid".to_owned(),
                    n => format!("the configuration is not valid: {n} faults"),
                };
                problem.errors = faults.0.iter().map(fault).collect();
            }
            StartError::Absent { .. } => problem.status = 404,
            StartError::Locked { .. } => problem.status = 503,
            _ => {}
        }
        problem
    }
}

/// The one reason that people meet, in words.
fn in_use(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "another process listens there".to_owned(),
        _ => error.to_string(),
    }
}

fn fault(fault: &engine::config::Fault) -> Fault {
    Fault {
        code: Some(Code::ConfigInvalid.as_str().to_owned()),
        message: fault.message.clone(),
        file: Some(fault.file.clone()),
        line: fault.line.map(u64::from),
        column: fault.column.map(u64::from),
        key: (!fault.key.is_empty()).then(|| fault.key.clone()),
        suggestion: fault.hint.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_error_has_its_code_and_says_what_to_do() {
        let locked = StartError::from(OpenError::Locked { path: "x/lock".into(), holder: Some(7) });
        assert_eq!(locked.code(), Code::StoreLocked); // I-47
        assert!(locked.to_string().contains("process 7")); // I-18
        let absent = StartError::Absent { data: "d".into() };
        assert_eq!((absent.problem().code.as_str(), absent.problem().status), ("store_absent", 404)); // I-47
        let mut faults = vec![];
        for key in ["server.listen", "worker.claim_tll"] {
            faults.push(engine::config::Fault {
                file: "stasis.toml".to_owned(),
                line: Some(3),
                column: Some(1),
                key: key.to_owned(),
                message: "wrong".to_owned(),
                hint: None,
            });
        }
        let invalid = StartError::Config(ConfigFaults(faults)).problem();
        assert_eq!((invalid.code.as_str(), invalid.status), ("config_invalid", 422)); // I-47
        assert_eq!(invalid.errors.len(), 2); // I-47
        let first = &invalid.errors[0];
        assert_eq!(
            (first.key.as_deref(), first.file.as_deref(), first.line),
            (Some("server.listen"), Some("stasis.toml"), Some(3))
        ); // I-47
        let damaged = StartError::from(OpenError::Damaged { path: "s.db".into(), why: "page 3".into() });
        assert!(damaged.problem().detail.contains("s.db") && damaged.problem().hint.is_some()); // I-47
    }
}
