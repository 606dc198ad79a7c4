//! Reading the connector of a tool spec.

use std::collections::BTreeMap;

use super::connector::{Builtin, Command, Connector, EnvValue, Http, Mcp, Meaning, Setting};
use super::parse::Owner;
use super::{UrlTemplate, is_word};
use crate::code::Code;
use crate::fields::{self, Fault, Fields, Wrong};
use crate::json::{Value, push_token};

/// Reads the one connector of a spec.
pub(super) fn connector(fields: &mut Fields<'_, '_>, owner: Owner) -> Option<Connector> {
    let all = ["http", "mcp", "command", "builtin"];
    let given: Vec<&str> = all.into_iter().filter(|name| fields.get(name).is_some()).collect();
    match given[..] {
        [only] if (only == "builtin") == (owner == Owner::Engine) => {}
        [only] => fields.fault(only, "only the engine's own tools are built in, and they are nothing else"),
        [] => fields.fault("http", "one of `http`, `mcp`, `command` is required"),
        [.., last] => fields.fault(last, format!("a tool has one connector, not {}", given.len())),
    }
    let http = fields.within("http", http).map(Connector::Http);
    let mcp = fields.within("mcp", mcp).map(Connector::Mcp);
    let command = fields.within("command", command).map(Connector::Command);
    let builtin = fields.within("builtin", builtin).map(Connector::Builtin);
    http.or(mcp).or(command).or(builtin)
}

fn http(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Http> {
    let mut fields = Fields::new(value, pointer, Code::ToolInvalid, faults);
    let method = fields.need("method", fields::word);
    let url =
        fields.need("url", |value| fields::text(value)?.parse::<UrlTemplate>().map_err(|fault| fault.to_string()));
    let query = fields.read("query", fields::list(fields::owned)).unwrap_or_default();
    let headers =
        fields.within("headers", |value, pointer, faults| table(value, pointer, faults, header_name, setting));
    let idempotency_header = fields.read("idempotency_header", |value| header_name(fields::text(value)?));
    let statuses = fields
        .within("statuses", |value, pointer, faults| table(value, pointer, faults, status, fields::word::<Meaning>));
    fields.finish();
    Some(Http {
        method: method?,
        url: url?,
        query,
        headers: headers.unwrap_or_default(),
        idempotency_header,
        statuses: statuses.unwrap_or_default(),
    })
}

fn mcp(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Mcp> {
    let mut fields = Fields::new(value, pointer, Code::ToolInvalid, faults);
    let server = fields.need("server", fields::owned);
    let tool = fields.need("tool", fields::owned);
    let digest =
        |value: &Value| fields::text(value)?.parse().map_err(|error: crate::digest::DigestError| error.to_string());
    let advertised = fields.read("advertised", digest);
    let errors_not_applied = fields.read("errors_not_applied", fields::boolean).unwrap_or(false);
    fields.finish();
    Some(Mcp { server: server?, tool: tool?, advertised, errors_not_applied })
}

fn command(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Command> {
    let mut fields = Fields::new(value, pointer, Code::ToolInvalid, faults);
    let argv = fields.need("argv", |value| {
        let argv = fields::list(fields::owned)(value)?;
        match argv.first() {
            Some(path) if path.starts_with('/') && argv.iter().all(|word| !word.contains('\0')) => Ok(argv),
            _ => Err("expected an absolute path and its arguments".to_owned()),
        }
    });
    let env = fields.within("env", |value, pointer, faults| table(value, pointer, faults, variable, env_value));
    let exit = fields
        .within("exit", |value, pointer, faults| table(value, pointer, faults, exit_code, fields::word::<Meaning>));
    fields.finish();
    Some(Command { argv: argv?, env: env.unwrap_or_default(), exit: exit.unwrap_or_default() })
}

fn builtin(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Builtin> {
    let mut fields = Fields::new(value, pointer, Code::ToolInvalid, faults);
    let function = fields.need("function", |value| match fields::text(value)? {
        word if is_word(word) => Ok(word.to_owned()),
        _ => Err("expected the name of a function".to_owned()),
    });
    fields.finish();
    Some(Builtin { function: function? })
}

/// Reads an object whose keys are free: each key and each value by a reader of its own.
fn table<K: Ord, T>(
    value: &Value,
    pointer: String,
    faults: &mut Vec<Fault>,
    read_key: impl Fn(&str) -> Result<K, Wrong>,
    read_value: impl Fn(&Value) -> Result<T, Wrong>,
) -> Option<BTreeMap<K, T>> {
    let mut fault = |pointer, message| faults.push(Fault { pointer, code: Code::ToolInvalid, message });
    let Some(object) = value.as_object() else {
        fault(pointer, format!("expected an object, found {}", value.kind()));
        return None;
    };
    let mut table = BTreeMap::new();
    for (key, value) in object.iter() {
        let mut place = pointer.clone();
        push_token(&mut place, key);
        match read_key(key).and_then(|key| Ok((key, read_value(value)?))) {
            Ok((known, value)) => {
                if table.insert(known, value).is_some() {
                    fault(place, "is there twice, written differently".to_owned());
                }
            }
            Err(message) => fault(place, message),
        }
    }
    Some(table)
}

/// A header that a tool may set, in lower case. Those that frame the message are the connector's.
fn header_name(name: &str) -> Result<String, Wrong> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err("expected the name of an HTTP header".to_owned());
    }
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "host" | "content-length" | "transfer-encoding" | "connection" | "upgrade" | "te" | "trailer" => {
            Err("is set by the connector itself".to_owned())
        }
        _ => Ok(name),
    }
}

fn status(key: &str) -> Result<u16, Wrong> {
    let status = key.parse().ok().filter(|status| key.len() == 3 && (200..=599).contains(status));
    status.ok_or_else(|| "expected a status from 200 to 599".to_owned())
}

fn exit_code(key: &str) -> Result<u8, Wrong> {
    let plain = key.bytes().all(|byte| byte.is_ascii_digit());
    key.parse().ok().filter(|&code| plain && code > 0).ok_or_else(|| "expected an exit code from 1 to 255".to_owned())
}

fn variable(name: &str) -> Result<String, Wrong> {
    let good = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if good { Ok(name.to_owned()) } else { Err("expected the name of a variable".to_owned()) }
}

/// A text, or `{secret, prefix?}` (I-61).
fn setting(value: &Value) -> Result<Setting, Wrong> {
    let clean = |text: &str| match text.chars().any(char::is_control) {
        true => Err("a control character cannot stand here".to_owned()),
        false => Ok(text.to_owned()),
    };
    if let Some(text) = value.as_str() {
        return clean(text).map(Setting::Text);
    }
    let object = value.as_object().ok_or("expected a text or { secret, prefix }")?;
    if let Some((key, _)) = object.iter().find(|(key, _)| !matches!(*key, "secret" | "prefix")) {
        return Err(format!("unknown field `{key}`"));
    }
    let secret = fields::text(object.get("secret").ok_or("`secret` is required")?)?;
    let named = |scheme: &str| secret.strip_prefix(scheme).is_some_and(|name| !name.is_empty());
    if !named("env:") && !named("file:") {
        return Err("a secret is `env:NAME` or `file:PATH`".to_owned());
    }
    let prefix = object.get("prefix").map_or(Ok(""), fields::text)?;
    Ok(Setting::Secret { secret: secret.to_owned(), prefix: clean(prefix)? })
}

/// A setting, or `true` for the server's own value.
fn env_value(value: &Value) -> Result<EnvValue, Wrong> {
    match value.as_bool() {
        Some(true) => Ok(EnvValue::Inherit(true)),
        Some(false) => Err("a variable that is not to be set is left out".to_owned()),
        None => setting(value).map(EnvValue::Set),
    }
}

/// Checks the arguments that an HTTP tool puts in its url against its input schema (I-64).
pub(super) fn check_http_arguments(http: &Http, input: &Value, fields: &mut Fields<'_, '_>) {
    let property = |name: &str| input.get("properties").and_then(|properties| properties.get(name));
    let required = |name: &str| {
        let required = input.get("required").and_then(Value::as_array).unwrap_or_default();
        required.iter().any(|value| value.as_str() == Some(name))
    };
    for name in http.url.arguments() {
        let plain = property(name)
            .is_some_and(|schema| types(schema).is_some_and(|types| types.iter().all(|kind| is_plain(kind))));
        if !required(name) || !plain {
            fields.fault(
                "http",
                format!("the url takes `{name}`, which must be a required argument of type string, number or boolean"),
            );
        }
    }
    for name in http.query.iter().filter(|name| property(name).is_none()) {
        fields.fault("http", format!("`query` names `{name}`, which is no argument"));
    }
    let declared = input.get("properties").and_then(Value::as_object);
    let names = declared.into_iter().flat_map(|object| object.iter());
    let in_path = |name: &str| http.url.arguments().any(|taken| taken == name);
    let to_query =
        |name: &str| !in_path(name) && (!http.method.has_body() || http.query.iter().any(|known| known == name));
    for (name, schema) in names.filter(|(name, _)| to_query(name)) {
        if types(schema).is_some_and(|types| types.contains(&"object")) {
            fields.fault("http", format!("`{name}` is an object, which the query cannot hold"));
        }
    }
}

/// The types that a schema names.
fn types(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(kind) => Some(vec![kind]),
        Value::Array(kinds) => kinds.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

fn is_plain(kind: &str) -> bool {
    matches!(kind, "string" | "number" | "integer" | "boolean")
}
