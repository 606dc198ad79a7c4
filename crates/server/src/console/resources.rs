//! The page of this host's resources: what is warm, who holds it, who waits for it in which order, and what went wrong (I-50).

use super::forms::encoded;
use super::layout::{View, csrf};
use super::text::shown;
use super::widgets::{Hue, fact, state, words};
use api::{Page, Resource};
use maud::{Markup, html};
use protocol::id::RunId;
use protocol::principal::Right;

/// The words are those of the manager; one that this page does not know yet is shown as it is.
fn hue(word: &str) -> Hue {
    match word {
        "warm" => Hue::Good,
        "starting" => Hue::Busy,
        "draining" | "stopping" => Hue::Stopping,
        "contained" => Hue::Bad,
        "unsettled" => Hue::Waiting,
        "remote" => Hue::Ended,
        _ => Hue::Idle,
    }
}

/// The content of the page.
pub(super) fn list(view: &View, page: &Page<Resource>, notice: Option<&Markup>) -> Markup {
    html! {
        div.heading { h1 { "Resources" } }
        @if let Some(notice) = notice { (notice) }
        section #list data-live="swap" data-every="3" aria-label="Resources" {
            @if page.items.is_empty() {
                div.empty {
                    p.lead { "This host declares no resources." }
                    p { "Model servers and the like are " code { "[[resource]]" } " in stasis.toml; tools name what they need." }
                }
            } @else {
                ul.resources data-keys="list" { @for resource in &page.items { (card(view, resource)) } }
            }
        }
    }
}

fn card(view: &View, resource: &Resource) -> Markup {
    let contained = resource.state == "contained";
    let title = format!("title-{}", encoded(&resource.name));
    html! {
        li.resource aria-labelledby=(title) {
            header {
                h2 id=(title) { code { (shown(&resource.name)) } }
                (state(hue(&resource.state), &words(&resource.state)))
            }
            @if let Some(error) = &resource.last_error {
                p.notice.(if contained { "bad" } else { "note" }) { (if contained { "It stays closed: " } else { "Last error: " }) bdi { (shown(error)) } }
            }
            dl.facts {
                @if let Some(memory) = resource.memory_mib.filter(|memory| *memory > 0) { (fact("Memory", &html! { (memory) " MiB" })) }
                @if let Some(slots) = resource.slots.filter(|slots| *slots > 0) { (fact("Slots", &html! { (slots) })) }
                (fact("Held by", &runs(&resource.lease_runs, resource.leases, "nobody")))
                (fact("Waiting", &line(&resource.waiting_runs, resource.waiting)))
            }
            @if contained && view.principal.can(Right::Admin) {
                form method="post" action=(format!("/console/resources/{}/reset", encoded(&resource.name))) {
                    (csrf(view))
                    p.soft { "A reset stops whatever is left of it and opens it again." }
                    div.buttons { button.primary type="submit" { "Reset it" } }
                }
            }
        }
    }
}

fn runs(known: &[RunId], all: u64, nobody: &str) -> Markup {
    html! {
        @for (n, run) in known.iter().enumerate() { @if n > 0 { ", " } (link(*run)) }
        @if all == 0 { span.soft { (nobody) } }
        (others(known, all))
    }
}

/// Who waits, in the order of their turns.
fn line(known: &[RunId], all: u64) -> Markup {
    html! {
        @if all == 0 { span.soft { "nobody" } }
        @else {
            ol.line { @for run in known { li { (link(*run)) } } }
            (others(known, all))
        }
    }
}

fn link(run: RunId) -> Markup {
    html! { a href=(format!("/console/runs/{run}")) { code { (run) } } }
}

/// Runs that this person may not know of are counted all the same.
fn others(known: &[RunId], all: u64) -> Markup {
    let hidden = all.saturating_sub(known.len() as u64);
    html! { @if hidden > 0 { span.soft { " " (hidden) " of other namespaces" } } }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use protocol::principal::Rights;

    fn contained() -> Page<Resource> {
        let runs: Vec<RunId> = vec![samples::run().id];
        Page::whole(vec![Resource {
            name: "chat:large".into(),
            state: "contained".into(),
            last_error: Some("processes of it do not end: <7>".into()),
            memory_mib: Some(8_000),
            slots: Some(0),
            leases: 0,
            waiting: 2,
            lease_runs: Vec::new(),
            waiting_runs: runs,
            changed: None,
        }])
    }

    #[test]
    fn only_who_may_reset_a_contained_resource_is_offered_to_and_its_error_is_text() {
        let mut view = samples::view();
        let seen = list(&view, &contained(), None).into_string();
        assert!(!seen.contains("<form") && seen.contains("&lt;7&gt;"), "{seen}"); // I-52
        assert!(seen.contains("1 of other namespaces"), "{seen}"); // R-12
        view.principal.rights = Rights::all();
        let offered = list(&view, &contained(), None).into_string();
        assert!(offered.contains(r#"action="/console/resources/chat%3Alarge/reset""#), "{offered}"); // R-162
        let mut warm = contained();
        warm.items[0].state = "warm".into();
        assert!(!list(&view, &warm, None).into_string().contains("<form"));
    }
}
