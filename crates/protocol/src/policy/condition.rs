//! Comparing one argument with a literal (C-49), and knowing when that cannot be done (C-50).

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::json::Value;

/// How an argument is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// The argument is one of the items of the literal, which is a list.
    In,
    /// The argument is a text that begins with the literal.
    Prefix,
    /// The argument is there (or, with the literal `false`, is not).
    Exists,
}

/// One condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// A JSON Pointer into the arguments.
    pub pointer: String,
    pub op: Op,
    pub value: Value,
}

/// The comparison cannot be judged: nothing is there, or it is of another type than the literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unjudged;

impl Condition {
    /// Whether the condition holds for these arguments.
    pub fn holds(&self, arguments: &Value) -> Result<bool, Unjudged> {
        compare(self.op, arguments.pointer(&self.pointer), &self.value)
    }
}

impl Op {
    /// What the literal must be for the operator to have a meaning; told to whoever wrote another.
    pub(crate) fn accepts(self, literal: &Value) -> Result<(), &'static str> {
        match (self, literal) {
            (Self::Lt | Self::Le | Self::Gt | Self::Ge, Value::Number(_) | Value::String(_)) => Ok(()),
            (Self::Lt | Self::Le | Self::Gt | Self::Ge, _) => Err("an order needs a number or a text"),
            (Self::In, Value::Array(items)) if !items.is_empty() => Ok(()),
            (Self::In, _) => Err("`in` needs a list that is not empty"),
            (Self::Prefix, Value::String(_)) => Ok(()),
            (Self::Prefix, _) => Err("`prefix` needs a text"),
            (Self::Exists, Value::Bool(_)) => Ok(()),
            (Self::Exists, _) => Err("`exists` needs true or false"),
            (Self::Eq | Self::Ne, _) => Ok(()),
        }
    }
}

/// Compares what is there with a literal that the operator accepts.
pub(super) fn compare(op: Op, there: Option<&Value>, literal: &Value) -> Result<bool, Unjudged> {
    if op == Op::Exists {
        return Ok(there.is_some() == (literal != &Value::Bool(false)));
    }
    let there = there.ok_or(Unjudged)?;
    match op {
        Op::Eq => equal(there, literal),
        Op::Ne => equal(there, literal).map(|equal| !equal),
        Op::Lt => order(there, literal).map(Ordering::is_lt),
        Op::Le => order(there, literal).map(Ordering::is_le),
        Op::Gt => order(there, literal).map(Ordering::is_gt),
        Op::Ge => order(there, literal).map(Ordering::is_ge),
        Op::In => is_one_of(there, literal),
        Op::Prefix => match (there, literal) {
            (Value::String(text), Value::String(prefix)) => Ok(text.starts_with(prefix.as_str())),
            _ => Err(Unjudged),
        },
        Op::Exists => unreachable!("answered above"),
    }
}

fn order(there: &Value, literal: &Value) -> Result<Ordering, Unjudged> {
    match (there, literal) {
        (Value::Number(a), Value::Number(b)) => Ok(a.compare(b)),
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        _ => Err(Unjudged),
    }
}

/// Whether two values of one type are equal; numbers by value, wherever they stand.
fn equal(there: &Value, literal: &Value) -> Result<bool, Unjudged> {
    if std::mem::discriminant(there) != std::mem::discriminant(literal) {
        return Err(Unjudged);
    }
    Ok(there.compare(literal).is_eq())
}

fn is_one_of(there: &Value, literal: &Value) -> Result<bool, Unjudged> {
    let items = literal.as_array().ok_or(Unjudged)?;
    let judged: Vec<bool> = items.iter().filter_map(|item| equal(there, item).ok()).collect();
    if judged.is_empty() { Err(Unjudged) } else { Ok(judged.contains(&true)) }
}
