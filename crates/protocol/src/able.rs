//! What a worker can run.
//!
//! A worker states it with every claim and is given nothing else, so that an old build never takes what it would then have
//! to refuse. What is stated is compared with a run's pin, under lock, by names and digests alone: no content is read.

use crate::digest::Digest;
use crate::registry::Registry;
use crate::run::{Kind, Run};
use crate::workflow::Pattern;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The statement of one worker; cloning shares it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Able {
    /// Whatever there is: in worlds with workers of one build.
    Everything,
    Stated(Arc<Abilities>),
}

/// What a worker has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Abilities {
    /// The guest engine, without which no script runs, and the images that it can open.
    pub engine: Option<String>,
    pub images: BTreeSet<Digest>,
    /// Schemas of the checkpoints that it reads, those from which its migrators lead included.
    pub formats: BTreeSet<String>,
    /// Key, revision and source of the workflows in Rust.
    pub code: BTreeSet<(String, u32, Digest)>,
}

impl Able {
    /// What this worker lacks for a run; nothing, if it can run it.
    pub fn lacks(&self, run: &Run, registry: &Registry) -> Option<String> {
        let Able::Stated(abilities) = self else { return None };
        let pin = &run.pattern;
        let found = registry.workflows.get(&pin.key).and_then(|workflow| workflow.patterns.get(&pin.revision));
        let Some(pattern) = found.filter(|pattern| pattern.digest == pin.digest) else {
            return Some("it is not stored".to_owned());
        };
        abilities.lack(pattern).or_else(|| {
            let header = run.checkpoint.as_ref()?;
            abilities.unread(&header.schema)
        })
    }
}

impl Abilities {
    /// What is lacking for any run of this pattern.
    pub fn lack(&self, pattern: &Pattern) -> Option<String> {
        let manifest = &pattern.manifest;
        let lack = match manifest.kind {
            Kind::Script => self.guest(manifest.engine.as_deref(), manifest.image),
            Kind::Rust => self.lack_code(&manifest.key, pattern.revision, manifest.source),
            Kind::Graph | Kind::Agent => {
                Some(format!("it is a {}, which this build does not run", manifest.kind.as_str()))
            }
        };
        lack.or_else(|| self.unread(&manifest.checkpoint_schema))
    }

    fn guest(&self, engine: Option<&str>, image: Option<Digest>) -> Option<String> {
        let Some(image) = image else { return Some("it names no guest image".to_owned()) };
        match (&self.engine, engine) {
            (None, _) => Some("there is no guest engine here".to_owned()),
            (Some(here), there) if there != Some(here) => {
                Some(format!("its guest engine is {}, here it is {here}", there.unwrap_or("none")))
            }
            (Some(_), _) if self.images.contains(&image) => None,
            (Some(_), _) => Some(format!("its guest image {image} is not here; put its file back into the cache")),
        }
    }

    fn lack_code(&self, key: &str, revision: u32, source: Digest) -> Option<String> {
        let here = self.code.iter().find(|(of, n, _)| of == key && *n == revision);
        match here {
            Some((_, _, digest)) if *digest == source => None,
            Some(_) => Some("this build has other code under that revision".to_owned()),
            None => Some("this build has no code of that revision".to_owned()),
        }
    }

    fn unread(&self, schema: &str) -> Option<String> {
        let known = self.formats.contains(schema);
        (!known).then(|| format!("its checkpoint schema {schema} is not known here"))
    }
}
