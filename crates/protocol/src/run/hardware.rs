//! How often a run has had resources made warm for it, and how often it still may.
//!
//! Owns: the counters, one set for a run over all its hops, and their bounds. Nothing but a call for another resource ever
//! lowers one, and that lowers only the count in a row.

use crate::code::Code;
use crate::limits::Limits;
use crate::run::Failure;

/// Calls of the manager of resources, as counted before each was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hardware {
    pub total: u32,
    /// The last resource, and how many calls in a row were for it.
    pub row: Option<InRow>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InRow {
    pub resource: String,
    pub calls: u32,
}

/// The bound that the next call would break, and the calls that were made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exhausted {
    Total { made: u32 },
    InRow { made: u32 },
}

impl Hardware {
    /// The counters with one more call, for this resource; a call past a bound is not made.
    pub fn with_call(&self, resource: &str, limits: &Limits) -> Result<Hardware, Exhausted> {
        let in_row = self.in_row(resource);
        if self.total >= limits.convergence_calls {
            return Err(Exhausted::Total { made: self.total });
        }
        if in_row >= limits.convergence_in_row {
            return Err(Exhausted::InRow { made: in_row });
        }
        let row = InRow { resource: resource.to_owned(), calls: in_row + 1 };
        Ok(Hardware { total: self.total + 1, row: Some(row) })
    }

    /// Calls in a row for this resource, up to the last.
    pub fn in_row(&self, resource: &str) -> u32 {
        self.row.as_ref().filter(|row| row.resource == resource).map_or(0, |row| row.calls)
    }
}

impl Exhausted {
    /// How the run ends for it.
    pub fn failure(self, resource: &str) -> Failure {
        let made = match self {
            Exhausted::Total { made } => format!("{made} calls in all, and no more"),
            Exhausted::InRow { made } => format!("{made} calls in a row, and no more"),
        };
        let message = format!("hardware budget exhausted: resource '{resource}': {made}");
        Failure { code: Code::HardwareBudgetExhausted, message, detail: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(resources: &str) -> Result<Hardware, Exhausted> {
        let mut chars = resources.chars();
        chars.try_fold(Hardware::default(), |made, name| made.with_call(&name.to_string(), &Limits::default()))
    }

    #[test]
    fn three_in_a_row_are_made_and_eight_in_all() {
        assert_eq!(calls("aabaa").map(|made| (made.total, made.in_row("a"), made.in_row("b"))), Ok((5, 2, 0)));
        assert_eq!(calls("aaa").map(|made| made.in_row("a")), Ok(3));
        assert_eq!(calls("aaaa"), Err(Exhausted::InRow { made: 3 }));
        assert_eq!(calls("aaab").map(|made| made.in_row("b")), Ok(1));
        assert_eq!(calls("aabbaabb").map(|made| made.total), Ok(8));
        assert_eq!(calls("aabbaabba"), Err(Exhausted::Total { made: 8 }));
        // Both at once: the one in all is the one that nothing lifts.
        assert_eq!(calls("aabbaaabb").map_err(|e| e.failure("b").message), Err(told("b", "8 calls in all")));
        assert_eq!(calls("aaaa").map_err(|e| e.failure("a").message), Err(told("a", "3 calls in a row")));
    }

    fn told(resource: &str, made: &str) -> String {
        format!("hardware budget exhausted: resource '{resource}': {made}, and no more")
    }
}
