//! API tokens: minted once, kept only as a digest (I-11, I-65).

use crate::failure::Failure;
use crate::inner::{Inner, fill};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use protocol::command::Caller;
use protocol::digest::Digest;
use protocol::principal::{Principal, Rights};
use protocol::registry::{Change, Token};
use protocol::time::Time;

/// A token to mint.
#[derive(Clone, Debug)]
pub struct MintToken {
    pub principal: String,
    /// `None`: all of its principal's.
    pub rights: Option<Rights>,
    pub expires_at: Option<Time>,
}

/// How a secret begins, so that scanners of source code know one.
const PREFIX: &str = "stasis_";

pub(crate) async fn mint(inner: &Inner, by: Caller, request: MintToken) -> Result<(Token, String), Failure> {
    let mut bytes = [0; 32];
    fill(&mut bytes);
    let secret = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let token = Token {
        id: inner.ids().mint(),
        secret: Digest::of(secret.as_bytes()),
        principal: request.principal,
        rights: request.rights,
        created_at: inner.now(),
        expires_at: request.expires_at,
        revoked_at: None,
    };
    let change = Change::MintToken { by, token: Box::new(token.clone()) };
    inner.ledger.transact_registry(change).await?;
    Ok((token, secret))
}

/// Looks a secret up by its digest: what is compared is a hash of 256 random bits, so its time says nothing about any
/// other secret.
pub(crate) fn authenticate(inner: &Inner, secret: &str) -> Option<Principal> {
    let digest = Digest::of(secret.as_bytes());
    let registry = inner.ledger.registry();
    let now = inner.now();
    let token = registry.tokens.values().find(|token| token.secret == digest)?;
    if token.revoked_at.is_some() || token.expires_at.is_some_and(|end| now >= end) {
        return None;
    }
    let mut principal = registry.principal(&token.principal)?;
    if let Some(rights) = &token.rights {
        principal.rights = principal.rights.and(rights);
    }
    Some(principal)
}
