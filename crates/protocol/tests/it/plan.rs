//! Plans, grants and attenuation: calls.md section 4.

use protocol::code::Code;
use protocol::digest::Digest;
use protocol::json::Canonical;
use protocol::plan::{Grant, Plan};
use protocol::time::Time;
use protocol::tool::ToolSpec;

fn tool(name: &str, version: &str) -> ToolSpec {
    let text = format!(
        r#"{{"name":"{name}","version":"{version}","description":"x","effect":"read","input_schema":{{"type":"object"}},
            "http":{{"method":"GET","url":"http://127.0.0.1:9100/{name}"}}}}"#
    );
    ToolSpec::parse(&text.parse().unwrap()).unwrap()
}

fn sealed(tools: &[(&ToolSpec, &Grant)]) -> Plan {
    Plan::seal(10, None, &granted(tools)).unwrap()
}

fn granted<'a>(tools: &[(&'a ToolSpec, &Grant)]) -> Vec<(&'a ToolSpec, Digest)> {
    tools.iter().map(|(spec, grant)| (*spec, grant.digest())).collect()
}

fn grant(text: &str) -> Grant {
    Grant::parse(&text.parse::<Canonical>().unwrap()).unwrap()
}

#[test]
fn a_plan_is_sorted_by_name_and_holds_digests_only() {
    let (b, a) = (tool("b.x", "1"), tool("a.x", "2"));
    let grant = Grant::of(&b);
    let plan = sealed(&[(&b, &grant), (&a, &grant)]);
    let expected = format!(
        r#"{{"max_calls":10,"not_after":null,"schema":"stasis.plan.v1","tools":[{{"grant_digest":"{g}","name":"a.x","tool_digest":"{a}","version":"2"}},{{"grant_digest":"{g}","name":"b.x","tool_digest":"{b}","version":"1"}}]}}"#,
        g = grant.digest(),
        a = a.digest(),
        b = b.digest()
    );
    // C-41
    assert_eq!(plan.canonical().as_str(), expected);
    assert_eq!(plan.canonical().parse::<Plan>().unwrap(), plan);
    assert_eq!(plan.tool("b.x").map(|tool| tool.version.as_str()), Some("1"));
    assert_eq!(plan.tool("c.x"), None);
}

#[test]
fn the_digest_follows_content_and_not_order() {
    let (a, b) = (tool("a.x", "1"), tool("b.x", "1"));
    let (default, other) = (Grant::of(&a), grant(r#"{"hosts":["example.com:443"],"secrets":["pay"]}"#));
    let plan = sealed(&[(&a, &default), (&b, &default)]);
    // C-42
    assert_eq!(plan.digest(), sealed(&[(&b, &default), (&a, &default)]).digest());
    let later = Some(Time::from_millis(5));
    let changed = [
        sealed(&[(&a, &default)]),
        sealed(&[(&a, &default), (&b, &other)]),
        sealed(&[(&a, &default), (&tool("b.x", "2"), &default)]),
        Plan { max_calls: 11, ..plan.clone() },
        Plan { not_after: later, ..plan.clone() },
    ];
    let mut digests: Vec<Digest> = changed.iter().map(Plan::digest).chain([plan.digest()]).collect();
    digests.sort();
    digests.dedup();
    // C-42
    assert_eq!(digests.len(), 6);
}

#[test]
fn sealing_bounds_the_calls_and_takes_each_tool_once() {
    let (one, two) = (tool("a.x", "1"), tool("a.x", "2"));
    let grant = Grant::of(&one);
    for (max_calls, good) in [(0, false), (1, true), (10_000, true), (10_001, false)] {
        // C-40
        assert_eq!(Plan::seal(max_calls, None, &[]).is_ok(), good, "{max_calls}");
    }
    assert_eq!(
        Plan::seal(1, None, &granted(&[(&one, &grant), (&two, &grant)])).unwrap_err()[0].code,
        Code::ToolConflict
    );
}

#[test]
fn a_tool_is_sealed_only_with_the_tools_it_refers_to() {
    let text = r#"{"name":"a.write","version":"1","description":"x","effect":"write","recovery":"lookup","input_schema":{"type":"object"},
        "lookup":{"tool":"a.find","arguments":{}},"http":{"method":"POST","url":"http://a/"}}"#;
    let (write, find) = (ToolSpec::parse(&text.parse().unwrap()).unwrap(), tool("a.find", "1"));
    let grant = Grant::default();
    // C-13
    assert!(Plan::seal(1, None, &granted(&[(&write, &grant)])).is_err());
    assert!(Plan::seal(1, None, &granted(&[(&write, &grant), (&find, &grant)])).is_ok());
}

#[test]
fn a_grant_is_the_host_of_the_url_unless_it_says_otherwise() {
    // I-62
    assert_eq!(Grant::of(&tool("a.x", "1")).canonical().as_str(), r#"{"hosts":["127.0.0.1:9100"],"secrets":[]}"#);
    let given = grant(r#"{"secrets":["b","a","b"],"hosts":["B.example:443"]}"#);
    // C-39
    assert_eq!(given.digest(), Digest::of(r#"{"hosts":["b.example:443"],"secrets":["a","b"]}"#));
    assert!(given.has_host("b.example:443") && !given.has_host("b.example:80"));
    for bad in [r#"{"hosts":["example.com"]}"#, r#"{"hosts":["a:0"]}"#, r#"{"host":[]}"#, "[]"] {
        assert!(Grant::parse(&bad.parse().unwrap()).is_err(), "{bad}");
    }
}

#[test]
fn a_plan_expires_at_its_date() {
    let plan = Plan { not_after: Some(Time::from_millis(5)), ..sealed(&[]) };
    assert!(
        !plan.expired(Time::from_micros(4_999))
            && plan.expired(Time::from_millis(5))
            && !sealed(&[]).expired(Time::MAX)
    );
}

#[test]
fn a_delegated_plan_reaches_no_further_than_its_parent() {
    let (a, b, c) = (tool("a.x", "1"), tool("b.x", "1"), tool("c.x", "1"));
    let (default, other) = (Grant::of(&a), grant("{}"));
    let end = Some(Time::from_millis(5));
    let parent = Plan { not_after: end, ..sealed(&[(&a, &default), (&b, &default)]) };
    let child = |tools: &[(&ToolSpec, &Grant)]| Plan { not_after: end, ..sealed(tools) };
    let check = |left: u32, plan: &Plan| parent.check_attenuation(left, plan).map_err(|widened| widened.code());
    // C-46
    assert_eq!(check(10, &parent), Ok(()));
    assert_eq!(check(10, &child(&[(&a, &default)])), Ok(()));
    assert_eq!(check(10, &Plan { not_after: Some(Time::from_millis(4)), ..child(&[]) }), Ok(()));
    assert_eq!(check(9, &child(&[])), Err(Code::CallsWidened));
    assert_eq!(check(10, &Plan { not_after: Some(Time::from_millis(6)), ..child(&[]) }), Err(Code::LifetimeWidened));
    assert_eq!(check(10, &sealed(&[])), Err(Code::LifetimeWidened));
    assert_eq!(check(10, &child(&[(&a, &default), (&c, &default)])), Err(Code::ToolWidened));
    assert_eq!(check(10, &child(&[(&tool("a.x", "2"), &default)])), Err(Code::SpecMismatch));
    assert_eq!(check(10, &child(&[(&a, &other)])), Err(Code::GrantMismatch));
    // The first difference is told.
    assert_eq!(check(9, &sealed(&[(&c, &other)])), Err(Code::CallsWidened));
}
