//! Tool specs: calls.md section 2, and the tools of I-62 to I-64.

use protocol::code::Code;
use protocol::json::{Canonical, Value};
use protocol::policy::Trigger;
use protocol::tool::registry::{Registration, check_references, registration};
use protocol::tool::{Connector, Effect, Fault, OnCancel, Recovery, ToolSpec};
use std::time::Duration;

fn json(text: &str) -> Canonical {
    text.parse().unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

const REFUND: &str = r#"{"name":"payments.refund","version":"1","description":"Refund an order","effect":"write","recovery":"idempotent",
    "input_schema":{"type":"object","required":["order_id","amount"],"properties":{"order_id":{"type":"string"},"amount":{"type":"number"}}},
    "limits":{"timeout":"10s"},
    "http":{"method":"POST","url":"http://127.0.0.1:9100/refunds","headers":{"Authorization":{"secret":"env:PAY_TOKEN","prefix":"Bearer "}}},
    "approval":{"when":"args.amount > 100","lease":"24h","roles":["finance"],"quorum":1,"edit":"yes","on_expiry":"reject"}}"#;

/// The refund tool with some members set, or removed where the value is empty.
fn with(members: &[(&str, &str)]) -> Canonical {
    let Value::Object(mut spec) = json(REFUND).value() else { unreachable!() };
    for (key, value) in members {
        if value.is_empty() {
            spec.remove(key);
        } else {
            spec.insert((*key).to_owned(), json(value).value());
        }
    }
    Value::Object(spec).canonical().unwrap()
}

fn parsed(members: &[(&str, &str)]) -> ToolSpec {
    ToolSpec::parse(&with(members)).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn faults(members: &[(&str, &str)]) -> Vec<Fault> {
    ToolSpec::parse(&with(members)).expect_err("a bad part")
}

fn pointers(members: &[(&str, &str)]) -> Vec<String> {
    faults(members).into_iter().map(|fault| fault.pointer).collect()
}

#[test]
fn a_tool_of_a_configuration_is_read_whole() {
    let refund = parsed(&[]);
    // C-8
    assert_eq!((refund.module(), refund.function(), refund.version.as_str()), ("payments", "refund", "1"));
    assert_eq!(refund.effect, Effect::Write);
    assert_eq!(refund.recovery, Recovery::Idempotent { key_life: Duration::from_secs(86_400) });
    assert_eq!(refund.limits.timeout, Duration::from_secs(10));
    assert_eq!((refund.limits.argument_bytes, refund.limits.concurrency, refund.limits.calls), (1_048_576, 16, None));
    assert_eq!(
        (refund.output_schema.as_str(), &refund.on_cancel, refund.apply_defaults),
        ("{}", &OnCancel::Wait, false)
    );
    // I-63
    assert!(matches!(refund.approval.as_ref().unwrap().trigger, Trigger::When(_)));
    assert!(matches!(parsed(&[("approval", "\"never\"")]).approval.unwrap().trigger, Trigger::Never));
    // I-64
    let Connector::Http(http) = &refund.connector else { panic!("an HTTP tool") };
    assert_eq!(
        (http.url.authority().as_str(), http.headers.keys().next().unwrap().as_str()),
        ("127.0.0.1:9100", "authorization")
    );
    // C-43
    assert_eq!(ToolSpec::parse(&refund.canonical()), Ok(refund));
}

#[test]
fn names_are_two_plain_words_that_python_leaves_free() {
    let long = format!("a{}.b", "x".repeat(30));
    for name in ["a.b", "payments.refund", "a1_.b_2", &long] {
        // C-8
        assert!(ToolSpec::parse(&with(&[("name", &format!("\"{name}\""))])).is_ok(), "{name}");
    }
    let longer = format!("a{}.b", "x".repeat(31));
    for name in ["a", "a.b.c", ".b", "a.", "A.b", "_a.b", "1a.b", "a-b.c", "a.b ", "", &longer] {
        // C-8
        assert_eq!(pointers(&[("name", &format!("\"{name}\""))]), ["/name"], "{name}");
    }
    for name in [
        "class.x",
        "x.lambda",
        "match.x",
        "print.x",
        "x.open",
        "json.x",
        "x.asyncio",
        "stasis.x",
        "x.stasis",
        "inputs.x",
        "x.result",
        "x.type",
    ] {
        let faults = faults(&[("name", &format!("\"{name}\""))]);
        // C-20
        assert_eq!(
            (faults[0].pointer.as_str(), faults[0].code, faults.len()),
            ("/name", Code::ToolInvalid, 1),
            "{name}"
        );
    }
}

#[test]
fn every_bad_part_is_listed_with_its_place() {
    let bad = [
        ("name", "\"x\""),
        ("description", "\"\""),
        ("effect", "\"change\""),
        ("input_schema", r#"{"type":"object","properties":{"a":{"$ref":"x.json"}}}"#),
        ("output_schema", r#"{"type":"objekt"}"#),
        ("limits", r#"{"timeout":"61m","concurrency":0,"calls":10001,"timeouts":1}"#),
        ("approval", r#"{"when":"args.amount >","quorum":17}"#),
        ("secret_params", r#"["amount"]"#),
        ("operands", r#"[{"pointer":"/a","kind":"link"}]"#),
        ("http", r#"{"method":"FETCH","url":"ftp://x/","headers":{"Host":"x"},"statuses":{"99":"ok","409":"maybe"}}"#),
        ("timeout", "\"10s\""),
    ];
    let expected = [
        "/approval/quorum",
        "/approval/when",
        "/description",
        "/effect",
        "/http/headers/Host",
        "/http/method",
        "/http/statuses/409",
        "/http/statuses/99",
        "/http/url",
        "/input_schema/properties/a/$ref",
        "/limits/calls",
        "/limits/concurrency",
        "/limits/timeout",
        "/limits/timeouts",
        "/name",
        "/operands/0/kind",
        "/output_schema/type",
        "/secret_params",
        "/timeout",
    ];
    let mut found = pointers(&bad);
    found.sort();
    // C-21
    assert_eq!(found, expected);
    // I-60
    let unknown = faults(&[("recovry", "\"manual\"")]);
    assert_eq!(unknown[0].message, "unknown field; did you mean `recovery`?");
}

#[test]
fn effect_and_recovery_go_together() {
    let lookup = r#"{"tool":"payments.find","arguments":{"key":{"$key":true},"id":{"$arguments":"/order_id"}}}"#;
    let table = [
        ("pure", "\"retry\"", true),
        ("read", "\"retry\"", true),
        ("read", "", true),
        ("read", "\"idempotent\"", false),
        ("pure", "\"manual\"", false),
        ("read", "\"lookup\"", false),
        ("write", "\"retry\"", false),
        ("write", "\"idempotent\"", true),
        ("write", "\"lookup\"", true),
        ("write", "\"manual\"", true),
        ("write", "", true),
        ("write", "\"sometimes\"", false),
    ];
    for (effect, recovery, good) in table {
        let effect = format!("\"{effect}\"");
        let lookup = if recovery == "\"lookup\"" { lookup } else { "" };
        let result = ToolSpec::parse(&with(&[("effect", &effect), ("recovery", recovery), ("lookup", lookup)]));
        // C-11
        assert_eq!(result.is_ok(), good, "{effect} {recovery}: {result:?}");
    }
    // C-11
    assert_eq!(parsed(&[("recovery", "")]).recovery, Recovery::Manual);
    // C-8
    assert_eq!(pointers(&[("recovery", "\"lookup\"")]), ["/lookup"]);
    assert_eq!(pointers(&[("lookup", lookup)]), ["/lookup"]);
    assert_eq!(pointers(&[("recovery", "\"manual\""), ("key_life", "\"1h\"")]), ["/key_life"]);
    assert_eq!(pointers(&[("effect", "")]), ["/effect"]);
}

#[test]
fn arguments_are_always_an_object() {
    for schema in ["{}", "true", r#"{"type":["object"]}"#, r#"{"type":"array"}"#] {
        // C-15
        assert!(
            pointers(&[("input_schema", schema), ("http", r#"{"method":"POST","url":"http://a/"}"#)])
                .contains(&"/input_schema".to_owned()),
            "{schema}"
        );
    }
    assert_eq!(pointers(&[("input_schema", "")]), ["/input_schema"]);
}

#[test]
fn the_digest_covers_all_that_a_call_depends_on() {
    let refund = parsed(&[]);
    for same in [
        parsed(&[("title", "\"Refund\""), ("tags", "[\"money\"]"), ("notes", "\"see wiki\"")]),
        parsed(&[("approval", "\"never\"")]),
        parsed(&[("approval", "")]),
        parsed(&[("limits", r#"{"timeout":"10000ms","concurrency":16}"#)]),
        ToolSpec::parse(&json(&REFUND.replace(",", " ,\n"))).unwrap(),
    ] {
        // C-9
        assert_eq!(same.digest(), refund.digest());
    }
    let changes: [&[(&str, &str)]; 14] = [
        &[("name", "\"payments.refunds\"")],
        &[("version", "\"2\"")],
        &[("description", "\"Refund an order.\"")],
        &[("recovery", "\"manual\"")],
        &[("key_life", "\"1h\"")],
        &[("input_schema", r#"{"type":"object"}"#)],
        &[("output_schema", r#"{"type":"object"}"#)],
        &[("apply_defaults", "true")],
        &[("operands", r#"[{"pointer":"/file","kind":"file"}]"#)],
        &[("secret_params", r#"["/token"]"#)],
        &[("on_cancel", "\"abort\"")],
        &[("limits", r#"{"timeout":"11s"}"#)],
        &[("resource", "\"gpu\"")],
        &[("http", r#"{"method":"POST","url":"http://127.0.0.1:9100/refunds"}"#)],
    ];
    let mut digests = vec![refund.digest()];
    digests.extend(changes.map(|change| parsed(change).digest()));
    digests.sort();
    digests.dedup();
    // C-9
    assert_eq!(digests.len(), 15);
}

#[test]
fn a_version_is_made_of_the_content_where_none_is_given() {
    let made = parsed(&[("version", "")]);
    // I-62
    assert!(made.version.len() == 12 && made.version.bytes().all(|byte| byte.is_ascii_hexdigit()), "{}", made.version);
    assert_eq!(parsed(&[("version", ""), ("title", "\"x\"")]).version, made.version);
    assert_ne!(parsed(&[("version", ""), ("description", "\"x\"")]).version, made.version);
    let longest = format!("\"{}\"", "x".repeat(64));
    // C-8
    assert!(ToolSpec::parse(&with(&[("version", &longest)])).is_ok());
    for version in ["\"\"", "\"a b\"", "\"é\"", &format!("\"{}\"", "x".repeat(65))] {
        assert_eq!(pointers(&[("version", version)]), ["/version"]);
    }
}

#[test]
fn a_name_and_version_stand_for_one_tool() {
    let known = parsed(&[]);
    // C-10
    assert_eq!(registration(&known, None), Registration::New);
    assert_eq!(registration(&parsed(&[("notes", "\"x\"")]), Some(&known)), Registration::Known);
    assert_eq!(registration(&parsed(&[("resource", "\"gpu\"")]), Some(&known)), Registration::Conflict);
}

#[test]
fn tools_that_a_tool_refers_to_exist_and_have_the_right_effect() {
    let ask = |tool: &str| format!(r#"{{"tool":"{tool}","arguments":{{"id":{{"$arguments":"/order_id"}}}}}}"#);
    let refund = parsed(&[
        ("recovery", "\"lookup\""),
        ("lookup", &ask("payments.find")),
        ("on_cancel", &ask("payments.stop")),
        ("compensate", r#"{"tool":"payments.charge","arguments":{"id":{"$result":"/id"}}}"#),
    ]);
    let tool = |name: &str, effect: &str| {
        parsed(&[("name", &format!("\"{name}\"")), ("effect", &format!("\"{effect}\"")), ("recovery", "")])
    };
    let (find, stop, charge) =
        (tool("payments.find", "read"), tool("payments.stop", "write"), tool("payments.charge", "write"));
    assert_eq!(check_references([&refund, &find, &stop, &charge]), []);
    let wrong = [tool("payments.find", "write"), tool("payments.stop", "read"), refund];
    let found: Vec<String> = check_references(&wrong).into_iter().map(|fault| fault.pointer).collect();
    // C-13
    assert_eq!(
        found,
        ["/payments.refund/lookup/tool", "/payments.refund/on_cancel/tool", "/payments.refund/compensate/tool"]
    );
    // C-13
    let itself = ask("payments.refund");
    assert_eq!(pointers(&[("on_cancel", &itself), ("compensate", &itself)]), ["/on_cancel", "/compensate"]);
    assert_eq!(
        pointers(&[("on_cancel", r#"{"tool":"payments.stop","arguments":{"id":{"$result":""}}}"#)]),
        ["/on_cancel/arguments"]
    );
}

#[test]
fn a_tool_has_exactly_one_connector() {
    let mcp = r#"{"server":"files","tool":"read"}"#;
    let command = r#"{"argv":["/usr/bin/git","status"],"env":{"HOME":true,"TOKEN":{"secret":"file:token"}},"exit":{"3":"error"}}"#;
    for (name, fields) in [("mcp", mcp), ("command", command)] {
        // C-8
        assert!(ToolSpec::parse(&with(&[("http", ""), (name, fields)])).is_ok(), "{name}");
        assert_eq!(pointers(&[(name, fields)]).len(), 1, "{name}");
    }
    // C-8
    assert_eq!(pointers(&[("http", "")]), ["/http"]);
    assert_eq!(pointers(&[("http", ""), ("builtin", r#"{"function":"now"}"#)]), ["/builtin"]);
    // C-265
    for argv in [r#"["git"]"#, "[]", r#"["./git"]"#] {
        assert_eq!(pointers(&[("http", ""), ("command", &format!(r#"{{"argv":{argv}}}"#))]), ["/command/argv"]);
    }
    // C-269
    let plain = r#"{"method":"POST","url":"http://a/","headers":{"X":{"secret":"hunter2"}}}"#;
    assert_eq!(pointers(&[("http", plain)]), ["/http/headers/X"]);
}

#[test]
fn the_url_takes_required_plain_arguments_only() {
    let schema = r#"{"type":"object","required":["id","o"],"properties":{"id":{"type":["string","integer"]},"opt":{"type":"string"},"o":{"type":"object"},"any":{}}}"#;
    let http = |method: &str, path: &str, query: &str| {
        format!(r#"{{"method":"{method}","url":"http://a/{path}","query":{query}}}"#)
    };
    let table = [
        (http("POST", "{id}", "[]"), 0),
        (http("POST", "{opt}", "[]"), 1),
        (http("POST", "{o}", "[]"), 1),
        (http("POST", "{any}/{missing}", "[]"), 2),
        (http("GET", "{id}", "[]"), 1),
        (http("POST", "{id}", r#"["opt","any"]"#), 0),
        (http("POST", "{id}", r#"["o","missing"]"#), 2),
    ];
    for (http, count) in table {
        let found = ToolSpec::parse(&with(&[("input_schema", schema), ("http", &http)])).err().unwrap_or_default();
        // I-64
        assert!(found.len() == count && found.iter().all(|fault| fault.pointer == "/http"), "{http}: {found:?}");
    }
}

#[test]
fn limits_are_accepted_at_their_edges() {
    for (good, limits) in [
        (true, r#"{"timeout":"1ms","concurrency":1,"argument_bytes":1,"result_bytes":"1MiB","calls":1}"#),
        (true, r#"{"timeout":"1h","concurrency":1024,"argument_bytes":1048576,"calls":10000}"#),
        (false, r#"{"timeout":"0s"}"#),
        (false, r#"{"timeout":"3600001ms"}"#),
        (false, r#"{"concurrency":1025}"#),
        (false, r#"{"result_bytes":1048577}"#),
        (false, r#"{"argument_bytes":0}"#),
        (false, r#"{"timeout":30}"#),
    ] {
        // C-8
        assert_eq!(ToolSpec::parse(&with(&[("limits", limits)])).is_ok(), good, "{limits}");
    }
    let text = |len: usize| format!("\"{}\"", "x".repeat(len));
    // C-8
    assert!(
        ToolSpec::parse(&with(&[("description", &text(1_024)), ("title", &text(96)), ("notes", &text(4_000))])).is_ok()
    );
    assert_eq!(pointers(&[("description", &text(1_025))]), ["/description"]);
    assert_eq!(pointers(&[("title", &text(97)), ("notes", &text(4_000))]), ["/notes"]);
}

#[test]
fn the_engines_own_tools_are_in_a_module_of_their_own() {
    let now = r#"{"name":"stasis.now","version":"1","description":"The time","effect":"read","input_schema":{"type":"object"},"builtin":{"function":"now"}}"#;
    // C-268
    assert!(ToolSpec::parse_builtin(&json(now)).is_ok());
    assert!(ToolSpec::parse(&json(now)).is_err());
    assert!(ToolSpec::parse_builtin(&json(&now.replace("stasis.now", "time_tools.now"))).is_err());
}
