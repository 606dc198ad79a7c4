//! Sections of plain settings: `[worker]`, `[limits]`, `[server]`, `[guest]` (I-67).
//!
//! Owns how such a section is read: the serde type with its defaults says which keys there are and what they take, so a
//! key is stated once in the whole project. Every bad key is told, and the good ones still count for what is judged next.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::fault::{Fault, nearest};
use super::reader::{Section, Value};
use super::tree::Item;

/// The door: the HTTP interface and the console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address and port (I-39).
    pub listen: std::net::SocketAddr,
    /// Where people reach the console, for links; by default the address above.
    pub public_url: Option<String>,
    /// Whether webhooks may be at addresses that are not public (I-34).
    pub private_webhooks: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self { listen: ([127, 0, 0, 1], 7878).into(), public_url: None, private_webhooks: false }
    }
}

/// Guests: the image, and the mechanisms around it (W-253).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Guest {
    /// The guest image; by default the one in the binary, else the newest fitting one in the cache (I-69).
    pub image: Option<PathBuf>,
    /// Start guests from a prepared image.
    pub prepared: bool,
    /// Share that image copy-on-write.
    pub cow: bool,
    /// Advise the pages of waiting guests cold.
    pub cold: bool,
    /// Page waiting guests out.
    pub page_out: bool,
    /// Act only while memory is short.
    pub pressure: bool,
    /// Freeze guests at a park.
    pub freeze: bool,
}

impl Default for Guest {
    fn default() -> Self {
        Self { image: None, prepared: true, cow: true, cold: false, page_out: false, pressure: false, freeze: true }
    }
}

/// Reads a section into its type. Keys of tables inside it are left to `but`.
pub(super) fn read<T>(section: &Section<'_>, but: &[&str]) -> T
where
    T: Serialize + DeserializeOwned + Default,
{
    let defaults = object(&T::default());
    let mut good = Map::new();
    for (key, value) in section.entries() {
        if but.contains(&key) {
            continue;
        }
        let Some(usual) = defaults.get(key) else {
            unknown(section, key, defaults.keys().map(String::as_str).chain(but.iter().copied()));
            continue;
        };
        match candidates(&value).into_iter().map(|json| attempt::<T>(key, json)).reduce(Result::or) {
            Some(Ok(json)) => {
                good.insert(key.to_owned(), json);
            }
            Some(Err(why)) => match usual {
                Json::Null => value.fault(why),
                usual => value.fault_with_hint(why, format!("the default is {usual}")),
            },
            None => value.fault("a table or a date cannot stand here"),
        }
    }
    let settings: T = serde_json::from_value(Json::Object(good)).expect("each key was read alone before");
    for (key, value) in object(&settings).into_iter().filter(|(key, _)| !but.contains(&key.as_str())) {
        section.note(&key, shown(&value));
    }
    settings
}

fn unknown<'k>(section: &Section<'_>, key: &str, known: impl Iterator<Item = &'k str>) {
    let hint = nearest(key, known).map(|known| format!("did you mean `{known}`?"));
    section.fault_at(key, "unknown key", hint);
}

/// The value as JSON; for text of the environment also as the number or truth value that it spells.
fn candidates(value: &Value<'_>) -> Vec<Json> {
    match &value.node.item {
        Item::Bare(text) => {
            let spelled = serde_json::from_str::<Json>(text).ok().filter(|json| json.is_number() || json.is_boolean());
            [Some(Json::String(text.clone())), spelled].into_iter().flatten().collect()
        }
        Item::Table(_) | Item::Date => Vec::new(),
        _ => value.json().and_then(|text| serde_json::from_str(&text).ok()).into_iter().collect(),
    }
}

/// Whether the type takes this value under this key.
fn attempt<T: DeserializeOwned>(key: &str, json: Json) -> Result<Json, String> {
    let alone = Map::from_iter([(key.to_owned(), json.clone())]);
    match serde_json::from_value::<T>(Json::Object(alone)) {
        Ok(_) => Ok(json),
        Err(error) => Err(in_words(&error.to_string())),
    }
}

/// A refusal of the type, without the words of its library: `invalid type: string "x", expected u32` wants a whole number.
fn in_words(why: &str) -> String {
    let Some((_, wanted)) = why.rsplit_once("expected ").filter(|_| why.starts_with("invalid ")) else {
        return why.to_owned();
    };
    match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => {
            "wants a whole number that is not negative".to_owned()
        }
        "f32" | "f64" => "wants a number".to_owned(),
        "a string" | "path string" => "wants text".to_owned(),
        "a boolean" => "wants true or false".to_owned(),
        "socket address" => "wants an address with its port, such as \"127.0.0.1:7878\"".to_owned(),
        other => format!("wants {other}"),
    }
}

fn object(settings: &impl Serialize) -> Map<String, Json> {
    match serde_json::to_value(settings) {
        Ok(Json::Object(object)) => object,
        other => unreachable!("settings are an object: {other:?}"),
    }
}

/// A value as TOML; an absent one has none.
pub(super) fn shown(value: &Json) -> String {
    match value {
        Json::Null => "(none)".to_owned(),
        other => other.to_string(),
    }
}

/// Faults of a check of the whole section, whose pointers are `/key`.
pub(super) fn judged(section: &Section<'_>, faults: Vec<protocol::tool::Fault>) {
    for fault in faults {
        section.fault(fault.pointer.trim_start_matches('/'), fault.message);
    }
}

/// What this version has no switch for is refused, unless it says what happens anyway.
pub(super) fn refuse_switches(section: &Section<'_>, guest: &Guest) {
    let usual = Guest::default();
    let switches = [
        ("prepared", guest.prepared, usual.prepared),
        ("cow", guest.cow, usual.cow),
        ("cold", guest.cold, usual.cold),
        ("page_out", guest.page_out, usual.page_out),
        ("pressure", guest.pressure, usual.pressure),
        ("freeze", guest.freeze, usual.freeze),
    ];
    for (key, is, was) in switches.into_iter().filter(|(_, is, was)| is != was) {
        section.fault(key, format!("`{is}` is known, but not available in this version, which has `{was}`"));
    }
}

/// A url that people follow.
pub(super) fn check_public_url(section: &Section<'_>, server: &Server) {
    if let Some(text) = &server.public_url
        && !url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
    {
        section.fault("public_url", format!("`{text}` is no http or https url"));
    }
}

impl Section<'_> {
    /// A fault of a key with a hint.
    pub(super) fn fault_at(&self, key: &str, message: &str, hint: Option<String>) {
        self.reader.fault(Fault::at(self.place_of(key), self.key(key), message).hint(hint));
    }
}
