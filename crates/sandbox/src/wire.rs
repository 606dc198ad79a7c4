//! What a guest is given: its start and its answers, and the frames in which they travel.
//!
//! A frame is a head that the guest's shim applies before any Python code runs (time, next call number, entropy; W-248) and
//! then JSON for the package `stasis`. Only what comes from the caller goes in; nothing is read back from a guest here.

use std::collections::BTreeMap;

use protocol::time::Time;
use serde::Serialize;
use serde_json::value::RawValue;

/// The bytes before a frame's JSON: `now`, next call number, whether entropy counts, entropy. `guest.c` has the same number.
const HEAD_BYTES: usize = 8 + 8 + 1 + 32;

/// A program and all it starts from. Equal programs given equal answers do equal things (W-153..W-156).
#[derive(Debug, Clone)]
pub struct Program {
    /// The name of its file, as tracebacks show it: `refund.py`.
    pub name: String,
    pub source: String,
    /// JSON text.
    pub inputs: String,
    /// The functions of its plan. Others do not exist for it (W-260).
    pub tools: Vec<Tool>,
    pub now: Time,
    /// The seed of its random stream until an answer brings another (W-154).
    pub entropy: [u8; 32],
    /// The number of its first call.
    pub next: u64,
}

/// A function that a program can call.
#[derive(Debug, Clone)]
pub struct Tool {
    /// `<module>.<function>`.
    pub name: String,
    /// What the program's `help()` shows.
    pub description: String,
}

/// The answer to one request (C-90).
#[derive(Debug, Clone)]
pub struct Answer {
    /// What every clock of the guest shows until the next answer.
    pub now: Time,
    /// Given with the first answer of a hop: the random stream starts anew from it (W-154, W-248).
    pub entropy: Option<[u8; 32]>,
    /// The number that the guest's next request must carry (C-60).
    pub next: u64,
    pub replies: Replies,
}

/// One reply, or one for each call of a batch in its order. A batch that is refused as a whole has one reply.
#[derive(Debug, Clone)]
pub enum Replies {
    One(Reply),
    Batch(Vec<Reply>),
}

/// How one call ended.
#[derive(Debug, Clone)]
pub struct Reply {
    pub n: u64,
    /// The call's identity, as `stasis.last()` shows it.
    pub call: String,
    pub approval: Option<String>,
    pub outcome: Outcome,
    /// The effective arguments, as JSON text, where an approver edited them (W-147).
    pub edited: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Outcome {
    /// The result as JSON text.
    Ok {
        result: String,
    },
    /// Nothing ran, and nothing will (C-88).
    Denied(Refusal),
    Error(Refusal),
}

#[derive(Debug, Clone)]
pub struct Refusal {
    /// The wire code. It chooses the Python class (W-138..W-144).
    pub code: String,
    pub message: String,
    /// JSON text.
    pub detail: Option<String>,
    /// Whether the effect took place, where that is known (C-120).
    pub applied: Option<bool>,
}

/// A text that should be JSON and is not.
#[derive(Debug, thiserror::Error)]
#[error("{field} is not JSON: {source}")]
pub struct NotJson {
    field: &'static str,
    source: serde_json::Error,
}

#[derive(Serialize)]
struct StartBody<'a> {
    name: &'a str,
    source: &'a str,
    inputs: &'a RawValue,
    modules: BTreeMap<&'a str, BTreeMap<&'a str, &'a str>>,
}

#[derive(Serialize)]
struct CheckBody<'a> {
    name: &'a str,
    source: &'a str,
}

#[derive(Serialize)]
struct ReplyBody<'a> {
    n: u64,
    call: &'a str,
    approval: Option<&'a str>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorBody<'a>>,
    edited: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
    detail: Option<&'a RawValue>,
    applied: Option<bool>,
}

impl Program {
    /// The frame of a start. `code` is the program compiled, or empty where its source does not compile.
    pub(crate) fn frame(&self, code: &[u8]) -> Result<Vec<u8>, NotJson> {
        let mut modules: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
        for tool in &self.tools {
            let (module, function) = tool.name.split_once('.').unwrap_or((&tool.name, ""));
            modules.entry(module).or_default().insert(function, &tool.description);
        }
        let inputs = raw("inputs", &self.inputs)?;
        let body = StartBody { name: &self.name, source: &self.source, inputs, modules };
        let json = serde_json::to_vec(&body).expect("text keys and raw JSON always serialise");
        let mut frame = head(self.now, self.next, Some(&self.entropy));
        frame.extend_from_slice(&u32::try_from(json.len()).unwrap_or(u32::MAX).to_le_bytes());
        frame.extend_from_slice(&json);
        frame.extend_from_slice(code);
        Ok(frame)
    }
}

/// The frame of a compile check, for which time and randomness play no part.
pub(crate) fn check_frame(name: &str, source: &str) -> Vec<u8> {
    frame(Time::EPOCH, 1, None, &CheckBody { name, source })
}

impl Answer {
    pub(crate) fn frame(&self) -> Result<Vec<u8>, NotJson> {
        let entropy = self.entropy.as_ref();
        match &self.replies {
            Replies::One(reply) => Ok(frame(self.now, self.next, entropy, &reply.body()?)),
            Replies::Batch(replies) => {
                let bodies = replies.iter().map(Reply::body).collect::<Result<Vec<_>, _>>()?;
                Ok(frame(self.now, self.next, entropy, &bodies))
            }
        }
    }
}

impl Reply {
    fn body(&self) -> Result<ReplyBody<'_>, NotJson> {
        let (status, result, error) = match &self.outcome {
            Outcome::Ok { result } => ("ok", Some(raw("a result", result)?), None),
            Outcome::Denied(refusal) => ("denied", None, Some(refusal.body()?)),
            Outcome::Error(refusal) => ("error", None, Some(refusal.body()?)),
        };
        let edited = self.edited.as_deref().map(|arguments| raw("edited arguments", arguments)).transpose()?;
        Ok(ReplyBody { n: self.n, call: &self.call, approval: self.approval.as_deref(), status, result, error, edited })
    }
}

impl Refusal {
    fn body(&self) -> Result<ErrorBody<'_>, NotJson> {
        let detail = self.detail.as_deref().map(|detail| raw("a detail", detail)).transpose()?;
        Ok(ErrorBody { code: &self.code, message: &self.message, detail, applied: self.applied })
    }
}

fn raw<'a>(field: &'static str, text: &'a str) -> Result<&'a RawValue, NotJson> {
    serde_json::from_str(text).map_err(|source| NotJson { field, source })
}

fn frame(now: Time, next: u64, entropy: Option<&[u8; 32]>, body: &impl Serialize) -> Vec<u8> {
    let mut frame = head(now, next, entropy);
    serde_json::to_writer(&mut frame, body).expect("text keys and raw JSON always serialise");
    frame
}

fn head(now: Time, next: u64, entropy: Option<&[u8; 32]>) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES + 256);
    head.extend_from_slice(&now.as_micros().to_le_bytes());
    head.extend_from_slice(&next.to_le_bytes());
    head.push(u8::from(entropy.is_some()));
    head.extend_from_slice(entropy.unwrap_or(&[0; 32]));
    head
}
