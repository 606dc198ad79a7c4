//! Reading a request: steps 1 to 3 of the broker. What is refused here is neither counted nor journaled (W-171).

use protocol::code::Code;
use protocol::json::{Bounds, Canonical, Object, Value, canonicalize_within};
use protocol::limits::{BATCH_CALLS, JSON_DEPTH, JSON_NODES, REQUEST_BYTES};

/// One request: a call, or a batch in list order.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) calls: Vec<Asked>,
    pub(crate) batch: bool,
}

/// One call as the guest asks for it.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) n: u64,
    pub(crate) tool: String,
    pub(crate) arguments: Canonical,
}

/// Why a request is no call.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Refused {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Refused {
        Refused { code, message: message.into() }
    }
}

/// An envelope may nest two deeper than a body, and hold a few values more, so that a body at its limits passes.
const ENVELOPE: Bounds =
    Bounds { bytes: REQUEST_BYTES, depth: JSON_DEPTH + 2, nodes: JSON_NODES + 4 * BATCH_CALLS + 1 };

/// Reads `{n, tool, arguments}` or a list of 1 to 64 of them, exactly (C-69 to C-71).
pub(crate) fn read(bytes: &[u8]) -> Result<Request, Refused> {
    let text = canonicalize_within(bytes, &ENVELOPE).map_err(|fault| match fault.reason {
        protocol::json::Reason::Size => too_large(bytes.len() as u64),
        _ => Refused::new(Code::InvalidJson, fault.to_string()),
    })?;
    match text.value() {
        Value::Array(items) if items.is_empty() || items.len() > BATCH_CALLS => {
            let detail = format!("a batch has 1 to {BATCH_CALLS} calls, not {}", items.len());
            Err(Refused::new(Code::InvalidRequest, detail))
        }
        Value::Array(items) => {
            let calls = items.iter().map(envelope).collect::<Result<_, _>>()?;
            Ok(Request { calls, batch: true })
        }
        one => Ok(Request { calls: vec![envelope(&one)?], batch: false }),
    }
}

/// C-69, for a request that was not even copied.
pub(crate) fn too_large(bytes: u64) -> Refused {
    Refused::new(Code::RequestTooLarge, format!("request exceeded: {bytes} > {REQUEST_BYTES}"))
}

fn envelope(value: &Value) -> Result<Asked, Refused> {
    let invalid = |detail: String| Refused::new(Code::InvalidRequest, detail);
    let Some(object) = value.as_object() else {
        return Err(invalid(format!("a request is an object, not {}", value.kind())));
    };
    // C-61: a request that names a run, plan or approval is refused for its unknown field.
    if let Some((field, _)) = object.iter().find(|(key, _)| !["n", "tool", "arguments"].contains(key)) {
        return Err(invalid(format!("unknown field `{field}`")));
    }
    let n = object.get("n").and_then(Value::as_u64).filter(|n| *n > 0);
    let n = n.ok_or_else(|| invalid("`n` is a whole number from 1".to_owned()))?;
    let tool = object.get("tool").and_then(Value::as_str);
    let tool = tool.ok_or_else(|| invalid("`tool` is a text".to_owned()))?.to_owned();
    let arguments = arguments(object)?;
    Ok(Asked { n, tool, arguments })
}

fn arguments(object: &Object) -> Result<Canonical, Refused> {
    let value = object.get("arguments").filter(|value| value.as_object().is_some());
    let value = value.ok_or_else(|| Refused::new(Code::InvalidRequest, "`arguments` is an object"))?;
    // The arguments alone are what is hashed, so their depth and nodes are a body's; their size is judged in step 9.
    let bounds = Bounds { bytes: REQUEST_BYTES, ..Bounds::BODY };
    value
        .canonical()
        .and_then(|text| canonicalize_within(text.as_bytes(), &bounds))
        .map_err(|fault| Refused::new(Code::InvalidJson, fault.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(bytes: &[u8]) -> Code {
        read(bytes).expect_err("refused").code
    }

    #[test]
    fn only_the_exact_envelope_is_a_call() {
        let request = read(br#"{"tool":"a.b","n":1,"arguments":{"b":1,"a":1.0}}"#).expect("a call");
        assert_eq!(request.calls[0].arguments.as_str(), r#"{"a":1.0,"b":1}"#); // C-68
        let table: [(&[u8], Code); 11] = [
            (b"", Code::InvalidJson),                                                         // C-70
            (b"{\"n\":1,\"n\":1,\"tool\":\"a.b\",\"arguments\":{}}", Code::InvalidJson),      // C-70
            (b"5", Code::InvalidRequest),                                                     // C-71
            (b"[]", Code::InvalidRequest),                                                    // C-71
            (br#"{"n":1,"tool":"a.b"}"#, Code::InvalidRequest),                               // C-71
            (br#"{"n":0,"tool":"a.b","arguments":{}}"#, Code::InvalidRequest),                // C-71
            (br#"{"n":"1","tool":"a.b","arguments":{}}"#, Code::InvalidRequest),              // C-71
            (br#"{"n":1,"tool":7,"arguments":{}}"#, Code::InvalidRequest),                    // C-71
            (br#"{"n":1,"tool":"a.b","arguments":[]}"#, Code::InvalidRequest),                // C-71
            (br#"{"n":1,"tool":"a.b","arguments":{},"run":"x"}"#, Code::InvalidRequest),      // C-61
            (br#"{"n":1,"tool":"a.b","arguments":{},"approval":"x"}"#, Code::InvalidRequest), // C-61
        ];
        for (bytes, wanted) in table {
            assert_eq!(code(bytes), wanted, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_batch_has_1_to_64_calls_and_is_refused_whole() {
        let call = |n: usize| format!(r#"{{"n":{n},"tool":"a.b","arguments":{{}}}}"#);
        let list = |count: usize| format!("[{}]", (1..=count).map(call).collect::<Vec<_>>().join(","));
        assert_eq!(read(list(64).as_bytes()).expect("64 calls").calls.len(), 64); // C-71
        assert_eq!(code(list(65).as_bytes()), Code::InvalidRequest); // C-71
        let bad = format!("[{},{{}}]", call(1));
        assert_eq!(code(bad.as_bytes()), Code::InvalidRequest); // C-92
    }

    #[test]
    fn a_request_may_be_1_mib_and_4_kib() {
        let fits = |len: usize| {
            let frame = br#"{"n":1,"tool":"a.b","arguments":{"x":""}}"#.len();
            format!(r#"{{"n":1,"tool":"a.b","arguments":{{"x":"{}"}}}}"#, "a".repeat(len - frame))
        };
        assert!(read(fits(REQUEST_BYTES).as_bytes()).is_ok()); // C-69
        assert_eq!(code(fits(REQUEST_BYTES + 1).as_bytes()), Code::RequestTooLarge); // C-69
    }

    #[test]
    fn arguments_at_the_depth_limit_pass_inside_the_envelope() {
        let deep = |depth: usize| {
            let open = "[".repeat(depth - 1);
            let close = "]".repeat(depth - 1);
            format!(r#"[{{"n":1,"tool":"a.b","arguments":{{"x":{open}{close}}}}}]"#)
        };
        assert!(read(deep(JSON_DEPTH).as_bytes()).is_ok()); // C-31
        assert_eq!(code(deep(JSON_DEPTH + 1).as_bytes()), Code::InvalidJson); // C-31
    }
}
