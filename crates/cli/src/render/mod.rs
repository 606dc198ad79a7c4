//! Results for people: pure functions from wire objects to text.
//!
//! Nothing here prints, asks or reads a clock: the time comes in as an argument. What came from programs, agents and
//! approvers passes through [`visible`] before it is shown (C-140).

pub(crate) mod approval;
pub(crate) mod audit;
pub(crate) mod difference;
pub(crate) mod events;
pub(crate) mod lists;
pub(crate) mod run;
#[cfg(test)]
mod samples;

use api::Json;
use protocol::text::{Piece, pieces};
use protocol::time::Time;
use std::fmt::Write as _;

/// How long ago, or how far ahead, in one unit: `3m ago`, `in 23h`. What is ahead is rounded, so that a week is `in 7d`
/// in its first moment too.
pub(crate) fn relative(at: Time, now: Time) -> String {
    if at <= now {
        return format!("{} ago", span_ms(now.since(at).as_millis()));
    }
    let ahead = at.since(now).as_millis();
    let unit = match ahead {
        0..60_000 => 1_000,
        60_000..3_600_000 => 60_000,
        3_600_000..172_800_000 => 3_600_000,
        _ => 86_400_000,
    };
    format!("in {}", span_ms((ahead + unit / 2) / unit * unit))
}

/// A span in its largest whole unit.
pub(crate) fn span_ms(ms: u128) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{}s", ms / 1_000),
        60_000..3_600_000 => format!("{}m", ms / 60_000),
        3_600_000..172_800_000 => format!("{}h", ms / 3_600_000),
        _ => format!("{}d", ms / 86_400_000),
    }
}

/// The text with every control, bidirectional and invisible character shown as a mark. Line breaks stay.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Plain(plain) => shown.push_str(plain),
            Piece::Hidden('\n') => shown.push('\n'),
            Piece::Hidden(hidden) => {
                let _ = write!(shown, "<U+{:04X}>", u32::from(hidden));
            }
        }
    }
    shown
}

/// Arguments as they are, or that they are withheld (C-282).
pub(crate) fn arguments(given: Option<&Json>) -> &str {
    given.map_or("(withheld)", Json::as_str)
}

/// JSON with line breaks and indentation, every token exactly as it is (numbers as written, strings as escaped).
pub(crate) fn pretty(json: &Json) -> String {
    let mut out = String::new();
    let mut depth = 0_usize;
    let (mut in_string, mut escaped) = (false, false);
    let mut characters = json.as_str().chars().peekable();
    while let Some(character) = characters.next() {
        if in_string {
            out.push(character);
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            continue;
        }
        match character {
            '"' => {
                in_string = true;
                out.push(character);
            }
            '{' | '[' => {
                out.push(character);
                while characters.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                match characters.next_if(|c| matches!(c, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(character);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ if character.is_ascii_whitespace() => {}
            _ => out.push(character),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Each line of `text` behind `margin`.
pub(crate) fn indent(text: &str, margin: &str) -> String {
    text.lines().map(|line| format!("{margin}{line}\n")).collect()
}

/// At most `width` characters on one line, cut with an ellipsis.
pub(crate) fn short(text: &str, width: usize) -> String {
    let line = visible(&text.replace('\n', " "));
    if line.chars().count() <= width {
        return line;
    }
    let mut cut: String = line.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A table without frames: columns two blanks apart, a heading line, nothing after the last column.
pub(crate) fn table(heading: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(heading.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// A value, or a dash.
pub(crate) fn or_dash(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn pretty_json_keeps_every_token() {
        let json = Json::parse(r#"{"a":[1.0,1e0, {}],"b":"x\"{,:\\","c":[],"d":{"e":-0}}"#).unwrap();
        expect![[r#"
            {
              "a": [
                1.0,
                1e0,
                {}
              ],
              "b": "x\"{,:\\",
              "c": [],
              "d": {
                "e": -0
              }
            }"#]]
        .assert_eq(&pretty(&json));
    }

    #[test]
    fn what_a_terminal_would_obey_or_hide_is_shown_as_a_mark() {
        let text = "a\u{1b}[31m\u{202e}b\u{200b}\tc\u{7f}é\u{a0}\u{e0041}\n";
        assert_eq!(visible(text), "a<U+001B>[31m<U+202E>b<U+200B><U+0009>c<U+007F>é<U+00A0><U+E0041>\n"); // C-140
        let flood = format!("a{}", "\u{301}".repeat(5));
        assert!(visible(&flood).ends_with("\u{301}<U+0301>"), "{flood}"); // C-140
    }

    #[test]
    fn spans_have_one_unit() {
        let at = |ms| Time::from_millis(ms);
        assert_eq!(relative(at(0), at(950)), "950ms ago");
        assert_eq!(relative(at(0), at(61_000)), "1m ago");
        assert_eq!(relative(at(86_400_000), at(0)), "in 24h");
        assert_eq!(relative(at(3 * 86_400_000), at(0)), "in 3d");
        assert_eq!(relative(at(7 * 86_400_000), at(40)), "in 7d");
    }

    #[test]
    fn a_table_has_no_frame_and_no_trailing_blanks() {
        let rows = vec![vec!["a".into(), "long one".into()], vec!["bbbb".into(), "c".into()]];
        expect![[r#"
            X     Y
            a     long one
            bbbb  c
        "#]]
        .assert_eq(&table(&["X", "Y"], rows));
    }

    #[test]
    fn long_text_is_cut_to_one_line() {
        assert_eq!(short("abc\ndef", 20), "abc def");
        assert_eq!(short("abcdef", 4), "abc…");
    }
}
