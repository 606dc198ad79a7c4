//! The durable permission for one hop (runs.md section 4).
//!
//! Owns: the state of the one delivery that may be live. A delivery exists only while its run is QUEUED; once claimed
//! it is the claim on the run row, and once settled it stands in the events alone.

use crate::time::Time;
use serde::{Deserialize, Serialize};

/// A delivery that has not been claimed. Its key is `run:<run_id>:<seq>`; queue and priority are the run's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    pub state: State,
    pub mode: Mode,
    pub cause: Cause,
    /// When it became claimable; orders equal priorities.
    pub ready_at: Time,
    /// Not tried before this; a blocked row moves back.
    pub retry_at: Time,
    pub attempts: u32,
    pub last_error: Option<String>,
}

/// Claimable states. HELD admissions do not exist in this version (docs/spec/deferred.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Pending,
    Published,
}

/// `Resume` if and only if the run names a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Fresh,
    Resume,
}

/// Why the delivery exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Admission,
    Return,
    HandBack,
    Recovery,
    Rotation,
}

impl Cause {
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::Admission => "admission",
            Cause::Return => "return",
            Cause::HandBack => "hand_back",
            Cause::Recovery => "recovery",
            Cause::Rotation => "rotation",
        }
    }
}
