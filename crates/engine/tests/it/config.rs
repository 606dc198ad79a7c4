//! The configuration from outside: what is read, and how every fault is told.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use engine::config::script::{ScriptMeta, metadata};
use engine::config::{self, Config, ConfigFaults, Origin, Source, Store};
use protocol::json::canonicalize;
use protocol::policy::Outcome;
use protocol::principal::{Kind, Right, Rights};
use protocol::tool::{Connector, Effect, EnvValue, Recovery, Setting};

fn read_with(text: &str, environment: &[(&str, &str)]) -> Result<Config, ConfigFaults> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let origin = Origin { file: None, data: Path::new("/data"), environment };
    Config::read("stasis.toml", text, Path::new("/etc/stasis"), &origin)
}

#[track_caller]
fn read(text: &str) -> Config {
    read_with(text, &[]).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The faults as `line key: message (hint)`.
#[track_caller]
fn faults(text: &str) -> Vec<String> {
    let Err(ConfigFaults(faults)) = read_with(text, &[]) else { panic!("nothing is wrong") };
    faults
        .iter()
        .map(|fault| {
            assert_eq!(fault.file, "stasis.toml");
            let hint = fault.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{} {}: {}{hint}", fault.line.expect("a line"), fault.key, fault.message)
        })
        .collect()
}

const TOOL: &str = r#"
[[tool]]
name = "payments.refund"
description = "Refund an order"
effect = "write"
recovery = "idempotent"
input = { type = "object", required = ["amount"], properties = { amount = { type = "number", maximum = 1_000.50 } } }
limits = { timeout = "10s" }
http = { method = "POST", url = "http://127.0.0.1:9100/refunds", headers = { Authorization = { secret = "env:PAY_TOKEN", prefix = "Bearer " } } }
approval = { when = "args.amount > 100", lease = "24h", roles = ["finance"] }
"#;

#[test]
fn no_file_is_the_defaults() {
    let origin = Origin { file: None, data: Path::new("/data"), environment: vec![] };
    let config = Config::load(&origin).expect("the defaults");
    assert_eq!(config.store, Store::Sqlite("/data/stasis.db".into())); // I-67
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:7878"); // I-39
    assert_eq!(config.worker, protocol::limits::WorkerSettings::default()); // I-60
    assert_eq!(config.limits, protocol::limits::Limits::default()); // I-60
    assert!(config.tools.is_empty() && config.principals.is_empty() && config.policy.rules.is_empty());
    assert_eq!(config.policy.default.write, Outcome::Ask); // I-66
}

#[test]
fn the_example_of_the_specification_is_read_whole() {
    let spec = include_str!("../../../../docs/spec/interfaces.md");
    let section = &spec[spec.find("## 4. Configuration").expect("the section")..];
    let example = section.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("the example");
    let config = read(example);
    assert_eq!(
        config.tools.iter().map(|tool| tool.spec.name.as_str()).collect::<Vec<_>>(),
        ["payments.order", "payments.refund", "mail.send"]
    );
    let refund = &config.tools[1].spec;
    assert_eq!(
        (refund.effect, refund.version.as_str(), refund.limits.timeout),
        (Effect::Write, "1", Duration::from_secs(10))
    ); // I-62
    assert!(matches!(refund.recovery, Recovery::Idempotent { .. }));
    assert_eq!(config.tools[0].grant.canonical().as_str(), r#"{"hosts":["127.0.0.1:9100"],"secrets":[]}"#); // I-62
    assert_eq!(config.policy.rules.len(), 1); // I-66
    assert_eq!(config.policy.tools.len(), 2); // I-63
    assert_eq!((config.principals[0].id.as_str(), config.principals[0].kind), ("maria", Kind::Person)); // I-65
    assert_eq!(config.principals[0].rights, Rights::default_of(Kind::Person)); // I-65
    assert_eq!((config.resources[0].name.as_str(), config.resources[0].memory_mib), ("chat:small", 6_000)); // I-60
}

#[test]
fn the_files_that_are_given_away_are_sound() {
    let refund = read(include_str!("../../../../examples/refund/stasis.toml"));
    assert!(refund.tools.iter().any(|tool| tool.spec.name == "payments.refund"));
    read(include_str!("../../../cli/first/stasis.toml"));
}

#[test]
fn every_fault_is_told_at_once_with_line_key_and_nearest_key() {
    let text = r#"
[worker]
claim_tll = "30s"
renew_every = 10
scan_every = "1 s"
[limits]
calls = 10001
input_bytes = "2MiB"
[sever]
[server]
listen = "somewhere"
[[principal]]
id = "maria"
rights = ["run:read"]
colour = "red"
[[principal]]
name = "Nobody"
"#;
    // I-47, I-60
    assert_eq!(
        faults(text),
        [
            "3 worker.claim_tll: unknown key (did you mean `claim_ttl`?)",
            "4 worker.renew_every: wants text (the default is \"10s\")",
            "5 worker.scan_every: expected a whole number and a unit (ms, s, m, h, d), such as \"250ms\" or \"7d\" (the default is \"1s\")",
            "7 limits.calls: is 10001, at most 10000",
            "8 limits.input_bytes: is 2097152, at most 1048576",
            "9 sever: unknown key (did you mean `server`?)",
            "11 server.listen: invalid socket address syntax (the default is \"127.0.0.1:7878\")",
            "14 principal[0].rights[0]: `run:read` is not known here (did you mean `runs:read`?)",
            "15 principal[0].colour: unknown key (known here: id, name, kind, namespace, partition, roles, rights)",
            "16 principal[1].id: this key is missing",
        ]
    );
}

#[test]
fn text_that_does_not_parse_is_told_with_its_line_and_the_rest_is_still_judged() {
    let Err(ConfigFaults(faults)) = read_with("[worker]\nclaim_tll = 1\nx = = 2\n", &[]) else { panic!("no fault") };
    let told: Vec<(Option<u32>, &str)> = faults.iter().map(|fault| (fault.line, fault.key.as_str())).collect();
    assert!(told.contains(&(Some(3), "")), "{faults:?}"); // I-47
    assert!(told.contains(&(Some(2), "worker.claim_tll")), "{faults:?}"); // I-47
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    // R-383
    assert_eq!(
        faults("[worker]\nclaim_ttl = \"15s\"\n"),
        ["2 worker.claim_ttl: must be more than renew_every + stop_margin, which are 15s"]
    );
    assert_eq!(
        faults("[worker]\napproval_lease = \"401d\"\n"),
        ["2 worker.approval_lease: is above its own bound of 400d"]
    ); // R-383
}

#[test]
fn what_this_version_does_not_do_is_refused_and_not_ignored() {
    let text = "[telemetry]\n[[mcp]]\n[[model]]\n[[queue]]\n[[webhook]]\n[guest]\ncow = false\n[guest.cold]\n[store]\nurl = \"postgres://h/d\"\n";
    let told = faults(text);
    assert_eq!(told.len(), 8, "{told:?}"); // I-60
    assert!(told.iter().all(|fault| fault.contains("not available in this version")), "{told:?}"); // I-60
}

#[test]
fn anchors_go_where_the_file_says_and_never_over_their_key() {
    let config = read("[audit]\nexport = \"vault/anchors.ndjson\"\n");
    assert!(config.audit.export.ends_with("vault/anchors.ndjson"), "{:?}", config.audit); // I-60 I-61
    assert!(config.audit.key.ends_with("audit/key"), "{:?}", config.audit);
    assert_eq!(faults("[audit]\nexport = \"x\"\nkey = \"x\"\n"), ["3 audit.key: is the file of the export"]);
    assert_eq!(faults("[audit]\nexports = \"x\"\n").len(), 1); // I-60
}

#[test]
fn the_environment_overrides_the_file_and_says_so() {
    let text = "[worker]\nhot_window = \"1m\"\npage_size = 7\n";
    let environment = [
        ("STASIS__WORKER__HOT_WINDOW", "5s"),
        ("STASIS__LIMITS__CALLS", "12"),
        ("STASIS__GUEST__FREEZE", "true"),
        ("STASIS_LOG", "debug"),
        ("HOME", "/"),
    ];
    let config = read_with(text, &environment).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(
        (config.worker.hot_window, config.worker.page_size, config.limits.calls),
        (Duration::from_secs(5), 7, 12)
    ); // I-60
    let source = |key: &str| {
        config
            .settings
            .iter()
            .find(|setting| setting.key == key)
            .map(|setting| (setting.value.as_str(), setting.source.clone()))
    };
    assert_eq!(
        source("worker.hot_window"),
        Some(("\"5s\"", Source::Environment("STASIS__WORKER__HOT_WINDOW".to_owned())))
    ); // I-60
    assert_eq!(source("worker.page_size"), Some(("7", Source::File { file: "stasis.toml".to_owned(), line: 3 }))); // I-60
    assert_eq!(source("worker.claim_ttl"), Some(("\"30s\"", Source::Default))); // I-60

    let bad = [
        ("STASIS__WORKER__HOT_WINDO", "5s"),
        ("STASIS__WORKER", "x"),
        ("STASIS__TOOL__NAME", "x"),
        ("STASIS__WORKER__PAGE_SIZE", "many"),
    ];
    let Err(ConfigFaults(faults)) = read_with(TOOL, &bad) else { panic!("nothing is wrong") };
    let told: Vec<(&str, &str)> = faults.iter().map(|fault| (fault.file.as_str(), fault.key.as_str())).collect();
    assert_eq!(
        told,
        [
            ("STASIS__TOOL__NAME", "tool.name"),
            ("STASIS__WORKER", ""),
            ("STASIS__WORKER__HOT_WINDO", "worker.hot_windo"),
            ("STASIS__WORKER__PAGE_SIZE", "worker.page_size"),
        ]
    ); // I-60
    assert_eq!(faults[2].hint.as_deref(), Some("did you mean `hot_window`?"));
}

#[test]
fn a_tool_is_read_with_its_numbers_as_written() {
    let config = read(TOOL);
    let spec = &config.tools[0].spec;
    assert!(spec.input_schema.as_str().contains(r#""maximum":1000.50"#), "{}", spec.input_schema.as_str());
    let Connector::Http(http) = &spec.connector else { panic!("{:?}", spec.connector) };
    let token = Setting::Secret { secret: "env:PAY_TOKEN".to_owned(), prefix: "Bearer ".to_owned() };
    assert_eq!(http.headers["authorization"], token); // I-61
    assert_eq!(spec.version.len(), 12); // I-62
    assert_ne!(spec.version, read(&TOOL.replace("Refund an order", "Refund it")).tools[0].spec.version); // I-62
    assert_eq!(spec.version, read(&TOOL.replace("lease = \"24h\"", "lease = \"48h\"")).tools[0].spec.version); // C-9
    assert_eq!(config.policy.tools.keys().collect::<Vec<_>>(), [&spec.identity()]); // I-63
}

#[test]
fn faults_of_a_tool_stand_at_their_lines() {
    let text = TOOL
        .replace("effect = \"write\"", "efect = \"write\"")
        .replace("type = \"number\"", "type = \"nummer\"")
        .replace("args.amount > 100", "args.amount >");
    let told = faults(&text);
    let at = |line: &str, key: &str| told.iter().any(|fault| fault.starts_with(&format!("{line} {key}: ")));
    assert!(at("5", "tool[0].efect") && at("2", "tool[0].effect"), "{told:?}"); // C-21, I-47
    assert!(told.iter().any(|fault| fault.starts_with("7 tool[0].input")), "{told:?}"); // C-21
    assert!(at("10", "tool[0].approval.when"), "{told:?}"); // I-63
    assert_eq!(
        faults(&TOOL.replace("input =", "input_schema =")),
        ["7 tool[0].input_schema: in the file it is `input`"]
    ); // I-62
    assert_eq!(faults(&format!("{TOOL}{TOOL}")).len(), 1); // I-62: the same name and version twice
    let lookup = TOOL.replace(
        "recovery = \"idempotent\"",
        "recovery = \"lookup\"\nlookup = { tool = \"payments.find\", arguments = {} }",
    );
    assert_eq!(faults(&lookup), ["7 tool[0].lookup.tool: `payments.find` is not among the tools"]); // C-13
    let stopping = |name: &str, by: &str, approval: &str| {
        format!(
            "[[tool]]\nname = \"{name}\"\neffect = \"write\"\ndescription = \"d\"\ninput = {{ type = \"object\" }}\n\
             approval = \"{approval}\"\ncommand = {{ argv = [\"/bin/cat\"] }}\n\
             on_cancel = {{ tool = \"{by}\", arguments = {{}} }}\n"
        )
    };
    let unknown = faults(&format!("{}{}", stopping("a.b", "a.cc", "never"), stopping("a.c", "a.b", "never")));
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert!(unknown[0].starts_with("8 tool[0].on_cancel.tool: `a.cc` is not among the tools"), "{unknown:?}"); // C-13
    assert!(unknown[0].contains("did you mean `a.c`?"), "{unknown:?}");
    let cycle = format!("{}{}", stopping("a.b", "a.c", "never"), stopping("a.c", "a.b", "never"));
    assert_eq!(faults(&cycle).len(), 2, "{:?}", faults(&cycle));
    assert!(faults(&cycle)[0].starts_with("8 tool[0].on_cancel.tool: `a.c` would in the end be stopped by `a.b`"));
    let asks = format!(
        "{}{}",
        stopping("a.b", "a.c", "never"),
        stopping("a.c", "a.b", "always").split("on_cancel").next().unwrap()
    );
    let told = faults(&asks);
    assert!(told[0].contains("nobody is asked for a cancel tool (give a.c approval = \"never\")"), "{told:?}"); // C-235
    let asks = asks.replace("approval = \"always\"\n", "");
    let doubts: Vec<String> = read(&asks).doubts.iter().map(ToString::to_string).collect();
    assert!(doubts.iter().any(|doubt| doubt.contains("tool[0].on_cancel") && doubt.contains("`a.c`")), "{doubts:?}"); // C-235
    let read_tool = stopping("a.b", "a.c", "never").replace("\"write\"", "\"read\"");
    assert!(faults(&read_tool)[0].contains("only a `write` asks the other side to stop"), "{:?}", faults(&read_tool)); // C-22
    let secret = faults(&TOOL.replace("env:PAY_TOKEN", "env:PAY-TOKEN"));
    assert_eq!(secret, ["9 tool[0].http.headers.Authorization.secret: a secret is `env:NAME` or `file:PATH`"]); // I-61
    let operands = |kind: &str| format!("{TOOL}operands = [{{ pointer = \"/order_id\", kind = \"{kind}\" }}]\n");
    assert_eq!(read(&operands("file")).tools[0].spec.operands.len(), 1); // C-8
    assert!(faults(&operands("folder"))[0].contains("tool[0].operands[0].kind"), "{:?}", faults(&operands("folder"))); // C-8
}

#[test]
fn what_is_valid_and_probably_not_meant_is_a_doubt_at_its_line() {
    let text = format!(
        r#"{TOOL}
[[tool]]
name = "report.render"
description = "Render"
effect = "pure"
input = {{ type = "object" }}
command = {{ argv = ["/no/such/program"] }}

[[policy.rule]]
tool = "payments.refnd"
outcome = "ask"
roles = ["fnance"]

[[policy.rule]]
tool = "payments.*"
outcome = "ask"

[[principal]]
id = "maria"
roles = ["finance"]

[worker]
swap_floor = 4
"#
    )
    .replace("args.amount > 100", "args.amont > 100");
    let told = |environment: &[(&str, &str)]| -> Vec<String> {
        let config = read_with(&text, environment).unwrap_or_else(|faults| panic!("{faults}"));
        config.doubts.iter().map(|doubt| doubt.to_string().replace("stasis.toml:", "")).collect()
    };
    let wanted = [
        "9:78: tool[0].http.headers.Authorization: the variable PAY_TOKEN is not set here (the server reads it when a call is sent; until then such calls fail)",
        "10:14: tool[0].approval.when: the tool's input has no `amont` (did you mean `amount`?)",
        "17:13: tool[1].command.argv: /no/such/program is no program",
        "20:1: policy.rule[0].tool: no tool here is called `payments.refnd` (did you mean `payments.refund`?)",
        "22:10: policy.rule[0].roles[0]: nobody has the role `fnance` (did you mean `finance`?)",
        "33:1: worker.swap_floor: known, but not available in this version",
    ];
    assert_eq!(told(&[]), wanted);
    assert_eq!(told(&[("PAY_TOKEN", "x")]).len(), 5);
    assert!(read_with(config::example(), &[]).unwrap().doubts.is_empty());
}

#[test]
fn a_grant_covers_the_url_and_lists_what_it_says() {
    let with = |grant: &str| format!("{TOOL}grant = {grant}\n");
    let config = read(&with(r#"{ hosts = ["127.0.0.1", "10.0.0.0/8"], secrets = ["env:A", "file:keys/b"] }"#));
    assert_eq!(
        config.tools[0].grant.canonical().as_str(),
        r#"{"hosts":["127.0.0.1","10.0.0.0/8"],"secrets":["env:A","file:/etc/stasis/keys/b"]}"#
    ); // I-61, I-62
    let told = faults(&with(r#"{ hosts = ["api.example.com:443"] }"#));
    assert_eq!(told, ["11 tool[0].grant.hosts: does not name 127.0.0.1:9100, where the url leads"]); // I-62
    let told = faults(&with(r#"{ hosts = ["127.0.0.1:9100", "a b"], secrets = ["A"], accounts = 1 }"#));
    assert_eq!(told.len(), 3, "{told:?}");
}

#[test]
fn a_command_takes_relative_paths_and_a_list_of_variables() {
    let text = r#"
[[tool]]
name = "report.render"
description = "Render"
effect = "pure"
input = { type = "object" }
command = { argv = ["bin/render", "--fast"], env = ["LANG", "HOME"], exit = { "3" = "error" } }
"#;
    let config = read(text);
    let Connector::Command(command) = &config.tools[0].spec.connector else { panic!("a command") };
    assert_eq!(command.argv, ["/etc/stasis/bin/render", "--fast"]); // I-61, I-64
    assert_eq!(command.env.keys().collect::<Vec<_>>(), ["HOME", "LANG"]); // C-265
    assert_eq!(command.env["LANG"], EnvValue::Inherit(true)); // C-265
    assert_eq!(config.tools[0].grant.canonical().as_str(), r#"{"hosts":[],"secrets":[]}"#);
}

#[test]
fn policy_rules_keep_their_order_and_their_faults_their_lines() {
    let text = r#"
[policy]
default = { write = "deny" }
[[policy.rule]]
tool = "payments.*"
if = [{ pointer = "/amount", op = "gt", value = 10000 }]
outcome = "ask"
quorum = 2
[[policy.rule]]
outcome = "allow"
"#;
    let config = read(text);
    assert_eq!(config.policy.rules.len(), 2); // I-66
    assert_eq!((config.policy.default.write, config.policy.default.read), (Outcome::Deny, Outcome::Allow)); // I-66
    let told = faults(
        &text
            .replace("quorum = 2", "quorum = 17")
            .replace("\"gt\"", "\"above\"")
            .replace("[policy]", "[policy]\nrules = []"),
    );
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].starts_with("3 policy.rules: unknown key (did you mean `rule`?)"), "{told:?}");
    assert!(told[1].starts_with("7 policy.rule[0].if[0].op: "), "{told:?}"); // I-66
    assert!(told[2].starts_with("9 policy.rule[0].quorum: "), "{told:?}"); // C-55
}

#[test]
fn people_and_programs_have_the_rights_that_are_written() {
    let text = r#"
[[principal]]
id = "ops"
kind = "program"
[[principal]]
id = "ana"
roles = ["finance", "approver"]
rights = ["runs:start", "admin"]
partition = "eu"
"#;
    let config = read(text);
    assert!(config.principals[0].rights.is_empty()); // I-65
    assert_eq!((config.principals[0].name.as_str(), config.principals[0].namespace.as_str()), ("ops", "default")); // I-65
    assert!(config.principals[1].can(Right::WorkflowsWrite) && config.principals[1].has_role("finance")); // I-65
    for id in ["local", "system:relay", ""] {
        assert_eq!(faults(&format!("[[principal]]\nid = \"{id}\"\n")).len(), 1, "{id}"); // I-19a
    }
    assert_eq!(
        faults("[[principal]]\nid = \"a\"\n[[principal]]\nid = \"a\"\n"),
        ["4 principal[1].id: `a` is in the file twice"]
    );
}

#[test]
fn paths_start_at_the_file() {
    let config = read("[store]\nurl = \"sqlite:db/s.db\"\n[guest]\nimage = \"g.wasm\"\n");
    assert_eq!(config.store, Store::Sqlite("/etc/stasis/db/s.db".into())); // I-61
    assert_eq!(config.guest.image.as_deref(), Some(Path::new("/etc/stasis/g.wasm"))); // I-61
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stasis.toml");
    let origin = Origin { file: Some(&file), data: Path::new("/data"), environment: vec![] };
    let Err(ConfigFaults(faults)) = Config::load(&origin) else { panic!("there is no file") };
    assert!(faults[0].message.starts_with("cannot be read"), "{faults:?}");
    std::fs::write(&file, "[store]\nurl = \"sqlite:s.db\"\n").expect("written");
    assert_eq!(Config::load(&origin).map(|config| config.store).ok(), Some(Store::Sqlite(folder.path().join("s.db")))); // I-61
}

/// The example with its comment marks taken away: `#key = ...` and `#[table]` are settings, `# text` is prose.
fn uncommented() -> String {
    config::example()
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.is_empty() && !rest.starts_with(' ') => rest,
            _ => line,
        })
        .fold(String::new(), |text, line| text + line + "\n")
}

#[test]
fn the_example_parses_with_and_without_its_marks() {
    let bare = read(config::example());
    assert!(bare.tools.is_empty());
    assert_eq!(bare.worker, protocol::limits::WorkerSettings::default());
    let full = read(&uncommented());
    assert_eq!((full.tools.len(), full.principals.len(), full.resources.len(), full.policy.rules.len()), (3, 1, 1, 1)); // I-60
    let [agent] = &full.agents[..] else { panic!("{:?}", full.agents) };
    assert_eq!((agent.kind.as_str(), agent.idempotent, agent.lease), ("translate", false, Duration::from_secs(300))); // I-60
}

#[test]
fn an_agent_is_a_kind_and_an_address_once() {
    let text = r#"
[[agent]]
kind = "translate"
url = "https://me:secret@h/jobs"
lease = "2h"
[[agent]]
kind = "translate"
url = "ftp://h"
token = "sesame"
[[agent]]
kind = "translate"
url = "http://h"
poll_every = "10m"
"#;
    // I-60
    assert_eq!(
        faults(text),
        [
            "4 agent[0].url: `https://me:secret@h/jobs` has more than a place in it (a secret goes into `token`)",
            "5 agent[0].lease: 2h is out of bounds: from 1s to 1h",
            "8 agent[1].url: `ftp://h` is no http or https url",
            "9 agent[1].token: a secret is `env:NAME` or `file:PATH`",
            "10 agent[2].lease: has to be longer than `poll_every`, or every job is lost between two looks",
            "11 agent[2].kind: `translate` is in the file twice",
        ]
    );
}

#[test]
fn the_example_says_every_key_with_its_default() {
    let defaults = read("");
    let full = read(&uncommented());
    let plain = |key: &str| {
        ["server.", "worker.", "limits.", "guest.", "policy."].iter().any(|section| key.starts_with(section))
    };
    let mut said = BTreeSet::new();
    for setting in full.settings.iter().filter(|setting| plain(&setting.key) && !setting.key.starts_with("policy.rule"))
    {
        assert!(matches!(setting.source, Source::File { .. }), "the example lacks {}", setting.key); // I-60
        let usual = defaults.settings.iter().find(|usual| usual.key == setting.key).expect("the same keys");
        assert!(
            usual.value == "(none)" || usual.value == setting.value,
            "{}: {} is not {}",
            setting.key,
            setting.value,
            usual.value
        ); // I-60
        said.insert(setting.key.clone());
    }
    assert!(said.len() > 60, "{said:?}");
}

#[test]
fn a_script_says_what_it_is_in_its_first_lines() {
    let source = r#"# /// script
# requires-python = ">=3.11"
# dependencies = []
# [tool.other]
# anything = 1
# [tool.stasis]
# key = "refund"
# title = "Refund"
# tools = ["payments.refund"]
# input = { type = "object", required = ["id"] }
# max_calls = 10
# resume = false
#
# [tool.stasis.limits]
# active = "5s"
# memory = "128MiB"
# ///
result = 1
"#;
    let meta = metadata(source).unwrap_or_else(|faults| panic!("{faults}"));
    let expected = ScriptMeta {
        key: Some("refund".to_owned()),
        title: Some("Refund".to_owned()),
        tools: Some(vec!["payments.refund".to_owned()]),
        input: canonicalize(br#"{"required":["id"],"type":"object"}"#).ok(),
        output: None,
        max_calls: Some(10),
        resume: Some(false),
        active_limit: Some(Duration::from_secs(5)),
        memory_bytes: Some(128 << 20),
    };
    assert_eq!(meta, expected); // I-68
    let manifest = canonicalize(
        br#"{"key":"refund","title":"Refund","tools":["payments.refund"],"input":{"type":"object","required":["id"]},"output":null,
            "max_calls":10,"resume":false,"limits":{"active":"5s","memory":"128MiB"}}"#,
    );
    assert_eq!(ScriptMeta::from_json(&manifest.expect("strict JSON")), Ok(expected)); // I-20, I-68
    assert_eq!(metadata("result = 1\n"), Ok(ScriptMeta::default())); // I-68
    let given = ScriptMeta { key: Some("mine".to_owned()), ..ScriptMeta::default() };
    assert_eq!(given.or(meta).key.as_deref(), Some("mine"));
}

#[test]
fn faults_of_inline_metadata_stand_at_their_lines_in_the_script() {
    let told = |source: &str| match metadata(source) {
        Ok(meta) => panic!("{meta:?}"),
        Err(ConfigFaults(faults)) => {
            faults.into_iter().map(|fault| (fault.line, fault.column, fault.key)).collect::<Vec<_>>()
        }
    };
    let at = |line, column, key: &str| (Some(line), Some(column), key.to_owned());
    let source = "import x\n# /// script\n# [tool.stasis]\n# ky = \"a\"\n# max_calls = 0\n# input = { type = \"nothing\" }\n# ///\n";
    assert_eq!(
        told(source),
        [at(4, 3, "tool.stasis.ky"), at(5, 15, "tool.stasis.max_calls"), at(6, 13, "tool.stasis.input.type")]
    ); // I-68
    assert_eq!(told("# /// script\n# [tool.stasis\n# ///\n")[0].0, Some(2)); // I-68
    assert_eq!(told("# /// script\n# x = 1\nresult = 1\n"), [at(1, 1, "")]); // I-68
    assert_eq!(told("# /// script\n# ///\n# /// script\n# ///\n"), [at(3, 1, "")]); // I-68
    assert_eq!(told("# /// script\n# dependencies = [\"requests\"]\n# ///\n"), [at(2, 18, "dependencies")]); // W-158
    let manifest = canonicalize(br#"{"ky":"a","tiers":{}}"#).expect("strict JSON");
    assert_eq!(ScriptMeta::from_json(&manifest).map_err(|faults| faults.0.len()), Err(2)); // I-20, I-37
}
