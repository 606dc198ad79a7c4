//! The nearest known name, for whoever mistyped one (I-37).

/// The known name that is closest to `word`, if one is close enough to have been meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    let near = |name: &'a str| (distance(word, name), name);
    known.into_iter().map(near).filter(|(steps, _)| *steps <= allowed).min().map(|(_, name)| name)
}

/// Levenshtein's distance, over characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != *y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_finds_none() {
        let known = ["workflow", "input", "labels", "priority"];
        assert_eq!(nearest("inputs", known), Some("input")); // I-37
        assert_eq!(nearest("prioritiy", known), Some("priority")); // I-37
        assert_eq!(nearest("color", known), None);
        assert_eq!(nearest("", known), None);
    }
}
