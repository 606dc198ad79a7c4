//! The values of one call: secrets put in place of their names, at dispatch and nowhere before (C-269, C-270).
//!
//! Owns headers and environment with their secrets, and the arguments whose values are names of secrets. Remembers every
//! value it handed out, so that all of them are taken out of what comes back.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use ::http::header::{HeaderName, HeaderValue};
use protocol::json::{Canonical, Value};
use protocol::tool::{Command, Connector, EnvValue, Http, Setting, ToolSpec};

use super::command::KEY_VARIABLE;
use super::grant::Grant;
use super::secret::{Redactor, Reference, Secret, Secrets};
use super::{Unfit, Unready};

/// What a connector sends beside the arguments.
pub(super) enum Sent {
    Headers(Vec<(HeaderName, HeaderValue)>),
    Environment(Vec<(String, OsString)>),
    Nothing,
}

pub(super) struct Values<'a> {
    secrets: &'a Secrets,
    grant: &'a Grant,
    key: Option<&'a str>,
    handed_out: Vec<Secret>,
}

impl<'a> Values<'a> {
    pub(super) fn new(secrets: &'a Secrets, grant: &'a Grant, key: Option<&'a str>) -> Self {
        Self { secrets, grant, key, handed_out: Vec::new() }
    }

    pub(super) fn redactor(self) -> Redactor {
        Redactor::new(self.handed_out)
    }

    pub(super) fn connector(&mut self, connector: &Connector) -> Result<Sent, Unready> {
        match connector {
            Connector::Http(http) => self.headers(http).map(Sent::Headers),
            Connector::Command(command) => self.environment(command).map(Sent::Environment),
            Connector::Mcp(_) | Connector::Builtin(_) => Ok(Sent::Nothing),
        }
    }

    fn headers(&mut self, http: &Http) -> Result<Vec<(HeaderName, HeaderValue)>, Unready> {
        http.headers
            .iter()
            .map(|(name, setting)| {
                let bad = || Unready::new(format!("the header {name} cannot be sent with this value"));
                let header = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
                let mut value = HeaderValue::from_bytes(&self.setting(setting)?).map_err(|_| bad())?;
                value.set_sensitive(matches!(setting, Setting::Secret { .. }));
                Ok((header, value))
            })
            .collect()
    }

    fn environment(&mut self, command: &Command) -> Result<Vec<(String, OsString)>, Unready> {
        let mut out = Vec::new();
        for (name, value) in &command.env {
            let value = match value {
                EnvValue::Set(setting) => Some(OsString::from_vec(self.setting(setting)?)),
                EnvValue::Inherit(_) if name == KEY_VARIABLE => self.key.map(OsString::from),
                EnvValue::Inherit(_) => self.secrets.variable(name),
            };
            match value {
                Some(value) if value.as_encoded_bytes().contains(&0) => {
                    return Err(Unready::new(format!("the variable {name} cannot hold this value")));
                }
                Some(value) => out.push((name.clone(), value)),
                None => {}
            }
        }
        Ok(out)
    }

    fn setting(&mut self, setting: &Setting) -> Result<Vec<u8>, Unready> {
        match setting {
            Setting::Text(text) => Ok(text.clone().into_bytes()),
            Setting::Secret { secret, prefix } => {
                let mut value = prefix.clone().into_bytes();
                value.extend_from_slice(&self.resolve(secret)?);
                Ok(value)
            }
        }
    }

    fn resolve(&mut self, reference: &str) -> Result<Vec<u8>, Unready> {
        let parsed =
            Reference::parse(reference).ok_or_else(|| Unready::new("a secret is named env:NAME or file:PATH"))?;
        let secret = self.secrets.resolve(&parsed).map_err(|error| Unready::new(error.to_string()))?;
        let value = secret.value().to_vec();
        self.handed_out.push(secret);
        Ok(value)
    }

    /// The arguments as the other side gets them: names at `secret_params` replaced by values.
    pub(super) fn arguments(&mut self, spec: &ToolSpec, arguments: &Canonical) -> Result<Value, Unready> {
        let mut value = arguments.value();
        for pointer in &spec.secret_params {
            let Some(place) = at(&mut value, pointer) else { continue };
            let name = place.as_str().unwrap_or_default();
            let reference = granted(self.grant, name)
                .ok_or_else(|| Unready::new(format!("the grant names no secret {name:?}")))?
                .to_owned();
            let bytes = self.resolve(&reference)?;
            let text = String::from_utf8(bytes)
                .map_err(|_| Unready::new(format!("secret {name} is no text and cannot stand in arguments")))?;
            *place = Value::String(text);
        }
        Ok(value)
    }
}

/// Whether every value at a `secret_params` pointer is a name that the grant lists (C-270).
pub(super) fn names_are_granted(spec: &ToolSpec, grant: &Grant, arguments: &Value) -> Result<(), Unfit> {
    for pointer in &spec.secret_params {
        match arguments.pointer(pointer).map(Value::as_str) {
            None => {}
            Some(Some(name)) if granted(grant, name).is_some() => {}
            Some(_) => return Err(Unfit::at(pointer, "is no name of a secret that the grant lists")),
        }
    }
    Ok(())
}

/// The reference in the grant that goes by this name.
fn granted<'g>(grant: &'g Grant, name: &str) -> Option<&'g str> {
    grant
        .secrets
        .iter()
        .find(|listed| Reference::parse(listed).is_some_and(|reference| reference.name() == name))
        .map(String::as_str)
}

/// The value a JSON Pointer leads to, to be replaced.
fn at<'v>(value: &'v mut Value, pointer: &str) -> Option<&'v mut Value> {
    if pointer.is_empty() {
        return Some(value);
    }
    pointer.strip_prefix('/')?.split('/').try_fold(value, |value, token| {
        let token = token.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Object(members) => members.get_mut(&token),
            Value::Array(items) => {
                let plain = token == "0" || !token.starts_with(['0', '+']);
                items.get_mut(token.parse::<usize>().ok().filter(|_| plain)?)
            }
            _ => None,
        }
    })
}
