//! Policy: calls.md section 5.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::digest::Digest;
use protocol::json::{Canonical, Value};
use protocol::policy::{
    Circle, Edit, Grants, Judgement, Obligation, OnExpiry, Outcome, Policy, Question, ReasonRule, Strength, Terms, When,
};
use protocol::principal::{Principal, Roles};
use protocol::tool::ToolSpec;

fn json(text: &str) -> Canonical {
    text.parse().unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

fn policy(text: &str) -> Policy {
    Policy::parse(&json(text)).unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

/// A policy with one rule for everything.
fn rule(fields: &str) -> Policy {
    policy(&format!(r#"{{"rules":[{{{fields}}}]}}"#))
}

fn tool(name: &str, effect: &str, approval: &str) -> ToolSpec {
    let approval = if approval.is_empty() { String::new() } else { format!(r#""approval":{approval},"#) };
    let text = format!(
        r#"{{"name":"{name}","version":"1","description":"x","effect":"{effect}",{approval}"input_schema":{{"type":"object"}},
            "command":{{"argv":["/bin/x"]}}}}"#
    );
    ToolSpec::parse(&json(&text)).unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

/// Judges a call with these arguments, of a requester with the role `clerk`, in the workflow `refund`.
fn judge(policy: &Policy, tool: &ToolSpec, arguments: &str) -> Judgement {
    judge_with(policy, tool, arguments, None)
}

fn judge_with(policy: &Policy, tool: &ToolSpec, arguments: &str, wishes: Option<&Terms>) -> Judgement {
    let (arguments, requester) = (json(arguments).value(), Roles::from_iter(["clerk"]));
    policy.judge(&Question {
        tool,
        workflow: "refund",
        requester: &requester,
        arguments: &arguments,
        wishes,
        separate_requester: true,
    })
}

fn asked(judgement: Judgement) -> Obligation {
    match judgement {
        Judgement::Ask(obligation) => *obligation,
        other => panic!("expected a question, found {other:?}"),
    }
}

fn write() -> ToolSpec {
    tool("payments.refund", "write", "")
}

#[test]
fn without_rules_only_writes_are_asked_about() {
    for (effect, outcome) in [("pure", Outcome::Allow), ("read", Outcome::Allow), ("write", Outcome::Ask)] {
        // C-51
        assert_eq!(judge(&Policy::default(), &tool("a.b", effect, ""), "{}").outcome(), outcome);
    }
    let strict = policy(r#"{"default":{"read":"deny","write":"allow"}}"#);
    for (effect, outcome) in [("pure", Outcome::Allow), ("read", Outcome::Deny), ("write", Outcome::Allow)] {
        // C-51, I-66
        assert_eq!(judge(&strict, &tool("a.b", effect, ""), "{}").outcome(), outcome);
    }
    // C-51
    let denied = judge(&strict, &tool("a.b", "read", ""), "{}");
    assert!(matches!(denied, Judgement::Deny { reason } if !reason.is_empty()));
    assert_eq!(
        judge(&rule(r#""outcome":"deny","reason":"not on Fridays""#), &write(), "{}"),
        Judgement::Deny { reason: "not on Fridays".to_owned() }
    );
}

#[test]
fn the_first_rule_that_matches_wins() {
    let rules = r#"{"rules":[{"tool":"payments.refund","if":[{"pointer":"/a","op":"eq","value":1}],"outcome":"deny"},
        {"tool":"payments.*","outcome":"allow"},{"outcome":"deny"}]}"#;
    // C-48
    assert_eq!(judge(&policy(rules), &write(), r#"{"a":1}"#).outcome(), Outcome::Deny);
    assert_eq!(judge(&policy(rules), &write(), r#"{"a":2}"#).outcome(), Outcome::Allow);
    assert_eq!(judge(&policy(rules), &tool("mail.send", "write", ""), "{}").outcome(), Outcome::Deny);
}

#[test]
fn a_rule_matches_on_tool_effect_workflow_and_role() {
    for (fields, matches) in [
        (r#""tool":"payments.refund""#, true),
        (r#""tool":"payments.refunds""#, false),
        (r#""tool":"payments.*""#, true),
        (r#""tool":"pay.*""#, false),
        (r#""effect":"write""#, true),
        (r#""effect":"read""#, false),
        (r#""workflow":"refund""#, true),
        (r#""workflow":"other""#, false),
        (r#""role":"clerk""#, true),
        (r#""role":"finance""#, false),
        (r#""tool":"payments.*","effect":"write","workflow":"refund","role":"finance""#, false),
    ] {
        let policy = rule(&format!(r#"{fields},"outcome":"deny""#));
        // C-49
        assert_eq!(judge(&policy, &write(), "{}").outcome() == Outcome::Deny, matches, "{fields}");
    }
}

/// Arguments that conditions and expressions are tried on.
const ARGUMENTS: &str =
    r#"{"n":9007199254740993,"f":0.1,"s":"o-7","b":true,"z":null,"l":[1,"x"],"o":{"k":[5]},"e":""}"#;

#[test]
fn conditions_compare_as_written_and_count_against_the_call_where_they_cannot() {
    use Some as Judged;
    let table: [(&str, &str, &str, Option<bool>); 36] = [
        ("/n", "eq", "9007199254740993", Judged(true)),
        ("/n", "eq", "9007199254740992", Judged(false)),
        ("/n", "gt", "9007199254740992", Judged(true)),
        ("/n", "eq", "9007199254740993.0", Judged(true)),
        ("/n", "le", "9.007199254740993e15", Judged(true)),
        ("/f", "ge", "0.1", Judged(true)),
        ("/f", "lt", "0.1000000000000000001", Judged(true)),
        ("/f", "ne", "1e-1", Judged(false)),
        ("/n", "eq", "\"9007199254740993\"", None),
        ("/s", "eq", "\"o-7\"", Judged(true)),
        ("/s", "ne", "\"o-7\"", Judged(false)),
        ("/s", "ne", "7", None),
        ("/s", "lt", "\"p\"", Judged(true)),
        ("/s", "lt", "5", None),
        ("/s", "prefix", "\"o-\"", Judged(true)),
        ("/s", "prefix", "\"x\"", Judged(false)),
        ("/n", "prefix", "\"9\"", None),
        ("/b", "eq", "true", Judged(true)),
        ("/b", "eq", "1", None),
        ("/z", "eq", "null", Judged(true)),
        ("/z", "eq", "0", None),
        ("/l/0", "eq", "1.0", Judged(true)),
        ("/l/2", "eq", "1", None),
        ("/l", "eq", "[1.0,\"x\"]", Judged(true)),
        ("/o", "eq", r#"{"k":[5e0]}"#, Judged(true)),
        ("/o/k/0", "in", "[4,5.0]", Judged(true)),
        ("/s", "in", r#"["o-8","o-7"]"#, Judged(true)),
        ("/s", "in", r#"["o-8",5]"#, Judged(false)),
        ("/s", "in", "[4,5]", None),
        ("/e", "prefix", "\"\"", Judged(true)),
        ("/missing", "eq", "1", None),
        ("/missing", "ne", "1", None),
        ("/missing", "exists", "true", Judged(false)),
        ("/missing", "exists", "false", Judged(true)),
        ("/z", "exists", "true", Judged(true)),
        ("/s/0", "exists", "true", Judged(false)),
    ];
    for (pointer, op, value, judged) in table {
        let condition = format!(r#""if":[{{"pointer":"{pointer}","op":"{op}","value":{value}}}]"#);
        let holds = |outcome: &str| {
            judge(&rule(&format!(r#"{condition},"outcome":"{outcome}""#)), &tool("a.b", "read", ""), ARGUMENTS)
        };
        // C-49, C-50
        assert_eq!(holds("deny").outcome() == Outcome::Deny, judged.unwrap_or(true), "deny if {pointer} {op} {value}");
        assert_eq!(holds("ask").outcome() == Outcome::Ask, judged.unwrap_or(true), "ask if {pointer} {op} {value}");
        let write = judge(&rule(&format!(r#"{condition},"outcome":"allow""#)), &write(), ARGUMENTS);
        // C-50
        assert_eq!(write.outcome() == Outcome::Allow, judged.unwrap_or(false), "allow if {pointer} {op} {value}");
    }
}

#[test]
fn expressions_hold_as_they_read_and_wherever_one_part_cannot_be_judged() {
    for (text, holds) in [
        ("args.n > 9007199254740992", true),
        ("args.n == 9007199254740992", false),
        ("args.f == 0.10", true),
        ("args.s == \"o-7\"", true),
        ("args.s prefix \"o-\"", true),
        ("args.s in [\"a\", \"o-7\"]", true),
        ("args.l.0 == 1", true),
        ("args.o.k.0 >= 5 and args.b == true", true),
        ("args.n < 5 or args.s == \"x\"", false),
        ("args.n < 5 or args.s == \"x\" and args.b == true", false),
        ("args.b == true or args.n < 5 and args.s == \"x\"", true),
        ("(args.b == true or args.n < 5) and args.s == \"x\"", false),
        ("not args.n < 5", true),
        ("not (args.n > 5 or args.s == \"x\")", false),
        ("not not args.b == true", true),
        ("exists(args.z)", true),
        ("exists ( args.missing )", false),
        ("not exists(args.missing)", true),
        // Cannot be judged: the whole holds.
        ("args.missing > 5", true),
        ("not args.missing > 5", true),
        ("args.s > 5", true),
        ("args.n < 5 and args.missing == 1", true),
        ("args.missing == 1 and args.n < 5", true),
        ("not (args.b == true or args.missing == 1)", true),
        ("exists(args.missing) and args.missing > 5", true),
    ] {
        let when: When = text.parse().unwrap_or_else(|fault| panic!("{text}: {fault}"));
        // C-53
        assert_eq!(when.holds(&json(ARGUMENTS).value()), holds, "{text}");
    }
}

#[test]
fn what_is_no_expression_is_refused_where_it_goes_wrong() {
    for (text, offset) in [
        ("", 0),
        ("args", 4),
        ("args.", 5),
        ("args.a", 6),
        ("args.a =", 7),
        ("args.a = 5", 7),
        ("args.a == ", 10),
        ("args.a == x", 10),
        ("args.a == 01", 11),
        ("args.a == 'x'", 10),
        ("args.a == 5 and", 15),
        ("args.a == 5 args.b == 5", 12),
        ("(args.a == 5", 12),
        ("args.a == 5)", 11),
        ("not", 3),
        ("exists args.a", 7),
        ("exists(5)", 7),
        ("argsx.a == 5", 0),
        ("arguments.a == 5", 0),
        ("args.a in 5", 10),
        ("args.a in []", 10),
        ("args.a prefix 5", 14),
        ("args.a < true", 9),
        ("args.a < args.b", 9),
    ] {
        assert_eq!(text.parse::<When>().unwrap_err().offset, offset, "{text}");
    }
    let deep = |depth: usize| format!("{}args.a == 5{}", "(".repeat(depth), ")".repeat(depth));
    assert!(
        deep(63).parse::<When>().is_ok()
            && deep(64).parse::<When>().is_err()
            && "not ".repeat(1_000).parse::<When>().is_err()
    );
    assert!(format!("args.a == \"{}\"", "x".repeat(4_096)).parse::<When>().is_err());
}

#[test]
fn the_strictest_of_rule_own_rule_and_wishes_counts() {
    let rules = [
        ("", None),
        (r#""outcome":"allow""#, Some(Outcome::Allow)),
        (r#""outcome":"ask""#, Some(Outcome::Ask)),
        (r#""outcome":"deny""#, Some(Outcome::Deny)),
    ];
    let owns = [("", None), ("\"never\"", Some(Outcome::Allow)), ("\"always\"", Some(Outcome::Ask))];
    let wishes = [(None, None), (Some(Terms::default()), Some(Outcome::Ask))];
    for (fields, by_rule) in rules {
        let policy = if fields.is_empty() { Policy::default() } else { rule(fields) };
        for (own, by_own) in owns {
            for (wish, by_wish) in &wishes {
                for (effect, usual) in [("read", Outcome::Allow), ("write", Outcome::Ask)] {
                    let found = judge_with(&policy, &tool("a.b", effect, own), "{}", wish.as_ref()).outcome();
                    // A default counts only where neither speaks: C-51.
                    let default = (by_rule.is_none() && by_own.is_none()).then_some(usual);
                    // C-52, C-54
                    let expected = [by_rule, by_own, *by_wish, default].into_iter().flatten().max().unwrap();
                    assert_eq!(found, expected, "{fields} {own} {wish:?} {effect}");
                }
            }
        }
    }
}

#[test]
fn a_tools_own_rule_asks_when_its_when_holds_and_else_allows() {
    let refund = tool(
        "payments.refund",
        "write",
        r#"{"when":"args.amount > 100","lease":"24h","roles":["finance"],"edit":"yes"}"#,
    );
    // C-52
    assert_eq!(judge(&Policy::default(), &refund, r#"{"amount":100.0}"#), Judgement::Allow);
    let obligation = asked(judge(&Policy::default(), &refund, r#"{"amount":100.5}"#));
    assert_eq!(
        (obligation.roles, obligation.lease, obligation.edit),
        (vec!["finance".to_owned()], Duration::from_secs(86_400), Edit::Yes)
    );
    // The rule of I-66's example tightens it.
    let large = policy(
        r#"{"rules":[{"tool":"payments.*","if":[{"pointer":"/amount","op":"gt","value":10000}],"outcome":"ask","quorum":2}]}"#,
    );
    // C-54
    let obligation = asked(judge(&large, &refund, r#"{"amount":10000.5}"#));
    assert_eq!((obligation.quorum, obligation.roles), (2, vec!["finance".to_owned()]));
    assert_eq!(asked(judge(&large, &refund, r#"{"amount":10000}"#)).quorum, 1);
}

#[test]
fn a_question_has_the_defaults_of_the_table() {
    let expected = Obligation {
        schema: protocol::policy::ObligationSchema::V1,
        roles: vec!["approver".to_owned()],
        principals: vec![],
        also: vec![],
        quorum: 1,
        reject_quorum: 1,
        separate_requester: true,
        edit: Edit::No,
        reason: ReasonRule::Reject,
        lease: Duration::from_secs(7 * 86_400),
        on_expiry: OnExpiry::Reject,
        escalation: None,
        remind_ms: vec![],
        hot_ms: None,
        dispatch_within: Duration::from_secs(900),
        strength: Strength::Session,
        grants: Grants::Exact,
        batch: true,
    };
    // C-55
    assert_eq!(asked(judge(&Policy::default(), &write(), "{}")), expected);
    let record = r#"{"also":[],"batch":true,"dispatch_within_ms":900000,"edit":"no","escalation":null,"grants":"exact","hot_ms":null,"lease_ms":604800000,"on_expiry":"reject","principals":[],"quorum":1,"reason":"reject","reject_quorum":1,"remind_ms":[],"roles":["approver"],"schema":"stasis.obligation.v1","separate_requester":true,"strength":"session"}"#;
    // C-56
    assert_eq!(expected.digest(), Digest::of(record));
    assert_eq!(json(record).parse::<Obligation>().unwrap(), expected);
}

#[test]
fn obligations_are_accepted_at_their_edges() {
    let names = |count: usize| (0..count).map(|at| format!("\"r{at:02}\"")).collect::<Vec<_>>().join(",");
    let step = r#"{"roles":["a"],"lease":"1h"}"#;
    let table = [
        (format!(r#""roles":[{}],"principals":["p"]"#, names(63)), true),
        (format!(r#""roles":[{}],"principals":["p"]"#, names(64)), false),
        (r#""quorum":1,"reject_quorum":16"#.to_owned(), true),
        (r#""quorum":0"#.to_owned(), false),
        (r#""quorum":17"#.to_owned(), false),
        (r#""lease":"1s""#.to_owned(), true),
        (r#""lease":"999ms""#.to_owned(), false),
        (r#""lease":"400d""#.to_owned(), true),
        (r#""lease":"9601h""#.to_owned(), false),
        (r#""hot":"0s""#.to_owned(), true),
        (r#""hot":"10m""#.to_owned(), true),
        (r#""hot":"601s""#.to_owned(), false),
        (r#""dispatch_within":"24h""#.to_owned(), true),
        (r#""dispatch_within":"86401s""#.to_owned(), false),
        (format!(r#""on_expiry":"escalate","escalation":{{"steps":[{step},{step},{step}],"then":"fail"}}"#), true),
        (format!(r#""on_expiry":"escalate","escalation":{{"steps":[{step},{step},{step},{step}]}}"#), false),
        (r#""on_expiry":"escalate""#.to_owned(), false),
        (format!(r#""escalation":{{"steps":[{step}]}}"#), false),
        (r#""on_expiry":"escalate","escalation":{"steps":[{"lease":"1h"}]}"#.to_owned(), false),
        (format!(r#""remind":[{}]"#, (1..=16).map(|at| format!("\"{at}h\"")).collect::<Vec<_>>().join(",")), true),
        (format!(r#""remind":[{}]"#, (1..=17).map(|at| format!("\"{at}h\"")).collect::<Vec<_>>().join(",")), false),
        (r#""edit":"second","reason":"always","strength":"step_up","grants":"match","batch":false"#.to_owned(), true),
        (r#""edit":"maybe""#.to_owned(), false),
        (r#""reason":"because""#.to_owned(), false),
        (r#""strength":"password""#.to_owned(), false),
        (r#""separate_requester":"no""#.to_owned(), false),
        (r#""quorm":2"#.to_owned(), false),
    ];
    for (fields, good) in table {
        let parsed = Policy::parse(&json(&format!(r#"{{"rules":[{{"outcome":"ask",{fields}}}]}}"#)));
        // C-55
        assert_eq!(parsed.is_ok(), good, "{fields}: {parsed:?}");
    }
}

#[test]
fn two_that_ask_are_joined_to_the_stricter_of_each_obligation() {
    let all = r#""roles":["finance"],"quorum":2,"reject_quorum":2,"separate_requester":false,"edit":"yes","reason":"none","lease":"2d","on_expiry":"reject",
        "hot":"1m","dispatch_within":"1h","strength":"link","grants":"match","batch":true"#;
    let stricter = r#"{"roles":["legal"],"quorum":3,"reject_quorum":1,"separate_requester":true,"edit":"second","reason":"always","lease":"1d","on_expiry":"fail",
        "hot":"0s","dispatch_within":"5m","strength":"step_up","grants":"none","batch":false}"#;
    let both = asked(judge(&rule(&format!(r#""outcome":"ask",{all}"#)), &tool("a.b", "write", stricter), "{}"));
    let turned = asked(judge(
        &rule(&format!(r#""outcome":"ask",{}"#, &stricter[1..stricter.len() - 1])),
        &tool("a.b", "write", &format!("{{{all}}}")),
        "{}",
    ));
    for found in [&both, &turned] {
        // C-54
        assert_eq!((found.quorum, found.reject_quorum, found.separate_requester), (3, 1, true));
        assert_eq!((found.edit, found.reason, found.on_expiry), (Edit::Second, ReasonRule::Always, OnExpiry::Fail));
        assert_eq!(
            (found.lease, found.hot_ms, found.dispatch_within),
            (Duration::from_secs(86_400), Some(0), Duration::from_secs(300))
        );
        assert_eq!((found.strength, found.grants, found.batch), (Strength::StepUp, Grants::None, false));
    }
    // People must be eligible under both.
    let person = |roles: &[&str]| Principal { roles: roles.iter().copied().collect(), ..Principal::local() };
    assert_eq!(both.also, [Circle { roles: vec!["legal".to_owned()], principals: vec![] }]);
    assert!(both.eligible(&person(&["finance", "legal"])));
    assert!(!both.eligible(&person(&["finance"])) && !both.eligible(&person(&["legal"])));
}

#[test]
fn a_guest_can_only_tighten() {
    let wishes = |text: &str| Terms::wishes(&json(text).value());
    let gate = tool("a.gate", "read", r#"{"roles":["finance"],"quorum":2,"lease":"1d"}"#);
    for (wish, quorum, lease) in [
        (r#"{"quorum":1,"lease":"2d"}"#, 2, 86_400),
        (r#"{"quorum":3,"lease":"1h","on_expiry":"fail"}"#, 3, 3_600),
        ("{}", 2, 86_400),
    ] {
        let terms = wishes(wish).unwrap();
        let found = asked(judge_with(&Policy::default(), &gate, "{}", Some(&terms)));
        // C-54
        assert_eq!((found.quorum, found.lease.as_secs()), (quorum, lease), "{wish}");
    }
    let found = asked(judge_with(&Policy::default(), &gate, "{}", Some(&wishes(r#"{"roles":["legal"]}"#).unwrap())));
    // C-54
    assert!((found.roles.as_slice(), found.also.len()) == (&["finance".to_owned()][..], 1));
    for refused in [
        r#"{"separate_requester":false}"#,
        r#"{"edit":"yes"}"#,
        r#"{"strength":"link"}"#,
        r#"{"principals":["x"]}"#,
        r#"{"on_expiry":"escalate"}"#,
        r#"{"quorum":0}"#,
        r#"{"lease":"401d"}"#,
        "[]",
    ] {
        // C-55
        assert!(wishes(refused).is_err(), "{refused}");
    }
}

#[test]
fn whoever_may_be_left_out_is_said_by_the_rule_or_the_server() {
    let (arguments, requester) = (json("{}").value(), Roles::from_iter(["x"]));
    let tool = write();
    let separate = |policy: &Policy, separate_requester| {
        asked(policy.judge(&Question {
            tool: &tool,
            workflow: "w",
            requester: &requester,
            arguments: &arguments,
            wishes: None,
            separate_requester,
        }))
        .separate_requester
    };
    // C-55
    assert!(separate(&Policy::default(), true) && !separate(&Policy::default(), false));
    assert!(separate(&rule(r#""outcome":"ask","separate_requester":true"#), false));
    assert!(!separate(&rule(r#""outcome":"ask","separate_requester":false"#), true));
}

#[test]
fn the_version_follows_every_rule_and_no_comment() {
    let text = r#"{"comment":"2026","rules":[{"comment":"x","tool":"a.*","outcome":"ask","lease":"24h","principals":["b","a"]}],"default":{"write":"deny"}}"#;
    let known = policy(text);
    // C-48
    assert_eq!(known.version(), policy(&text.replace("2026", "2027").replace("\"x\"", "\"y\"")).version());
    assert_eq!(known.version(), policy(&text.replace("24h", "1d").replace(r#"["b","a"]"#, r#"["a","b"]"#)).version());
    assert_eq!(Policy::parse(&known.canonical()), Ok(known.clone()));
    // C-5
    assert_eq!(known.canonical().value().get("schema").and_then(Value::as_str), Some("stasis.policy.v1"));
    let own = |approval: &str| known.clone().with_tools([&tool("a.b", "write", approval)]);
    let escalating = r#"{"on_expiry":"escalate","escalation":{"steps":[{"principals":["p"],"lease":"1h"}],"then":"fail"},"remind":["1h"],"hot":"1s"}"#;
    let others = [
        policy(&text.replace("a.*", "a.b")),
        policy(&text.replace("24h", "25h")),
        policy(&text.replace("deny", "allow")),
        own("\"always\""),
        own(r#"{"when":"args.a > 5"}"#),
        own(r#"{"when":"args.a > 6"}"#),
        own(escalating),
    ];
    for other in &others {
        assert_eq!(Policy::parse(&other.canonical()).as_ref(), Ok(other));
    }
    let versions: BTreeSet<Digest> = others.iter().map(Policy::version).chain([known.version()]).collect();
    // C-48, C-52
    assert_eq!(versions.len(), 8);
}

#[test]
fn the_policys_own_rule_for_a_tool_wins_over_that_of_its_registration() {
    let registered = tool("a.b", "write", "\"always\"");
    let policy = Policy::default().with_tools([&tool("a.b", "write", "\"never\"")]);
    // C-52
    assert_eq!(judge(&policy, &registered, "{}"), Judgement::Allow);
    assert_eq!(judge(&Policy::default(), &registered, "{}").outcome(), Outcome::Ask);
}

#[test]
fn every_bad_part_of_a_policy_is_listed() {
    let text = r#"{"rules":[{"outcome":"maybe"},{"tool":"*","outcome":"deny"},{"outcome":"ask","if":[{"pointer":"a","op":"like"},{"pointer":"","op":"in","value":5}]},
        {"outcome":"allow","quorum":2},{}],"default":{"reed":"allow"},"rule":[]}"#;
    let mut found: Vec<String> =
        Policy::parse(&json(text)).unwrap_err().into_iter().map(|fault| fault.pointer).collect();
    found.sort();
    let expected = [
        "/default/reed",
        "/rule",
        "/rules/0/outcome",
        "/rules/1/tool",
        "/rules/2/if/0/op",
        "/rules/2/if/0/pointer",
        "/rules/2/if/0/value",
        "/rules/2/if/1/value",
        "/rules/3/quorum",
        "/rules/4/outcome",
    ];
    // I-60
    assert_eq!(found, expected);
}

#[test]
fn named_people_are_counted_only_if_all_are_named() {
    let named = |fields: &str| asked(judge(&rule(&format!(r#""outcome":"ask",{fields}"#)), &write(), "{}")).all_named();
    // C-180
    assert_eq!(named(r#""principals":["a","b","a"]"#), Some(2));
    assert_eq!(named(r#""principals":["a"],"roles":["finance"]"#), None);
    assert_eq!(named(r#""quorum":1"#), None);
}
