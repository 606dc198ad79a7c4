//! Secrets: names outside, values only here, and only while one call is under way (C-269 to C-272).
//!
//! Owns the step from a reference to its value, at every dispatch anew, and the removal of values from whatever comes
//! back. A value has no `Debug`, is never written down, and lives no longer than the call that needs it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// Longest secret: a key or a certificate, not a document.
pub(super) const SECRET_BYTES: usize = 64 * 1024;

/// Where a secret is kept: `env:NAME` or `file:PATH` (I-61).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// A variable of the server's environment.
    Env(String),
    /// A file, whose last line break is not part of the secret.
    File(PathBuf),
}

impl Reference {
    /// Reads `env:NAME` or `file:PATH`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("env:") {
            let good = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            return good.then(|| Self::Env(name.to_owned()));
        }
        let path = PathBuf::from(text.strip_prefix("file:")?);
        path.file_name().is_some().then_some(Self::File(path))
    }

    /// The name that stands for the secret in every text: that of the variable, or of the file without its folder.
    pub fn name(&self) -> String {
        match self {
            Self::Env(name) => name.clone(),
            Self::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// Where references are looked up.
#[derive(Clone)]
pub enum Secrets {
    /// The environment of this process, and files.
    Process,
    /// A fixed table in place of the environment, and files.
    Table(Arc<HashMap<String, String>>),
}

/// Why a secret has no value now. Names the secret, never a value or a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("secret {name} {why}")]
pub(super) struct Unresolved {
    name: String,
    why: &'static str,
}

/// A secret with its value.
pub(super) struct Secret {
    name: String,
    value: Vec<u8>,
}

impl Secret {
    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }
}

impl Secrets {
    /// A variable that a command inherits; it is no secret.
    pub(super) fn variable(&self, name: &str) -> Option<OsString> {
        match self {
            Self::Process => std::env::var_os(name),
            Self::Table(table) => table.get(name).map(OsString::from),
        }
    }

    /// The value of a reference, as it is now (C-272).
    pub(super) fn resolve(&self, reference: &Reference) -> Result<Secret, Unresolved> {
        let fail = |why| Unresolved { name: reference.name(), why };
        let value = match (reference, self) {
            (Reference::Env(name), Self::Process) => {
                std::env::var_os(name).map(std::os::unix::ffi::OsStringExt::into_vec).ok_or(fail("is not set"))?
            }
            (Reference::Env(name), Self::Table(table)) => {
                table.get(name).map(|text| text.clone().into_bytes()).ok_or(fail("is not set"))?
            }
            (Reference::File(path), _) => {
                let mut value = Vec::new();
                let file = std::fs::File::open(path).map_err(|_| fail("cannot be read"))?;
                file.take(SECRET_BYTES as u64 + 1).read_to_end(&mut value).map_err(|_| fail("cannot be read"))?;
                if value.last() == Some(&b'\n') {
                    value.pop();
                    if value.last() == Some(&b'\r') {
                        value.pop();
                    }
                }
                value
            }
        };
        match value.len() {
            // An empty value would be sent as no credential at all.
            0 => Err(fail("is empty")),
            1..=SECRET_BYTES => Ok(Secret { name: reference.name(), value }),
            _ => Err(fail("is longer than 64 KiB")),
        }
    }
}

/// Takes secrets out of texts (C-271).
#[derive(Default)]
pub(super) struct Redactor {
    /// Longest value first, so that a secret that begins with another one is replaced whole.
    secrets: Vec<Secret>,
}

impl Redactor {
    pub(super) fn new(mut secrets: Vec<Secret>) -> Self {
        secrets.sort_by(|a, b| b.value.len().cmp(&a.value.len()).then_with(|| a.name.cmp(&b.name)));
        Self { secrets }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// The bytes with every secret replaced by `[secret NAME]`, in one pass from left to right.
    pub(super) fn clean(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.secrets.iter().find(|secret| rest.starts_with(&secret.value)) {
                Some(secret) => {
                    out.extend_from_slice(mark(&secret.name).as_bytes());
                    rest = &rest[secret.value.len()..];
                }
                None => {
                    // To the next place where a secret could begin.
                    let next = rest[1..]
                        .iter()
                        .position(|b| self.secrets.iter().any(|secret| secret.value[0] == *b))
                        .map_or(rest.len(), |at| at + 1);
                    out.extend_from_slice(&rest[..next]);
                    rest = &rest[next..];
                }
            }
        }
        out
    }

    /// As [`Self::clean`], for text; a replacement never breaks a character, since it replaces whole bytes only where
    /// the secret itself ends inside one.
    pub(super) fn clean_text(&self, text: &str) -> String {
        if !self.touches(text.as_bytes()) {
            return text.to_owned();
        }
        String::from_utf8_lossy(&self.clean(text.as_bytes())).into_owned()
    }

    /// Whether a secret stands in the bytes, its own marks apart.
    pub(super) fn touches(&self, bytes: &[u8]) -> bool {
        self.secrets.iter().any(|secret| find(bytes, &secret.value).is_some())
    }

    /// As [`Self::touches`], where a mark that happens to spell a secret does not count.
    pub(super) fn leaks(&self, text: &str) -> bool {
        if !self.touches(text.as_bytes()) {
            return false;
        }
        let mut pieces = vec![text];
        for secret in &self.secrets {
            let mark = mark(&secret.name);
            pieces = pieces.into_iter().flat_map(|piece| piece.split(mark.as_str()).collect::<Vec<_>>()).collect();
        }
        pieces.into_iter().any(|piece| self.touches(piece.as_bytes()))
    }
}

#[cfg(test)]
impl Redactor {
    pub(super) fn of(secrets: &[(&str, &str)]) -> Self {
        let secret =
            |(name, value): &(&str, &str)| Secret { name: (*name).to_owned(), value: value.as_bytes().to_vec() };
        Self::new(secrets.iter().map(secret).collect())
    }
}

/// What stands for a secret in a text. The name is made harmless for JSON and terminals.
fn mark(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '[' | ']') { c } else { '_' })
        .collect();
    format!("[secret {name}]")
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_is_replaced_and_a_longer_one_first() {
        let redactor = Redactor::of(&[("A", "abc"), ("B", "abcdef")]);
        // C-271
        assert_eq!(redactor.clean(b"xabcdefy abc"), b"x[secret B]y [secret A]");
        assert_eq!(redactor.clean_text("\u{e9}abc\u{e9}"), "\u{e9}[secret A]\u{e9}");
        assert!(!redactor.leaks("[secret A]"));
        assert!(redactor.leaks("abc[secret A]"));
    }

    #[test]
    fn a_name_that_spells_its_own_secret_ends() {
        let redactor = Redactor::of(&[("AA", "A")]);
        assert_eq!(redactor.clean(b"A"), b"[secret AA]");
        assert!(!redactor.leaks("[secret AA]"));
    }

    #[test]
    fn references_are_env_or_file_and_files_lose_their_last_line_break() {
        assert_eq!(Reference::parse("env:PAY_TOKEN"), Some(Reference::Env("PAY_TOKEN".to_owned())));
        assert_eq!(Reference::parse("file:/etc/keys/pay").map(|r| r.name()), Some("pay".to_owned()));
        for bad in ["PAY_TOKEN", "env:", "env:A B", "file:", "vault:x"] {
            assert_eq!(Reference::parse(bad), None, "{bad}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let reference = Reference::File(path.clone());
        let secrets = Secrets::Table(Arc::default());
        assert!(secrets.resolve(&reference).is_err());
        std::fs::write(&path, "one\n").expect("written");
        assert_eq!(secrets.resolve(&reference).map(|s| s.value).ok(), Some(b"one".to_vec()));
        std::fs::write(&path, "two\r\n").expect("written");
        // C-272: the next resolution sees the new value.
        assert_eq!(secrets.resolve(&reference).map(|s| s.value).ok(), Some(b"two".to_vec()));
        std::fs::write(&path, "\n").expect("written");
        assert!(secrets.resolve(&reference).is_err());
        assert!(secrets.resolve(&Reference::Env("NOT_THERE".to_owned())).is_err());
    }
}
