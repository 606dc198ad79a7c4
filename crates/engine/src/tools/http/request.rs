//! From arguments to one HTTP request (C-251, I-64).
//!
//! Owns the rule which argument goes to the path, the query or the body. Scheme, host and port come from the tool's url
//! alone; an argument is always one encoded segment, one encoded value, or JSON. Pure: the same arguments make the same
//! bytes.

use std::collections::BTreeSet;
use std::fmt;

use protocol::json::{Object, Value};
use protocol::tool::{Http, UrlTemplate, percent_encode};

use crate::tools::Unfit;

/// Longest path and query together.
const URI_BYTES: usize = 32 * 1024;

/// Where a request goes; fixed by the tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) https: bool,
    /// In lower case, without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Target {
    pub(crate) fn of(url: &UrlTemplate) -> Self {
        Self { https: url.is_https(), host: url.host().to_owned(), port: url.port() }
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }

    /// The value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.https { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.authority())
    }
}

/// The parts of a request that come from arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Path and query, encoded.
    pub(crate) uri: String,
    /// Canonical JSON, for methods that carry one.
    pub(crate) body: Option<Vec<u8>>,
}

/// Spreads arguments over path, query and body.
pub(crate) fn parts(http: &Http, arguments: &Value) -> Result<Parts, Unfit> {
    let mut uri = path(&http.url, arguments)?;
    let in_path: BTreeSet<&str> = http.url.arguments().collect();
    let mut pairs: Vec<String> = http.url.query().map(str::to_owned).into_iter().collect();
    let mut rest = Object::default();
    for (name, value) in arguments.as_object().into_iter().flat_map(Object::iter) {
        if in_path.contains(name) {
            continue;
        }
        if !http.method.has_body() || http.query.iter().any(|listed| listed == name) {
            query_pairs(name, value, &mut pairs)?;
        } else {
            rest.insert(name.to_owned(), value.clone());
        }
    }
    for (n, pair) in pairs.iter().enumerate() {
        uri.push(if n == 0 { '?' } else { '&' });
        uri.push_str(pair);
    }
    if uri.len() > URI_BYTES {
        return Err(Unfit::whole(format!("path and query have {} bytes, at most {URI_BYTES}", uri.len())));
    }
    let body = http.method.has_body().then(|| canonical(&Value::Object(rest))).transpose()?;
    Ok(Parts { uri, body })
}

/// The path, filled by one segment for each argument it names.
fn path(url: &UrlTemplate, arguments: &Value) -> Result<String, Unfit> {
    let filled = url.fill(arguments).map_err(|fault| Unfit::of(&fault.name, fault.why))?;
    let (_, behind_scheme) = filled.split_once("://").expect("a filled url begins with its scheme");
    let slash = behind_scheme.find('/').expect("a filled url has a path");
    Ok(behind_scheme[slash..].to_owned())
}

/// The canonical bytes of a part of arguments; a part of strict JSON is strict JSON.
pub(crate) fn canonical(value: &Value) -> Result<Vec<u8>, Unfit> {
    match value.canonical() {
        Ok(body) => Ok(body.as_bytes().to_vec()),
        Err(fault) => Err(Unfit::whole(fault.to_string())),
    }
}

/// `name=value`, once for each item of a list. `null` has no text and is left out.
fn query_pairs(name: &str, value: &Value, pairs: &mut Vec<String>) -> Result<(), Unfit> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.as_str().to_owned()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    };
    let mut pair = |value: &Value| match scalar(value) {
        Some(text) => {
            let mut pair = String::new();
            percent_encode(name, &mut pair);
            pair.push('=');
            percent_encode(&text, &mut pair);
            pairs.push(pair);
            Ok(())
        }
        None => Err(Unfit::of(name, "goes to the query, which holds strings, numbers, booleans and lists of them")),
    };
    match value {
        Value::Null => Ok(()),
        Value::Array(items) => items.iter().try_for_each(pair),
        other => pair(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::json;
    use protocol::tool::Method;
    use std::collections::BTreeMap;

    fn parts_of(
        method: Method,
        url: &str,
        query: &[&str],
        arguments: &str,
    ) -> Result<(String, Option<String>), String> {
        let http = Http {
            method,
            url: url.parse().expect("a url"),
            query: query.iter().map(|name| (*name).to_owned()).collect(),
            headers: BTreeMap::new(),
            idempotency_header: None,
            statuses: BTreeMap::new(),
        };
        let arguments = json::canonicalize(arguments.as_bytes()).expect("strict JSON").value();
        match parts(&http, &arguments) {
            Ok(parts) => Ok((parts.uri, parts.body.map(|body| String::from_utf8(body).expect("JSON")))),
            Err(unfit) => Err(unfit.pointer),
        }
    }

    #[test]
    fn path_query_and_body_take_their_arguments() {
        let body = |text: &str| Some(text.to_owned());
        // I-64
        assert_eq!(
            parts_of(Method::Get, "http://h/orders/{id}", &[], r#"{"id":"o-7","q":"a b","n":[1,2.0,true]}"#),
            Ok(("/orders/o-7?n=1&n=2.0&n=true&q=a%20b".to_owned(), None))
        );
        assert_eq!(
            parts_of(
                Method::Post,
                "http://h/o/{id}/x?v=1",
                &["dry"],
                r#"{"id":7,"dry":true,"b":1.50,"a":{"z":1,"y":null}}"#
            ),
            Ok(("/o/7/x?v=1&dry=true".to_owned(), body(r#"{"a":{"y":null,"z":1},"b":1.50}"#)))
        );
        assert_eq!(parts_of(Method::Put, "http://h", &[], "{}"), Ok(("/".to_owned(), body("{}"))));
        assert_eq!(parts_of(Method::Delete, "http://[::1]:8/", &[], r#"{"gone":null}"#), Ok(("/".to_owned(), None)));
    }

    #[test]
    fn an_argument_is_one_encoded_segment_or_value_whatever_it_holds() {
        let sent = |arguments: &str| parts_of(Method::Get, "http://h/a/{x}/b", &[], arguments).map(|(uri, _)| uri);
        // C-251
        assert_eq!(sent(r#"{"x":"../../admin?x#y"}"#), Ok("/a/..%2F..%2Fadmin%3Fx%23y/b".to_owned()));
        assert_eq!(sent(r#"{"x":"%2e%2e"}"#), Ok("/a/%252e%252e/b".to_owned()));
        assert_eq!(sent(r#"{"x":"1","a&b":"c&d=#\r\n"}"#), Ok("/a/1/b?a%26b=c%26d%3D%23%0D%0A".to_owned()));
        for refused in [r#"{"x":""}"#, r#"{"x":"."}"#, r#"{"x":".."}"#, r#"{"x":null}"#, r#"{"x":[]}"#, "{}"] {
            assert_eq!(sent(refused), Err("/x".to_owned()), "{refused}");
        }
        assert_eq!(sent(r#"{"x":"1","q":{"a":1}}"#), Err("/q".to_owned()));
        assert_eq!(sent(r#"{"x":"1","q":[[1]]}"#), Err("/q".to_owned()));
        assert_eq!(sent(&format!(r#"{{"x":"1","q":"{}"}}"#, "y".repeat(40_000))), Err(String::new()));
    }
}
