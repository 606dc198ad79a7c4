//! Calls on their way through the broker (calls.md sections 6 to 8 and 12): real guests, a real ledger, and a shop whose
//! answers a test chooses.

mod dispatch;
mod effects;
mod fails;
mod identity;
mod operands;
mod room;
mod steps;
mod stops;
mod table;
mod waits;

use crate::desk::{Desk, Setting, local};
use crate::shop::Shop;
use protocol::command::Caller;
use protocol::id::RunId;

/// An engine with the tools of a shop.
async fn open(setting: Setting) -> (Desk, Shop) {
    open_with(setting, "").await
}

/// And with more configuration.
async fn open_with(setting: Setting, more: &str) -> (Desk, Shop) {
    let desk = Desk::with(setting).await;
    let shop = Shop::open().await;
    desk.apply(&format!("{}{more}", shop.tools())).await;
    (desk, shop)
}

/// One of the people of the configuration, at the desk.
fn caller(desk: &Desk, who: &str) -> Caller {
    let principal = desk.engine.ledger().registry().principal(who).expect("somebody of the configuration");
    Caller { principal, ..local() }
}

/// A run's receipts in the order of their chain, each as `main/2 shop.pay denied approval_rejected`.
async fn receipted(desk: &Desk, run: RunId) -> Vec<String> {
    let receipts = desk.receipts(run).await;
    let line = |receipt: &serde_json::Value| {
        let text = |field: &str| receipt[field].as_str().unwrap_or_default().to_owned();
        let call = text("call").split_once('/').map(|(_, identity)| identity.to_owned()).unwrap_or_default();
        format!("{call} {} {} {}", text("tool"), text("outcome"), text("code")).trim_end().to_owned()
    };
    receipts.iter().map(line).collect()
}
