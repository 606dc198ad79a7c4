//! What a run comes back from: its journal, its checkpoint, its snapshot, its pattern (workflows.md sections 1, 3.4, 5.3;
//! runs.md sections 14 to 16).

mod checkpoints;
mod golden;
mod patterns;
mod replay;
mod scribe;
mod snapshots;
mod ways;
