//! The small binary form of values that no query looks into: the state of a run, the documents of calls and approvals,
//! receipts, journal entries.
//!
//! Owns how numbers, texts and digests are laid out. Every value opens with a version byte that its owner writes.
//! Reading is total: bytes of another form are a [`Malformed`], never a panic or a guess.

use protocol::digest::Digest;
use protocol::id::Id;
use protocol::run::Body;
use protocol::time::Time;

/// Writes one value.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

/// Reads one value.
pub(super) struct Reader<'a>(&'a [u8]);

/// The bytes are not of the form that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub(super) struct Malformed(pub(super) &'static str);

impl Writer {
    pub(super) fn with_capacity(bytes: usize) -> Writer {
        Writer(Vec::with_capacity(bytes))
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn byte(&mut self, byte: u8) -> &mut Writer {
        self.0.push(byte);
        self
    }

    pub(super) fn flag(&mut self, flag: bool) -> &mut Writer {
        self.byte(u8::from(flag))
    }

    /// Seven bits a byte, low bits first.
    pub(super) fn uint(&mut self, value: impl Into<u64>) -> &mut Writer {
        let mut rest: u64 = value.into();
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
        self
    }

    pub(super) fn time(&mut self, time: Time) -> &mut Writer {
        self.0.extend_from_slice(&time.as_micros().to_le_bytes());
        self
    }

    pub(super) fn fixed(&mut self, bytes: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn digest(&mut self, digest: Digest) -> &mut Writer {
        self.fixed(digest.as_bytes())
    }

    pub(super) fn id(&mut self, id: impl Id) -> &mut Writer {
        self.fixed(id.as_bytes())
    }

    pub(super) fn body(&mut self, body: Body) -> &mut Writer {
        self.fixed(&body_bytes(body))
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.uint(bytes.len() as u64).fixed(bytes)
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Writer {
        self.bytes(text.as_bytes())
    }

    pub(super) fn maybe<T>(
        &mut self,
        value: Option<T>,
        write: impl FnOnce(&mut Writer, T) -> &mut Writer,
    ) -> &mut Writer {
        self.flag(value.is_some());
        match value {
            Some(value) => write(self, value),
            None => self,
        }
    }
}

impl<'a> Reader<'a> {
    /// Opens bytes that must begin with `version`.
    pub(super) fn open(bytes: &'a [u8], version: u8) -> Result<Reader<'a>, Malformed> {
        let mut reader = Reader(bytes);
        if reader.byte()? != version {
            return Err(Malformed("a known version"));
        }
        Ok(reader)
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("no more bytes")) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed("more bytes"))?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.fixed::<1>()?[0])
    }

    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag")),
        }
    }

    pub(super) fn uint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed("a number of 64 bits"))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.uint()?).map_err(|_| Malformed("a number of 32 bits"))
    }

    pub(super) fn time(&mut self) -> Result<Time, Malformed> {
        Ok(Time::from_micros(i64::from_le_bytes(self.fixed()?)))
    }

    pub(super) fn digest(&mut self) -> Result<Digest, Malformed> {
        Ok(Digest::from_bytes(self.fixed()?))
    }

    pub(super) fn id<T: Id>(&mut self) -> Result<T, Malformed> {
        Ok(T::from_bytes(self.fixed()?))
    }

    /// A number of a row.
    pub(super) fn number(&mut self) -> Result<i64, Malformed> {
        i64::try_from(self.uint()?).map_err(|_| Malformed("the number of a row"))
    }

    pub(super) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.uint()?;
        (0..count).map(|_| read(self)).collect()
    }

    /// A member of a closed set, stored as its place in `table`.
    pub(super) fn pick<T: Copy>(&mut self, table: &[T], what: &'static str) -> Result<T, Malformed> {
        table.get(usize::from(self.byte()?)).copied().ok_or(Malformed(what))
    }

    pub(super) fn body(&mut self) -> Result<Body, Malformed> {
        Ok(body_of(self.fixed()?))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.uint()?).map_err(|_| Malformed("a length"))?;
        let (head, rest) = self.0.split_at_checked(len).ok_or(Malformed("more bytes"))?;
        self.0 = rest;
        Ok(head)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("UTF-8"))
    }

    pub(super) fn maybe<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }
}

/// How a column names a body: its digest, then its length.
pub(super) fn body_bytes(body: Body) -> [u8; 36] {
    let mut bytes = [0; 36];
    bytes[..32].copy_from_slice(body.digest.as_bytes());
    bytes[32..].copy_from_slice(&body.len.to_le_bytes());
    bytes
}

pub(super) fn body_of(bytes: [u8; 36]) -> Body {
    let (digest, len) = bytes.split_at(32);
    Body {
        digest: Digest::from_bytes(digest.try_into().expect("32 of 36 bytes")),
        len: u32::from_le_bytes(len.try_into().expect("4 of 36 bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_read_back(number: u64, text: String, micros: i64, digest: [u8; 32], len: u32, some: Option<u32>) {
            let body = Body { digest: Digest::from_bytes(digest), len };
            let mut writer = Writer::default();
            writer.byte(7).uint(number).text(&text).time(Time::from_micros(micros)).body(body);
            writer.maybe(some, |w, v| w.uint(v));
            let bytes = writer.done();
            let mut reader = Reader::open(&bytes, 7).unwrap();
            prop_assert_eq!(reader.uint(), Ok(number));
            prop_assert_eq!(reader.text(), Ok(&*text));
            prop_assert_eq!(reader.time(), Ok(Time::from_micros(micros)));
            prop_assert_eq!(reader.body(), Ok(body));
            prop_assert_eq!(reader.maybe(Reader::u32), Ok(some));
            prop_assert_eq!(reader.end(), Ok(()));
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            if let Ok(mut reader) = Reader::open(&bytes, 1) {
                while reader.text().is_ok() && !reader.is_empty() {}
                let _ = reader.uint();
                let _ = reader.maybe(Reader::body);
            }
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_malformed() {
        let mut bytes = vec![1];
        bytes.extend([0xff; 9]);
        bytes.push(0x02);
        assert!(Reader::open(&bytes, 1).unwrap().uint().is_err());
    }
}
