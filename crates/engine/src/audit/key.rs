//! The key that anchors are signed with: Ed25519, made at first use, kept in a file of its owner alone.
//!
//! Invariant: a file that is there is never written over.

use protocol::digest::Digest;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// A key pair.
pub(crate) struct Key {
    pair: Ed25519KeyPair,
    id: String,
}

/// The half of a key that everybody may know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicKey([u8; 32]);

/// A text that is not 64 hex digits.
#[derive(Clone, Debug, thiserror::Error)]
#[error("a public key is 64 lower-case hex digits")]
pub struct NoPublicKey;

impl std::str::FromStr for PublicKey {
    type Err = NoPublicKey;

    fn from_str(text: &str) -> Result<PublicKey, NoPublicKey> {
        // A digest is as long, and read as strictly.
        Digest::from_hex(text.trim()).map(|digest| PublicKey(*digest.as_bytes())).map_err(|_| NoPublicKey)
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&Digest::from_bytes(self.0).hex())
    }
}

impl PublicKey {
    /// First 16 hex digits of its SHA-256: what an anchor names it by.
    pub fn id(&self) -> String {
        Digest::of(self.0).hex()[..16].to_owned()
    }

    /// Whether `signature`, in hex, is one of `text` with this key (C-277).
    pub fn verifies(&self, text: &str, signature: &str) -> bool {
        let Some((front, back)) = signature.split_at_checked(64) else { return false };
        let (Ok(front), Ok(back)) = (Digest::from_hex(front), Digest::from_hex(back)) else { return false };
        let bytes = [*front.as_bytes(), *back.as_bytes()].concat();
        UnparsedPublicKey::new(&ED25519, self.0).verify(text.as_bytes(), &bytes).is_ok()
    }
}

impl Key {
    /// The key in a file, which is made if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Key, String> {
        let told = |error: std::io::Error| format!("the key {} cannot be used: {error}", path.display());
        let seed = match std::fs::read_to_string(path) {
            Ok(text) => Digest::from_hex(text.trim())
                .map_err(|_| format!("the key {} is not 64 lower-case hex digits", path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => make(path).map_err(told)?,
            Err(error) => return Err(told(error)),
        };
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_bytes()).map_err(|error| error.to_string())?;
        let id = public(&pair).id();
        Ok(Key { pair, id })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn public(&self) -> PublicKey {
        public(&self.pair)
    }

    /// The signature of a text, in hex.
    pub(crate) fn sign(&self, text: &str) -> String {
        let signature = self.pair.sign(text.as_bytes());
        signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn public(pair: &Ed25519KeyPair) -> PublicKey {
    PublicKey(pair.public_key().as_ref().try_into().expect("an Ed25519 key has 32 bytes"))
}

/// Writes a new key whole, then gives it its name: a key that is found is never half of one.
fn make(path: &Path) -> std::io::Result<Digest> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut seed = [0; 32];
    crate::inner::fill(&mut seed);
    let seed = Digest::from_bytes(seed);
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(format!("{}\n", seed.hex()).as_bytes())?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    linked?;
    super::export::sync_folder(path)?;
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_made_once_and_only_its_own_signatures_are_good() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit/key");
        let key = Key::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Key::open(&path).unwrap();
        assert_eq!(again.public(), key.public());
        let signature = key.sign("text");
        assert!(again.public().verifies("text", &signature)); // C-277
        assert!(!key.public().verifies("texts", &signature)); // C-277
        let other = Key::open(&folder.path().join("other")).unwrap();
        assert!(!other.public().verifies("text", &signature)); // C-277
        for bad in ["", "00", &"0".repeat(128), &"é".repeat(64)] {
            assert!(!key.public().verifies("text", bad));
        }
        assert_eq!(key.public().to_string().parse::<PublicKey>().unwrap(), key.public());
        std::fs::write(&path, "no key").unwrap();
        assert!(Key::open(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "no key");
    }

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // RFC 8032, 7.1, test 1.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n").unwrap();
        let key = Key::open(&path).unwrap();
        assert_eq!(key.public().to_string(), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let signature = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";
        assert_eq!(key.sign(""), signature); // C-277
    }
}
