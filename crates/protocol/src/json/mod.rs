//! Canonical JSON: the one form in which a body meets a digest (calls.md section 3).
//!
//! [`canonicalize`] is the only strict parser (C-24): what it returns is what is shown, hashed, approved, stored and
//! dispatched. Numbers stay exactly as written and nothing is normalised (C-33, C-35). Parsing uses no recursion, so no
//! input can exhaust the stack. A [`Value`] is a reading aid and never the source of bytes that are hashed.

mod decimal;
mod packed;
mod parser;
mod record;
mod text;
mod value;

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::digest::Digest;

pub use packed::Packed;
pub(crate) use packed::{write_digest, write_id};
pub use parser::Bounds;
pub use record::Text;
pub(crate) use record::{Form, Record, write_number, write_texts};
pub(crate) use value::push_token;
pub use value::{Number, Object, Value};

/// Why a text is refused: the reason, and where in the input it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {offset}")]
pub struct Fault {
    pub reason: Reason,
    /// Bytes before the defect; for a text that is too long, the number of bytes allowed.
    pub offset: usize,
}

/// What is refused (C-25 to C-32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// More bytes than allowed.
    Size,
    /// Not well-formed UTF-8.
    Utf8,
    /// Not RFC 8259.
    Syntax,
    /// A key repeated in one object, compared after unescaping.
    DuplicateKey,
    /// U+0000, a lone surrogate or a noncharacter.
    String,
    /// A literal that is too long, or whose exponent or value is out of range.
    Number,
    /// Arrays and objects nested too deep.
    Depth,
    /// Too many values.
    Nodes,
}

impl Reason {
    pub const ALL: [Self; 8] = [
        Self::Size,
        Self::Utf8,
        Self::Syntax,
        Self::DuplicateKey,
        Self::String,
        Self::Number,
        Self::Depth,
        Self::Nodes,
    ];

    /// The reason as it is told on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Size => "json_size",
            Self::Utf8 => "json_utf8",
            Self::Syntax => "json_syntax",
            Self::DuplicateKey => "json_duplicate_key",
            Self::String => "json_string",
            Self::Number => "json_number",
            Self::Depth => "json_depth",
            Self::Nodes => "json_nodes",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One JSON value in canonical form. Cloning shares the bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Canonical(Arc<str>);

/// Parses one JSON text strictly, within the bounds of a body, and returns its canonical form.
pub fn canonicalize(bytes: &[u8]) -> Result<Canonical, Fault> {
    canonicalize_within(bytes, &Bounds::BODY)
}

/// As [`canonicalize`], within other bounds.
pub fn canonicalize_within(bytes: &[u8], bounds: &Bounds) -> Result<Canonical, Fault> {
    parser::canonical_text(bytes, bounds).map(|text| Canonical(text.into()))
}

/// Parses the JSON value that begins `bytes`, and tells how long its text is; what follows it is not looked at.
pub(crate) fn leading(bytes: &[u8]) -> Result<(Canonical, usize), Fault> {
    parser::leading_text(bytes, &Bounds::BODY).map(|(text, len)| (Canonical(text.into()), len))
}

/// The canonical JSON of a Rust value.
///
/// Floats are written in their shortest form. Bodies that came from outside keep their own number literals if they stand
/// in the value as [`Canonical`] or [`Value`]. Fails where serde does: map keys that are no text, numbers that are not
/// finite; and where the text breaks a rule of section 3, size, depth and count of values apart.
pub fn to_canonical(value: &(impl Serialize + ?Sized)) -> Result<Canonical, WriteError> {
    let text = serde_json::to_vec(value)?;
    Ok(canonicalize_within(&text, &Bounds::RECORD)?)
}

/// Why a Rust value has no canonical JSON.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the value cannot be written as JSON: {0}")]
    Serialize(#[from] serde_json::Error),
    #[error("the value is no strict JSON: {0}")]
    Strict(#[from] Fault),
}

impl Canonical {
    /// `null`.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self("{}".into())
    }

    /// `[]`.
    pub fn empty_array() -> Self {
        Self("[]".into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never: the shortest JSON text has one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The digest of a body (C-4).
    pub fn digest(&self) -> Digest {
        Digest::of(self.as_bytes())
    }

    /// The tree of this text.
    pub fn value(&self) -> Value {
        value::read(&self.0)
    }

    /// Reads the text into a Rust type by serde; numbers become what the type says.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Takes bytes that [`canonicalize`] returned before, such as a body read back from a store.
    ///
    /// The text is parsed again; bytes that are not canonical are refused by `None`, so a damaged body is never taken for
    /// a sound one.
    pub fn from_stored(bytes: &[u8]) -> Option<Self> {
        let canonical = canonicalize_within(bytes, &Bounds::RECORD).ok()?;
        (canonical.as_bytes() == bytes).then_some(canonical)
    }
}

impl fmt::Display for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Canonical {
    type Err = Fault;
    fn from_str(text: &str) -> Result<Self, Fault> {
        canonicalize(text.as_bytes())
    }
}

/// Stands in `serde_json` output byte for byte (I-40). Other serializers do not know raw JSON.
impl Serialize for Canonical {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).expect("canonical text is JSON");
        raw.serialize(serializer)
    }
}

/// Reads the raw text from a `serde_json` reader and canonicalises it; not inside `flatten` or an untagged enum.
impl<'de> Deserialize<'de> for Canonical {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        canonicalize(raw.get().as_bytes()).map_err(D::Error::custom)
    }
}
