//! Strings and numbers of the strict parser.
//!
//! Each scanner checks what begins at a place in the input, appends its canonical form, and returns the place behind it.

use std::cmp::Ordering;

use super::{Fault, Reason};
use crate::limits;

fn fault(reason: Reason, offset: usize) -> Fault {
    Fault { reason, offset }
}

/// Whether a byte of a string needs no look: it stands for itself and opens no noncharacter.
///
/// Noncharacters begin with EF (U+FDD0..U+FDEF, U+FFFE, U+FFFF) or F0..F4 (U+1FFFE and its like).
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut byte = 0;
    while byte < 256 {
        plain[byte] = byte >= 0x20 && byte != b'"' as usize && byte != b'\\' as usize && byte < 0xef;
        byte += 1;
    }
    plain
};

/// A string with its quotes; `start` is the place of the first.
pub(super) fn string(input: &[u8], start: usize, out: &mut Vec<u8>) -> Result<usize, Fault> {
    // What lies between `copied` and `at` stands for itself.
    let (mut copied, mut at) = (start, start + 1);
    loop {
        at += input[at..].iter().take_while(|&&byte| PLAIN[usize::from(byte)]).count();
        match input.get(at) {
            Some(b'"') => {
                out.extend_from_slice(&input[copied..=at]);
                return Ok(at + 1);
            }
            Some(b'\\') => {
                out.extend_from_slice(&input[copied..at]);
                let (character, after) = escape(input, at)?;
                write_char(character, out);
                (copied, at) = (after, after);
            }
            Some(&lead @ 0xef..) => {
                let width = if lead == 0xef { 3 } else { 4 };
                if opens_noncharacter(&input[at..at + width]) {
                    return Err(fault(Reason::String, at));
                }
                at += width;
            }
            // A raw control character, or the end of the text.
            _ => return Err(fault(Reason::Syntax, at)),
        }
    }
}

/// Whether the UTF-8 of one character, of three or four bytes, is that of a noncharacter.
fn opens_noncharacter(utf8: &[u8]) -> bool {
    match utf8 {
        [0xef, 0xb7, last] => (0x90..=0xaf).contains(last),
        [0xef, middle, last] => *middle == 0xbf && *last >= 0xbe,
        [_, second, third, last] => second & 0x0f == 0x0f && *third == 0xbf && *last >= 0xbe,
        _ => false,
    }
}

/// Whether the bytes of a text are the inside of its canonical string.
pub(super) fn stands_for_itself(text: &[u8]) -> bool {
    // Without an early end, so that many bytes are compared at once.
    !text.iter().fold(false, |found, &byte| found | !(0x20..0xef).contains(&byte) | (byte == b'"') | (byte == b'\\'))
}

/// The character, or U+FFFD for one that no string may hold (C-29).
pub(super) fn allowed(character: char) -> char {
    if character == '\0' || is_noncharacter(character) { char::REPLACEMENT_CHARACTER } else { character }
}

fn is_noncharacter(character: char) -> bool {
    let code = u32::from(character);
    matches!(code, 0xfdd0..=0xfdef) || code & 0xfffe == 0xfffe
}

/// The character that the escape at `at` stands for, and the place behind it.
fn escape(input: &[u8], at: usize) -> Result<(char, usize), Fault> {
    let character = match input.get(at + 1) {
        Some(&byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
        Some(b'b') => '\u{8}',
        Some(b't') => '\t',
        Some(b'n') => '\n',
        Some(b'f') => '\u{c}',
        Some(b'r') => '\r',
        Some(b'u') => return unicode_escape(input, at),
        _ => return Err(fault(Reason::Syntax, at)),
    };
    Ok((character, at + 2))
}

fn unicode_escape(input: &[u8], at: usize) -> Result<(char, usize), Fault> {
    let unit = hex_unit(input, at).ok_or(fault(Reason::Syntax, at))?;
    let (code, after) = match unit {
        // A high surrogate is half of a character and needs the low one right behind it.
        0xd800..=0xdbff => match hex_unit(input, at + 6) {
            Some(low @ 0xdc00..=0xdfff) => (0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00), at + 12),
            _ => return Err(fault(Reason::String, at)),
        },
        _ => (unit, at + 6),
    };
    match char::from_u32(code) {
        Some(character) if character != '\0' && !is_noncharacter(character) => Ok((character, after)),
        _ => Err(fault(Reason::String, at)),
    }
}

/// The code unit of a `\uXXXX` at `at`.
fn hex_unit(input: &[u8], at: usize) -> Option<u32> {
    let escape = input.get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))
}

/// Writes one character of a string in canonical form (C-34).
pub(super) fn write_char(character: char, out: &mut Vec<u8>) {
    let short = match character {
        '"' | '\\' => character as u8,
        '\u{8}' => b'b',
        '\t' => b't',
        '\n' => b'n',
        '\u{c}' => b'f',
        '\r' => b'r',
        '\0'..'\u{20}' => {
            let code = character as u8;
            let low = b"0123456789abcdef"[usize::from(code & 15)];
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (code >> 4), low]);
        }
        _ => return out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// A number literal, copied as it is written (C-33).
pub(super) fn number(input: &[u8], start: usize, out: &mut Vec<u8>) -> Result<usize, Fault> {
    let digits_from = |at: usize| at + input[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let some_digits_from = |at: usize| match digits_from(at) {
        end if end > at => Ok(end),
        end => Err(fault(Reason::Syntax, end)),
    };
    let mut at = start + usize::from(input[start] == b'-');
    // A zero stands alone; digits behind it are trailing data and refused as such.
    at = if input.get(at) == Some(&b'0') { at + 1 } else { some_digits_from(at)? };
    if input.get(at) == Some(&b'.') {
        at = some_digits_from(at + 1)?;
    }
    let mut exponent: &[u8] = b"";
    if let Some(b'e' | b'E') = input.get(at) {
        let sign = usize::from(matches!(input.get(at + 1), Some(b'+' | b'-')));
        let digits = at + 1 + sign;
        at = some_digits_from(digits)?;
        exponent = &input[digits..at];
    }
    let literal = &input[start..at];
    let whole = literal.iter().take_while(|byte| !matches!(byte, b'.' | b'e' | b'E')).count();
    if literal.len() > limits::NUMBER_BYTES || !in_range(literal, whole, exponent) {
        return Err(fault(Reason::Number, start));
    }
    out.extend_from_slice(literal);
    Ok(at)
}

/// Whether the written exponent and the value are in range (C-30); `whole` is how long the part before the point is, and
/// `exponent` the exponent's digits.
fn in_range(literal: &[u8], whole: usize, exponent: &[u8]) -> bool {
    let add = |sum: u32, digit: &u8| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    let written = exponent.iter().fold(0, add);
    if written > limits::NUMBER_EXPONENT {
        return false;
    }
    // Below 1e308 whatever the digits are: nearly always, and without an exponent always.
    if written as usize + whole <= 308 {
        return true;
    }
    let literal = std::str::from_utf8(literal).expect("a literal is ASCII");
    literal.parse::<f64>().expect("every JSON number is a Rust number").is_finite()
}

/// Compares the insides of two canonical strings by the bytes of their unescaped text.
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    if !a.contains(&b'\\') && !b.contains(&b'\\') {
        return a.cmp(b);
    }
    let shared = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    // A difference right behind a backslash is inside an escape, and is judged from its start.
    let from = shared - trailing_escape(&a[..shared]);
    unescaped(&a[from..]).cmp(unescaped(&b[from..]))
}

/// The length of an escape that `text` ends within, 0 if it ends between characters.
fn trailing_escape(text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        let width = match (text[at], text.get(at + 1)) {
            (b'\\', Some(b'u')) => 6,
            (b'\\', _) => 2,
            _ => 1,
        };
        if at + width > text.len() {
            return text.len() - at;
        }
        at += width;
    }
    0
}

/// The bytes that the inside of a canonical string stands for.
fn unescaped(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let byte = *text.get(at)?;
        if byte != b'\\' {
            at += 1;
            return Some(byte);
        }
        let (character, after) = escape(text, at).expect("the text is canonical");
        at = after;
        // Canonical escapes stand for ASCII only.
        Some(character as u8)
    })
}

/// The text that the inside of a canonical string stands for.
pub(super) fn unescape(inside: &str) -> String {
    if !inside.contains('\\') {
        return inside.to_owned();
    }
    String::from_utf8(unescaped(inside.as_bytes()).collect()).expect("escapes stand for ASCII characters")
}
