//! Text of others, made safe to look at (C-140, C-141).
//!
//! Owns which characters a reader would not see or a screen would obey, and whether a body can be judged by eye at all.
//! How a mark is drawn is each door's own; that there is one is decided here alone. Invariant: nothing is dropped or
//! changed, the pieces of a text are the text.

use crate::json::{Canonical, Value};
use crate::limits::RENDER_BYTES;
use unicode_general_category::{GeneralCategory, get_general_category};

/// Marks that may stand on one letter: no script needs more. What is stacked higher covers the lines around it.
const STACKED: usize = 4;
/// A text of the alphabet of encodings, without a blank, is taken for encoded bytes from this length on.
const ENCODED: usize = 256;

/// What stands between two hidden characters, or one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    Plain(&'a str),
    Hidden(char),
}

/// Whether a reader would not see this character, or a screen would obey it, wherever it stands. Line breaks are.
pub fn is_hidden(character: char) -> bool {
    use GeneralCategory as C;
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    match get_general_category(character) {
        C::Control | C::Format | C::LineSeparator | C::ParagraphSeparator | C::SpaceSeparator => true,
        C::PrivateUse | C::Surrogate | C::Unassigned => true,
        // Letters, signs and marks that are drawn as nothing.
        _ => matches!(u32::from(character),
            0x34F | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F | 0x2800 | 0x3164 | 0xFE00..=0xFE0F | 0xFFA0
            | 0xFFFC | 0xE0100..=0xE01EF),
    }
}

/// The text in pieces: hidden characters, and with them marks that are stacked too high on one letter.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut from, mut stacked) = (0, 0);
    for (at, character) in text.char_indices() {
        let hidden = is_hidden(character);
        if is_stacking(character) {
            stacked += 1;
        } else if !hidden {
            stacked = 0;
        }
        if !hidden && stacked <= STACKED {
            continue;
        }
        if from < at {
            pieces.push(Piece::Plain(&text[from..at]));
        }
        pieces.push(Piece::Hidden(character));
        from = at + character.len_utf8();
    }
    if from < text.len() {
        pieces.push(Piece::Plain(&text[from..]));
    }
    pieces
}

fn is_stacking(character: char) -> bool {
    use GeneralCategory as C;
    !character.is_ascii() && matches!(get_general_category(character), C::NonspacingMark | C::EnclosingMark)
}

/// Whether arguments cannot be shown so that a person could judge them: too long, or mostly opaque bytes (C-141).
pub fn unrenderable(body: &Canonical) -> bool {
    body.len() > RENDER_BYTES || 2 * opaque(&body.value()) > body.len()
}

/// Bytes of hidden characters and of what looks encoded.
fn opaque(value: &Value) -> usize {
    match value {
        Value::String(text) => opaque_text(text),
        Value::Array(items) => items.iter().map(opaque).sum(),
        Value::Object(object) => object.iter().map(|(key, value)| opaque_text(key) + opaque(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn opaque_text(text: &str) -> usize {
    let encoded = |byte: u8| byte.is_ascii_alphanumeric() || b"+/_-=".contains(&byte);
    if text.len() >= ENCODED && text.bytes().all(encoded) {
        return text.len();
    }
    let hidden = |piece: &Piece<'_>| match piece {
        Piece::Hidden(character) if !matches!(character, '\n' | '\r' | '\t') => character.len_utf8(),
        Piece::Hidden(_) | Piece::Plain(_) => 0,
    };
    pieces(text).iter().map(hidden).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::canonicalize;

    fn hidden(text: &str) -> usize {
        pieces(text).iter().filter(|piece| matches!(piece, Piece::Hidden(_))).count()
    }

    #[test]
    fn what_a_reader_would_miss_or_a_screen_obey_is_hidden() {
        let kinds: [(&str, &[std::ops::RangeInclusive<u32>]); 9] = [
            ("controls", &[0..=0x1F, 0x7F..=0x9F]),
            ("turns of direction", &[0x61C..=0x61C, 0x200E..=0x200F, 0x202A..=0x202E, 0x2066..=0x2069]),
            ("without width", &[0xAD..=0xAD, 0x200B..=0x200D, 0x2060..=0x2064, 0xFEFF..=0xFEFF, 0x180E..=0x180E]),
            (
                "separators and blanks",
                &[0xA0..=0xA0, 0x1680..=0x1680, 0x2000..=0x200A, 0x2028..=0x2029, 0x202F..=0x202F],
            ),
            (
                "fillers",
                &[0x34F..=0x34F, 0x115F..=0x1160, 0x17B4..=0x17B5, 0x2800..=0x2800, 0x3164..=0x3164, 0xFFA0..=0xFFA0],
            ),
            ("variation selectors", &[0xFE00..=0xFE0F, 0xE0100..=0xE01EF]),
            ("tags", &[0xE0001..=0xE0001, 0xE0020..=0xE007F]),
            ("private use", &[0xE000..=0xF8FF, 0xF0000..=0xF00FF, 0x100000..=0x1000FF]),
            ("annotations and shapes", &[0xFFF9..=0xFFFC, 0x206A..=0x206F, 0x1D173..=0x1D17A]),
        ];
        for (kind, ranges) in kinds {
            for code in ranges.iter().cloned().flatten() {
                assert!(is_hidden(char::from_u32(code).unwrap()), "{kind}: U+{code:04X}"); // C-140
            }
        }
    }

    #[test]
    fn letters_of_every_script_are_plain() {
        for text in
            ["Zürich", "東京", "שָׁלוֹם", "مُحَمَّد", "naïve", "😀", "e\u{301}", "Việt", "नमस्ते", "བོད་ཡིག", "{\"a\": 1.5}"]
        {
            assert_eq!(pieces(text), [Piece::Plain(text)]); // C-140
        }
    }

    #[test]
    fn marks_stacked_on_a_letter_are_hidden_from_the_fifth_on() {
        let flood = |n: usize| format!("a{}b", "\u{301}".repeat(n));
        assert_eq!((hidden(&flood(4)), hidden(&flood(5)), hidden(&flood(900))), (0, 1, 896)); // C-140
        // A character without width between them starts no new letter.
        assert_eq!(hidden("a\u{301}\u{301}\u{200d}\u{301}\u{301}\u{301}"), 2); // C-140
    }

    #[test]
    fn the_pieces_of_a_text_are_the_text() {
        let text =
            "pay \u{202e}05.2\u{202c} to\u{200b}day\u{a0}\u{7f}\u{1b}[2K a\u{301}\u{301}\u{301}\u{301}\u{301} end\n";
        let joined: String = pieces(text)
            .iter()
            .map(|piece| match piece {
                Piece::Plain(plain) => (*plain).to_owned(),
                Piece::Hidden(hidden) => hidden.to_string(),
            })
            .collect();
        assert_eq!(joined, text); // C-285
    }

    #[test]
    fn what_nobody_can_judge_by_eye_is_told() {
        let body = |text: &str| canonicalize(serde_json::json!({ "text": text }).to_string().as_bytes()).unwrap();
        assert!(!unrenderable(&body(&"some words ".repeat(500)))); // C-141
        assert!(!unrenderable(&body(&"w ".repeat((RENDER_BYTES - r#"{"text":""}"#.len()) / 2)))); // C-141
        assert!(unrenderable(&body(&"w ".repeat(RENDER_BYTES / 2)))); // C-141
        assert!(unrenderable(&body(&"QUJD".repeat(64)))); // C-141
        assert!(!unrenderable(&body(&"QUJD".repeat(63)))); // C-141
        assert!(unrenderable(&body(&"\u{e0041}".repeat(40)))); // C-141
        let both = serde_json::json!({ "token": "a".repeat(300), "why": "because of the order ".repeat(20) });
        assert!(!unrenderable(&canonicalize(both.to_string().as_bytes()).unwrap())); // C-141
    }
}
