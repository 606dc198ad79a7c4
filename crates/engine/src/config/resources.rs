//! `[[resource]]`: what must be warm before work that needs it (architecture, 9).

use std::path::PathBuf;

use url::Url;

use super::reader::{Section, Value};

/// A declared resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its name, such as `chat:small`.
    pub name: String,
    /// Memory that it takes while it is warm, in MiB.
    pub memory_mib: u64,
    /// Slots of the host that it takes while it is warm.
    pub slots: u64,
    /// How it is started; a resource without is remote.
    pub start: Vec<String>,
    /// How it is stopped; else its process group gets SIGTERM.
    pub stop: Vec<String>,
    /// The url that answers 2xx when it is ready.
    pub ready: Option<Url>,
    /// Variables of the server's environment that reach it, beside those that every program gets.
    pub env: Vec<String>,
    /// Where its commands run.
    pub folder: PathBuf,
}

pub(super) fn read(root: &Section<'_>) -> Vec<Resource> {
    let mut resources: Vec<Resource> = Vec::new();
    for section in root.sections("resource") {
        let resource = read_one(&section);
        if let Some(resource) = resource {
            if resources.iter().any(|known| known.name == resource.name) {
                section.fault("name", format!("`{}` is in the file twice", resource.name));
            }
            section.note("name", format!("{:?}", resource.name));
            resources.push(resource);
        }
        section.finish();
    }
    resources
}

fn read_one(section: &Section<'_>) -> Option<Resource> {
    let name = section.require("name").and_then(|value| value.name());
    let cost = section.section("cost");
    let memory_mib = cost.get("memory_mib").and_then(|value| value.whole(0..=1 << 30)).unwrap_or(0);
    let slots = cost.get("slots").and_then(|value| value.whole(1..=1_024)).unwrap_or(1);
    cost.finish();
    let start = section.get("start").map(|value| argv(&value)).unwrap_or_default();
    let stop = section.get("stop").map(|value| argv(&value)).unwrap_or_default();
    let ready = section.get("ready").and_then(|value| url(&value));
    let env = section.get("env").map(|value| value.texts()).unwrap_or_default();
    if start.is_empty() {
        for key in ["stop", "cost", "env"].into_iter().filter(|key| section.get(key).is_some()) {
            section.fault(key, "only what has a `start` is started here, stopped, and paid for");
        }
    } else if ready.is_none() {
        section.fault("start", "needs `ready`: nothing else says when it may be used");
    }
    let folder = section.reader.folder.clone();
    Some(Resource { name: name?, memory_mib, slots, start, stop, ready, env, folder })
}

fn argv(value: &Value<'_>) -> Vec<String> {
    let words = value.texts();
    if words.first().is_none_or(String::is_empty) {
        value.fault("names a program and its arguments");
    }
    words
}

fn url(value: &Value<'_>) -> Option<Url> {
    let text = value.text()?;
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Some(url),
        _ => {
            value.fault(format!("`{text}` is no http or https url"));
            None
        }
    }
}
