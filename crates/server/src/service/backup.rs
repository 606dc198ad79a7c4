//! A copy of the embedded store while it is in use (I-14a).
//!
//! The copy is made beside the ledger, checked page by page, and gone from the folder before its first byte is sent: what is
//! sent lasts as long as somebody reads it.

use super::Service;
use super::failure::unread;
use super::problem::{Answer, internal, with_hint};
use protocol::code::Code;
use protocol::command::Caller;
use protocol::digest::{Digest, Hasher};
use protocol::principal::{DEFAULT_NAMESPACE, Right};
use std::io::Read as _;

/// A checked copy, open to be read from its start.
pub struct Backup {
    pub file: tokio::fs::File,
    pub bytes: u64,
    pub digest: Digest,
}

impl Service {
    /// Copies the whole store: it is the operator's, for it has every namespace in it.
    pub async fn backup(&self, by: &Caller) -> Answer<Backup> {
        self.need(by, &[Right::Admin])?;
        if by.principal.namespace != DEFAULT_NAMESPACE {
            let detail = "a backup has the runs of every namespace in it".to_owned();
            return Err(with_hint(Code::NotPermitted, detail, "ask somebody of the namespace `default`"));
        }
        let broken = |error: std::io::Error| internal(&error, by.request);
        let place = tempfile::Builder::new().prefix("backup-").tempdir_in(&self.facts.data).map_err(broken)?;
        let path = place.path().join("copy.db");
        let check = self.engine.ledger().backup(path.clone()).await.map_err(|error| unread(error, by))?;
        if !check.faults.is_empty() {
            let detail = format!("the store is damaged, and so would be its copy: {}", check.faults.join("; "));
            return Err(with_hint(Code::StoreDamaged, detail, "`stasis doctor` says more; keep the last good backup"));
        }
        let read = tokio::task::spawn_blocking(move || -> std::io::Result<(std::fs::File, u64, Digest)> {
            let mut file = std::fs::File::open(&path)?;
            let (mut hasher, mut bytes, mut piece) = (Hasher::default(), 0, vec![0; 1 << 20]);
            loop {
                match file.read(&mut piece)? {
                    0 => break,
                    n => {
                        hasher.update(&piece[..n]);
                        bytes += n as u64;
                    }
                }
            }
            // The open file outlives its name.
            drop(place);
            std::io::Seek::rewind(&mut file)?;
            Ok((file, bytes, hasher.finish()))
        });
        let (file, bytes, digest) = read.await.map_err(|error| internal(&error, by.request))?.map_err(broken)?;
        Ok(Backup { file: tokio::fs::File::from_std(file), bytes, digest })
    }
}
