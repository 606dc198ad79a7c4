//! What is registered beside runs.

use protocol::digest::Digest;
use protocol::id::TokenId;
use protocol::registry::{Answer, Change, Token};

use super::world::World;

pub async fn a_workflow_is_registered_once(world: World) {
    let registered = |answer: Answer| match answer {
        Answer::Registered { pattern, created, active } => (pattern, created, active),
        other => panic!("{other:?}"),
    };
    let (first, created, active) = registered(world.register_workflow("mail", "send()").await);
    assert!(created && active && first.revision == 1);
    let (again, created, _) = registered(world.register_workflow("mail", "send()").await);
    assert!(!created && again == first);
    let (second, created, _) = registered(world.register_workflow("mail", "send(2)").await);
    assert!(created && second.revision == 2);
    let registry = world.ledger.registry();
    assert_eq!(registry.workflows["mail"].active, Some(2));
    assert_eq!(world.ledger.blob(Digest::of("send()")).await.unwrap().unwrap(), b"send()");
    let back = Change::Activate { by: world.local(), key: "mail".to_owned(), revision: 1 };
    assert_eq!(world.ledger.transact_registry(back.clone()).await.unwrap(), Answer::Changed(true));
    assert_eq!(world.ledger.transact_registry(back).await.unwrap(), Answer::Changed(false));
    assert_eq!(world.ledger.registry().workflows["mail"].active, Some(1));
}

pub async fn a_token_is_kept_until_it_is_revoked(world: World) {
    let id: TokenId = world.id();
    let token = Token {
        id,
        secret: Digest::of("a secret"),
        principal: "ana".to_owned(),
        rights: None,
        created_at: world.ledger.now(),
        expires_at: None,
        revoked_at: None,
    };
    let mint = Change::MintToken { by: world.local(), token: Box::new(token.clone()) };
    world.ledger.transact_registry(mint).await.unwrap();
    assert_eq!(world.ledger.registry().tokens.get(&id), Some(&token)); // I-65
    let revoke = Change::RevokeToken { by: world.local(), token: id };
    world.ledger.transact_registry(revoke).await.unwrap();
    assert_eq!(world.ledger.registry().tokens[&id].revoked_at, Some(world.ledger.now())); // I-65
}
