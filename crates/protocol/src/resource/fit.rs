//! What has to go so that a resource has room.

use super::manager::Resource;
use super::{Capacity, Cost, Place, State};
use std::collections::BTreeMap;

impl Capacity {
    pub(super) fn holds(self, cost: Cost) -> bool {
        let within = |has: Option<u64>, takes: u64| has.is_none_or(|has| takes <= has);
        within(self.memory_mib, cost.memory_mib) && within(self.slots, cost.slots)
    }

    /// Why this cost can never be paid, if that is so.
    pub(super) fn lacks(self, cost: Cost) -> Option<String> {
        let says = |has: Option<u64>, takes: u64, what: &str| {
            has.filter(|has| takes > *has).map(|has| format!("it takes {takes} {what}, the host has {has}"))
        };
        says(self.memory_mib, cost.memory_mib, "MiB").or_else(|| says(self.slots, cost.slots, "slots"))
    }
}

impl Cost {
    fn plus(self, other: Cost) -> Cost {
        Cost {
            memory_mib: self.memory_mib.saturating_add(other.memory_mib),
            slots: self.slots.saturating_add(other.slots),
        }
    }
}

pub(super) fn cost(resource: &Resource) -> Cost {
    match resource.declared.place {
        Place::Local { cost } => cost,
        Place::Remote { .. } => Cost::default(),
    }
}

/// What is taken of the host, but for these.
pub(super) fn occupied(resources: &BTreeMap<String, Resource>, without: &[&str]) -> Cost {
    let there = resources.iter().filter(|(name, r)| r.state.is_occupied() && !without.contains(&name.as_str()));
    there.fold(Cost::default(), |sum, (_, resource)| sum.plus(cost(resource)))
}

/// Whether `target` has room once these are gone.
pub(super) fn has_room(
    resources: &BTreeMap<String, Resource>,
    capacity: Capacity,
    target: &str,
    gone: &[&str],
) -> bool {
    let without: Vec<&str> = gone.iter().copied().chain([target]).collect();
    capacity.holds(occupied(resources, &without).plus(cost(&resources[target])))
}

/// Which warm resources go so that `target` has room: idle ones first, then those used longest ago, and none that need
/// not. `None`: no room can be made.
pub(super) fn displaced(
    resources: &BTreeMap<String, Resource>,
    capacity: Capacity,
    target: &str,
) -> Option<Vec<String>> {
    let warm = resources.iter().filter(|(name, resource)| resource.state == State::Warm && *name != target);
    let mut candidates: Vec<(&str, &Resource)> = warm.map(|(name, resource)| (name.as_str(), resource)).collect();
    candidates.sort_by_key(|(name, resource)| (resource.leases.len(), resource.used, *name));
    let mut gone: Vec<&str> = Vec::new();
    for (name, _) in candidates {
        if has_room(resources, capacity, target, &gone) {
            break;
        }
        gone.push(name);
    }
    if !has_room(resources, capacity, target, &gone) {
        return None;
    }
    // What was taken for its order only, and is not needed beside a larger one that came later, stays.
    for name in gone.clone() {
        let fewer: Vec<&str> = gone.iter().copied().filter(|other| *other != name).collect();
        if has_room(resources, capacity, target, &fewer) {
            gone = fewer;
        }
    }
    Some(gone.into_iter().map(str::to_owned).collect())
}
