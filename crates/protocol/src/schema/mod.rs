//! JSON Schema 2020-12, with the rules C-14 to C-18.
//!
//! A [`Schema`] refers only inside its own document, asserts formats, matches patterns in linear time, and never lets a
//! number pass by rounding: values are validated as they are written (`node`) and numeric keywords are exact
//! (`numeric`). No schema can exhaust the stack or the processor (`in_place`, `meter`). Compiling fetches nothing.
//!
//! Compiled schemas are shared between threads; whoever compiles keeps them by digest, since compiling costs far more than
//! checking.

mod compile;
mod defaults;
mod in_place;
mod meter;
mod node;
mod numeric;
mod references;

use std::fmt;

use jsonschema::Validator;

use crate::code::Code;
use crate::json::{self, Canonical, Value};
use crate::limits;

use node::Written;

/// A compiled schema.
pub struct Schema {
    document: Value,
    validator: Validator<Written>,
}

/// Why a document is refused as a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaFault {
    /// `$ref`, `$dynamicRef` or `$schema` leads out of the document (C-14).
    #[error("{keyword} `{target}` leads out of the document")]
    ExternalRef { pointer: String, keyword: &'static str, target: String },
    /// A keyword whose value is not what 2020-12 allows, an unknown format, a pattern that is not linear-time.
    #[error("{message}")]
    Invalid { pointer: String, message: String },
    /// A number that could only be compared by rounding it (C-18).
    #[error("the number {literal} is neither a 64-bit integer nor its own shortest form")]
    Inexact { pointer: String, literal: String },
    #[error("a schema has at most {most} bytes, not {bytes}")]
    Size { bytes: usize, most: usize },
}

impl SchemaFault {
    /// A JSON Pointer into the schema.
    pub fn pointer(&self) -> &str {
        match self {
            Self::ExternalRef { pointer, .. } | Self::Invalid { pointer, .. } | Self::Inexact { pointer, .. } => {
                pointer
            }
            Self::Size { .. } => "",
        }
    }

    pub const fn code(&self) -> Code {
        match self {
            Self::ExternalRef { .. } => Code::SchemaExternalRef,
            Self::Invalid { .. } | Self::Inexact { .. } | Self::Size { .. } => Code::ToolInvalid,
        }
    }
}

/// The first thing about a value that its schema does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct Violation {
    /// A JSON Pointer into the value.
    pub pointer: String,
    /// The keyword of the schema that refuses it; empty where the value is too entangled with its schema to say.
    pub keyword: String,
    /// What is wrong, without the value itself.
    pub message: String,
}

impl Schema {
    /// Compiles a schema, or says why it is none.
    pub fn compile(schema: &Canonical) -> Result<Self, SchemaFault> {
        let document = schema.value();
        let validator = compile::compile(schema, &document)?;
        Ok(Self { document, validator })
    }

    /// Checks a body.
    pub fn check(&self, body: &Canonical) -> Result<(), Violation> {
        self.check_value(&body.value())
    }

    /// Checks a value that has been read already.
    pub fn check_value(&self, value: &Value) -> Result<(), Violation> {
        let whole =
            |message: &str| Violation { pointer: String::new(), keyword: String::new(), message: message.to_owned() };
        match meter::within(limits::SCHEMA_STEPS, || self.validator.is_valid(value)) {
            Some(true) => return Ok(()),
            Some(false) => {}
            None => return Err(whole("value takes too long to check against its schema")),
        }
        // Finding the place does not share work between branches as the verdict does, so it may end without one.
        let error = meter::within(limits::SCHEMA_STEPS, || self.validator.validate(value).err()).flatten();
        let Some(error) = error else { return Err(whole("value does not fit its schema")) };
        Err(Violation {
            pointer: error.instance_path().as_str().to_owned(),
            keyword: error.kind().keyword().to_owned(),
            message: error.masked().to_string(),
        })
    }

    /// Fills in the schema's defaults (C-19); fails if the result breaks the bounds of a body.
    pub fn apply_defaults(&self, body: &Canonical) -> Result<Canonical, json::Fault> {
        let mut value = body.value();
        defaults::apply(&self.document, &mut value);
        json::canonicalize(value.canonical()?.as_bytes())
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.document).finish()
    }
}
