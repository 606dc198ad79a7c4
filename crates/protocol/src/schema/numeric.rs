//! The numeric keywords, exact: `minimum`, `maximum`, their exclusive forms, and `multipleOf` (C-18).
//!
//! A literal that is not exact fails each of them.

use std::cmp::Ordering;

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};

use super::node::Written;
use crate::json::{Number, Value};

/// One of the numeric keywords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
    MultipleOf,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::Minimum, Self::Maximum, Self::ExclusiveMinimum, Self::ExclusiveMaximum, Self::MultipleOf];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Minimum => "minimum",
            Self::Maximum => "maximum",
            Self::ExclusiveMinimum => "exclusiveMinimum",
            Self::ExclusiveMaximum => "exclusiveMaximum",
            Self::MultipleOf => "multipleOf",
        }
    }

    const fn demand(self) -> &'static str {
        match self {
            Self::Minimum => "at least",
            Self::Maximum => "at most",
            Self::ExclusiveMinimum => "more than",
            Self::ExclusiveMaximum => "less than",
            Self::MultipleOf => "a multiple of",
        }
    }
}

/// A numeric keyword with its limit.
struct Numeric {
    kind: Kind,
    limit: Number,
}

impl Numeric {
    fn allows(&self, number: &Number) -> bool {
        let order = || number.compare(&self.limit);
        number.is_exact()
            && match self.kind {
                Kind::Minimum => order() != Ordering::Less,
                Kind::Maximum => order() != Ordering::Greater,
                Kind::ExclusiveMinimum => order() == Ordering::Greater,
                Kind::ExclusiveMaximum => order() == Ordering::Less,
                Kind::MultipleOf => number.is_multiple_of(&self.limit),
            }
    }
}

impl<'i> Keyword<'i, Written> for Numeric {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if Keyword::<Written>::is_valid(self, instance) {
            return Ok(());
        }
        Err(ValidationError::custom(format!("value is not {} {}", self.kind.demand(), self.limit)))
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        instance.as_number().is_none_or(|number| self.allows(number))
    }
}

/// Makes the keyword from its value in the schema, which the meta-schema has checked and whose numbers are exact.
pub(super) fn keyword<'a>(
    kind: Kind,
    limit: &'a serde_json::Value,
    _: Location,
) -> Result<Box<dyn for<'i> Keyword<'i, Written>>, ValidationError<'a>> {
    match limit {
        serde_json::Value::Number(limit) => Ok(Box::new(Numeric { kind, limit: Number::from(limit) })),
        _ => Err(ValidationError::custom(format!("`{}` needs a number", kind.name()))),
    }
}
