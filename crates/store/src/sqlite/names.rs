//! What many rows share, stored once and named by a small number: pins, requesters, tools, rules, words.
//!
//! Owns the five tables and a copy of what was read of them. Their rows never change, so a copy is never stale; only a
//! rolled back transaction can take a number away, and the writer then forgets its copy.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use protocol::digest::Digest;
use protocol::json;
use protocol::policy::Obligation;
use protocol::run::{Kind, PatternRef, Requester, Run, Settings};
use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{Malformed, Reader, Writer};
use super::fault::{Fault, Fields, number};
use crate::error::Corrupt;
use protocol::call::ToolRef;

/// What a run took at its admission from the workflow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pin {
    pub(super) namespace: String,
    pub(super) pattern: PatternRef,
    pub(super) kind: Kind,
    pub(super) plan: Digest,
    pub(super) queue: String,
    pub(super) settings: Settings,
}

/// An obligation and the digest that bindings name it by.
pub(super) struct Rule {
    pub(super) digest: Digest,
    pub(super) obligation: Arc<Obligation>,
}

/// The copies of one connection, or of all readers together.
#[derive(Default)]
pub(crate) struct Names {
    pins: Copies<Vec<u8>, Pin>,
    requesters: Copies<Requester, Requester>,
    tools: Copies<ToolRef, ToolRef>,
    rules: Copies<Digest, Rule>,
    words: Copies<String, String>,
}

/// A map that is looked into several times a command, by keys that people chose and that are longer than one word.
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Both directions of one table.
struct Copies<K, V>(Mutex<Known<K, V>>);

struct Known<K, V> {
    by_number: Map<i64, Arc<V>>,
    numbers: Map<K, i64>,
}

/// Copies kept of one table; past it they are read again, so that memory does not grow with the ledger.
const COPIES: usize = 16_384;

impl<K, V> Default for Copies<K, V> {
    fn default() -> Self {
        Copies(Mutex::new(Known { by_number: Map::default(), numbers: Map::default() }))
    }
}

impl<K: Hash + Eq, V> Copies<K, V> {
    fn known(&self) -> std::sync::MutexGuard<'_, Known<K, V>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn value(&self, n: i64, read: impl FnOnce() -> Result<V, Fault>) -> Result<Arc<V>, Fault> {
        if let Some(value) = self.known().by_number.get(&n) {
            return Ok(Arc::clone(value));
        }
        let value = Arc::new(read()?);
        let mut known = self.known();
        if known.by_number.len() >= COPIES {
            known.by_number.clear();
        }
        known.by_number.insert(n, Arc::clone(&value));
        Ok(value)
    }

    fn number<Q>(&self, key: &Q, write: impl FnOnce() -> Result<i64, Fault>) -> Result<i64, Fault>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(n) = self.known().numbers.get(key) {
            return Ok(*n);
        }
        let n = write()?;
        let mut known = self.known();
        if known.numbers.len() >= COPIES {
            known.numbers.clear();
        }
        known.numbers.insert(key.to_owned(), n);
        Ok(n)
    }

    fn forget(&self) {
        let mut known = self.known();
        known.by_number.clear();
        known.numbers.clear();
    }
}

pub(super) const KINDS: [Kind; 4] = [Kind::Script, Kind::Graph, Kind::Agent, Kind::Rust];

impl Names {
    /// After a rollback: numbers given out in it may be given out again.
    pub(super) fn forget(&self) {
        self.pins.forget();
        self.requesters.forget();
        self.tools.forget();
        self.rules.forget();
        self.words.forget();
    }

    pub(super) fn pin(&self, db: &Connection, n: i64) -> Result<Arc<Pin>, Fault> {
        self.pins.value(n, || {
            one(
                db,
                "pin",
                n,
                "SELECT namespace, workflow, revision, pattern, kind, plan, queue, settings FROM pin WHERE n = ?1",
                |f| {
                    Ok(Pin {
                        namespace: f.text("namespace")?.to_owned(),
                        pattern: PatternRef {
                            key: f.text("workflow")?.to_owned(),
                            revision: f.uint("revision")?,
                            digest: f.digest("pattern")?,
                        },
                        kind: f.one_of("kind", &KINDS)?,
                        plan: f.digest("plan")?,
                        queue: f.text("queue")?.to_owned(),
                        settings: {
                            let bytes = f.blob("settings")?;
                            f.packed(bytes, "settings", SETTINGS, read_settings)?
                        },
                    })
                },
            )
        })
    }

    pub(super) fn pin_number(&self, db: &Connection, run: &Run) -> Result<i64, Fault> {
        let settings = write_settings(&run.settings);
        let mut key = Writer::with_capacity(256);
        key.text(&run.namespace).text(&run.pattern.key).uint(run.pattern.revision).digest(run.pattern.digest);
        key.uint(number(&run.kind, &KINDS) as u64).digest(run.plan).text(&run.queue).fixed(&settings);
        self.pins.number(&key.done()[..], || {
            let values = params![
                run.namespace,
                run.pattern.key,
                run.pattern.revision,
                run.pattern.digest.as_bytes(),
                number(&run.kind, &KINDS),
                run.plan.as_bytes(),
                run.queue,
                settings,
            ];
            intern(
                db,
                "SELECT n FROM pin WHERE namespace = ?1 AND workflow = ?2 AND revision = ?3 AND pattern = ?4 AND kind = ?5
                 AND plan = ?6 AND queue = ?7 AND settings = ?8",
                "INSERT INTO pin (namespace, workflow, revision, pattern, kind, plan, queue, settings)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                values,
            )
        })
    }

    pub(super) fn requester(&self, db: &Connection, n: i64) -> Result<Arc<Requester>, Fault> {
        self.requesters.value(n, || {
            one(db, "requester", n, "SELECT subject, acts_for FROM requester WHERE n = ?1", |f| {
                let subject = f.text("subject")?.to_owned();
                let acts_for = f.text("acts_for")?;
                Ok(Requester { subject, acts_for: (!acts_for.is_empty()).then(|| acts_for.to_owned()) })
            })
        })
    }

    pub(super) fn requester_number(&self, db: &Connection, requester: &Requester) -> Result<i64, Fault> {
        self.requesters.number(requester, || {
            intern(
                db,
                "SELECT n FROM requester WHERE subject = ?1 AND acts_for = ?2",
                "INSERT INTO requester (subject, acts_for) VALUES (?1, ?2)",
                params![requester.subject, requester.acts_for.as_deref().unwrap_or_default()],
            )
        })
    }

    pub(super) fn tool(&self, db: &Connection, n: i64) -> Result<Arc<ToolRef>, Fault> {
        self.tools.value(n, || {
            one(db, "tool_ref", n, "SELECT name, version, digest FROM tool_ref WHERE n = ?1", |f| {
                Ok(ToolRef {
                    name: f.text("name")?.to_owned(),
                    version: f.text("version")?.to_owned(),
                    digest: f.digest("digest")?,
                })
            })
        })
    }

    pub(super) fn tool_number(&self, db: &Connection, tool: &ToolRef) -> Result<i64, Fault> {
        self.tools.number(tool, || {
            intern(
                db,
                "SELECT n FROM tool_ref WHERE name = ?1 AND version = ?2 AND digest = ?3",
                "INSERT INTO tool_ref (name, version, digest) VALUES (?1, ?2, ?3)",
                params![tool.name, tool.version, tool.digest.as_bytes()],
            )
        })
    }

    pub(super) fn rule(&self, db: &Connection, n: i64) -> Result<Arc<Rule>, Fault> {
        self.rules.value(n, || {
            one(db, "rule", n, "SELECT digest, document FROM rule WHERE n = ?1", |f| {
                let digest = f.digest("digest")?;
                let document = f.text("document")?;
                let obligation = serde_json::from_str(document).map_err(|error| f.corrupt("document", error))?;
                Ok(Rule { digest, obligation: Arc::new(obligation) })
            })
        })
    }

    /// `digest` must be the obligation's own, as its binding says.
    pub(super) fn rule_number(&self, db: &Connection, digest: Digest, rule: &Obligation) -> Result<i64, Fault> {
        self.rules.number(&digest, || {
            let document = json::to_canonical(rule).map_err(|error| Fault::Broken(error.to_string()))?;
            if document.digest() != digest {
                return Err(Fault::Broken(format!("an obligation is bound as {digest} and is {}", document.digest())));
            }
            intern(
                db,
                "SELECT n FROM rule WHERE digest = ?1 AND document = ?2",
                "INSERT INTO rule (digest, document) VALUES (?1, ?2)",
                params![digest.as_bytes(), document.as_str()],
            )
        })
    }

    pub(super) fn word(&self, db: &Connection, n: i64) -> Result<Arc<String>, Fault> {
        self.words
            .value(n, || one(db, "word", n, "SELECT text FROM word WHERE n = ?1", |f| Ok(f.text("text")?.to_owned())))
    }

    pub(super) fn word_number(&self, db: &Connection, word: &str) -> Result<i64, Fault> {
        self.words.number(word, || {
            intern(db, "SELECT n FROM word WHERE text = ?1", "INSERT INTO word (text) VALUES (?1)", params![word])
        })
    }
}

fn one<T>(
    db: &Connection,
    table: &'static str,
    n: i64,
    sql: &str,
    read: impl FnOnce(&mut Fields<'_>) -> Result<T, Box<Corrupt>>,
) -> Result<T, Fault> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([n])?;
    match rows.next()? {
        Some(row) => {
            let mut fields = Fields::new(row, table);
            fields.keyed(n);
            Ok(read(&mut fields)?)
        }
        None => {
            let why = "a row names it, and it is not there".to_owned();
            Err(Fault::Corrupt(Box::new(Corrupt { table, key: n.to_string(), field: "n", why })))
        }
    }
}

fn intern(db: &Connection, find: &str, add: &str, values: &[&dyn rusqlite::ToSql]) -> Result<i64, Fault> {
    let found = db.prepare_cached(find)?.query_row(values, |row| row.get(0)).optional()?;
    match found {
        Some(n) => Ok(n),
        None => Ok(db.prepare_cached(add)?.insert(values)?),
    }
}

pub(super) const SETTINGS: u8 = 1;

pub(super) fn write_settings(settings: &Settings) -> Vec<u8> {
    let Settings { active_limit_us, memory_bytes, max_calls, not_after, resume, separate_requester } = *settings;
    let mut writer = Writer::with_capacity(32);
    writer.byte(SETTINGS).uint(active_limit_us).uint(memory_bytes).uint(max_calls);
    writer.maybe(not_after, |w, at| w.time(at));
    writer.flag(resume).flag(separate_requester);
    writer.done()
}

pub(super) fn read_settings(reader: &mut Reader<'_>) -> Result<Settings, Malformed> {
    Ok(Settings {
        active_limit_us: reader.uint()?,
        memory_bytes: reader.uint()?,
        max_calls: reader.u32()?,
        not_after: reader.maybe(Reader::time)?,
        resume: reader.flag()?,
        separate_requester: reader.flag()?,
    })
}
