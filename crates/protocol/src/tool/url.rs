//! The url of an HTTP tool: fixed scheme, host and port, and a path that arguments fill (C-251, I-64).
//!
//! An argument can fill nothing but the inside of one path segment, so no argument reaches another host, another path
//! or the query.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::json::Value;

/// A checked url template, such as `https://pay.example:8443/orders/{order_id}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlTemplate {
    text: String,
    scheme: Scheme,
    /// In lower case; a literal IPv6 address has its brackets.
    host: String,
    port: u16,
    segments: Vec<Vec<Part>>,
    query: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Fixed(String),
    Argument(String),
}

/// Why a text is no url template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    #[error("expected a url that begins with http:// or https://")]
    Scheme,
    #[error("the host is missing or malformed, or the url names a user")]
    Host,
    #[error("the port is no number from 1 to 65535")]
    Port,
    #[error("`{{` and `}}` enclose the name of an argument, in the path only")]
    Braces,
    #[error("`{0}` cannot stand in a url as it is")]
    Character(char),
    #[error("a segment of the path may not be `.` or `..`")]
    Dots,
    #[error("a url here has no fragment")]
    Fragment,
}

/// An argument that cannot fill the path (`invalid_arguments`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the argument `{name}` cannot stand in the path: {why}")]
pub struct FillFault {
    pub name: String,
    pub why: &'static str,
}

impl UrlTemplate {
    /// The names of the arguments that the path takes.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().flatten().filter_map(|part| match part {
            Part::Argument(name) => Some(name.as_str()),
            Part::Fixed(_) => None,
        })
    }

    /// The host in lower case, without the brackets of a literal IPv6 address.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, that of the scheme if none is written.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Host and port, as a grant names them.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The query that is part of the url itself, without its question mark.
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// Fills the path from top-level arguments: the url without query, its fixed query is [`UrlTemplate::query`].
    pub fn fill(&self, arguments: &Value) -> Result<String, FillFault> {
        let mut url = format!("{}://{}", if self.is_https() { "https" } else { "http" }, self.authority());
        for segment in &self.segments {
            url.push('/');
            for part in segment {
                match part {
                    Part::Fixed(text) => url.push_str(text),
                    Part::Argument(name) => percent_encode(&plain(name, arguments)?, &mut url),
                }
            }
        }
        Ok(url)
    }
}

/// The text of an argument that fills a path.
fn plain(name: &str, arguments: &Value) -> Result<String, FillFault> {
    let fault = |why| FillFault { name: name.to_owned(), why };
    let text = match arguments.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(value)) => value.to_string(),
        Some(_) => return Err(fault("it is no text, number or boolean")),
        None => return Err(fault("it is missing")),
    };
    match text.as_str() {
        "" => Err(fault("it is empty")),
        "." | ".." => Err(fault("it is a step in the path")),
        _ => Ok(text),
    }
}

/// Appends a text with everything encoded but the unreserved characters of RFC 3986.
pub fn percent_encode(text: &str, url: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => url.push(char::from(byte)),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
}

impl fmt::Display for UrlTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for UrlTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl FromStr for UrlTemplate {
    type Err = UrlFault;
    fn from_str(text: &str) -> Result<Self, UrlFault> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            _ => return Err(UrlFault::Scheme),
        };
        if text.contains('#') {
            return Err(UrlFault::Fragment);
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = read_authority(authority, scheme)?;
        if let Some(query) = query {
            fixed(query, |character| matches!(character, '/' | '?'))?;
        }
        let segments = path.split('/').map(read_segment).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), scheme, host, port, segments, query: query.map(str::to_owned) })
    }
}

fn read_authority(authority: &str, scheme: Scheme) -> Result<(String, u16), UrlFault> {
    // A literal IPv6 address holds colons; its port stands behind the bracket.
    let split = if authority.starts_with('[') { authority.find(']').map(|end| end + 1) } else { authority.find(':') };
    let (host, port) = authority.split_at(split.unwrap_or(authority.len()));
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|&port| port > 0)
        }
        Some(_) => None,
        None if port.is_empty() => Some(if scheme == Scheme::Https { 443 } else { 80 }),
        None => None,
    };
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let good = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-')
        }
    };
    if !good {
        return Err(UrlFault::Host);
    }
    Ok((host.to_ascii_lowercase(), port.ok_or(UrlFault::Port)?))
}

/// Checks a fixed part: characters that stand for themselves in a url, and percent-encoded bytes.
fn fixed(text: &str, also: impl Fn(char) -> bool) -> Result<(), UrlFault> {
    for (at, character) in text.char_indices() {
        let good = match character {
            '{' | '}' => return Err(UrlFault::Braces),
            '%' => text.as_bytes().get(at + 1..at + 3).is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit)),
            _ => character.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@".contains(character) || also(character),
        };
        if !good {
            return Err(UrlFault::Character(character));
        }
    }
    Ok(())
}

fn read_segment(segment: &str) -> Result<Vec<Part>, UrlFault> {
    if segment == "." || segment == ".." {
        return Err(UrlFault::Dots);
    }
    let mut parts = Vec::new();
    let mut rest = segment;
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, behind) = behind.split_once('}').ok_or(UrlFault::Braces)?;
        let plain = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(UrlFault::Braces);
        }
        push_fixed(&mut parts, before)?;
        parts.push(Part::Argument(name.to_owned()));
        rest = behind;
    }
    push_fixed(&mut parts, rest)?;
    Ok(parts)
}

fn push_fixed(parts: &mut Vec<Part>, text: &str) -> Result<(), UrlFault> {
    fixed(text, |_| false)?;
    if !text.is_empty() {
        parts.push(Part::Fixed(text.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(url: &str, arguments: &str) -> Result<String, FillFault> {
        url.parse::<UrlTemplate>().unwrap().fill(&arguments.parse::<crate::json::Canonical>().unwrap().value())
    }

    #[test]
    fn arguments_fill_one_segment_and_nothing_else() {
        let url = "http://127.0.0.1:9100/orders/{id}/x";
        let table = [
            (r#"{"id":"o-7"}"#, "http://127.0.0.1:9100/orders/o-7/x"),
            (r#"{"id":"../a?b#c"}"#, "http://127.0.0.1:9100/orders/..%2Fa%3Fb%23c/x"),
            (r#"{"id":"é %"}"#, "http://127.0.0.1:9100/orders/%C3%A9%20%25/x"),
            (r#"{"id":1.0}"#, "http://127.0.0.1:9100/orders/1.0/x"),
            (r#"{"id":true}"#, "http://127.0.0.1:9100/orders/true/x"),
        ];
        for (arguments, expected) in table {
            // C-251, I-64
            assert_eq!(filled(url, arguments).as_deref(), Ok(expected));
        }
        for arguments in [r#"{"id":""}"#, r#"{"id":"."}"#, r#"{"id":".."}"#, r#"{"id":null}"#, r#"{"id":[]}"#, "{}"] {
            // I-64
            assert_eq!(filled(url, arguments).unwrap_err().name, "id", "{arguments}");
        }
    }

    #[test]
    fn host_and_port_are_fixed_by_the_template() {
        let url: UrlTemplate = "https://Pay.example/a?x=1".parse().unwrap();
        // C-251
        assert_eq!((url.authority().as_str(), url.query(), url.is_https()), ("pay.example:443", Some("x=1"), true));
        let url: UrlTemplate = "http://[::1]:8080/a".parse().unwrap();
        assert_eq!((url.authority().as_str(), url.host()), ("[::1]:8080", "::1"));
        let table = [
            ("ftp://a/", UrlFault::Scheme),
            ("http:///a", UrlFault::Host),
            ("http://user@a/", UrlFault::Host),
            ("http://{host}/a", UrlFault::Host),
            ("http://a:0/", UrlFault::Port),
            ("http://a:99999/", UrlFault::Port),
            ("http://a:+80/", UrlFault::Port),
            ("http://a/{x", UrlFault::Braces),
            ("http://a/x}", UrlFault::Braces),
            ("http://a/?q={x}", UrlFault::Braces),
            ("http://a/b c", UrlFault::Character(' ')),
            ("http://a/../b", UrlFault::Dots),
            ("http://a/#x", UrlFault::Fragment),
        ];
        for (text, fault) in table {
            assert_eq!(text.parse::<UrlTemplate>(), Err(fault), "{text}");
        }
    }
}
