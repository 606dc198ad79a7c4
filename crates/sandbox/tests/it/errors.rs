//! How a call that ends badly, and a program that does, are told (workflows.md section 3.2).

use sandbox::End;
use serde_json::json;

use crate::support::run;

#[tokio::test]
async fn each_code_raises_its_class() {
    let done = run("\
table = {
    'denied': ['policy_denied', 'tool_not_in_plan', 'approval_cancelled', 'call_identity_mismatch', 'approval_rejected', 'approval_expired',
               'expired_before_dispatch', 'wait_expired', 'call_budget_exceeded', 'tool_budget_exceeded'],
    'error': ['request_too_large', 'invalid_json', 'invalid_request', 'handler_error', 'handler_timeout', 'connector_unreachable',
              'invalid_result', 'effect_not_executed', 'job_ended'],
}
raised = []
for status, codes in table.items():
    for code in codes:
        try:
            demo.code(status=status, code=code, detail={'status': 'failed'})
        except stasis.ToolError as error:
            assert error.code == code and error.tool == 'demo.code' and error.call.startswith('run_1/main/')
            assert error.message == f'refused: {code}' and error.detail == {'status': 'failed'}
            raised.append([code, type(error).__name__, [c.__name__ for c in type(error).__mro__[1:-3]]])
assert stasis.Rejected('m', detail={'reason': 'r', 'by': ['b']}).reason == 'r'
result = raised")
    .await;
    let denied = ["Denied", "ToolError"];
    // C-90, W-138, W-139, W-140, W-141, W-142, W-143, W-144
    assert_eq!(
        done.result(),
        json!([
            ["policy_denied", "Denied", ["ToolError"]],
            ["tool_not_in_plan", "Denied", ["ToolError"]],
            ["approval_cancelled", "Denied", ["ToolError"]],
            ["call_identity_mismatch", "Denied", ["ToolError"]],
            ["approval_rejected", "Rejected", denied],
            ["approval_expired", "Expired", denied],
            ["expired_before_dispatch", "Expired", denied],
            ["wait_expired", "Expired", denied],
            ["call_budget_exceeded", "BudgetExceeded", denied],
            ["tool_budget_exceeded", "BudgetExceeded", denied],
            ["request_too_large", "BadRequest", ["ToolError"]],
            ["invalid_json", "BadRequest", ["ToolError"]],
            ["invalid_request", "BadRequest", ["ToolError"]],
            ["handler_error", "Failed", ["ToolError"]],
            ["handler_timeout", "Failed", ["ToolError"]],
            ["connector_unreachable", "Failed", ["ToolError"]],
            ["invalid_result", "Failed", ["ToolError"]],
            ["effect_not_executed", "Failed", ["ToolError"]],
            ["job_ended", "JobFailed", ["ToolError"]],
        ])
    );
}

#[tokio::test]
async fn a_failure_says_whether_it_was_applied() {
    let done = run("\
try:
    demo.boom()
except stasis.Failed as error:
    result = [error.applied, error.detail]")
    .await;
    // W-143
    assert_eq!(done.result(), json!([false, {"http": 500}]));
}

#[tokio::test]
async fn a_caught_error_is_an_ordinary_step() {
    let source = "\
result = []
for i in range(3):
    try:
        demo.boom() if i == 1 else result.append(demo.get(i=i))
    except stasis.ToolError as error:
        result.append(error.code)";
    let (first, second) = (run(source).await, run(source).await);
    // W-149
    assert_eq!(first.result(), json!([0, "handler_error", 200]));
    assert_eq!((first.end, first.requests), (second.end, second.requests));
}

#[tokio::test]
async fn an_uncaught_error_is_told_with_the_programs_own_lines() {
    let done = run("\
def pay(cents):
    return demo.boom(cents=cents)

try:
    1 / 0
except ZeroDivisionError:
    pay(3)
")
    .await;
    let raised = done.raised();
    // W-150
    assert_eq!((raised.class.as_str(), raised.line), ("stasis.Failed", Some(2)));
    assert_eq!(raised.message, "demo.boom: refused: handler_error (handler_error)");
    assert_eq!(raised.code.as_deref(), Some("handler_error"));
    for part in [
        "File \"program.py\", line 7, in <module>",
        "    return demo.boom(cents=cents)",
        "ZeroDivisionError: division by zero",
        "During handling",
    ] {
        assert!(raised.traceback.contains(part), "{part}: {}", raised.traceback);
    }
    assert!(!raised.traceback.contains("/lib/stasis"), "{}", raised.traceback);
}

#[tokio::test]
async fn classes_are_named_as_python_names_them() {
    let own = run("class Trouble(Exception): pass\nraise Trouble('deep')").await;
    assert_eq!((own.raised().class.as_str(), own.raised().message.as_str()), ("Trouble", "deep"));
    let library = run("import json\njson.loads('{')").await;
    assert_eq!(library.raised().class, "json.decoder.JSONDecodeError");
    let job = run("stasis.delegate('lazy', 1)").await;
    // W-144, R-229
    assert!(job.raised().job_failed);
    assert_eq!(job.raised().code.as_deref(), Some("job_ended"));
}

#[tokio::test]
async fn source_that_does_not_compile_ends_by_a_syntax_error() {
    let done = run("x = 1\ny = (2 +\n").await;
    assert_eq!(done.raised().class, "SyntaxError");
    assert!(done.raised().traceback.contains("line 2"), "{}", done.raised().traceback);
}

#[tokio::test]
async fn long_messages_and_odd_exceptions_are_told_all_the_same() {
    let long = run("raise ValueError('x' * 10**6)").await;
    assert_eq!(long.raised().message.len(), 4_096);
    let odd = run("class Odd(Exception):\n    def __str__(self): raise KeyError\nraise Odd").await;
    assert_eq!(odd.raised().message, "<its text could not be made: KeyError>");
    let deep = run("def f(): f()\nf()").await;
    assert_eq!(deep.raised().class, "RecursionError");
}

#[tokio::test]
async fn whatever_an_exception_is_made_of_the_program_ends_by_it() {
    const NO_TEXT: &str = "<its text could not be made: KeyError>";
    let own = |body: &str| format!("class A(stasis.ToolError):\n    {body}\nraise A('a')");
    let left = |body: &str| format!("class A:\n    {body}\nraise SystemExit(A())");
    let text = |source: &str| source.to_owned();
    for (source, class, message) in [
        (text("raise ValueError('a\\ud800b')"), "ValueError", "a\\ud800b"),
        (text("raise SystemExit('\\ud800')"), "SystemExit", "\\ud800"),
        (text("e = ValueError('a')\ne.add_note('\\ud800')\nraise e"), "ValueError", "a"),
        (text("e = ValueError('a')\ne.__notes__ = 5\ne.__cause__ = e\nraise e"), "ValueError", "a"),
        (own("__module__ = 5"), "5.A", "a"),
        (own("__qualname__ = 'b\\udc80'"), "b\\udc80", "a"),
        (own("__traceback__ = property(lambda self: 5)"), "A", "a"),
        (own("code = property(lambda self: 1 / 0, lambda self, code: None)"), "A", "a"),
        (own("code = property(lambda self: object(), lambda self, code: None)"), "A", "a"),
        (own("code = property(lambda self: '\\ud800', lambda self, code: None)"), "A", "a"),
        (own("__class__ = property(lambda self: 1 / 0)"), "A", "a"),
        (own("def __getattribute__(self, name): raise KeyError(name)"), "A", NO_TEXT),
        (
            own("class S(str):\n        def __getitem__(self, at): 1 / 0\n    def __str__(self): return A.S('a')"),
            "A",
            "a",
        ),
        (
            text("class M(type):\n    def __getattribute__(cls, name): 1 / 0\n")
                + &own("pass").replace("stasis.ToolError", "Exception, metaclass=M"),
            "Exception",
            "a",
        ),
        (left("def __str__(self): raise KeyError"), "SystemExit", NO_TEXT),
        (left("def __eq__(self, other): 1 / 0\n    def __str__(self): return 'a'"), "SystemExit", "a"),
        (
            text("raise ExceptionGroup('a', [ValueError(i) for i in range(5_000)])"),
            "ExceptionGroup",
            "a (5000 sub-exceptions)",
        ),
        (
            text("e = None\nfor i in range(20_000):\n    n = ValueError(i)\n    n.__context__ = e\n    e = n\nraise e"),
            "ValueError",
            "19999",
        ),
    ] {
        let done = run(&source).await;
        // W-150
        assert_eq!((done.raised().class.as_str(), done.raised().message.as_str()), (class, message), "{source}");
        assert!(!done.raised().traceback.is_empty(), "{source}");
    }
    let long = run("raise type('A' * 5_000_000, (Exception,), {})('a')").await;
    assert_eq!((long.raised().class.len(), long.raised().message.as_str()), (256, "a"));
}

#[tokio::test]
async fn leaving_with_zero_is_an_end_and_with_another_code_an_error() {
    for source in ["result = 1\nimport sys\nsys.exit()", "result = 1\nexit(0)", "result = 1\nraise SystemExit"] {
        // W-151
        assert_eq!(run(source).await.result(), json!(1), "{source}");
    }
    let failed = run("import sys\nsys.exit('too late')").await;
    assert_eq!((failed.raised().class.as_str(), failed.raised().message.as_str()), ("SystemExit", "too late"));
    assert_eq!(run("exit(3)").await.raised().message, "3");
}

#[tokio::test]
async fn exit_functions_run_before_the_result_is_taken() {
    let done = run("import atexit\nresult = [1]\natexit.register(lambda: result.append(demo.get(i=2)))").await;
    assert_eq!(done.result(), json!([1, 200]));
}

#[tokio::test]
async fn a_result_over_its_limit_is_told_with_both_numbers() {
    let done = run("result = 'x' * (1 << 20)").await;
    // W-159, W-168
    assert_eq!(done.end, End::ResultInvalid { message: "the result has 1048578 bytes, the limit is 1048576".into() });
    assert!(matches!(run("result = 'x' * ((1 << 20) - 2)").await.end, End::Returned { .. }));
}
