//! What a program sees (workflows.md section 3.1). Programs assert for themselves; what they send is checked here.

use sandbox::{CheckError, End};
use serde_json::json;

use crate::support::{run, sandbox};

#[tokio::test]
async fn a_program_has_inputs_tools_and_a_result() {
    let done = run("\
import demo as again
assert again is demo and __name__ == '__main__' and __file__ == 'program.py'
import __main__
assert __main__.inputs is inputs
assert (type(inputs['cents']), type(inputs['rate']), inputs['big']) == (int, float, 12345678901234567890)
assert demo.get.__doc__ == 'What demo.get does.'
first = demo.get(i=inputs['cents'])
result = {'first': first, 'order': inputs['order']}")
    .await;
    // W-115
    assert_eq!(done.result(), json!({"first": 420_000, "order": "A-17"}));
    // W-116, C-71
    assert_eq!(done.requests, [json!({"n": 1, "tool": "demo.get", "arguments": {"i": 4200}})]);
}

#[tokio::test]
async fn a_program_that_sets_no_result_returns_none() {
    // W-115
    assert_eq!(run("x = 1").await.result(), json!(null));
}

#[tokio::test]
async fn pending_calls_are_made_together_and_answered_in_list_order() {
    let done = run("\
pending = demo.get.later(i=3)
order = {'a': 1}
frozen = demo.echo.later(order=order)
order['a'] = 2
try:
    stasis.parallel(demo.get.later(i=1), demo.boom.later(), demo.code.later(code='policy_denied'), frozen)
except stasis.Failed as error:
    outcomes = error.outcomes
assert outcomes[0] == 100 and outcomes[3] == {'order': {'a': 1}}
assert isinstance(outcomes[2], stasis.Denied)
both = stasis.parallel(pending, demo.boom.later(), errors='return')
result = [both[0], type(both[1]).__name__]")
    .await;
    // W-117, W-118, W-133
    assert_eq!(done.result(), json!([300, "Failed"]));
    let numbers: Vec<_> = done
        .requests
        .iter()
        .map(|batch| batch.as_array().unwrap().iter().map(|c| c["n"].clone()).collect::<Vec<_>>())
        .collect();
    // C-62, C-67: a batch is one request, and takes its numbers in list order.
    assert_eq!(json!(numbers), json!([[1, 2, 3, 4], [5, 6]]));
}

#[tokio::test]
async fn a_batch_of_none_or_too_many_is_a_bad_request_and_uses_no_number() {
    let done = run("\
kinds = []
for count in (0, 65):
    try:
        stasis.parallel(*[demo.get.later(i=1)] * count)
    except stasis.BadRequest as error:
        kinds.append(error.code)
result = [kinds, demo.get(i=1)]")
    .await;
    assert_eq!(done.result(), json!([["invalid_request", "invalid_request"], 100]));
    // W-164, C-60
    assert_eq!(done.requests.last().unwrap()["n"], 1);
}

#[tokio::test]
async fn a_gate_returns_the_decision_or_raises_and_ask_always_returns_it() {
    let done = run("\
import datetime
d = stasis.gate('pay?', {'cents': 1}, roles='finance', quorum=2, lease='24h', on_expiry='fail', form={'type': 'object'})
assert d and d.approved and d.status == 'approved' and d.by == ['ann', 'bob'] and d.answer == {'limit': 5}
assert d.at == datetime.datetime(2026, 11, 30, 10, tzinfo=datetime.timezone.utc) and d.reason is None
try:
    stasis.gate('no')
except stasis.Rejected as error:
    assert error.by == ['ann'] and error.reason == 'because' and isinstance(error, stasis.Denied)
try:
    stasis.gate('late')
except stasis.Expired as error:
    assert error.code == 'approval_expired'
asked = [stasis.ask('no'), stasis.ask('late'), stasis.ask('yes', lease=1.5)]
assert [bool(a) for a in asked] == [False, False, True]
result = [[str(a), a.status, a.reason] for a in asked]")
    .await;
    // W-119, W-120, W-128, W-263
    assert_eq!(
        done.result(),
        json!([
            ["rejected by ann: because", "rejected", "because"],
            ["expired by ann: because", "expired", "because"],
            ["approved by ann, bob", "approved", null]
        ])
    );
    // W-130, W-264
    assert_eq!(
        done.requests[0]["arguments"],
        json!({"title": "pay?", "details": {"cents": 1}, "roles": ["finance"], "quorum": 2, "lease_ms": 86_400_000, "on_expiry": "fail", "form": {"type": "object"}})
    );
    assert_eq!(done.requests[5]["arguments"], json!({"title": "yes", "lease_ms": 1_500}));
}

#[tokio::test]
async fn signals_timers_and_jobs_are_calls_that_wait() {
    let done = run("\
import time, datetime
assert stasis.signal('paid', timeout='1h', schema={'type': 'object'}) == {'paid': True}
try:
    stasis.signal('never')
except stasis.Expired as error:
    assert error.code == 'wait_expired'
stasis.sleep(90)
time.sleep(0.0001)
stasis.until(datetime.datetime(2026, 12, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))))
stasis.until('2026-12-01T09:00:00+02:00')
assert stasis.delegate('coder', {'fix': 1}, tools=['demo.get'], max_calls=3, timeout=60) == 'done'
try:
    stasis.delegate('lazy', 'task')
except stasis.JobFailed as error:
    result = error.status")
    .await;
    assert_eq!(done.result(), json!("timed_out"));
    let arguments: Vec<_> =
        done.requests.iter().map(|request| json!([request["tool"], request["arguments"]])).collect();
    // W-121, W-122, W-123, W-264
    assert_eq!(
        json!(arguments),
        json!([
            ["stasis.signal", {"name": "paid", "timeout_ms": 3_600_000, "schema": {"type": "object"}}],
            ["stasis.signal", {"name": "never"}],
            ["stasis.sleep", {"ms": 90_000}],
            ["stasis.sleep", {"ms": 1}],
            ["stasis.sleep", {"until": "2026-11-30T23:00:00Z"}],
            ["stasis.sleep", {"until": "2026-12-01T07:00:00Z"}],
            ["stasis.delegate", {"agent": "coder", "task": {"fix": 1}, "tools": ["demo.get"], "max_calls": 3, "timeout_ms": 60_000}],
            ["stasis.delegate", {"agent": "lazy", "task": "task"}],
        ])
    );
}

#[tokio::test]
async fn durations_and_times_that_are_none_are_refused_before_any_call() {
    let done = run("\
import datetime, math
refused = []
for wait in (lambda: stasis.sleep('soon'), lambda: stasis.sleep(-1), lambda: stasis.sleep(math.nan), lambda: stasis.sleep(True),
             lambda: stasis.until(datetime.datetime(2026, 1, 1)), lambda: stasis.until('tomorrow'), lambda: stasis.gate(3)):
    try:
        wait()
    except (TypeError, ValueError) as error:
        refused.append(type(error).__name__)
result = refused")
    .await;
    // W-264
    assert_eq!(
        done.result(),
        json!(["ValueError", "ValueError", "ValueError", "TypeError", "TypeError", "ValueError", "TypeError"])
    );
    assert!(done.requests.is_empty());
}

#[tokio::test]
async fn first_makes_one_call_for_several_waits_and_ends_as_the_winner_did() {
    let done = run("\
try:
    stasis.first(demo.get.later(i=1))
except TypeError:
    pass
index, decision = stasis.first(stasis.sleep.later('2d'), stasis.ask.later('no'))
assert (index, decision.status) == (1, 'rejected')
try:
    stasis.first(stasis.sleep.later(1), stasis.gate.later('no'))
except stasis.Rejected as error:
    result = error.reason")
    .await;
    assert_eq!(done.result(), json!("because"));
    // W-124
    assert_eq!(
        done.requests[0],
        json!({"n": 1, "tool": "stasis.first", "arguments": {"waits": [
            {"tool": "stasis.sleep", "arguments": {"ms": 172_800_000}}, {"tool": "stasis.gate", "arguments": {"title": "no"}}]}})
    );
}

#[tokio::test]
async fn built_in_tools_are_calls() {
    let done = run("\
import datetime
assert stasis.now() == datetime.datetime(2026, 11, 30, 9, 30, 0, 250000, tzinfo=datetime.timezone.utc)
assert stasis.random_bytes(3) == b'\\0\\1\\2'
result = [stasis.sha256(b'ab'), stasis.sha256('ab')]")
    .await;
    // W-125
    assert_eq!(done.result(), json!(["of \"YWI=\"", "of \"YWI=\""]));
    assert_eq!(done.requests[1], json!({"n": 2, "tool": "stasis.random_bytes", "arguments": {"n": 3}}));
}

#[tokio::test]
async fn last_tells_of_the_last_call_and_makes_none() {
    let done = run("\
before = stasis.last()
demo.get(i=1)
plain = stasis.last()
value = demo.edited(cents=9)
result = [before, plain, value, stasis.last()]")
    .await;
    // W-126, W-147
    assert_eq!(
        done.result(),
        json!([
            null,
            {"id": "run_1/main/1", "tool": "demo.get", "outcome": "ok", "edited": false, "arguments": {"i": 1}, "approval": null},
            {"cents": 9},
            {"id": "run_1/main/2", "tool": "demo.edited", "outcome": "ok", "edited": true, "arguments": {"cents": 1}, "approval": "apr_1"},
        ])
    );
    assert_eq!(done.requests.len(), 2);
}

#[tokio::test]
async fn an_edited_call_raises_where_the_program_chose_that() {
    let done = run("\
stasis.on_edit('raise')
try:
    demo.edited(cents=9)
except stasis.Edited as error:
    result = [error.result, error.code]
stasis.on_edit('return')
demo.edited(cents=8)")
    .await;
    // W-127, W-145, W-147
    assert_eq!(done.result(), json!([{"cents": 9}, "edited"]));
}

#[tokio::test]
async fn lines_are_logged_without_a_call() {
    let done = run("\
import sys
print('a', 1, end='')
print('b\\nc')
stasis.log('paid', 'twice', cents=5)
sys.stderr.write('to stderr\\n')
print('no newline', end='')")
    .await;
    // W-127
    assert_eq!(done.lines, ["a 1b", "c", "paid twice {\"cents\":5}", "to stderr", "no newline"]);
    assert!(done.requests.is_empty());
}

#[tokio::test]
async fn a_function_that_the_plan_lacks_is_named_with_the_nearest_one() {
    let done = run("mail.sent(to='x')").await;
    // W-260
    assert_eq!(done.raised().class, "AttributeError");
    assert_eq!(done.raised().message, "mail has no function 'sent' in this plan; the nearest is 'send'");
    assert!(done.requests.is_empty());
}

#[tokio::test]
async fn classes_of_a_program_can_be_pickled() {
    let done = run("\
import pickle
class Order:
    def __init__(self, n): self.n = n
copy = pickle.loads(pickle.dumps([Order(3), mail.send]))
result = [copy[0].n, copy[1] is mail.send]")
    .await;
    // W-260
    assert_eq!(done.result(), json!([3, true]));
}

#[tokio::test]
async fn arguments_are_exact_json_or_a_type_error_that_names_the_place() {
    let done = run("\
import collections, enum, datetime
class Text(str): pass
class Level(enum.IntEnum): HIGH = 3
Pair = collections.namedtuple('Pair', 'a b')
demo.echo(none=None, yes=True, big=2**70, small=-0.0, third=1/3, text='é\\n', pair=Pair(1, 2), level=Level.HIGH, sub=Text('s'),
          order=collections.OrderedDict(z=1, a=2), huge=1e22)
refused = []
for value in (float('nan'), float('inf'), {1, 2}, b'x', {1: 2}, datetime.date(2026, 1, 1), object, '\\ud800', 10**5000):
    try:
        demo.echo(list=[0, {'key': value}])
    except TypeError as error:
        refused.append(str(error).partition(': ')[0])
loop = []
loop.append(loop)
try:
    demo.echo(loop=loop)
except TypeError:
    refused.append('loop')
try:
    demo.echo('positional')
except TypeError as error:
    refused.append(str(error))
result = refused")
    .await;
    let place = "arguments.list[1].key";
    // W-261
    assert_eq!(
        done.result(),
        json!([
            place,
            place,
            place,
            place,
            place,
            place,
            place,
            "arguments",
            place,
            "loop",
            "demo.echo takes keyword arguments only"
        ])
    );
    assert_eq!(done.requests.len(), 1);
    for part in [
        r#""big":1180591620717411303424,"#,
        r#""small":-0.0,"#,
        r#""third":0.3333333333333333,"#,
        r#""text":"é\n","#,
        r#""pair":[1,2],"#,
        r#""level":3,"#,
        r#""order":{"z":1,"a":2},"#,
        r#""huge":1e+22}"#,
    ] {
        assert!(done.sent[0].contains(part), "{part} in {}", done.sent[0]);
    }
}

#[tokio::test]
async fn a_result_that_is_no_json_ends_the_run_and_names_the_place() {
    let done = run("result = {'rows': [1, {2}]}").await;
    // W-261
    assert_eq!(done.end, End::ResultInvalid { message: "result.rows[1]: set is not JSON".into() });
}

#[tokio::test]
async fn numbers_come_in_as_int_or_float_by_how_they_are_written() {
    let done = run("\
value = demo.echo(a=1, b=1.0, c=1e2, d=True)
result = [type(v).__name__ for v in value.values()]")
    .await;
    // W-262
    assert_eq!(done.result(), json!(["int", "float", "float", "bool"]));
}

#[tokio::test]
async fn source_that_does_not_compile_is_told_with_line_and_column() {
    let fault = |source: &'static str| async move {
        match sandbox().check(source, "bad.py").await {
            Err(CheckError::Source(fault)) => fault,
            other => panic!("{other:?}"),
        }
    };
    let got = fault("x = 1\ny = (2 +\n").await;
    // W-152
    assert_eq!((got.line, got.column, got.text.as_str()), (2, 5, "'(' was never closed"));
    let got = fault("é = 'ü' 3").await;
    // Characters, not bytes.
    assert_eq!((got.line, got.column), (1, 9));
    assert_eq!(fault("a\0b").await.line, 1);
    assert_eq!(fault("(".repeat(1_000).leak()).await.line, 1);
    sandbox().check("import nothing_like_it\n1 is 1\n", "good.py").await.unwrap();
    sandbox().check("", "empty.py").await.unwrap();
}

#[tokio::test]
async fn a_source_of_very_many_lines_is_read_in_time_that_goes_with_its_length() {
    // W-159: as long as a source may be. By the square of its length this took longer than a check may.
    for line in ["\n", "\r\n", "#\n", "\x0c\n"] {
        sandbox().check(&line.repeat((1 << 20) / line.len()), "long.py").await.unwrap();
    }
}

#[tokio::test]
async fn a_byte_order_mark_is_no_part_of_the_source() {
    sandbox().check("\u{feff}x = 1", "bom.py").await.unwrap();
    assert_eq!(run("\u{feff}result = 1").await.result(), json!(1));
}
