//! Compressing the bodies of a command before the writer sees it, on the caller's time.

use protocol::command::{Act, Command, JobAct, Reported};
use protocol::digest::Digest;
use protocol::rows::NewBody;

use super::body::Packed;

/// Bodies that a caller compressed before it sent its command.
pub(crate) type Packs = [(Digest, Packed)];

/// Compresses what is worth it; large bodies on a thread that may take its time.
pub(crate) async fn pack(work: &super::Work) -> Box<Packs> {
    let super::Work::Run(command) = work else { return Box::default() };
    let mut worth: Vec<&NewBody> = Vec::new();
    bodies(command, &mut |body| {
        if Packed::is_worth(&body.bytes) {
            worth.push(body);
        }
    });
    if worth.is_empty() {
        return Box::default();
    }
    let all: Vec<NewBody> = worth.into_iter().cloned().collect();
    let total: usize = all.iter().map(|body| body.bytes.len()).sum();
    let compress = move || all.iter().map(|body| (body.body.digest, Packed::of(&body.bytes))).collect::<Box<Packs>>();
    if total < LARGE {
        return compress();
    }
    // A task that is cancelled only leaves the bodies as they are.
    tokio::task::spawn_blocking(compress).await.unwrap_or_default()
}

/// Bytes that take longer to compress than a task may hold its thread: about a millisecond.
const LARGE: usize = 256 * 1024;

/// The new bodies that a command brings.
fn bodies<'a>(command: &'a Command, each: &mut impl FnMut(&'a NewBody)) {
    match command {
        Command::Admit(admit) => each(&admit.input),
        Command::Hop(hop) => {
            hop.progress.bodies.iter().for_each(&mut *each);
            hop.progress.jobs.iter().flat_map(|submit| &submit.bodies).for_each(&mut *each);
            match &hop.act {
                Act::Park { checkpoint, .. } | Act::HandBack { checkpoint: Some(checkpoint) } => {
                    each(&checkpoint.body);
                    checkpoint.snapshot.iter().for_each(|(_, body)| body.iter().for_each(&mut *each));
                }
                Act::Finish { result } => each(result),
                _ => {}
            }
        }
        Command::Decide(decide) => {
            decide.reason.iter().for_each(&mut *each);
            decide.answer.iter().for_each(|answer| each(&answer.body));
        }
        Command::Found(found) => found.bodies.iter().for_each(each),
        Command::AskToStop(alone) => alone.bodies.iter().for_each(each),
        Command::Send(send) => each(&send.payload),
        Command::Job(command) => match &command.act {
            JobAct::Report {
                reported: Reported::Succeeded { result: body, .. } | Reported::Failed { error: body },
                ..
            } => {
                each(body);
            }
            JobAct::Claim { .. } | JobAct::Heartbeat { .. } | JobAct::AckCancel { .. } => {}
        },
        Command::Extend(extend) => extend.reason.iter().for_each(each),
        Command::Cancel(cancel) => cancel.reason.iter().for_each(each),
        Command::Read(read) => read.reason.iter().for_each(each),
        Command::Claim(_)
        | Command::Expire { .. }
        | Command::ExpireJob { .. }
        | Command::Attest(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Move(_)
        | Command::Recover { .. }
        | Command::Clean { .. }
        | Command::Remove { .. } => {}
    }
}
