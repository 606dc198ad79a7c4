//! What `stasis audit` found.

use super::{relative, visible};
use api::audit::{AuditHead, Broken, VerifyAnswer};
use protocol::time::Time;
use std::fmt::Write as _;

pub(crate) fn head(head: &AuditHead, now: Time) -> String {
    let mut text = match (head.anchor, head.anchored_at) {
        (Some(n), Some(at)) => format!("anchor      {n}, {}\n", relative(at, now)),
        _ => "anchor      none yet\n".to_owned(),
    };
    if let Some(digest) = head.digest {
        let _ = writeln!(text, "digest      {digest}");
    }
    let _ = writeln!(text, "export      {}", visible(&head.export));
    if let Some(key) = &head.public_key {
        let _ = writeln!(text, "public key  {key}");
    }
    if let Some(behind) = &head.behind {
        let _ = writeln!(text, "behind      {}: nothing is claimed", visible(behind));
    }
    if let Some(error) = &head.last_error {
        let _ = writeln!(text, "last error  {}", visible(error));
    }
    text
}

pub(crate) fn verified(found: &VerifyAnswer, elsewhere: bool) -> String {
    let mut text = String::new();
    if let Some(broken) = &found.broken {
        let Broken { kind, field, expected, found, .. } = broken;
        let _ = writeln!(text, "broken      {}: {kind}", place(broken));
        let _ = writeln!(text, "field       {}", visible(field));
        let _ = writeln!(text, "expected    {}", visible(expected));
        let _ = writeln!(text, "found       {}", visible(found));
        return text;
    }
    let _ = writeln!(text, "{}, {}: every chain is whole", count(found.runs, "run"), count(found.events, "event"));
    match found.anchors {
        // C-280
        None | Some(0) => text.push_str(
            "no exported anchor: a chain rewritten as a whole, a cut tail or a missing run could not be seen\n",
        ),
        Some(n) => {
            let _ =
                writeln!(text, "{}: the ledger stands by {} in them", count(n, "anchor"), count(found.anchored, "run"));
            if !elsewhere {
                text.push_str("these anchors are beside the ledger: a copy kept elsewhere proves more (--anchors)\n");
            }
        }
    }
    text
}

fn count(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn place(broken: &Broken) -> String {
    match (broken.run, broken.anchor, broken.seq) {
        (Some(run), _, Some(seq)) => format!("{run}, number {seq}"),
        (Some(run), _, None) => run.to_string(),
        (None, Some(n), _) => format!("anchor {n}"),
        (None, None, _) => "the export".to_owned(),
    }
}
