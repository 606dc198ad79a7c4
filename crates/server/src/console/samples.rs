//! Objects to draw in tests: a refund that waited two hours for a person, from the examples of interfaces.md.

use super::layout::View;
use super::run::Facts;
use super::timeline::Timeline;
use api::{Approval, Call, Event, Json, LogLine, Run};
use protocol::digest::Digest;
use protocol::principal::{DEFAULT_NAMESPACE, Kind, Principal, Rights};
use protocol::time::Time;
use std::time::Duration;

/// 2026-11-30T09:30:00Z.
pub(super) const START: Time = Time::from_millis(1_796_031_000_000);

const RUN: &str = r#"{"id":"run_01m8nwmbe0e00bsaekf59edd1r","namespace":"default","workflow":"refund","revision":1,
 "pattern_digest":"sha256:1fd38d5cbd2a997b91f725cb1cb0a710849db30dac491ee42e92443fd8e3c1a2","plan_digest":"sha256:64879f7d6b960a01909762d911a32d4582c20010c5641ee90278b644a9e3b525",
 "kind":"script","status":"running","since_at":"2026-11-30T11:30:00.815Z","seq":1,
 "created_at":"2026-11-30T09:30:00Z","started_at":"2026-11-30T09:30:00Z","finished_at":null,"deadline_at":null,
 "queue":"default","priority":50,"principal":"ada","session":null,"labels":{"team":"support"},"retry_of":null,"forked_from":null,"paused":[],"blocked":null,
 "waiting_for":[{"kind":"approval","id":"apr_01m8nwmc7ce009jh69rck9w39q","name":"payments.refund","since_at":"2026-11-30T09:30:00.812Z","due_at":"2026-12-01T09:30:00.812Z","tier":"frozen"}],
 "budgets":{"calls":{"used":2,"of":10000},"active_ms":{"used":4,"of":60000},"hardware":{"total":0,"of":8,"resource":null,"in_row":0,"in_row_of":3}},
 "clocks_ms":{"queued":2,"active":4,"calls":11,"hold":0,"person":7200000,"machine":0,"paused":0,"stopping":0},
 "input_digest":"sha256:d0197b30d2ae22fc29801d96cc3da5f6f17291d6cdf6d181edd95cb8e240e67b","result":null,"failure":null,"obligations":[],"effects":[]}"#;

const APPROVAL: &str = r#"{"id":"apr_01m8nwmc7ce009jh69rck9w39q","kind":"call","status":"pending","run":"run_01m8nwmbe0e00bsaekf59edd1r","workflow":"refund",
 "call":"call_01m8nwmc7be00865rzyjka792g","identity":"run_01m8nwmbe0e00bsaekf59edd1r/main/2",
 "tool":"payments.refund","tool_version":"1","title":null,"description":"Refund an order","claim":null,
 "withheld":false,"arguments":{"amount":250.5,"order_id":"o-7"},"arguments_digest":"sha256:1d4bde2c94cec964e480cc8717fb3213b58ee58b3b0b74c63b5aa03f30f2e040",
 "asked_arguments_digest":"sha256:1d4bde2c94cec964e480cc8717fb3213b58ee58b3b0b74c63b5aa03f30f2e040","unrenderable":false,"form":null,
 "plan_digest":"sha256:64879f7d6b960a01909762d911a32d4582c20010c5641ee90278b644a9e3b525","policy_digest":"sha256:823412d1eacb67956220e532959f0104603057c88704863ca38e7cd188fda812",
 "binding_digest":"sha256:80f70afeef3caa57646fd20afb95be9c3f2c03d38e091906de31838813dcc22e","revision":1,"requester":"ada","acts_for":null,
 "rule":{"roles":["finance"],"principals":[],"quorum":2,"reject_quorum":1,"separate_requester":true,"edit":"yes","reason":"reject","on_expiry":"reject","strength":"session","batch":true},
 "progress":{"approve":1,"reject":0,"abstain":0,"quorum":2,"of":null},
 "created_at":"2026-11-30T09:30:00.812Z","expires_at":"2026-12-01T09:30:00.812Z","valid_until_at":null,"decided_at":null,
 "decisions":[{"principal":"maria","method":"console","strength":"session","verdict":"approve","reason":"Checked with the warehouse.","at":"2026-11-30T10:02:11Z","late":false}],
 "answer":null,"dispatch":null}"#;

const EXPLAIN: &str = r#"{"run":"run_01m8nwmbe0e00bsaekf59edd1r","status":"running","since_at":"2026-11-30T11:30:00.815Z",
 "why":"It waits for one more approval of payments.refund.","next":"At 2026-12-01T09:30:00Z the question expires and the call is denied.",
 "moves":["stasis approve apr_01m8nwmc7ce009jh69rck9w39q"],"paused":[],
 "waits":[{"kind":"approval","id":"apr_01m8nwmc7ce009jh69rck9w39q","name":"payments.refund","since_at":"2026-11-30T09:30:00.812Z","due_at":"2026-12-01T09:30:00.812Z","ended_by":"1 of 2 approvals by role finance, or its expiry (rejects)"}],
 "clocks_ms":{"queued":2,"active":4,"calls":11,"hold":0,"person":7200000,"machine":0,"paused":0,"stopping":0},"obligations":[],"debts":[]}"#;

/// Maria, two and a half hours after the run began.
pub(super) fn view() -> View {
    let now = START + Duration::from_secs(9_000);
    let principal = Principal {
        id: "maria".into(),
        name: "Maria K.".into(),
        kind: Kind::Person,
        namespace: DEFAULT_NAMESPACE.into(),
        partition: None,
        roles: ["finance"].into_iter().collect(),
        rights: Rights::default_of(Kind::Person),
    };
    View { subject: "maria".into(), name: "Maria K.".into(), principal, csrf: "token-of-the-form".into(), now }
}

pub(super) fn run() -> Run {
    serde_json::from_str(RUN).expect("the sample is a run")
}

pub(super) fn approval() -> Approval {
    serde_json::from_str(APPROVAL).expect("the sample is an approval")
}

/// The approval with these arguments.
pub(super) fn approval_of(arguments: &str) -> Approval {
    let arguments = json(arguments);
    Approval { arguments_digest: Digest::of(arguments.as_str()), arguments: Some(arguments), ..approval() }
}

pub(super) fn json(text: &str) -> Json {
    Json::parse(text).expect("the sample is JSON")
}

/// The events that an approval, a park and a return leave.
pub(super) fn events() -> Vec<Event> {
    let kinds = [
        (0, "run.queued"),
        (2_000, "run.running"),
        (2_001, "call.entered"),
        (3_000, "approval.requested"),
        (33_000, "run.awaiting_consent"),
        (7_200_000, "run.queued"),
        (7_260_000, "run.running"),
    ];
    let event = |(seq, (ms, kind)): (usize, (u64, &str))| Event {
        schema: "stasis.event.v1".into(),
        run: run().id,
        seq: seq as u64,
        kind: kind.into(),
        at: START + Duration::from_millis(ms),
        facts: json(r#"{"call":"call_01m8nwmc7be00865rzyjka792g"}"#),
        prev: Digest::of("before"),
        digest: Digest::of(kind),
    };
    kinds.into_iter().enumerate().map(event).collect()
}

pub(super) fn calls() -> Vec<Call> {
    let call = |n: u32, tool: &str, effect: &str, arguments: &str, asked: u64, sent: u64, done: u64, approval: &str| {
        let at = |ms: u64| START + Duration::from_millis(ms);
        let digest = Digest::of(arguments);
        let text = format!(
            r#"{{"id":"call_01m8nwmc7be00865rzyjka79{n:02}","run":"run_01m8nwmbe0e00bsaekf59edd1r","identity":"run_01m8nwmbe0e00bsaekf59edd1r/main/{n}","parent":null,
            "tool":"{tool}","tool_version":"1","effect":"{effect}","state":"ended","withheld":false,"arguments":{arguments},"arguments_digest":"{digest}","asked_arguments_digest":"{digest}",
            "approval":{approval},"outcome":"ok","applied":"yes","code":null,"detail":null,"result":{{"done":true}},"attempts":1,"receipt":null,
            "created_at":"{}","gate_at":"{}","completed_at":"{}"}}"#,
            at(asked),
            at(sent),
            at(done),
        );
        serde_json::from_str(&text).expect("the sample is a call")
    };
    vec![
        call(1, "payments.order", "read", r#"{"order_id":"o-7"}"#, 2_100, 2_100, 2_140, "null"),
        call(
            2,
            "payments.refund",
            "write",
            r#"{"amount":250.5,"order_id":"o-7"}"#,
            3_000,
            7_261_000,
            7_261_500,
            r#""apr_01m8nwmc7ce009jh69rck9w39q""#,
        ),
        call(
            3,
            "mail.send",
            "write",
            r#"{"body":"We refunded 250.50 for order o-7.","to":"ada@customers.example"}"#,
            7_262_000,
            7_262_000,
            7_262_300,
            "null",
        ),
    ]
}

pub(super) fn timeline() -> Timeline {
    Timeline::of(&run(), &events(), &calls(), START + Duration::from_secs(9_000))
}

pub(super) fn facts() -> Facts {
    let line = |n: u64, text: &str| LogLine { n, at: START + Duration::from_millis(2_100 + n), text: text.into() };
    Facts {
        run: run(),
        explain: serde_json::from_str(EXPLAIN).expect("the sample explains"),
        calls: calls(),
        approvals: vec![approval()],
        log: vec![line(0, "order o-7: 2 damaged lines, 250.5 to refund"), line(1, "asking for the refund")],
        events: events(),
        cut: false,
    }
}
