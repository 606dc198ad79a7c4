//! Messages to the outside, made with the changes that they tell of.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::approval::Verdict;
use protocol::id::WebhookId;
use protocol::principal::Principal;
use protocol::registry::Change;
use protocol::webhook::{Message, MessageAct, MessageState, SigningSecret, Topic, Webhook};

use super::world::World;

async fn hook(world: &World, topics: &[Topic]) -> WebhookId {
    let webhook = Webhook {
        id: world.id(),
        namespace: String::new(),
        url: "https://example.com/in".to_owned(),
        topics: topics.iter().copied().collect::<BTreeSet<_>>(),
        secret: SigningSecret("whsec_".to_owned()),
        created_at: world.ledger.now(),
        created_by: Principal::LOCAL.to_owned(),
    };
    let id = webhook.id;
    let add = Change::AddWebhook { by: world.local(), webhook: Box::new(webhook) };
    world.ledger.transact_registry(add).await.unwrap();
    id
}

async fn messages(world: &World, hook: WebhookId) -> Vec<Message> {
    let page = world.ledger.messages(hook, None, 100).await.unwrap();
    assert!(page.faults.is_empty(), "{:?}", page.faults);
    page.items.into_iter().rev().collect()
}

pub async fn messages_are_made_with_the_change_they_tell_of(world: World) {
    let (all, ends) = (hook(&world, &Topic::ALL).await, hook(&world, &[Topic::RunFinished]).await);
    let (run, asked) = world.parked().await;
    let decided = world.decide(world.verdict(&asked, Verdict::Approve, "bo")).await.unwrap();
    // A refused command tells nobody of anything.
    assert!(world.decide(world.verdict(&asked, Verdict::Reject, "cy")).await.is_err());
    let told = messages(&world, all).await;
    let topics: Vec<Topic> = told.iter().map(|message| message.topic).collect();
    assert_eq!(topics, [Topic::ApprovalRequested, Topic::RunParked, Topic::ApprovalDecided]); // R-367 I-34
    assert!(told.iter().all(|message| message.run == run.id && message.body.contains(&run.id.to_string())));
    assert!(told[2].body.contains("approval.approved") && told[2].body.contains("\"type\":\"approval.decided\"")); // I-34
    assert!(messages(&world, ends).await.is_empty());
    let (_, ended) = world
        .settle(protocol::command::Command::Cancel(protocol::command::Cancel {
            by: world.local(),
            run: decided.run.id,
            reason: None,
        }))
        .await
        .unwrap();
    assert!(ended);
    assert_eq!(messages(&world, ends).await.len(), 1); // I-34

    // Each is due at once; what could not be sent is due later, and then gone from what is due.
    let due = world.ledger.due_messages(all, world.ledger.now(), 100).await.unwrap();
    assert_eq!(due.len(), messages(&world, all).await.len());
    assert_eq!(world.ledger.due_messages(ends, world.ledger.now(), 100).await.unwrap().len(), 1);
    let first = due[0].clone();
    let failed = MessageAct::Attempted(Err("status 500".to_owned()));
    let later = world.ledger.act_on_message(first.id, failed).await.unwrap().unwrap();
    assert_eq!((later.attempts, later.last_error.as_deref()), (1, Some("status 500")));
    assert_eq!(later.body, first.body);
    let now = world.ledger.due_messages(all, world.ledger.now(), 100).await.unwrap();
    assert!(now.iter().all(|message| message.id != first.id));
    world.pass(Duration::from_secs(5));
    let now = world.ledger.due_messages(all, world.ledger.now(), 100).await.unwrap();
    assert!(now.contains(&later));
    let taken = world.ledger.act_on_message(first.id, MessageAct::Attempted(Ok(()))).await.unwrap().unwrap();
    assert_eq!(taken.state, MessageState::Delivered { at: world.ledger.now() });
    assert_eq!(world.ledger.message(first.id).await.unwrap(), Some(taken));

    // What ended long ago is forgotten, what is still to be sent is not.
    world.pass(Duration::from_secs(3_600));
    assert_eq!(world.ledger.forget_messages(world.ledger.now()).await.unwrap(), 1);
    assert_eq!(world.ledger.message(first.id).await.unwrap(), None);
    let remove = Change::RemoveWebhook { by: world.local(), webhook: all };
    world.ledger.transact_registry(remove).await.unwrap();
    assert!(messages(&world, all).await.is_empty());
    assert_eq!(messages(&world, ends).await.len(), 1);
}
