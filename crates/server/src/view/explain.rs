//! Why a run is where it is, and what would move it (R-380), in words. Sentences tell whole seconds; the fields beside
//! them have the time as it is stored.

use super::run::{Parts, agent, clocks, due_at, held, job, obligation, owner_id, wait_kind, wait_name};
use api::Explain;
use api::explain::{Debt, ExplainedWait};
use api::run::PauseScope;
use protocol::approval::{Approval, Kind};
use protocol::id::JobId;
use protocol::limits::Limits;
use protocol::obligation::Subject;
use protocol::policy::OnExpiry;
use protocol::rows;
use protocol::run::{End, Phase, Run, Status, Stop};
use protocol::time::Time;
use protocol::wait::{Owner, Wait};

/// What explaining needs of the process beside the rows.
#[derive(Clone, Debug)]
pub(crate) struct Around<'a> {
    pub(crate) limits: &'a Limits,
    /// Whether a worker of this process carries runs.
    pub(crate) carries: bool,
    pub(crate) debts: Vec<rows::Debt>,
}

pub(crate) fn explain(row: &Run, parts: &Parts, around: &Around<'_>, now: Time) -> Explain {
    let mut open: Vec<&Wait> = parts.waits.iter().filter(|wait| wait.is_open()).collect();
    open.sort_by_key(|wait| (wait.since, wait.id));
    Explain {
        run: row.id,
        status: row.status(),
        since_at: row.since,
        why: why(row, parts, &open, around),
        next: next(row, parts, &open, around),
        moves: moves(row, parts, &open, around),
        paused: parts.pauses.clone(),
        waits: open.iter().map(|wait| explained(wait, parts)).collect(),
        clocks_ms: clocks(row, parts, now),
        obligations: parts.obligations.iter().map(|row| obligation(row, &parts.jobs)).collect(),
        debts: around.debts.iter().map(|debt| self::debt(*debt, row)).collect(),
    }
}

fn why(row: &Run, parts: &Parts, open: &[&Wait], around: &Around<'_>) -> String {
    if let Some(blocked) = &parts.blocked {
        return format!("It cannot go on by itself: {blocked}.");
    }
    match &row.phase {
        Phase::Queued { .. } if !parts.pauses.is_empty() => {
            format!("It is ready to go on, and no worker takes it: {}.", paused(parts))
        }
        Phase::Queued { .. } if !around.carries => "It is ready to go on, and nobody here carries runs.".to_owned(),
        Phase::Queued { .. } => "It is ready to go on and waits for a worker to take it.".to_owned(),
        Phase::Active { hardware: true, .. } => held_up(row, parts, around.limits),
        Phase::Active { .. } if !parts.pauses.is_empty() => {
            format!("It is pausing: {}; its hop goes on to the next safe place.", paused(parts))
        }
        Phase::Active { .. } => match open.len() {
            0 if parts.calls.iter().any(|call| call.in_flight()) => {
                "A worker executes it; a tool is at work.".to_owned()
            }
            0 => "A worker executes it.".to_owned(),
            _ => format!("A worker holds it while it waits for {}.", what(open, parts)),
        },
        Phase::Parked { .. } => format!("It is parked and waits for {}.", what(open, parts)),
        Phase::Stopping { end, .. } => {
            let kind = match end {
                Stop::Cancel { by } => format!("{by} cancelled it"),
                Stop::Fail(failure) => format!("it failed ({})", failure.code),
            };
            let held = parts.obligations.iter().filter(|o| o.is_open()).map(|o| subject(o.subject, parts));
            format!("{}; what has not stopped yet: {}.", upper(&kind), joined(held))
        }
        Phase::Final { end, at } => match end {
            End::Done { .. } => format!("It ended with a result at {}.", at.second()),
            End::Failed(failure) => format!("It failed at {}: {}.", at.second(), failure.message.trim_end_matches('.')),
            End::Cancelled { by } => format!("{by} cancelled it; it had stopped at {}.", at.second()),
        },
    }
}

/// `It waits in its worker until chat:small is warm, after 1 other change: request 2 of 8, 1 of 3 in a row.`
fn held_up(row: &Run, parts: &Parts, limits: &Limits) -> String {
    let made = &row.budget.hardware;
    let resource = held(row).unwrap_or("a resource");
    let line = match parts.place {
        Some(1) => ", after 1 other change".to_owned(),
        Some(place @ 2..) => format!(", after {place} other changes"),
        Some(0) | None => String::new(),
    };
    let (in_row, most_in_row) = (made.in_row(resource), limits.convergence_in_row);
    let (total, most) = (made.total, limits.convergence_calls);
    format!(
        "It waits in its worker until {resource} is warm{line}: request {total} of {most}, {in_row} of {most_in_row} in a row."
    )
}

/// Who paused what.
fn paused(parts: &Parts) -> String {
    joined(parts.pauses.iter().map(|pause| match pause.scope {
        PauseScope::Run => format!("{} paused it", pause.by),
        PauseScope::Workflow => format!("{} paused its workflow", pause.by),
        PauseScope::Queue => format!("{} paused its queue", pause.by),
    }))
}

fn next(row: &Run, parts: &Parts, open: &[&Wait], around: &Around<'_>) -> Option<String> {
    match &row.phase {
        Phase::Final { .. } => None,
        Phase::Queued { .. } | Phase::Active { .. } if !parts.pauses.is_empty() => {
            row.deadline.map(|deadline| format!("At {} its deadline ends it.", deadline.second()))
        }
        Phase::Queued { .. } => around.carries.then(|| "A worker of this process takes it.".to_owned()),
        Phase::Active { .. } if open.is_empty() => Some("It goes on to its next call or its end.".to_owned()),
        Phase::Stopping { .. } => Some("What has not stopped is asked again until it acknowledges.".to_owned()),
        Phase::Active { .. } | Phase::Parked { .. } => {
            let due = open
                .iter()
                .filter_map(|wait| Some((due_at(wait, parts)?, *wait)))
                .min_by_key(|(due, wait)| (*due, wait.id));
            due.map(|(due, wait)| match wait.owner {
                Owner::Timer(_) if around.carries => format!("At {} its timer ends and it goes on.", due.second()),
                Owner::Timer(_) => format!(
                    "At {} its timer ends; then a server, or `stasis run wait {}`, goes on with it.",
                    due.second(),
                    row.id
                ),
                Owner::Signal(_) => format!("At {} its wait ends.", due.second()),
                Owner::Job(_) => format!("At {} its job times out.", due.second()),
                Owner::Approval(id) => {
                    format!("At {} the question expires{}.", due.second(), approval(parts, id).map_or("", expiry))
                }
            })
        }
    }
}

fn expiry(approval: &Approval) -> &'static str {
    match approval.obligation.on_expiry {
        OnExpiry::Reject => ", which denies the call",
        OnExpiry::Fail => ", which fails the run",
        OnExpiry::Escalate => " and goes to further people",
    }
}

/// Commands that move it, as somebody would type them.
fn moves(row: &Run, parts: &Parts, open: &[&Wait], around: &Around<'_>) -> Vec<String> {
    let mut moves = Vec::new();
    if !row.status().is_final() && !row.status().is_stopping() {
        moves.extend(parts.pauses.iter().map(|pause| match pause.scope {
            PauseScope::Run => format!("stasis run resume {}", pause.name),
            PauseScope::Workflow => format!("stasis workflow resume {}", pause.name),
            PauseScope::Queue => format!("stasis queue resume {}", pause.name),
        }));
    }
    if row.status() == Status::Queued && parts.pauses.is_empty() && !around.carries {
        moves.push(format!("stasis run wait {}", row.id));
    }
    for wait in open {
        if let Owner::Signal(awaited) = &wait.owner {
            moves.extend(typed(&awaited.name).map(|name| format!("stasis signal {} --payload JSON {name}", row.id)));
        }
        if let Owner::Job(id) = wait.owner {
            let queued = parts.jobs.iter().find(|job| job.id == id && job.agent.is_none() && !job.is_ended());
            moves.extend(
                queued.and_then(|job| typed(&job.request.kind)).map(|kind| format!("stasis job claim --kind {kind}")),
            );
        }
        let Owner::Approval(id) = wait.owner else { continue };
        let Some(approval) = approval(parts, id) else { continue };
        if approval.kind() == Kind::Settle {
            for answer in ["--happened JSON", "--did-not-happen", "--give-up"] {
                moves.push(format!("stasis effect settle {} {answer} --reason TEXT", approval.call));
            }
        } else {
            moves.push(format!("stasis approve {id}"));
            moves.push(format!("stasis reject {id} --reason TEXT"));
        }
    }
    match row.status() {
        status if status.is_final() => {
            let open =
                parts.approvals.iter().filter(|approval| approval.kind() == Kind::Settle && approval.is_pending());
            moves.extend(
                open.map(|approval| format!("stasis effect settle {} --happened JSON --reason TEXT", approval.call)),
            );
            if status != Status::Done {
                moves.push(format!("stasis run start {} --input JSON", row.pattern.key));
            }
        }
        status if status.is_stopping() => {}
        _ => moves.push(format!("stasis run cancel {}", row.id)),
    }
    moves
}

/// A text that a program chose, as one word of a shell and no option; none if it cannot be typed. Somebody will paste it.
fn typed(text: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:/@%+=,-".contains(c);
    if text.chars().any(protocol::text::is_hidden) {
        return None;
    }
    let option = if text.starts_with('-') { "-- " } else { "" };
    if text.chars().all(plain) {
        return Some(format!("{option}{text}"));
    }
    Some(format!("{option}'{}'", text.replace('\'', r"'\''")))
}

fn explained(wait: &Wait, parts: &Parts) -> ExplainedWait {
    ExplainedWait {
        kind: wait_kind(&wait.owner),
        id: owner_id(wait),
        name: wait_name(wait, parts),
        since_at: wait.since,
        due_at: due_at(wait, parts),
        ended_by: match &wait.owner {
            Owner::Signal(awaited) => format!("a signal `{}`", awaited.name),
            Owner::Job(id) => ended_by_agent(parts, *id),
            Owner::Timer(_) => match wait.due_at {
                Some(due) => format!("its timer, at {}", due.second()),
                None => "its timer".to_owned(),
            },
            Owner::Approval(id) => approval(parts, *id).map_or_else(|| "a decision".to_owned(), decided_by),
        },
    }
}

/// `agent robot (w-1)`, or who may become it.
fn ended_by_agent(parts: &Parts, id: JobId) -> String {
    match agent(&parts.jobs, id) {
        Some(agent) => format!("agent {agent}"),
        None => {
            format!(
                "an agent that claims `{}`",
                job(&parts.jobs, id).map_or("its kind", |job| job.request.kind.as_str())
            )
        }
    }
}

/// `1 of 2 approvals by role finance, or its expiry (rejects)`.
fn decided_by(approval: &Approval) -> String {
    let rule = &approval.obligation;
    let roles = rule.roles.iter().map(|role| format!("role {role}"));
    let who = joined(roles.chain(rule.principals.iter().cloned()));
    let said = approval.tally().approve;
    let quorum = rule.quorum;
    let answers = if approval.kind() == Kind::Settle { "answers" } else { "approvals" };
    let left = quorum.saturating_sub(said);
    let count = if said == 0 { format!("{quorum}") } else { format!("{left} more of {quorum}") };
    let expiry = match (approval.expires_at, rule.on_expiry) {
        (None, _) => String::new(),
        (Some(_), OnExpiry::Reject) => ", or its expiry (rejects)".to_owned(),
        (Some(_), OnExpiry::Fail) => ", or its expiry (fails the run)".to_owned(),
        (Some(_), OnExpiry::Escalate) => ", or its expiry (escalates)".to_owned(),
    };
    let separate = if rule.separate_requester { " other than whoever started it" } else { "" };
    format!("{count} {answers} by {who}{separate}{expiry}")
}

fn approval(parts: &Parts, id: protocol::id::ApprovalId) -> Option<&Approval> {
    parts.approvals.iter().find(|approval| approval.id == id)
}

/// What is waited for, in a few words.
fn what(open: &[&Wait], parts: &Parts) -> String {
    // Equal ones are counted, in the order in which the first of them was asked.
    let mut counted: Vec<(Waited, usize)> = Vec::new();
    for wait in open {
        let waited = match &wait.owner {
            Owner::Timer(_) => Waited::Timer,
            Owner::Signal(awaited) => Waited::Signal(awaited.name.clone()),
            Owner::Job(_) => Waited::Job(wait_name(wait, parts).unwrap_or_else(|| "an agent".to_owned())),
            Owner::Approval(id) => {
                let name = wait_name(wait, parts).unwrap_or_else(|| "a call".to_owned());
                let settle = approval(parts, *id).is_some_and(|approval| approval.kind() == Kind::Settle);
                if settle { Waited::Word(name) } else { Waited::Approval(name) }
            }
        };
        match counted.iter_mut().find(|(known, _)| *known == waited) {
            Some((_, count)) => *count += 1,
            None => counted.push((waited, 1)),
        }
    }
    joined(counted.iter().map(|(waited, count)| waited.text(*count)))
}

/// What a wait is for.
#[derive(PartialEq, Eq, Debug)]
enum Waited {
    Timer,
    Approval(String),
    Signal(String),
    Job(String),
    Word(String),
}

impl Waited {
    fn text(&self, count: usize) -> String {
        match (self, count) {
            (Waited::Timer, 1) => "a timer".to_owned(),
            (Waited::Timer, n) => format!("{n} timers"),
            (Waited::Signal(name), 1) => format!("a signal `{name}`"),
            (Waited::Signal(name), n) => format!("{n} signals `{name}`"),
            (Waited::Job(name), 1) => format!("a job of {name}"),
            (Waited::Job(name), n) => format!("{n} jobs of {name}"),
            (Waited::Approval(name), 1) => format!("an approval of {name}"),
            (Waited::Approval(name), n) => format!("{n} approvals of {name}"),
            (Waited::Word(name), 1) => format!("word whether {name} happened"),
            (Waited::Word(name), n) => format!("word whether {n} calls of {name} happened"),
        }
    }
}

fn subject(subject: Subject, parts: &Parts) -> String {
    match subject {
        Subject::Hop(seq) => format!("hop {seq}"),
        Subject::Call(call) => format!("call {call}"),
        Subject::Job(id) => match agent(&parts.jobs, id) {
            Some(agent) => format!("job {id} of {agent}"),
            None => format!("job {id}"),
        },
    }
}

fn debt(debt: rows::Debt, row: &Run) -> Debt {
    let kind = match debt {
        rows::Debt::Checkpoint => "checkpoint",
        rows::Debt::Snapshot => "snapshot",
    };
    Debt { kind: kind.to_owned(), of: row.id.to_string(), attempts: 0, retry_at: None }
}

/// `a, b and c`; of many only the first few.
fn joined(parts: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 4;
    let mut all: Vec<String> = parts.collect();
    if all.len() > SHOWN {
        let rest = all.len() - (SHOWN - 1);
        all.truncate(SHOWN - 1);
        all.push(format!("{rest} others"));
    }
    match all.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_like_sentences() {
        let say = |n: usize| joined((1..=n).map(|i| i.to_string()));
        assert_eq!(say(0), "nothing");
        assert_eq!(say(1), "1");
        assert_eq!(say(3), "1, 2 and 3");
        assert_eq!(say(6), "1, 2, 3 and 3 others");
        assert_eq!(Waited::Approval("mail.send".into()).text(1), "an approval of mail.send");
        assert_eq!(Waited::Approval("mail.send".into()).text(3), "3 approvals of mail.send");
    }
}
