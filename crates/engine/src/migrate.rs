//! Migrators: from the checkpoints of one schema to those of another.
//!
//! Owns: which migrators this build has, and the way from one schema to another. A migrator is a pure function of the typed
//! state of one entry, applied in memory when a checkpoint is loaded; nothing is written by it, the next ordinary
//! checkpoint has the new schema.

use serde_json::Value;
use std::collections::{BTreeSet, VecDeque};

/// A pure function from the state of one schema to that of another.
#[derive(Clone, Debug)]
pub struct Migrator {
    pub from: String,
    pub to: String,
    /// The new state, or why this one cannot be made new.
    pub migrate: fn(Value) -> Result<Value, String>,
}

/// The migrators of a build, in the order in which they were registered.
#[derive(Clone, Debug, Default)]
pub struct Migrators(Vec<Migrator>);

impl FromIterator<Migrator> for Migrators {
    fn from_iter<I: IntoIterator<Item = Migrator>>(migrators: I) -> Migrators {
        Migrators(migrators.into_iter().collect())
    }
}

/// Migrators to be applied one after the other; none, where a checkpoint has the schema that is wanted.
#[derive(Debug, Default)]
pub(crate) struct Chain<'m>(Vec<&'m Migrator>);

impl Migrators {
    /// The schemas from which a chain leads to this one, itself included.
    pub(crate) fn leading_to<'m>(&'m self, schema: &'m str) -> BTreeSet<&'m str> {
        let mut leading = BTreeSet::from([schema]);
        let mut ways = vec![schema];
        while let Some(to) = ways.pop() {
            let from = self.0.iter().filter(|migrator| migrator.to == to).map(|migrator| migrator.from.as_str());
            ways.extend(from.filter(|from| leading.insert(from)));
        }
        leading
    }

    /// The shortest chain, and of several as short the one whose migrators were registered first.
    pub(crate) fn chain(&self, from: &str, to: &str) -> Option<Chain<'_>> {
        let mut ways = VecDeque::from([(from, Vec::new())]);
        let mut reached = BTreeSet::from([from]);
        while let Some((at, way)) = ways.pop_front() {
            if at == to {
                return Some(Chain(way));
            }
            for migrator in self.0.iter().filter(|migrator| migrator.from == at) {
                if reached.insert(&migrator.to) {
                    let way = way.iter().copied().chain([migrator]).collect();
                    ways.push_back((&migrator.to, way));
                }
            }
        }
        None
    }
}

impl Chain<'_> {
    pub(crate) fn apply(&self, state: Value) -> Result<Value, String> {
        self.0.iter().try_fold(state, |state, migrator| (migrator.migrate)(state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(from: &str, to: &str, migrate: fn(Value) -> Result<Value, String>) -> Migrator {
        Migrator { from: from.to_owned(), to: to.to_owned(), migrate }
    }

    fn told(chain: &Chain<'_>) -> Vec<String> {
        chain.0.iter().map(|migrator| format!("{}>{}", migrator.from, migrator.to)).collect()
    }

    #[test]
    fn the_shortest_chain_leads_there_and_circles_lead_nowhere() {
        let same: fn(Value) -> Result<Value, String> = Ok;
        let ways = [("1", "2"), ("2", "1"), ("2", "3"), ("3", "4"), ("1", "3"), ("4", "4")];
        let migrators: Migrators = ways.into_iter().map(|(from, to)| step(from, to, same)).collect();
        let chain = |from, to| migrators.chain(from, to).map(|chain| told(&chain));
        assert_eq!(chain("1", "4"), Some(vec!["1>3".to_owned(), "3>4".to_owned()]));
        assert_eq!(chain("2", "2"), Some(vec![]));
        let leading = |to| migrators.leading_to(to).into_iter().collect::<Vec<_>>();
        assert_eq!((leading("3"), leading("1")), (vec!["1", "2", "3"], vec!["1", "2"]));
        assert_eq!(chain("4", "1"), None);
        assert_eq!(Migrators::default().chain("1", "1").map(|chain| told(&chain)), Some(vec![]));
    }

    #[test]
    fn each_migrator_gets_what_the_one_before_it_gave() {
        let add: fn(Value) -> Result<Value, String> = |state| Ok(Value::from(state.as_u64().ok_or("a number")? + 1));
        let migrators: Migrators = [step("1", "2", add), step("2", "3", add)].into_iter().collect();
        let chain = migrators.chain("1", "3").expect("a chain");
        assert_eq!(chain.apply(Value::from(5)), Ok(Value::from(7)));
        assert_eq!(chain.apply(Value::Null), Err("a number".to_owned()));
    }
}
