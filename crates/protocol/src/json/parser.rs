//! The strict parser: one pass that checks and writes the canonical text at once.
//!
//! Members of an object are written as they come; an object whose keys were out of order is put in order when it closes.
//! Repeated keys are found then too, so a fault is settled by asking all open objects for an earlier one: the verdict is
//! the first defect in byte order (C-24).

use std::cmp::Ordering;

use super::{Fault, Reason, text};
use crate::limits;

/// How much one text may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub bytes: usize,
    /// Nesting of arrays and objects; `[]` is 1.
    pub depth: usize,
    /// Every scalar, array and object counts one.
    pub nodes: usize,
}

impl Bounds {
    /// A body that meets a digest: C-25, C-31, C-32.
    pub const BODY: Self = Self { bytes: limits::BODY_BYTES, depth: limits::JSON_DEPTH, nodes: limits::JSON_NODES };
    /// A guest's request: the envelope has 4 KiB beside its body (C-69).
    pub const REQUEST: Self = Self { bytes: limits::REQUEST_BYTES, ..Self::BODY };
    /// A record of this project, whose bodies were bounded each on its own.
    pub const RECORD: Self = Self { bytes: u32::MAX as usize, depth: 256, nodes: usize::MAX };
}

/// Parses `bytes`, one value and nothing behind it, and returns its canonical text.
pub(super) fn canonical_text(bytes: &[u8], bounds: &Bounds) -> Result<String, Fault> {
    match leading_text(bytes, bounds)? {
        (text, len) if len == bytes.len() => Ok(text),
        (_, len) => Err(Fault { reason: Reason::Syntax, offset: len }),
    }
}

/// Parses the value that begins `bytes`; returns its canonical text, and its length with the white space behind it.
pub(super) fn leading_text(bytes: &[u8], bounds: &Bounds) -> Result<(String, usize), Fault> {
    // Positions are kept in 32 bits.
    let allowed = bounds.bytes.min(u32::MAX as usize);
    if bytes.len() > allowed {
        return Err(Fault { reason: Reason::Size, offset: allowed });
    }
    let utf8 = |error: std::str::Utf8Error| Fault { reason: Reason::Utf8, offset: error.valid_up_to() };
    let input = std::str::from_utf8(bytes).map_err(utf8)?.as_bytes();
    let mut parser = Parser::new(input, bounds);
    match parser.run() {
        Ok(()) => Ok((String::from_utf8(parser.out).expect("made of whole characters of a UTF-8 text"), parser.at)),
        Err(fault) => Err(parser.earliest(fault)),
    }
}

/// One member of an open object. `key_at` is a place in the input, the others are places in the output.
#[derive(Clone, Copy)]
struct Member {
    key_at: u32,
    start: u32,
    key_end: u32,
    end: u32,
}

/// An open array or object.
enum Frame {
    Array,
    Object {
        /// Where its members begin in the list of all open members.
        first: usize,
        /// Whether each key so far is above the one before it.
        ascending: bool,
    },
}

/// What may stand at the present place.
enum Next {
    Value,
    /// A first value, or the end of the array.
    ValueOrEnd,
    Key,
    /// A first key, or the end of the object.
    KeyOrEnd,
    /// After a value: a comma or the end of what is open.
    After,
}

struct Parser<'a> {
    input: &'a [u8],
    at: usize,
    out: Vec<u8>,
    frames: Vec<Frame>,
    members: Vec<Member>,
    scratch: Vec<u8>,
    nodes: usize,
    bounds: &'a Bounds,
}

impl<'a> Parser<'a> {
    fn new(input: &'a [u8], bounds: &'a Bounds) -> Self {
        let out = Vec::with_capacity(input.len());
        Self { input, at: 0, out, frames: Vec::new(), members: Vec::new(), scratch: Vec::new(), nodes: 0, bounds }
    }

    fn run(&mut self) -> Result<(), Fault> {
        let mut next = Next::Value;
        loop {
            self.skip_space();
            next = match next {
                Next::After if self.frames.is_empty() => return Ok(()),
                Next::After => self.after_value()?,
                Next::ValueOrEnd if self.peek() == Some(b']') => self.close(b']')?,
                Next::Value | Next::ValueOrEnd => self.value()?,
                Next::KeyOrEnd if self.peek() == Some(b'}') => self.close(b'}')?,
                Next::Key | Next::KeyOrEnd => self.key()?,
            };
        }
    }

    fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    fn fault(&self, reason: Reason) -> Fault {
        Fault { reason, offset: self.at }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads a scalar, or opens an array or object.
    fn value(&mut self) -> Result<Next, Fault> {
        let first = self.peek().ok_or(self.fault(Reason::Syntax))?;
        match first {
            b'{' => self.open(Frame::Object { first: self.members.len(), ascending: true }, first),
            b'[' => self.open(Frame::Array, first),
            b'"' => {
                self.count()?;
                self.string().map(|()| Next::After)
            }
            b'-' | b'0'..=b'9' => {
                self.count()?;
                self.at = text::number(self.input, self.at, &mut self.out)?;
                Ok(Next::After)
            }
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => Err(self.fault(Reason::Syntax)),
        }
    }

    fn count(&mut self) -> Result<(), Fault> {
        self.nodes += 1;
        if self.nodes > self.bounds.nodes { Err(self.fault(Reason::Nodes)) } else { Ok(()) }
    }

    fn word(&mut self, word: &[u8]) -> Result<Next, Fault> {
        if !self.input[self.at..].starts_with(word) {
            return Err(self.fault(Reason::Syntax));
        }
        self.count()?;
        self.at += word.len();
        self.out.extend_from_slice(word);
        Ok(Next::After)
    }

    fn string(&mut self) -> Result<(), Fault> {
        self.at = text::string(self.input, self.at, &mut self.out)?;
        Ok(())
    }

    fn open(&mut self, frame: Frame, bracket: u8) -> Result<Next, Fault> {
        if self.frames.len() == self.bounds.depth {
            return Err(self.fault(Reason::Depth));
        }
        self.count()?;
        let next = if bracket == b'{' { Next::KeyOrEnd } else { Next::ValueOrEnd };
        self.frames.push(frame);
        self.out.push(bracket);
        self.at += 1;
        Ok(next)
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<Next, Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.fault(Reason::Syntax));
        }
        let (key_at, start) = (self.at as u32, self.out.len() as u32);
        self.string()?;
        let key_end = self.out.len() as u32;
        let member = Member { key_at, start, key_end, end: key_end };
        let Some(Frame::Object { first, ascending }) = self.frames.last_mut() else {
            unreachable!("a key is asked for in an object only");
        };
        if let Some(last) = self.members[*first..].last() {
            *ascending &= compare_keys(&self.out, last, &member) == Ordering::Less;
        }
        self.members.push(member);
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.fault(Reason::Syntax));
        }
        self.at += 1;
        self.out.push(b':');
        Ok(Next::Value)
    }

    fn after_value(&mut self) -> Result<Next, Fault> {
        let end = self.out.len() as u32;
        let in_object = matches!(self.frames.last(), Some(Frame::Object { .. }));
        if in_object {
            self.members.last_mut().expect("a value in an object has a key").end = end;
        }
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.out.push(b',');
                Ok(if in_object { Next::Key } else { Next::Value })
            }
            Some(b'}') if in_object => self.close(b'}'),
            Some(b']') if !in_object => self.close(b']'),
            _ => Err(self.fault(Reason::Syntax)),
        }
    }

    fn close(&mut self, bracket: u8) -> Result<Next, Fault> {
        if let Some(&Frame::Object { first, ascending: false }) = self.frames.last() {
            if let Some(fault) = self.repeated_key(first) {
                return Err(fault);
            }
            self.sort_members(first);
        }
        if let Some(Frame::Object { first, .. }) = self.frames.pop() {
            self.members.truncate(first);
        }
        self.at += 1;
        self.out.push(bracket);
        Ok(Next::After)
    }

    /// The earliest repeated key among the members from `first` on, which are sorted by key on the way.
    fn repeated_key(&mut self, first: usize) -> Option<Fault> {
        let out = &self.out;
        let members = &mut self.members[first..];
        // Equal keys stay in the order of the input, so the second of a pair is the repetition.
        members.sort_by(|a, b| compare_keys(out, a, b));
        let repeated = members.windows(2).filter(|pair| compare_keys(out, &pair[0], &pair[1]) == Ordering::Equal);
        let offset = repeated.map(|pair| pair[1].key_at as usize).min()?;
        Some(Fault { reason: Reason::DuplicateKey, offset })
    }

    /// Writes the members from `first` on anew, in the order in which they now stand in the list.
    fn sort_members(&mut self, first: usize) {
        let members = &self.members[first..];
        let start = members.iter().map(|member| member.start).min().expect("out of order, so not empty") as usize;
        self.scratch.clear();
        for member in members {
            self.scratch.extend_from_slice(&self.out[member.start as usize..member.end as usize]);
            self.scratch.push(b',');
        }
        self.scratch.pop();
        self.out.truncate(start);
        self.out.extend_from_slice(&self.scratch);
    }

    /// The fault, or a repeated key before it in an object that is still open.
    fn earliest(&mut self, fault: Fault) -> Fault {
        let mut earliest = fault;
        while let Some(frame) = self.frames.pop() {
            let Frame::Object { first, ascending } = frame else { continue };
            let repeated = if ascending { None } else { self.repeated_key(first) };
            self.members.truncate(first);
            if let Some(repeated) = repeated.filter(|repeated| repeated.offset < earliest.offset) {
                earliest = repeated;
            }
        }
        earliest
    }
}

/// Compares two keys, written canonically in `out`, by the bytes of their unescaped text (C-33).
fn compare_keys(out: &[u8], a: &Member, b: &Member) -> Ordering {
    let inside = |member: &Member| &out[member.start as usize + 1..member.key_end as usize - 1];
    text::compare(inside(a), inside(b))
}
