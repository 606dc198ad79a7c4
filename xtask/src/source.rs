//! Reads Rust and Python just far enough to tell code, comments and text literals apart, and tests from product.
//!
//! Owns: that one split, for `spec` (ids count in comments of tests) and `tidy` (words count in code). Never does:
//! parse. It keeps line numbers: line `n` of the file is line `n` here.

use crate::tree::{File, Tree};

/// One line of a source file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The code, with the inside of text literals left out.
    pub(crate) code: String,
    /// The text of the comments that stand on this line.
    pub(crate) comment: String,
    /// Whether this line belongs to a test.
    pub(crate) test: bool,
}

/// The lines of `file`, or none where it is neither Rust nor Python.
pub(crate) fn lines(tree: &Tree, file: &File) -> Vec<Line> {
    let (mut lines, test) = match file.extension() {
        "rs" => (split_rust(&file.text), is_test_file(tree, file)),
        "py" => (split_python(&file.text), is_test_path(&file.path)),
        _ => return Vec::new(),
    };
    if test {
        lines.iter_mut().for_each(|line| line.test = true);
    } else {
        mark_test_items(&mut lines);
    }
    lines
}

/// A path that only tests use: a `tests` or `conformance` folder, a Python `test_*.py`.
fn is_test_path(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    folders.split('/').any(|part| part == "tests" || part == "conformance")
        || (name.starts_with("test_") && name.ends_with(".py"))
}

/// A Rust file is a test by its path, or because a parent that is one declares it, or one that is none does by
/// `#[cfg(test)] mod name;`.
fn is_test_file(tree: &Tree, file: &File) -> bool {
    if is_test_path(&file.path) {
        return true;
    }
    let Some((folder, name)) = file.path.rsplit_once('/') else {
        return false;
    };
    let (folder, module) = match name {
        "mod.rs" => match folder.rsplit_once('/') {
            Some(split) => split,
            None => return false,
        },
        _ => (folder, name.trim_end_matches(".rs")),
    };
    let parents =
        [format!("{folder}.rs"), format!("{folder}/mod.rs"), format!("{folder}/lib.rs"), format!("{folder}/main.rs")];
    parents.iter().filter_map(|path| tree.get(path)).filter(|parent| parent.path != file.path).any(|parent| {
        let lines = split_rust(&parent.text);
        let declared = lines.iter().any(|line| line.code.trim().ends_with(&format!("mod {module};")));
        declares_test_module(&lines, module) || (declared && is_test_file(tree, parent))
    })
}

fn declares_test_module(lines: &[Line], module: &str) -> bool {
    let code = lines.iter().map(|line| line.code.trim()).collect::<Vec<_>>().join(" ");
    let declaration = format!("mod {module};");
    code.match_indices(&declaration).any(|(at, _)| {
        let before = &code[..at];
        let item = before.rfind([';', '}', '{']).map_or(before, |end| &before[end + 1..]);
        is_test_attribute(item)
    })
}

fn is_test_attribute(code: &str) -> bool {
    code.contains("#[cfg(test)]") || code.contains("#[cfg(all(test")
}

/// Marks the lines from each `#[cfg(test)]` to the end of the item that follows it.
fn mark_test_items(lines: &mut [Line]) {
    let mut at = 0;
    while at < lines.len() {
        let mut end = at;
        if is_test_attribute(&lines[at].code) {
            end = item_end(lines, at);
            lines[at..=end].iter_mut().for_each(|line| line.test = true);
        }
        at = end + 1;
    }
}

/// The last line of the item whose attributes begin at `start`: its closing brace, or its semicolon.
fn item_end(lines: &[Line], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, line) in lines.iter().enumerate().skip(start) {
        for sign in line.code.chars() {
            match sign {
                '{' => depth += 1,
                '}' if depth == 1 => return at,
                '}' => depth = depth.saturating_sub(1),
                ';' if depth == 0 => return at,
                _ => {}
            }
        }
    }
    lines.len() - 1
}

/// Where a scanner stands between two characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Code,
    LineComment,
    /// Rust only; they nest.
    BlockComment(usize),
    /// A text that ends with this quote, repeated `quotes` times and followed by `hashes` times `#`.
    Text {
        quote: char,
        quotes: usize,
        hashes: usize,
        escapes: bool,
    },
}

/// Collects lines while a scanner walks over the text.
#[derive(Default)]
struct Lines {
    done: Vec<Line>,
    now: Line,
}

impl Lines {
    fn end_line(&mut self) {
        self.done.push(std::mem::take(&mut self.now));
    }

    fn finish(mut self) -> Vec<Line> {
        if self.now != Line::default() {
            self.end_line();
        }
        self.done
    }
}

/// Whether a text that opened with these signs ends at `at`; if so, how many signs close it.
fn closes(signs: &[char], at: usize, quote: char, quotes: usize, hashes: usize) -> Option<usize> {
    let close = signs.get(at..at + quotes + hashes)?;
    let (ends, marks) = close.split_at(quotes);
    (ends.iter().all(|sign| *sign == quote) && marks.iter().all(|sign| *sign == '#')).then_some(close.len())
}

fn split_rust(text: &str) -> Vec<Line> {
    let signs: Vec<char> = text.chars().collect();
    let mut lines = Lines::default();
    let mut state = At::Code;
    let mut at = 0;
    while at < signs.len() {
        let sign = signs[at];
        let next = signs.get(at + 1).copied();
        if sign == '\n' {
            lines.end_line();
            state = if state == At::LineComment { At::Code } else { state };
            at += 1;
            continue;
        }
        let mut step = 1;
        match state {
            At::LineComment => lines.now.comment.push(sign),
            At::BlockComment(depth) => match (sign, next) {
                ('*', Some('/')) => {
                    step = 2;
                    state = if depth == 1 { At::Code } else { At::BlockComment(depth - 1) };
                }
                ('/', Some('*')) => {
                    step = 2;
                    state = At::BlockComment(depth + 1);
                }
                _ => lines.now.comment.push(sign),
            },
            At::Text { quote, quotes, hashes, escapes } => {
                if escapes && sign == '\\' && next != Some('\n') {
                    step = 2;
                } else if let Some(length) = closes(&signs, at, quote, quotes, hashes) {
                    step = length;
                    lines.now.code.push(quote);
                    state = At::Code;
                }
            }
            At::Code => match (sign, next) {
                ('/', Some('/')) => {
                    step = 2;
                    state = At::LineComment;
                }
                ('/', Some('*')) => {
                    step = 2;
                    state = At::BlockComment(1);
                }
                ('"', _) => {
                    lines.now.code.push('"');
                    state = At::Text { quote: '"', quotes: 1, hashes: 0, escapes: true };
                }
                ('r', Some('"' | '#')) if raw_text(&signs, at).is_some() => {
                    let hashes = raw_text(&signs, at).expect("just seen");
                    lines.now.code.push('"');
                    step = hashes + 2;
                    state = At::Text { quote: '"', quotes: 1, hashes, escapes: false };
                }
                ('\'', _) => {
                    step = char_literal(&signs, at);
                    lines.now.code.push('\'');
                }
                _ => lines.now.code.push(sign),
            },
        }
        at += step;
    }
    lines.finish()
}

/// At the `r` of `r"` or `r##"`: the number of `#`. An `r` inside a word, or of a raw identifier, opens nothing.
fn raw_text(signs: &[char], at: usize) -> Option<usize> {
    let before = at.checked_sub(1).map(|before| signs[before]);
    if before.is_some_and(|sign| (sign.is_alphanumeric() && sign != 'b' && sign != 'c') || sign == '_') {
        return None;
    }
    let hashes = signs[at + 1..].iter().take_while(|sign| **sign == '#').count();
    (signs.get(at + 1 + hashes) == Some(&'"')).then_some(hashes)
}

/// At a `'`: the length of a character literal, or 1 where it opens a lifetime.
fn char_literal(signs: &[char], at: usize) -> usize {
    match (signs.get(at + 1), signs.get(at + 2)) {
        (Some('\\'), _) => {
            let close = signs[at + 3..].iter().take(10).position(|sign| *sign == '\'');
            close.map_or(1, |close| close + 4)
        }
        (Some(_), Some('\'')) => 3,
        _ => 1,
    }
}

fn split_python(text: &str) -> Vec<Line> {
    let signs: Vec<char> = text.chars().collect();
    let mut lines = Lines::default();
    let mut state = At::Code;
    let mut at = 0;
    while at < signs.len() {
        let sign = signs[at];
        let mut step = 1;
        match state {
            _ if sign == '\n' => {
                lines.end_line();
                // A text in single quotes cannot run over its line; a broken one ends there.
                let stays = matches!(state, At::Text { quotes: 3, .. });
                state = if stays { state } else { At::Code };
            }
            At::LineComment | At::BlockComment(_) => lines.now.comment.push(sign),
            At::Text { quote, quotes, .. } => {
                if sign == '\\' && signs.get(at + 1) != Some(&'\n') {
                    step = 2;
                } else if let Some(length) = closes(&signs, at, quote, quotes, 0) {
                    step = length;
                    lines.now.code.push(quote);
                    state = At::Code;
                }
            }
            At::Code if sign == '#' => state = At::LineComment,
            At::Code if sign == '"' || sign == '\'' => {
                let quotes = if closes(&signs, at, sign, 3, 0).is_some() { 3 } else { 1 };
                lines.now.code.push(sign);
                step = quotes;
                state = At::Text { quote: sign, quotes, hashes: 0, escapes: true };
            }
            At::Code => lines.now.code.push(sign),
        }
        at += step;
    }
    lines.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Vec<(String, String)> {
        split_rust(text).into_iter().map(|line| (line.code, line.comment)).collect()
    }

    #[test]
    fn rust_texts_hide_what_looks_like_a_comment() {
        let cases = [
            ("let a = \"// no\"; // yes", "let a = \"\"; ", " yes"),
            ("let a = r#\"\" // no\"#; // yes", "let a = \"\"; ", " yes"),
            ("let a = b\"\\\" // no\"; // yes", "let a = b\"\"; ", " yes"),
            ("let a = '\"'; // yes", "let a = '; ", " yes"),
            ("let a = '\\''; // yes", "let a = '; ", " yes"),
            ("fn f<'a>(x: &'a str) {} // yes", "fn f<'a>(x: &'a str) {} ", " yes"),
            ("a /* x /* y */ z */ b", "a  b", " x  y  z "),
            ("let r#type = 1; // yes", "let r#type = 1; ", " yes"),
        ];
        for (text, code, comment) in cases {
            assert_eq!(rust(text), [(code.to_owned(), comment.to_owned())], "{text}");
        }
    }

    #[test]
    fn a_text_over_several_lines_keeps_the_line_numbers() {
        let lines = rust("let a = \"one\n// two\n\"; // three\nfour\n");
        let comments: Vec<&str> = lines.iter().map(|(_, comment)| comment.as_str()).collect();
        assert_eq!(comments, ["", "", " three", ""]);
    }

    #[test]
    fn python_texts_hide_what_looks_like_a_comment() {
        let text = "a = '# no'  # yes\n\"\"\"\n# no\n\"\"\"\nb = 'it\\'s'  # yes too\n";
        let comments: Vec<String> = split_python(text).into_iter().map(|line| line.comment).collect();
        assert_eq!(comments, [" yes", "", "", "", " yes too"]);
    }

    fn tested_lines(files: &[(&str, &str)], path: &str) -> Vec<usize> {
        let tree = Tree::of(files);
        let file = tree.get(path).expect("the file is in the tree");
        let lines = lines(&tree, file);
        lines.iter().enumerate().filter(|(_, line)| line.test).map(|(at, _)| at + 1).collect()
    }

    #[test]
    fn a_test_module_ends_at_its_brace() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { \"}\"; }\n}\nfn c() {}\n";
        assert_eq!(tested_lines(&[("crates/x/src/a.rs", text)], "crates/x/src/a.rs"), [2, 3, 4, 5]);
    }

    #[test]
    fn a_test_module_in_its_own_file_is_a_test() {
        let files = [
            ("crates/x/src/a.rs", "fn f() {}\n#[cfg(test)]\nmod table;\nmod plain;\n"),
            ("crates/x/src/a/plain.rs", "// one\n"),
            ("crates/x/src/a/table/row.rs", "// one\n"),
        ];
        let files = [&files[..], &[("crates/x/src/a/table.rs", "mod row;\n")]].concat();
        assert_eq!(tested_lines(&files, "crates/x/src/a/table.rs"), [1]);
        assert_eq!(tested_lines(&files, "crates/x/src/a/table/row.rs"), [1]);
        assert!(tested_lines(&files, "crates/x/src/a/plain.rs").is_empty());
    }

    #[test]
    fn test_folders_and_python_tests_are_tests() {
        for path in ["crates/x/tests/it/main.rs", "crates/x/src/conformance/a.rs", "examples/y/test_z.py"] {
            assert_eq!(tested_lines(&[(path, "a\n")], path), [1], "{path}");
        }
        assert!(tested_lines(&[("examples/y/z.py", "a\n")], "examples/y/z.py").is_empty());
    }
}
