//! What is wrong with a configuration, in the form a person can act on (I-47 `config_invalid`).
//!
//! Owns the fault, the list of all faults of one reading, and the suggestion of the nearest known key. It never stops
//! at the first fault: a reader collects, and the list is the error.

use std::fmt;
use std::sync::Arc;

/// Where something stands: a file with line and column, or an environment variable without them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it, or the name of an environment variable.
    pub file: Arc<str>,
    /// Line, from 1; absent for an environment variable.
    pub line: Option<u32>,
    /// Column in characters, from 1; absent for an environment variable.
    pub column: Option<u32>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, ":{line}:{column}")?;
        }
        Ok(())
    }
}

/// One fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file as the user named it, or the name of an environment variable.
    pub file: String,
    /// Line, from 1; absent where the fault is in an environment variable or in the file as a whole.
    pub line: Option<u32>,
    /// Column in characters, from 1.
    pub column: Option<u32>,
    /// The key as a dotted path (`worker.claim_ttl`, `tool[2].http.url`); empty where the text does not parse.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it, where we know.
    pub hint: Option<String>,
}

impl Fault {
    pub(crate) fn at(place: &Place, key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            file: place.file.to_string(),
            line: place.line,
            column: place.column,
            key: key.into(),
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        f.write_str(": ")?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

/// Every fault of one reading, in the order of the file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFaults(pub Vec<Fault>);

impl fmt::Display for ConfigFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigFaults {}

/// The known word nearest to `word`, if one is near enough to be what was meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1) + 1;
    known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(far, _)| *far <= limit)
        .min_by_key(|(far, _)| *far)
        .map(|(_, candidate)| candidate)
}

/// Edit distance in which exchanging two neighbours counts one.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut cost = (previous[j] + usize::from(a != b)).min(previous[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut previous, row);
    }
    previous[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested_and_a_far_one_is_not() {
        assert_eq!(nearest("claim_tll", ["claim_ttl", "renew_every"]), Some("claim_ttl"));
        assert_eq!(nearest("calim_ttl", ["claim_ttl", "renew_every"]), Some("claim_ttl"));
        assert_eq!(nearest("colour", ["claim_ttl", "renew_every"]), None);
        assert_eq!(nearest("x", []), None);
    }
}
