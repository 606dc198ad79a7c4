//! The list of effects (I-30).

use super::Service;
use super::failure::unread;
use super::list::{self, Filling};
use super::problem::Answer;
use super::reading::Bodies;
use crate::view;
use api::EffectItem;
use api::call::{CallState, EffectQuery};
use api::page::Page;
use protocol::command::Caller;
use store::CallOf;

impl Service {
    /// Writes that passed their dispatch gate, newest first; or those in one state only.
    pub async fn effects(&self, by: &Caller, query: &EffectQuery) -> Answer<Page<EffectItem>> {
        self.reads(by)?;
        let (limit, after) = (list::limit(query.limit)?, list::cursor(query.cursor.as_deref())?);
        let ambiguous = query.state == Some(CallState::Ambiguous);
        let page =
            self.engine.ledger().effects(ambiguous, None, after, limit).await.map_err(|error| unread(error, by))?;
        let mut filling = Filling::new();
        for found in page.items {
            let state = view::call::state(&found.call);
            let foreign = found.run.namespace != by.principal.namespace;
            if foreign || query.state.is_some_and(|wanted| wanted != state) {
                continue;
            }
            filling.keep(self.effect(by, &found).await)?;
        }
        filling.lost(&page.faults);
        Ok(filling.page(page.next))
    }

    async fn effect(&self, by: &Caller, found: &CallOf) -> Answer<EffectItem> {
        let run = found.run.id;
        let arguments = match self.of_one_call(by, found).await? {
            Bodies::Shown => Some(self.json(by, run, found.call.arguments.digest).await?),
            Bodies::Withheld => None,
        };
        let receipt = self.receipts(by, run).await?.get(&found.call.identity.text(run)).copied();
        Ok(view::call::item(&found.call, &found.run.pattern.key, arguments, receipt))
    }
}
