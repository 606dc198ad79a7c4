//! Workflows and their immutable revisions (workflows.md section 1, runs.md section 16).
//!
//! Owns: the manifest, its digest, and which revision of a key is active. A run pins one pattern at admission and
//! nothing routes it again.

use crate::digest::Digest;
use crate::json::Canonical;
use crate::run::{Kind, Settings};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The fields of a manifest that the digest covers (W-2); the rest stands in [`Pattern`] and [`Workflow`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `stasis.pattern.v1`.
    pub schema: String,
    pub key: String,
    pub kind: Kind,
    /// Digest of the program.
    pub source: Digest,
    pub input_schema: Canonical,
    pub output_schema: Canonical,
    /// Digest of the sealed plan.
    pub plan: Digest,
    pub engine: Option<String>,
    pub image: Option<Digest>,
    pub checkpoint_schema: String,
    pub roots: Vec<Digest>,
    pub resume: bool,
}

impl Manifest {
    pub const SCHEMA: &'static str = "stasis.pattern.v1";

    /// The pattern digest.
    pub fn digest(&self) -> Digest {
        Digest::record(self)
    }
}

/// One revision of a key: manifest + digest, never changed (R-345 says which one is active).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    pub id: crate::id::PatternId,
    pub revision: u32,
    pub digest: Digest,
    pub manifest: Manifest,
    pub title: Option<String>,
    pub registered_at: Time,
}

/// A named thing that can be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workflow {
    pub key: String,
    /// Revision that admits; none while every revision was registered inactive.
    pub active: Option<u32>,
    pub patterns: BTreeMap<u32, Pattern>,
    pub settings: Settings,
}

impl Workflow {
    pub fn active(&self) -> Option<&Pattern> {
        self.active.and_then(|revision| self.patterns.get(&revision))
    }

    pub fn by_digest(&self, digest: Digest) -> Option<&Pattern> {
        self.patterns.values().find(|pattern| pattern.digest == digest)
    }
}

/// Whether a text is a workflow key (W-1).
pub fn is_key(text: &str) -> bool {
    let body = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=128).contains(&text.len()) && text.as_bytes()[0].is_ascii_alphanumeric() && text.bytes().all(body)
}
