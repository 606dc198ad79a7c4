//! Anchors: what the heads of the chains were, said outside the ledger, each naming the one before it.
//!
//! Whoever holds an export and the public key can tell a chain that was rewritten whole, a tail that was cut or a run that
//! is gone, whatever was done to the database since (C-277, R-361). There is no second chain of events: an anchor lists heads.

use super::{Break, BreakKind, Link};
use crate::digest::Digest;
use crate::id::RunId;
use crate::json;
use crate::run::Head;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// One anchor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    schema: Schema,
    /// From 1, without gaps.
    pub n: u64,
    pub at: Time,
    /// Digest of the anchor before it; `null` in the first.
    pub prev: Option<Digest>,
    /// First 16 hex digits of the SHA-256 of the public key that it is signed with.
    pub key: String,
    /// Runs that changed since the anchor before it.
    pub heads: Vec<AnchoredHead>,
    /// Runs that were kept long enough and removed since then.
    pub removed: Vec<RunId>,
    /// That the ledger stands behind earlier anchors, and goes on from here all the same.
    pub accepted: Option<Accepted>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Schema {
    #[serde(rename = "stasis.anchor.v1")]
    V1,
}

/// The head of one run's events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchoredHead {
    pub run: RunId,
    /// How many events it had.
    pub events: u32,
    /// Digest of the last of them.
    pub head: Digest,
}

/// An operator's word on a ledger that was restored from an old copy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    pub by: String,
    pub reason: String,
}

/// One line of an export.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    pub anchor: Anchor,
    /// Ed25519 over the canonical JSON of `anchor`, 128 hex digits.
    pub signature: String,
}

impl Anchor {
    /// The anchor after another one.
    pub fn after(last: Option<(u64, Digest)>, at: Time, key: &str) -> Anchor {
        Anchor {
            schema: Schema::V1,
            n: last.map_or(0, |(n, _)| n) + 1,
            at,
            prev: last.map(|(_, digest)| digest),
            key: key.to_owned(),
            heads: Vec::new(),
            removed: Vec::new(),
            accepted: None,
        }
    }

    /// What is signed, and what [`Anchor::digest`] is of.
    pub fn text(&self) -> String {
        json::to_canonical(self).expect("an anchor has text keys and whole numbers").as_str().to_owned()
    }

    pub fn digest(&self) -> Digest {
        Digest::of(self.text())
    }

    /// Whether it says anything.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.removed.is_empty() && self.accepted.is_none()
    }
}

impl Signed {
    /// The line without its end.
    pub fn line(&self) -> String {
        json::to_canonical(self).expect("an anchor has text keys and whole numbers").as_str().to_owned()
    }
}

/// What an export says of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anchored {
    /// The anchor that says it.
    pub n: u64,
    pub head: Head,
}

/// What the lines of an export say together, read in order.
#[derive(Default, Debug)]
pub struct Evidence {
    /// The newest head of each run.
    pub heads: HashMap<RunId, Anchored>,
    pub removed: HashSet<RunId>,
    /// Number, digest and time of the last anchor.
    pub last: Option<(u64, Digest, Time)>,
}

impl Evidence {
    /// Takes the next line. `verify` says whether a signature is one of the text by the key (C-277).
    ///
    /// # Errors
    /// The break in the chain of anchors itself.
    pub fn take(&mut self, line: &str, verify: impl FnOnce(&str, &str) -> bool) -> Result<(), Break> {
        let mut expected = self.last.map_or(0, |(n, ..)| n) + 1;
        let broken = |kind, field, expected: String, found: String, n| {
            Err(Break { at: Link::Anchor { n }, kind, field, expected, found })
        };
        let signed: Signed = match serde_json::from_str(line) {
            Ok(signed) => signed,
            Err(error) => {
                let wanted = "a signed anchor".to_owned();
                return broken(BreakKind::Altered, "line", wanted, error.to_string(), expected);
            }
        };
        let Signed { anchor, signature } = signed;
        let text = anchor.text();
        if !verify(&text, &signature) {
            let wanted = format!("a signature with key {}", anchor.key);
            return broken(BreakKind::BadSignature, "signature", wanted, signature, anchor.n);
        }
        // An export that was lost is begun anew with an operator's word, and not in silence.
        let anew = self.last.is_none() && anchor.accepted.is_some();
        if anew {
            expected = anchor.n;
        }
        if anchor.n != expected {
            let kind = if anchor.n > expected { BreakKind::Missing } else { BreakKind::Reordered };
            return broken(kind, "n", expected.to_string(), anchor.n.to_string(), expected);
        }
        let prev = self.last.map(|(_, digest, _)| digest);
        if anchor.prev != prev && !anew {
            let said = |digest: Option<Digest>| digest.map_or("null".to_owned(), |digest| digest.to_string());
            return broken(BreakKind::Altered, "prev", said(prev), said(anchor.prev), anchor.n);
        }
        self.last = Some((anchor.n, Digest::of(&text), anchor.at));
        if anchor.accepted.is_some() {
            // The ledger goes on from an old copy: what was said before no longer binds it. The lines stay.
            self.heads.clear();
            self.removed.clear();
        }
        for AnchoredHead { run, events, head } in anchor.heads {
            self.heads.insert(run, Anchored { n: anchor.n, head: Head { len: events, digest: head } });
        }
        self.removed.extend(anchor.removed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(text: &str) -> String {
        Digest::of(format!("secret {text}")).hex()
    }

    fn verify(text: &str, signature: &str) -> bool {
        sign(text) == signature
    }

    fn run(n: u64) -> RunId {
        RunId::mint(Time::from_millis(1_000), 0, n)
    }

    fn anchors(count: u64) -> Vec<String> {
        let mut last = None;
        let line = |n: u64| {
            let mut anchor = Anchor::after(last, Time::from_millis(n as i64), "k");
            let run = run(n % 2);
            anchor.heads.push(AnchoredHead { run, events: n as u32, head: Digest::of(n.to_le_bytes()) });
            last = Some((anchor.n, anchor.digest()));
            Signed { signature: sign(&anchor.text()), anchor }.line()
        };
        (1..=count).map(line).collect()
    }

    fn read(lines: &[String]) -> Result<Evidence, Break> {
        let mut evidence = Evidence::default();
        lines.iter().try_for_each(|line| evidence.take(line, verify))?;
        Ok(evidence)
    }

    #[test]
    fn each_anchor_names_the_one_before_it_and_the_newest_head_of_a_run_counts() {
        let evidence = read(&anchors(5)).unwrap();
        assert_eq!(evidence.last.unwrap().0, 5); // C-276
        let of = |n| evidence.heads[&run(n)];
        assert_eq!((of(1).n, of(1).head.len, of(0).n), (5, 5, 4));
    }

    #[test]
    fn an_export_that_was_changed_breaks_where_it_was() {
        let lines = anchors(4);
        let without = |n: usize| [&lines[..n], &lines[n + 1..]].concat();
        let broken = read(&without(1)).unwrap_err();
        assert_eq!((broken.at, broken.kind, broken.field), (Link::Anchor { n: 2 }, BreakKind::Missing, "n")); // C-279
        let mut swapped = lines.clone();
        swapped.swap(2, 3);
        assert_eq!(read(&swapped).unwrap_err().at, Link::Anchor { n: 3 }); // C-279
        let twice = [&lines[..2], &lines[1..]].concat();
        assert_eq!(read(&twice).unwrap_err().kind, BreakKind::Reordered); // C-279
        let mut altered = lines.clone();
        altered[2] = altered[2].replace("\"events\":3", "\"events\":2");
        let broken = read(&altered).unwrap_err();
        assert_eq!((broken.at, broken.kind), (Link::Anchor { n: 3 }, BreakKind::BadSignature)); // C-279
        let torn = [lines[0].clone(), lines[1][..40].to_owned()];
        assert_eq!(read(&torn).unwrap_err().field, "line");
    }

    #[test]
    fn what_an_operator_accepts_is_said_in_the_chain_and_ends_what_bound_before() {
        let lines = anchors(3);
        let before = read(&lines).unwrap();
        let (n, digest, _) = before.last.unwrap();
        let mut anchor = Anchor::after(Some((n, digest)), Time::from_millis(9), "k");
        anchor.accepted = Some(Accepted { by: "ana".into(), reason: "the disk died".into() });
        assert!(!anchor.is_empty());
        let line = Signed { signature: sign(&anchor.text()), anchor }.line();
        assert!(line.contains("the disk died"));
        let after = read(&[lines, vec![line]].concat()).unwrap();
        assert!(after.heads.is_empty());
        assert_eq!(after.last.unwrap().0, 4);
    }

    #[test]
    fn an_export_begins_with_the_first_anchor_or_with_a_word_that_it_begins_anew() {
        let lines = anchors(3);
        assert_eq!(read(&lines[2..]).unwrap_err().kind, BreakKind::Missing); // C-279
        let (n, digest, _) = read(&lines).unwrap().last.unwrap();
        let mut anchor = Anchor::after(Some((n, digest)), Time::from_millis(9), "k");
        anchor.accepted = Some(Accepted { by: "ana".into(), reason: "the vault burned down".into() });
        let line = Signed { signature: sign(&anchor.text()), anchor }.line();
        assert_eq!(read(&[line]).unwrap().last.unwrap().0, 4);
    }
}
