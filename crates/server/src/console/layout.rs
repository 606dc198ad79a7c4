//! The frame of every page: head, navigation, what was just done, and the place for live news.
//!
//! Holds no inline script or style, so that the content security policy can forbid both (I-52). Everything in it is
//! reached by keyboard in reading order, with a link past the navigation (I-51).

use super::assets;
use super::text::shown;
use api::Approval;
use maud::{DOCTYPE, Markup, html};
use protocol::principal::{Principal, Right};
use protocol::time::Time;

/// Who looks at a page, and when: what every page of a signed-in person needs.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Subject of the principal, as approvals name it.
    pub subject: String,
    /// The name that is shown.
    pub name: String,
    /// Who they are to the rules: what they may not do is not offered.
    pub principal: Principal,
    /// The anti-forgery token that every form of the page carries (C-221).
    pub csrf: String,
    pub now: Time,
}

impl View {
    /// Whether the person could decide this as it stands. The service checks it again; this only keeps from offering in vain.
    pub(super) fn may_decide(&self, approval: &Approval) -> Result<(), Bar> {
        let rule = &approval.rule;
        let named = rule.principals.contains(&self.subject);
        if !self.principal.can(Right::ApprovalsDecide)
            || !(named || rule.roles.iter().any(|role| self.principal.has_role(role)))
        {
            return Err(Bar::NotAsked);
        }
        let own = approval.requester == self.subject || approval.acts_for.as_deref() == Some(&*self.subject);
        if own && rule.separate_requester { Err(Bar::Own) } else { Ok(()) }
    }
}

/// Why somebody may not decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bar {
    /// The rule asks others.
    NotAsked,
    /// It was asked for in their name.
    Own,
}

/// The section that a page belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Section {
    Approvals,
    Runs,
    Jobs,
    Resources,
    None,
}

/// A page of the console. `body` is the content of `main`.
pub(super) fn page(view: &View, section: Section, title: &str, body: &Markup) -> Markup {
    let link = |to: Section, href: &str, text: &str| {
        html! {
            a href=(href) aria-current=[(to == section).then_some("page")] { (text) }
        }
    };
    html! {
        (head(title, Some(view.now)))
        body {
            a.skip href="#main" { "Skip to the content" }
            header.top {
                a.wordmark href="/console/approvals" aria-label="Stasis, approvals" { (assets::mark()) "stasis" }
                nav aria-label="Console" {
                    (link(Section::Approvals, "/console/approvals", "Approvals"))
                    (link(Section::Runs, "/console/runs", "Runs"))
                    (link(Section::Jobs, "/console/jobs", "Jobs"))
                    (link(Section::Resources, "/console/resources", "Resources"))
                }
                div.who {
                    span.name title=(view.subject) { (shown(&view.name)) }
                    form method="post" action="/console/sign-out" {
                        (csrf(view))
                        button.plain type="submit" { "Sign out" }
                    }
                }
            }
            main #main tabindex="-1" { (body) }
            p #news .news role="status" aria-live="polite" {}
            (keys(section))
        }
    }
}

/// A page for somebody who is not signed in.
pub(super) fn bare(title: &str, body: &Markup) -> Markup {
    html! {
        (head(title, None))
        body.bare {
            main #main {
                p.wordmark { (assets::mark()) "stasis" }
                (body)
            }
        }
    }
}

/// `now` is the time of the server, by which the script counts.
fn head(title: &str, now: Option<Time>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en";
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="robots" content="noindex";
            @if let Some(now) = now { meta name="now" content=(now); }
            title { (title) " · Stasis" }
            link rel="icon" type="image/svg+xml" href=(assets::ICON.path());
            link rel="stylesheet" href=(assets::STYLE.path());
            script src=(assets::SCRIPT.path()) defer {}
        }
    }
}

/// The hidden field that every form carries.
pub(super) fn csrf(view: &View) -> Markup {
    html! { input type="hidden" name="csrf" value=(view.csrf); }
}

/// What the keys do; the script opens it with `?`.
fn keys(section: Section) -> Markup {
    let row = |key: &str, does: &str| html! { div { dt { kbd { (key) } } dd { (does) } } };
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl.keys {
                @if !matches!(section, Section::Resources | Section::None) {
                    (row("j", "next in the list"))
                    (row("k", "previous in the list"))
                    (row("Enter", "open it"))
                }
                @if section == Section::Approvals {
                    (row("a", "go to its Approve button"))
                    (row("u", "back to the list"))
                }
                (row("?", "this list"))
                (row("Esc", "close"))
            }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}

/// A message about what was just asked for, above the content.
pub(super) fn notice(tone: Tone, text: &Markup) -> Markup {
    html! { div.notice.(tone.class()) role=(tone.role()) { (text) } }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tone {
    Good,
    Plain,
    Bad,
}

impl Tone {
    const fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Plain => "note",
            Tone::Bad => "bad",
        }
    }

    const fn role(self) -> &'static str {
        match self {
            Tone::Bad => "alert",
            Tone::Good | Tone::Plain => "status",
        }
    }
}
