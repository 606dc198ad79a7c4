//! Answers as a journal keeps them, from which another process gives them again.

use protocol::time::Time;
use sandbox::{Answer, Outcome, Refusal, Replies, Reply};
use serde::{Deserialize, Serialize};

/// A request, and all that it was answered.
#[derive(Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) request: String,
    pub(crate) next: u64,
    now: i64,
    entropy: Option<[u8; 32]>,
    batch: bool,
    replies: Vec<Kept>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    n: u64,
    call: String,
    approval: Option<String>,
    edited: Option<String>,
    outcome: End,
}

#[derive(Serialize, Deserialize)]
enum End {
    Ok(String),
    Denied(Why),
    Error(Why),
}

#[derive(Serialize, Deserialize)]
struct Why {
    code: String,
    message: String,
    detail: Option<String>,
    applied: Option<bool>,
}

impl Told {
    pub(crate) fn of(request: &[u8], answer: Answer) -> Told {
        let Answer { now, entropy, next, replies } = answer;
        let (batch, replies) = match replies {
            Replies::One(reply) => (false, vec![reply]),
            Replies::Batch(replies) => (true, replies),
        };
        let request = String::from_utf8(request.to_vec()).expect("the guest sends UTF-8");
        Told { request, next, now: now.as_micros(), entropy, batch, replies: replies.into_iter().map(keep).collect() }
    }

    pub(crate) fn answer(&self) -> Answer {
        let mut replies: Vec<Reply> = self.replies.iter().map(give).collect();
        let replies = match self.batch {
            true => Replies::Batch(replies),
            false => Replies::One(replies.remove(0)),
        };
        Answer { now: Time::from_micros(self.now), entropy: self.entropy, next: self.next, replies }
    }
}

fn keep(reply: Reply) -> Kept {
    let why = |Refusal { code, message, detail, applied }| Why { code, message, detail, applied };
    let outcome = match reply.outcome {
        Outcome::Ok { result } => End::Ok(result),
        Outcome::Denied(refusal) => End::Denied(why(refusal)),
        Outcome::Error(refusal) => End::Error(why(refusal)),
    };
    Kept { n: reply.n, call: reply.call, approval: reply.approval, edited: reply.edited, outcome }
}

fn give(kept: &Kept) -> Reply {
    let refusal = |why: &Why| Refusal {
        code: why.code.clone(),
        message: why.message.clone(),
        detail: why.detail.clone(),
        applied: why.applied,
    };
    let outcome = match &kept.outcome {
        End::Ok(result) => Outcome::Ok { result: result.clone() },
        End::Denied(why) => Outcome::Denied(refusal(why)),
        End::Error(why) => Outcome::Error(refusal(why)),
    };
    Reply { n: kept.n, call: kept.call.clone(), approval: kept.approval.clone(), outcome, edited: kept.edited.clone() }
}
