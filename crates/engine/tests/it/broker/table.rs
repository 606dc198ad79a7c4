//! The state machine of an approval (calls.md section 10.2): each event a person can make, in each state.

use super::{caller, open_with};
use crate::desk::{Desk, Setting, manual};
use crate::shop::{Reply, Shop};
use engine::{DecideRequest, Failure};
use protocol::approval::{Approval, Phase, Status, Verdict};
use protocol::code::Code;
use protocol::command::Decided;
use std::sync::atomic::Ordering;
use std::time::Duration;

const PEOPLE: &str = r#"
[[principal]]
id = "maria"
name = "Maria"
roles = ["finance"]

[[principal]]
id = "rita"
name = "Rita"
roles = ["finance"]

[[policy.rule]]
tool = "shop.pay"
outcome = "ask"
roles = ["finance"]
quorum = {quorum}
reject_quorum = {quorum}
lease = "1h"
"#;

/// The columns of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Pending,
    Open,
    Gated,
    Ended,
    Rejected,
    Expired,
    Cancelled,
}

const ALL: [State; 7] =
    [State::Pending, State::Open, State::Gated, State::Ended, State::Rejected, State::Expired, State::Cancelled];

/// An approval in this state. A pending one needs two people.
async fn in_state(state: State) -> (Desk, Shop, Approval) {
    let (setting, clock) = manual();
    let quorum = if state == State::Pending { "2" } else { "1" };
    let (desk, shop) = open_with(setting.clone(), &PEOPLE.replace("{quorum}", quorum)).await;
    if state == State::Gated {
        shop.tell("/pay", [Reply::Holds]);
    }
    let run = desk.run("shop.pay(n=1)", "{}").await;
    let id = desk.asked(run.id).await.id;
    let desk = if state == State::Open { desk.reopen(Setting { carry: false, ..setting }).await } else { desk };
    match state {
        State::Pending => {}
        State::Open | State::Gated | State::Ended => {
            say(&desk, id, "maria", Verdict::Approve, None).await.expect("approved");
        }
        State::Rejected => {
            say(&desk, id, "maria", Verdict::Reject, None).await.expect("rejected");
        }
        State::Expired => {
            clock.fetch_add(Duration::from_secs(3_600).as_micros() as i64, Ordering::SeqCst);
            crate::desk::eventually("expired", async || !desk.approval(id).await.is_pending()).await;
        }
        State::Cancelled => {
            desk.cancel(run.id).await;
        }
    }
    match state {
        State::Gated => shop.reached("/pay", 1).await,
        State::Ended | State::Rejected | State::Expired => drop(desk.ended(run.id).await),
        State::Pending | State::Open | State::Cancelled => {}
    }
    let approval = desk.approval(id).await;
    assert!(is(&approval.status, state), "{state:?}: {:?}", approval.status);
    (desk, shop, approval)
}

fn is(status: &Status, state: State) -> bool {
    match (status, state) {
        (Status::Approved { phase, .. }, State::Open) => matches!(phase, Phase::Open),
        (Status::Approved { phase, .. }, State::Gated) => matches!(phase, Phase::Gated { .. }),
        (Status::Approved { phase, .. }, State::Ended) => matches!(phase, Phase::Ended { .. }),
        (Status::Pending, State::Pending)
        | (Status::Rejected { .. }, State::Rejected)
        | (Status::Expired { .. }, State::Expired)
        | (Status::Cancelled { .. }, State::Cancelled) => true,
        _ => false,
    }
}

async fn say(
    desk: &Desk,
    id: protocol::id::ApprovalId,
    who: &str,
    verdict: Verdict,
    edit: Option<&str>,
) -> Result<Decided, Failure> {
    let request = DecideRequest { edit: edit.map(|text| text.as_bytes().to_vec()), ..desk.verdict(id, verdict).await };
    desk.decide_as(caller(desk, who), request).await
}

/// What a person can do to an approval: its rows of the table.
const EVENTS: [(&str, Verdict, Option<&str>); 4] = [
    ("approve", Verdict::Approve, None),
    ("reject", Verdict::Reject, None),
    ("edit", Verdict::Approve, Some(r#"{"n":2}"#)),
    ("abstain", Verdict::Abstain, None),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_event_moves_an_approval_that_was_decided() {
    for state in ALL.into_iter().filter(|state| *state != State::Pending) {
        let (desk, shop, before) = in_state(state).await;
        for (event, verdict, edit) in EVENTS {
            let refused = say(&desk, before.id, "rita", verdict, edit).await.expect_err(event);
            let Failure::Refused(refusal) = refused else { panic!("{state:?} {event}: {refused}") };
            let wanted = match state {
                State::Expired => Code::ApprovalExpired,
                State::Cancelled => Code::ApprovalCancelled,
                _ => Code::AlreadyDecided,
            };
            assert_eq!(refusal.code, wanted, "{state:?} {event}"); // C-146 C-147 C-149 C-150
            let after = desk.approval(before.id).await;
            assert!(is(&after.status, state), "{state:?} {event}: {:?}", after.status); // C-146 C-147 C-149
            assert_eq!((after.arguments, after.binding_digest), (before.arguments, before.binding_digest)); // C-149
        }
        let late = desk.approval(before.id).await.votes.iter().filter(|vote| vote.late).count();
        assert_eq!(late, usize::from(state == State::Expired), "{state:?}"); // C-148
        let started = matches!(state, State::Gated | State::Ended);
        assert_eq!(shop.seen("/pay").len(), usize::from(started), "{state:?}"); // C-289
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_approval_keeps_votes_until_there_are_enough() {
    let (desk, _, asked) = in_state(State::Pending).await;
    let one = say(&desk, asked.id, "maria", Verdict::Approve, None).await.expect("kept");
    assert_eq!((one.approval.tally().approve, one.approval.is_pending()), (1, true)); // C-146
    let abstained = say(&desk, asked.id, "rita", Verdict::Abstain, None).await.expect("kept");
    assert_eq!((abstained.approval.tally().abstain, abstained.approval.is_pending()), (1, true)); // C-150
    let edited = say(&desk, asked.id, "rita", Verdict::Approve, Some(r#"{"n":2}"#)).await.expect("edited");
    assert_eq!((edited.approval.binding.revision, edited.approval.tally().approve), (2, 1)); // C-149: Rita's alone
    assert!(edited.approval.is_pending()); // C-149
    assert_eq!(edited.approval.binding.tool_digest, asked.binding.tool_digest); // C-187
    assert_eq!((&edited.approval.binding.call, edited.approval.run), (&asked.binding.call, asked.run)); // C-187
    let no = say(&desk, asked.id, "maria", Verdict::Reject, None).await.expect("kept");
    assert_eq!((no.approval.tally().reject, no.approval.is_pending()), (1, true)); // C-146
    let two = say(&desk, asked.id, "maria", Verdict::Approve, None).await.expect("decided");
    assert!(matches!(two.approval.status, Status::Approved { .. }), "{:?}", two.approval.status); // C-147
    let run = desk.ended(asked.run).await;
    assert_eq!(desk.calls(run.id).await[0].arguments.digest, edited.approval.arguments.digest); // C-287
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_could_not_be_sent_is_refused_before_it_is_decided() {
    let tool = "
[[tool]]
name = \"shop.drop\"
version = \"1\"
effect = \"write\"
description = \"Drop one thing\"
input = { type = \"object\", required = [\"id\"], properties = { id = { type = \"string\" } } }
http = { method = \"DELETE\", url = \"http://127.0.0.1:9/things/{id}\" }
approval = { edit = \"yes\" }
";
    let (desk, _) = open_with(Setting::default(), tool).await;
    let run = desk.run("shop.drop(id='one')", "{}").await;
    let asked = desk.asked(run.id).await;
    for id in ["", ".", ".."] {
        let edit = format!(r#"{{"id":"{id}"}}"#);
        let refused = desk.decide_with(asked.id, Verdict::Approve, Some(&edit)).await.expect_err("no segment");
        let Failure::Refused(refusal) = refused else { panic!("{refused}") };
        assert_eq!(refusal.code, Code::EditRefused, "{id:?}"); // C-173
    }
    assert_eq!(desk.approval(asked.id).await.binding_digest, asked.binding_digest); // C-173
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_to_arguments_that_changed_after_they_were_shown_is_refused() {
    let (desk, shop, asked) = in_state(State::Pending).await;
    let shown = desk.verdict(asked.id, Verdict::Approve).await;
    say(&desk, asked.id, "rita", Verdict::Approve, Some(r#"{"n":9}"#)).await.expect("edited");
    let refused = desk.decide_as(caller(&desk, "maria"), shown).await.expect_err("another text was shown");
    let Failure::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.code, Code::ArgsDigestMismatch); // C-171
    assert_eq!(desk.approval(asked.id).await.tally().approve, 1);
    assert!(shop.seen("/pay").is_empty());
}
