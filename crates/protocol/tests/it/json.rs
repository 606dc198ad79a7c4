//! Canonical JSON: the vectors of C-38, the order of verdicts, and what holds for every text.

use proptest::prelude::*;
use protocol::digest::Digest;
use protocol::json::{self, Canonical, Fault, Reason, Value, canonicalize};

/// What a vector expects.
enum Expect<'a> {
    /// Canonical bytes, and the hex of their digest where the table gives it.
    Bytes(&'a [u8], Option<&'a str>),
    Refused(Reason),
}

use Expect::{Bytes, Refused};

fn check(input: &[u8], expected: Expect<'_>) {
    let shown = String::from_utf8_lossy(&input[..input.len().min(80)]).into_owned();
    match (canonicalize(input), expected) {
        (Ok(found), Bytes(bytes, hex)) => {
            assert_eq!(found.as_bytes(), bytes, "{shown}");
            if let Some(hex) = hex {
                assert_eq!(found.digest().hex(), hex, "{shown}");
            }
        }
        (Err(fault), Refused(reason)) => assert_eq!(fault.reason, reason, "{shown}"),
        (found, Bytes(..)) => panic!("{shown} is refused: {found:?}"),
        (found, Refused(reason)) => panic!("{shown} passes where {reason} is expected: {found:?}"),
    }
}

#[test]
fn the_published_vectors_hold() {
    let same = |text: &'static str, hex| (text.as_bytes().to_vec(), Bytes(text.as_bytes(), Some(hex)));
    let nested = "[".repeat(64) + &"]".repeat(64);
    let zeros = format!("[{}]", vec!["0"; 16_383].join(","));
    assert_eq!(zeros.len(), 32_767);
    let control = b"\"\\b\\t\\n\\f\\r\\u0001\\u001f\x7f<>&\xe2\x80\xa8\"";
    assert_eq!(control.len(), 31);
    let ones = "1".repeat(256);
    let vectors: Vec<(Vec<u8>, Expect<'_>)> = vec![
        // C-38, C-33
        (
            br#"{"b":1,"a":{"d":[],"c":{}}}"#.to_vec(),
            Bytes(
                br#"{"a":{"c":{},"d":[]},"b":1}"#,
                Some("a1f0acae8ef5861541b509e596aaddd244ab74e2622b0a2351c29b53ddf082a1"),
            ),
        ),
        (
            b" { \"a\" : 1.0 ,\n \"b\":1 } ".to_vec(),
            Bytes(br#"{"a":1.0,"b":1}"#, Some("e88f180ac4892b48447f5bd4649a675502aabb5579a7063de96103c5c64e5a87")),
        ),
        // C-35
        same(
            "[1,1.0,1e0,1E+2,-0,0.10,9007199254740993]",
            "04cff96e4e0b7aea46d0ab3516d2d285d98a474fc3e74b39112341a7d64fe37e",
        ),
        // C-34
        (
            br#"{"\u0061":"\u00e9\/","":null}"#.to_vec(),
            Bytes(
                "{\"\":null,\"a\":\"é/\"}".as_bytes(),
                Some("02faef406ae802ca7fe28b75781bd02b26eaf1be295f72eeca52a69cf5275a23"),
            ),
        ),
        (
            br#"{"\ud83d\ude00":1,"\uff5e":2,"a":3}"#.to_vec(),
            Bytes(
                "{\"a\":3,\"\u{ff5e}\":2,\"\u{1f600}\":1}".as_bytes(),
                Some("baae68fb6651c4edd1df912019b6b3f2b87a8c9fb1d188bc18ad0c857fc8baa2"),
            ),
        ),
        (
            br#""\u0008\u0009\u000a\u000c\u000d\u0001\u001F\u007f<>&\u2028""#.to_vec(),
            Bytes(control, Some("c941a89f9633c1382c38be52c5daae311ab98608fa012bef5d41af1a8070c15d")),
        ),
        // C-31
        (
            nested.clone().into_bytes(),
            Bytes(nested.as_bytes(), Some("b3ff3b51ce17ef2a2a68203329ff0e73738c07df874044149c283b28841a0035")),
        ),
        (("[".repeat(65) + &"]".repeat(65)).into_bytes(), Refused(Reason::Depth)),
        // C-32
        (
            zeros.clone().into_bytes(),
            Bytes(zeros.as_bytes(), Some("31ecbedaf19a3d5d3bb8420cbe2b3ac0f10c51c951e9c645da4cfbde878229ae")),
        ),
        (format!("[{}]", vec!["0"; 16_384].join(",")).into_bytes(), Refused(Reason::Nodes)),
        // C-28
        (br#"{"a":1,"\u0061":1}"#.to_vec(), Refused(Reason::DuplicateKey)),
        // C-26
        (b"\"\xc0\xaf\"".to_vec(), Refused(Reason::Utf8)),
        // C-29
        (br#""\ud800""#.to_vec(), Refused(Reason::String)),
        (br#""\udc00\ud800""#.to_vec(), Refused(Reason::String)),
        (br#""a\u0000b""#.to_vec(), Refused(Reason::String)),
        (br#""\uffff""#.to_vec(), Refused(Reason::String)),
        // C-30
        (b"1e400".to_vec(), Refused(Reason::Number)),
        (b"-1e309".to_vec(), Refused(Reason::Number)),
        (b"1e401".to_vec(), Refused(Reason::Number)),
        ("1".repeat(257).into_bytes(), Refused(Reason::Number)),
        (b"1e-400".to_vec(), Bytes(b"1e-400", None)),
        (ones.clone().into_bytes(), Bytes(ones.as_bytes(), None)),
    ];
    for (input, expected) in vectors {
        check(&input, expected);
    }
    let syntax: [&[u8]; 10] =
        [b"{} {}", b"\xef\xbb\xbf{}", b"[1,]", b"{'a':1}", b"01", b"1.", b"+1", b".5", b"NaN", b""];
    for input in syntax {
        // C-27
        check(input, Refused(Reason::Syntax));
    }
}

#[test]
fn bodies_are_bounded_at_exactly_one_mebibyte() {
    let text = |len: usize| format!("\"{}\"", "x".repeat(len - 2));
    // C-25
    assert!(canonicalize(text(1_048_576).as_bytes()).is_ok());
    assert_eq!(canonicalize(text(1_048_577).as_bytes()), Err(Fault { reason: Reason::Size, offset: 1_048_576 }));
}

#[test]
fn the_first_defect_in_byte_order_is_reported_where_it_stands() {
    use Reason::*;
    let deep = "[".repeat(65);
    let table: [(&str, Reason, usize); 28] = [
        // A repeated key is known only when its object ends, and still comes before what follows it.
        (r#"{"a":1,"a":01}"#, DuplicateKey, 7),
        (r#"{"a":1,"a":1"#, DuplicateKey, 7),
        (r#"{"a":1,"a""#, DuplicateKey, 7),
        (r#"{"a":1,"b":2,"a":3,"b":4}"#, DuplicateKey, 13),
        (r#"{"a":1,"a":{"b":1,"b":2}}"#, DuplicateKey, 7),
        (r#"{"a":{"b":1,"b":2},"a":1}"#, DuplicateKey, 12),
        (r#"{"a":[{"x":1,"x":"\ud800"}]}"#, DuplicateKey, 13),
        (r#"{"a":01,"a":1}"#, Syntax, 6),
        (r#"{"a":"\ud800","a":1}"#, String, 6),
        (r#"{"a":1,"\ud800":1,"a":1}"#, String, 8),
        ("", Syntax, 0),
        ("  ", Syntax, 2),
        ("[1 2]", Syntax, 3),
        ("[1]]", Syntax, 3),
        ("{\"a\" 1}", Syntax, 5),
        ("{,}", Syntax, 1),
        ("nul", Syntax, 0),
        ("truex", Syntax, 4),
        ("1e", Syntax, 2),
        ("-", Syntax, 1),
        ("-x", Syntax, 1),
        ("1e400 x", Number, 0),
        (r#"["a\x"]"#, Syntax, 3),
        (r#"["\u12"]"#, Syntax, 2),
        (r#"["\ud83d\u0041"]"#, String, 2),
        ("\"a\u{1}\"", Syntax, 2),
        ("\"a\u{fdd0}\"", String, 2),
        (&deep, Depth, 64),
    ];
    for (text, reason, offset) in table {
        // C-24
        assert_eq!(canonicalize(text.as_bytes()), Err(Fault { reason, offset }), "{text}");
    }
    // C-24
    let long = vec![0xff; 1_048_577];
    assert_eq!(canonicalize(&long).map_err(|fault| fault.reason), Err(Size));
    assert_eq!(canonicalize(b"{x\xff"), Err(Fault { reason: Utf8, offset: 2 }));
}

#[test]
fn strings_refuse_every_noncharacter_and_take_its_neighbours() {
    for plane in 0..=16u32 {
        for low in [0xfffd, 0xfffe, 0xffff, 0x10000] {
            let Some(character) = char::from_u32((plane << 16) + low) else { continue };
            let bad = low == 0xfffe || low == 0xffff;
            // C-29
            assert_eq!(canonicalize(format!("\"{character}\"").as_bytes()).is_err(), bad, "{character:?}");
        }
    }
    for (code, bad) in [(0xfdcf, false), (0xfdd0, true), (0xfdef, true), (0xfdf0, false)] {
        let character = char::from_u32(code).unwrap();
        // C-29
        assert_eq!(canonicalize(format!("\"{character}\"").as_bytes()).is_err(), bad, "{code:x}");
        assert_eq!(canonicalize(format!("\"\\u{code:04x}\"").as_bytes()).is_err(), bad, "{code:x}");
    }
}

#[test]
fn keys_are_ordered_by_their_unescaped_bytes() {
    // As written, `\` would come after letters and `"` before them.
    let keys = ["\u{1}", "\t", " ", "\"", "A", "\\", "a", "a\t", "aa", "\u{7f}", "é", "\u{ff5e}", "\u{10000}"];
    let mut shuffled = keys;
    shuffled.reverse();
    let text = |keys: [&str; 13]| {
        let members = keys.map(|key| format!("{}:1", serde_json::to_string(key).unwrap()));
        format!("{{{}}}", members.join(","))
    };
    // C-33
    let found = canonicalize(text(shuffled).as_bytes()).unwrap().value();
    let found: Vec<String> = found.as_object().unwrap().iter().map(|(key, _)| key.to_owned()).collect();
    assert_eq!(found, keys);
}

#[test]
fn hostile_texts_cost_little() {
    let many: Vec<String> = (0..16_000).rev().map(|at| format!("\"{at:05}\":0")).collect();
    let many = format!("{{{}}}", many.join(","));
    assert!(canonicalize(many.as_bytes()).is_ok());
    assert_eq!(canonicalize("[".repeat(1_000_000).as_bytes()).map_err(|fault| fault.reason), Err(Reason::Depth));
    assert_eq!(canonicalize("{\"\":".repeat(200_000).as_bytes()).map_err(|fault| fault.reason), Err(Reason::Depth));
}

#[test]
fn values_read_what_is_written() {
    let value = canonicalize(br#"{"a":[1.0,{"x/y":"\u00e9\n"}],"m~n":-7,"t":true,"z":null}"#).unwrap().value();
    let text = |pointer: &str| value.pointer(pointer).map(|value| value.canonical().unwrap().to_string());
    assert_eq!(text("/a/0").as_deref(), Some("1.0"));
    assert_eq!(value.pointer("/a/1/x~1y").and_then(Value::as_str), Some("é\n"));
    assert_eq!(value.pointer("/m~0n").and_then(Value::as_i64), Some(-7));
    assert_eq!(value.pointer("/t").and_then(Value::as_bool), Some(true));
    assert!(value.pointer("/z").is_some_and(Value::is_null) && value.pointer("").is_some());
    for absent in ["/a/2", "/a/00", "/a/+0", "/a/-", "/b", "a", "/a/0/x"] {
        assert_eq!(value.pointer(absent), None, "{absent}");
    }
}

#[test]
fn bodies_stand_in_other_json_byte_for_byte() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Shown {
        arguments: Canonical,
    }
    let arguments = canonicalize(br#"{"b":1.0,"a":9007199254740993}"#).unwrap();
    let shown = serde_json::to_string(&Shown { arguments: arguments.clone() }).unwrap();
    // I-40
    assert_eq!(shown, r#"{"arguments":{"a":9007199254740993,"b":1.0}}"#);
    assert_eq!(serde_json::from_str::<Shown>(&shown).unwrap().arguments, arguments);
    assert!(serde_json::from_str::<Shown>(r#"{"arguments":{"a":1,"a":2}}"#).is_err());
    // C-4
    assert_eq!(arguments.digest(), Digest::of(arguments.as_bytes()));
}

#[test]
fn stored_bytes_that_are_not_canonical_are_not_taken() {
    assert!(Canonical::from_stored(br#"{"a":1}"#).is_some());
    for damaged in [&br#"{"a": 1}"#[..], br#"{"b":1,"a":1}"#, b"{", b""] {
        assert_eq!(Canonical::from_stored(damaged), None);
    }
}

#[test]
fn rust_values_become_canonical_json() {
    let record =
        json::to_canonical(&serde_json::json!({"z": 0.1, "a": [1, "é"], "m": {"b": null, "a": 1e300}})).unwrap();
    assert_eq!(record.as_str(), r#"{"a":[1,"é"],"m":{"a":1e+300,"b":null},"z":0.1}"#);
    assert!(json::to_canonical("\u{0}").is_err());
}

/// Any JSON value, with the number literals that are hard.
fn tree() -> impl Strategy<Value = Tree> {
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(|number| format!("{number:?}")),
        prop::sample::select(vec!["0", "-0", "1.0", "1e0", "1E+2", "0.10", "-1.50e-3", "9007199254740993"])
            .prop_map(str::to_owned),
    ];
    let text = prop_oneof!["[a-c\"\\\\\t\u{1}é/]{0,4}", any::<String>()];
    let text = text.prop_filter("characters that a body may hold", |text| {
        text.chars().all(|character| {
            character != '\0'
                && u32::from(character) & 0xfffe != 0xfffe
                && !('\u{fdd0}'..='\u{fdef}').contains(&character)
        })
    });
    let leaf = prop_oneof![
        Just(Tree::Word("null")),
        Just(Tree::Word("true")),
        Just(Tree::Word("false")),
        number.prop_map(Tree::Number),
        text.clone().prop_map(Tree::Text),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let member = (text.clone(), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Tree::List),
            prop::collection::vec(member, 0..5).prop_map(|mut members| {
                members.sort_by(|a, b| a.0.cmp(&b.0));
                members.dedup_by(|a, b| a.0 == b.0);
                Tree::Map(members)
            }),
        ]
    })
}

#[derive(Debug, Clone)]
enum Tree {
    Word(&'static str),
    Number(String),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// Writes a tree in one of many ways: white space, escapes and key order are chosen by `choices`.
fn write(tree: &Tree, choices: &mut impl FnMut(usize) -> usize) -> String {
    let space = |choices: &mut dyn FnMut(usize) -> usize| " \t\n\r".chars().take(choices(5)).collect::<String>();
    match tree {
        Tree::Word(word) => (*word).to_owned(),
        Tree::Number(literal) => literal.clone(),
        Tree::Text(text) => write_text(text, choices),
        Tree::List(items) => {
            let items: Vec<String> = items.iter().map(|item| write(item, choices) + &space(choices)).collect();
            format!("{}[{}]", space(choices), items.join(","))
        }
        Tree::Map(members) => {
            let mut order: Vec<&(String, Tree)> = members.iter().collect();
            for at in (1..order.len()).rev() {
                order.swap(at, choices(at + 1));
            }
            let members: Vec<String> = order
                .into_iter()
                .map(|(key, value)| {
                    format!(
                        "{}{}{}:{}",
                        space(choices),
                        write_text(key, choices),
                        space(choices),
                        write(value, choices)
                    )
                })
                .collect();
            format!("{{{}}}{}", members.join(","), space(choices))
        }
    }
}

fn write_text(text: &str, choices: &mut impl FnMut(usize) -> usize) -> String {
    let character = |character: char| match (character, choices(4)) {
        ('"' | '\\', 0) | ('/', 1) => format!("\\{character}"),
        ('"' | '\\' | '\u{0}'..='\u{1f}', _) | (_, 2) => {
            let mut units = [0; 2];
            character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04X}")).collect()
        }
        _ => character.to_string(),
    };
    format!("\"{}\"", text.chars().map(character).collect::<String>())
}

/// Choices drawn from a seed.
fn from_seed(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |most| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % most
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn texts_that_differ_only_in_white_space_escapes_and_key_order_are_one(tree in tree(), a: u64, b: u64) {
        let (a, b) = (write(&tree, &mut from_seed(a)), write(&tree, &mut from_seed(b)));
        let canonical = canonicalize(a.as_bytes()).unwrap();
        // C-36
        prop_assert_eq!(&canonical, &canonicalize(b.as_bytes()).unwrap());
        prop_assert_eq!(&canonical, &canonicalize(canonical.as_bytes()).unwrap());
        prop_assert!(canonical.len() <= a.len());
        prop_assert_eq!(&canonical, &canonical.value().canonical().unwrap());
    }

    #[test]
    fn texts_that_differ_in_anything_else_are_two(a in tree(), b in tree()) {
        let (one, two) = (write(&a, &mut |most| most - 1), write(&b, &mut |most| most - 1));
        let (one, two) = (canonicalize(one.as_bytes()).unwrap(), canonicalize(two.as_bytes()).unwrap());
        // C-36
        prop_assert_eq!(one == two, same(&a, &b));
    }

    #[test]
    fn what_passes_is_json_to_everybody_else(bytes in prop_oneof![
        "[\\[\\]{}:,\"0-9eE.+\\-\\\\u a-f\n]{0,24}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..24),
    ]) {
        if let Ok(canonical) = canonicalize(&bytes) {
            let theirs: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            let ours: serde_json::Value = serde_json::from_slice(canonical.as_bytes()).unwrap();
            // C-27
            prop_assert_eq!(theirs, ours);
        } else if let Ok(theirs) = serde_json::from_slice::<serde_json::Value>(&bytes) {
            // Refused though it is JSON: only for a rule of our own, never for its syntax.
            let reason = canonicalize(&bytes).unwrap_err().reason;
            prop_assert!(!matches!(reason, Reason::Syntax | Reason::Utf8), "{} {}", reason, theirs);
        }
    }
}

/// Whether two trees are the same value to the last digit.
fn same(a: &Tree, b: &Tree) -> bool {
    match (a, b) {
        (Tree::Word(a), Tree::Word(b)) => a == b,
        (Tree::Number(a), Tree::Number(b)) | (Tree::Text(a), Tree::Text(b)) => a == b,
        (Tree::List(a), Tree::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Tree::Map(a), Tree::Map(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && same(&a.1, &b.1))
        }
        _ => false,
    }
}
