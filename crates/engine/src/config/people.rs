//! `[[principal]]`: the persons and programs that sign in (I-65).

use std::collections::BTreeSet;

use protocol::principal::{DEFAULT_NAMESPACE, Kind, Principal, Right, Rights, Roles};

use super::reader::{Section, Value};

pub(super) fn read(root: &Section<'_>) -> Vec<Principal> {
    let mut people: Vec<Principal> = Vec::new();
    for section in root.sections("principal") {
        let Some(principal) = read_one(&section) else {
            section.finish();
            continue;
        };
        if people.iter().any(|known| known.id == principal.id) {
            section.fault("id", format!("`{}` is in the file twice", principal.id));
        }
        section.note("id", format!("{:?}", principal.id));
        section.finish();
        people.push(principal);
    }
    people
}

fn read_one(section: &Section<'_>) -> Option<Principal> {
    let id = section.require("id").and_then(|value| subject(&value));
    let name = section.get("name").and_then(|value| value.name());
    let kind =
        section.get("kind").and_then(|value| value.word(&[("person", Kind::Person), ("program", Kind::Program)]));
    let kind = kind.unwrap_or(Kind::Person);
    let namespace = section.get("namespace").and_then(|value| value.name());
    let partition = section.get("partition").and_then(|value| value.name());
    let roles: BTreeSet<String> =
        section.get("roles").map(|value| value.list().iter().filter_map(Value::name).collect()).unwrap_or_default();
    let rights = match section.get("rights") {
        Some(value) => value.list().iter().filter_map(right).collect(),
        None => Rights::default_of(kind),
    };
    let id = id?;
    Some(Principal {
        name: name.unwrap_or_else(|| id.clone()),
        id,
        kind,
        namespace: namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
        partition,
        roles: Roles::These(roles),
        rights,
    })
}

/// A subject. Some are the engine's own, and a configuration cannot take them (I-19a, R-358).
fn subject(value: &Value<'_>) -> Option<String> {
    let id = value.name()?;
    if id == Principal::LOCAL || id.starts_with("system:") {
        value.fault(format!("`{id}` is the engine's own"));
        return None;
    }
    Some(id)
}

fn right(value: &Value<'_>) -> Option<Right> {
    let known = Right::ALL.map(|right| (right.as_str(), right));
    value.word(&known)
}
