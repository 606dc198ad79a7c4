//! Reading the bodies of a call or an approval as an auditor (C-282): nothing changes, and the timeline of its run says who
//! looked.

use super::{Cx, Decision, admit::not_permitted, missing};
use crate::command::{Answer, Command, Opened, Read};
use crate::event::{Facts, Kind};
use crate::principal::Right;
use crate::rows::{Change, Rows};

pub(super) fn read(read: Read, rows: Box<Rows>, cx: &Cx<'_>) -> Decision {
    if rows.run.namespace != read.by.principal.namespace {
        return missing(&Command::Read(read)).into();
    }
    if !read.by.principal.can(Right::AuditRead) {
        return not_permitted(&read.by, Right::AuditRead).into();
    }
    let mut change = Change::of(rows, cx.now);
    let mut facts = Facts::new().with("principal", &read.by.principal.id).with("request", read.by.request);
    if let Some(reason) = read.reason {
        facts = facts.with("reason_digest", reason.body.digest);
        change.bodies.push(reason);
    }
    match read.opened {
        Opened::Approval(approval) => change.event(Kind::ApprovalRead, facts.with("approval", approval)),
        Opened::Call(call) => change.event(Kind::CallRead, facts.with("call", call)),
    }
    let run = Box::new(change.run().clone());
    Decision::done(change, Answer::Settled { run, changed: true, repaired: false })
}
