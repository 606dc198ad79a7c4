//! JSON Schema as C-14 to C-19 have it.

use protocol::code::Code;
use protocol::json::Canonical;
use protocol::schema::{Schema, SchemaFault};

fn json(text: &str) -> Canonical {
    text.parse().unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

fn schema(text: &str) -> Schema {
    Schema::compile(&json(text)).unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

fn accepts(schema_text: &str, body: &str) -> bool {
    schema(schema_text).check(&json(body)).is_ok()
}

#[test]
fn references_out_of_the_document_are_refused_and_nothing_is_fetched() {
    let table = [
        (r#"{"$ref":"https://example.com/x.json"}"#, "/$ref"),
        (r#"{"$ref":"other.json#/a"}"#, "/$ref"),
        (r#"{"properties":{"a":{"items":{"$dynamicRef":"x"}}}}"#, "/properties/a/items/$dynamicRef"),
        (r#"{"allOf":[{},{"$ref":"file:///etc/passwd"}]}"#, "/allOf/1/$ref"),
        (r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#, "/$schema"),
        (r#"{"$id":"https://example.com/","$ref":"https://example.com/"}"#, "/$ref"),
        (r#"{"properties":{"enum":{"$ref":"x"}}}"#, "/properties/enum/$ref"),
    ];
    for (text, pointer) in table {
        let fault = Schema::compile(&json(text)).unwrap_err();
        // C-14
        assert_eq!((fault.pointer(), fault.code()), (pointer, Code::SchemaExternalRef), "{text}");
    }
}

#[test]
fn references_inside_the_document_work() {
    let list = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"#/$defs/list",
        "$defs":{"list":{"type":"object","properties":{"next":{"$ref":"#/$defs/list"},"n":{"$ref":"#n"}}},"n":{"$anchor":"n","type":"integer"}}}"##;
    // C-14
    assert!(accepts(list, r#"{"n":1,"next":{"n":2}}"#));
    assert!(!accepts(list, r#"{"n":1,"next":{"n":"2"}}"#));
    // A `$ref` in data is no reference.
    assert!(accepts(
        r#"{"properties":{"$ref":{"type":"string"}},"const":{"$ref":"https://example.com"}}"#,
        r#"{"$ref":"https://example.com"}"#
    ));
}

#[test]
fn formats_are_asserted_and_unknown_ones_refused() {
    let table = [
        ("email", "a@example.com", "not a mail"),
        ("date-time", "2026-11-30T09:30:00Z", "2026-13-30T09:30:00Z"),
        ("uuid", "01890a5d-ac96-774b-bcce-b302099a8057", "x"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("uri", "https://example.com/a", "no uri"),
    ];
    for (format, good, bad) in table {
        let schema = format!(r#"{{"format":"{format}"}}"#);
        // C-16
        assert!(accepts(&schema, &format!("\"{good}\"")), "{format}");
        assert!(!accepts(&schema, &format!("\"{bad}\"")), "{format}");
    }
    // C-16
    let fault = Schema::compile(&json(r#"{"properties":{"a":{"format":"phone-number"}}}"#)).unwrap_err();
    assert_eq!((fault.pointer(), fault.code()), ("/properties/a/format", Code::ToolInvalid));
}

#[test]
fn patterns_run_in_linear_time_or_are_refused() {
    for pattern in [r"(?=a)b", r"(a)\\1", r"(?<!a)b", r"["] {
        for schema in
            [format!(r#"{{"pattern":"{pattern}"}}"#), format!(r#"{{"patternProperties":{{"{pattern}":{{}}}}}}"#)]
        {
            // C-17
            assert!(matches!(Schema::compile(&json(&schema)), Err(SchemaFault::Invalid { .. })), "{schema}");
        }
    }
    let evil = format!("\"{}!\"", "a".repeat(100_000));
    // C-17
    assert!(!accepts(r#"{"pattern":"^(a|a)*(a+)+$"}"#, &evil));
    assert!(matches!(Schema::compile(&json(r#"{"pattern":"(\\w{1000}){1000}"}"#)), Err(SchemaFault::Invalid { .. })));
}

#[test]
fn numbers_never_pass_by_rounding() {
    let table = [
        (r#"{"maximum":9007199254740992}"#, "9007199254740992", true),
        (r#"{"maximum":9007199254740992}"#, "9007199254740993", false),
        (r#"{"maximum":9007199254740992}"#, "9007199254740993.0", false),
        (r#"{"maximum":9007199254740993.0}"#, "9007199254740993", true),
        (r#"{"exclusiveMinimum":9007199254740992}"#, "9007199254740993", true),
        (r#"{"minimum":-9007199254740992}"#, "-9007199254740993", false),
        (r#"{"maximum":18446744073709551615}"#, "18446744073709551615", true),
        (r#"{"maximum":1e300}"#, "18446744073709551616", false),
        (r#"{"maximum":0.1}"#, "0.1", true),
        (r#"{"maximum":0.1}"#, "0.10", true),
        (r#"{"maximum":1}"#, "0.1000000000000000055", false),
        (r#"{"minimum":0}"#, "1e-400", false),
        (r#"{"exclusiveMaximum":0.3}"#, "0.3", false),
        (r#"{"multipleOf":0.1}"#, "0.3", true),
        (r#"{"multipleOf":0.01}"#, "4.02", true),
        (r#"{"multipleOf":2}"#, "9007199254740993", false),
        (r#"{"multipleOf":3}"#, "9007199254740993", true),
        (r#"{"multipleOf":1}"#, "100000000000000000000001", false),
        (r#"{"const":9007199254740992}"#, "9007199254740993", false),
        (r#"{"const":0.1}"#, "0.1000000000000000055", false),
        (r#"{"const":{"a":[1]}}"#, r#"{"a":[1.0]}"#, true),
        (r#"{"enum":[1,"x",9007199254740992]}"#, "9007199254740993", false),
        (r#"{"enum":[1,"x"]}"#, "1e0", true),
        (r#"{"uniqueItems":true}"#, "[9007199254740992,9007199254740993]", true),
        (r#"{"uniqueItems":true}"#, "[1,1.0]", false),
        (r#"{"uniqueItems":true}"#, r#"[{"a":1},{"a":1e0}]"#, false),
        (r#"{"type":"integer"}"#, "1.0", true),
        (r#"{"type":"integer"}"#, "1e2", true),
        (r#"{"type":"integer"}"#, "1.00000000000000000001", false),
        (r#"{"type":"integer"}"#, "123456789012345678901234567890", true),
        (r#"{"type":"number"}"#, "0.1000000000000000055", true),
        (r#"{"anyOf":[{"maximum":5},{"type":"number"}]}"#, "0.1000000000000000055", true),
        (
            r#"{"type":"object","properties":{"a":{"minimum":1,"maximum":9007199254740992}}}"#,
            r#"{"a":9007199254740993}"#,
            false,
        ),
    ];
    for (schema, body, expected) in table {
        // C-18
        assert_eq!(accepts(schema, body), expected, "{schema} {body}");
    }
    let fault = Schema::compile(&json(r#"{"properties":{"a":{"maximum":0.1000000000000000055}}}"#)).unwrap_err();
    // C-18
    assert!(matches!(&fault, SchemaFault::Inexact { pointer, .. } if pointer == "/properties/a/maximum"), "{fault:?}");
}

#[test]
fn what_is_no_schema_is_refused_where_it_is_wrong() {
    for (text, pointer) in [
        (r#"{"type":"objekt"}"#, "/type"),
        (r#"{"properties":{"a":{"minLength":-1}}}"#, "/properties/a/minLength"),
        (r#"{"required":"a"}"#, "/required"),
        ("[]", ""),
        (r##"{"$ref":"#/nowhere"}"##, ""),
    ] {
        let fault = Schema::compile(&json(text)).unwrap_err();
        assert_eq!(fault.pointer(), pointer, "{text}: {fault}");
    }
    let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(65_536 - 18));
    // C-8
    assert_eq!(large.len(), 65_536);
    assert!(Schema::compile(&json(&large)).is_ok());
    let larger = large.replacen('x', "xx", 1);
    assert_eq!(Schema::compile(&json(&larger)).unwrap_err(), SchemaFault::Size { bytes: 65_537, most: 65_536 });
}

#[test]
fn a_violation_names_pointer_and_keyword_and_shows_no_value() {
    let schema = schema(
        r#"{"type":"object","required":["a"],"properties":{"a":{"type":"array","items":{"maximum":5}},"s":{"const":"x"}},"additionalProperties":false}"#,
    );
    for (body, pointer, keyword) in [
        (r#"{"a":[1,"secret",6]}"#, "/a/2", "maximum"),
        (r#"{"a":"secret"}"#, "/a", "type"),
        ("{}", "", "required"),
        (r#"{"a":[],"s":"secret"}"#, "/s", "const"),
        (r#"{"a":[],"b":"secret"}"#, "", "additionalProperties"),
    ] {
        let violation = schema.check(&json(body)).unwrap_err();
        assert_eq!((violation.pointer.as_str(), violation.keyword.as_str()), (pointer, keyword), "{body}");
        assert!(!violation.message.contains("secret"), "{}", violation.message);
    }
}

/// A schema in which each of `links` schemas applies the next to the same value, and the last goes deeper and begins anew.
fn chain(links: usize, link: impl Fn(usize) -> String) -> String {
    let links: Vec<String> = (0..links).map(|at| format!("\"{at}\":{}", link(at + 1))).collect();
    let last = links.len();
    format!(
        r##"{{"$defs":{{{},"{last}":{{"items":{{"$ref":"#/$defs/0"}},"maximum":5}}}},"$ref":"#/$defs/0"}}"##,
        links.join(",")
    )
}

#[test]
fn schemas_as_deep_as_they_may_be_do_not_exhaust_the_stack() {
    let reference = |at: usize| format!(r##"{{"$ref":"#/$defs/{at}"}}"##);
    let nested = |inner: &str| json(&("[".repeat(63) + inner + &"]".repeat(63)));
    let deepest = schema(&chain(30, reference));
    assert!(deepest.check(&nested("5")).is_ok() && deepest.check(&nested("6")).is_err());
    let branches = schema(&chain(15, |at| format!(r##"{{"allOf":[{{"$ref":"#/$defs/{at}"}}]}}"##)));
    assert!(branches.check(&nested("5")).is_ok() && branches.check(&nested("6")).is_err());
    for too_deep in [chain(31, reference), chain(1_500, reference)] {
        assert!(matches!(Schema::compile(&json(&too_deep)), Err(SchemaFault::Invalid { .. })));
    }
}

#[test]
fn schemas_that_go_round_or_multiply_in_place_are_refused() {
    let twice = |at: usize| format!(r##"{{"allOf":[{{"$ref":"#/$defs/{at}"}},{{"$ref":"#/$defs/{at}"}}]}}"##);
    assert!(Schema::compile(&json(&chain(5, twice))).is_ok());
    for text in [
        chain(30, twice),
        r##"{"$ref":"#"}"##.to_owned(),
        r##"{"allOf":[{"$ref":"#"}]}"##.to_owned(),
        r##"{"$defs":{"a":{"$anchor":"a","not":{"$dynamicRef":"#a"}}}}"##.to_owned(),
        r##"{"$defs":{"a b":{"if":{"$ref":"#/$defs/a%20b"}}}}"##.to_owned(),
        r##"{"$defs":{"a":{"$id":"a","$ref":"#"}}}"##.to_owned(),
    ] {
        assert!(matches!(Schema::compile(&json(&text)), Err(SchemaFault::Invalid { .. })), "{text}");
    }
}

#[test]
fn branches_that_multiply_with_depth_end_soon_with_a_verdict() {
    let nested = |inner: &str| json(&("[".repeat(60) + inner + &"]".repeat(60)));
    for text in [
        r##"{"anyOf":[{"items":{"$ref":"#"},"type":"array"},{"items":{"$ref":"#"},"type":"array"},{"const":1}]}"##,
        r##"{"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/b"}},"b":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"},{"const":1}]}},"$ref":"#/$defs/b"}"##,
        r##"{"anyOf":[{"items":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]},"type":"array"},{"const":1}]}"##,
    ] {
        let schema = schema(text);
        assert_eq!(schema.check(&nested("1")), Ok(()), "{text}");
        assert!(schema.check(&nested("2")).is_err(), "{text}");
    }
}

#[test]
fn the_largest_body_is_checked_whole() {
    let schema = schema(
        r##"{"type":"array","items":{"anyOf":[{"type":"object","required":["a","b"],"properties":{"a":{"minimum":0},"b":{"maxLength":5}},"additionalProperties":false},{"type":"null"}]}}"##,
    );
    let rows = |last: &str| json(&format!("[{}{last}]", r#"{"a":1,"b":"x"},"#.repeat(5_460)));
    assert_eq!(schema.check(&rows("null")), Ok(()));
    assert_eq!(schema.check(&rows("1")).unwrap_err().pointer, "/5460");
}

#[test]
fn compiled_schemas_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Schema>();
}

#[test]
fn defaults_are_filled_in_where_the_schema_surely_applies() {
    let text = r##"{"type":"object","$defs":{"unit":{"type":"string","default":"EUR"}},"properties":{
        "unit":{"$ref":"#/$defs/unit"},"n":{"default":1.0},
        "to":{"type":"object","default":{},"properties":{"cc":{"default":[]}}},
        "list":{"type":"array","items":{"properties":{"k":{"default":null}}}}},
        "allOf":[{"properties":{"all":{"default":true}}}],"anyOf":[{"properties":{"any":{"default":true}}}]}"##;
    let schema = schema(text);
    let filled = |body: &str| schema.apply_defaults(&json(body)).unwrap().to_string();
    // C-19
    assert_eq!(filled("{}"), r#"{"all":true,"n":1.0,"to":{"cc":[]},"unit":"EUR"}"#);
    assert_eq!(
        filled(r#"{"all":false,"n":null,"unit":"USD","to":{"cc":1},"list":[{},{"k":2}]}"#),
        r#"{"all":false,"list":[{"k":null},{"k":2}],"n":null,"to":{"cc":1},"unit":"USD"}"#
    );
    assert_eq!(filled("[1]"), "[1]");
}
