//! Text of others, made safe to look at.
//!
//! Owns how a hidden character is drawn (C-140): as a mark that names its code point. Which ones are hidden is said by
//! [`protocol::text`]. Never shortens a text without saying so, and never changes one that is hashed: a mark can be read
//! back to the character it stands for.

use maud::{Markup, html};
use protocol::text::{Piece, pieces};

/// The text with a mark for every character that would not be seen. Line breaks stay line breaks, behind a mark.
pub(super) fn shown(text: &str) -> Markup {
    html! {
        @for piece in pieces(text) {
            @match piece {
                Piece::Plain(plain) => (plain),
                Piece::Hidden('\n') => { b.mark.quiet title="line break" data-code="a" { "↵" } "\n" },
                Piece::Hidden(hidden) => b.mark title=(name(hidden)) data-code=(format!("{:x}", u32::from(hidden))) {
                    "U+" (format!("{:04X}", u32::from(hidden)))
                },
            }
        }
    }
}

/// The same in one line of at most `width` characters, with an ellipsis where it was cut: for lists only.
pub(super) fn brief(text: &str, width: usize) -> Markup {
    let cut = text.chars().count() > width;
    let kept: String = text.chars().take(if cut { width.saturating_sub(1) } else { width }).collect();
    html! { (shown(&kept.replace('\n', " "))) @if cut { span.soft title="shortened; open it to see the whole" { "…" } } }
}

/// What a mark stands for, for those that people ask about.
fn name(character: char) -> &'static str {
    match u32::from(character) {
        0x09 => "tab",
        0x1B => "escape",
        0xA0 | 0x202F => "space that does not break",
        0xAD => "soft hyphen",
        0x200B | 0x2060 | 0xFEFF => "space without width",
        0x200C | 0x200D => "joiner without width",
        0x61C | 0x200E | 0x200F => "direction mark",
        0x202A..=0x202E => "turns the direction of the text that follows",
        0x2066..=0x2069 => "isolates the direction of the text that follows",
        0x2028 | 0x2029 => "separator of lines",
        0xE000..=0xF8FF | 0xF0000..=0x10FFFF => "private use: looks different on every screen",
        0xFE00..=0xFE0F | 0xE0100..=0xE01EF => "variation selector",
        0xE0000..=0xE007F => "tag character",
        0x1680 | 0x2000..=0x200A | 0x205F | 0x3000 => "unusual space",
        0x300..=0x34E | 0x350..=0x36F => "mark stacked on others",
        _ if character.is_control() => "control character",
        _ => "invisible character",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use protocol::text::is_hidden;

    /// Reads what a page shows back into the text it stands for: marks to characters, references to what they escape.
    pub(in super::super) fn read_back(markup: &str) -> String {
        let mut text = String::new();
        let mut rest = markup;
        while let Some(at) = rest.find("<b class=\"mark") {
            text.push_str(&rest[..at]);
            let (tag, after) = rest[at..].split_once('>').unwrap();
            let code = tag.split("data-code=\"").nth(1).unwrap().split('"').next().unwrap();
            text.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
            rest = after.split_once("</b>").unwrap().1;
            rest = if code == "a" { rest.strip_prefix('\n').unwrap() } else { rest };
        }
        text.push_str(rest);
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    }

    #[test]
    fn what_is_not_seen_is_marked_and_reads_back() {
        let text = "pay \u{202e}05.2\u{202c} to\u{200b}day\u{a0}\u{7f}\u{1b}[2K\u{ad}\u{e0041}\u{fe0f}a\u{301}\u{301}\u{301}\u{301}\u{302} & <b>all</b>\nend";
        let page = shown(text).into_string();
        for mark in
            ["U+202E", "U+202C", "U+200B", "U+00A0", "U+007F", "U+001B", "U+00AD", "U+E0041", "U+FE0F", "U+0302"]
        {
            assert!(page.contains(mark), "{mark} in {page}"); // C-140
        }
        assert!(page.chars().all(|c| c == '\n' || !is_hidden(c)), "{page}"); // C-140
        assert!(page.contains("&lt;b&gt;all&lt;/b&gt;"), "{page}"); // I-52
        assert_eq!(read_back(&page), text); // C-285
    }

    #[test]
    fn letters_of_every_script_stay_as_they_are() {
        for text in ["Zürich", "東京", "שלום", "مرحبا", "naïve", "😀", "e\u{301}"] {
            assert_eq!(shown(text).into_string(), text);
        }
    }

    #[test]
    fn a_line_for_a_list_says_where_it_was_cut() {
        assert_eq!(brief("abc\u{7}", 9).into_string().matches("U+0007").count(), 1); // C-140
        assert!(brief("abcdef", 4).into_string().starts_with("abc<span"));
        assert_eq!(brief("ab\ncd", 9).into_string(), "ab cd");
    }
}
