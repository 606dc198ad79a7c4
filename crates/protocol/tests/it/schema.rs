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

#[test]
fn schemas_as_deep_as_they_can_be_are_compiled_and_checked() {
    let depth = 1_500;
    let links: Vec<String> = (0..depth).map(|at| format!(r##""{at}":{{"$ref":"#/$defs/{}"}}"##, at + 1)).collect();
    let chain = format!(r##"{{"$ref":"#/$defs/0","$defs":{{{},"{depth}":{{"maximum":5}}}}}}"##, links.join(","));
    assert!(chain.len() < 65_536);
    let chain = schema(&chain);
    assert!(chain.check(&json("5")).is_ok() && chain.check(&json("6")).is_err());
    assert!(schema(r##"{"$ref":"#"}"##).check(&json("1")).is_ok());
    let nested = schema(r##"{"items":{"$ref":"#"},"type":"array"}"##);
    assert!(nested.check(&json(&("[".repeat(64) + &"]".repeat(64)))).is_ok());
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
