//! What differs between two JSON texts, line by line.

use super::{pretty, visible};
use api::Json;

/// Lines times lines that are compared one by one; what is larger is shown as gone and come.
const COMPARED: usize = 1 << 20;

/// Both texts in one: lines that went behind `-`, lines that came behind `+`, the others as they are.
pub(crate) fn difference(old: &Json, new: &Json) -> String {
    let (old, new) = (visible(&pretty(old)), visible(&pretty(new)));
    // The comma after a member belongs to its neighbour: what only moved to the end has not changed.
    let lines = |text: &str| text.lines().map(|line| line.trim_end_matches(',').to_owned()).collect::<Vec<_>>();
    let (old, new) = (lines(&old), lines(&new));
    let mut text = String::new();
    let mut say = |mark: char, line: &str| text.extend([mark, ' '].into_iter().chain(line.chars()).chain(['\n']));
    let common = common(&old, &new);
    let (mut at, mut to) = (0, 0);
    for (same_old, same_new) in common.into_iter().chain([(old.len(), new.len())]) {
        old[at..same_old].iter().for_each(|line| say('-', line));
        new[to..same_new].iter().for_each(|line| say('+', line));
        if let Some(line) = old.get(same_old) {
            say(' ', line);
        }
        (at, to) = (same_old + 1, same_new + 1);
    }
    text
}

/// The longest common lines, as places in both.
fn common(old: &[String], new: &[String]) -> Vec<(usize, usize)> {
    if old.len().saturating_mul(new.len()) > COMPARED {
        return Vec::new();
    }
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = match old[i] == new[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            found.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn what_went_and_what_came_stand_where_they_were() {
        let json = |text: &str| Json::parse(text).unwrap();
        let (old, new) = (json(r#"{"amount":250.5,"order_id":"o-7"}"#), json(r#"{"amount":100.50,"order_id":"o-7"}"#));
        expect![[r#"
              {
            -   "amount": 250.5
            +   "amount": 100.50
                "order_id": "o-7"
              }
        "#]]
        .assert_eq(&difference(&old, &new)); // C-186
        expect![[r#"
            - 1
            + 2
        "#]]
        .assert_eq(&difference(&json("1"), &json("2")));
    }
}
