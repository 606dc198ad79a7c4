//! Signing in and out.
//!
//! A one-time link opens a page with a button; only the button signs in, so a scanner that follows links spends nothing
//! (C-214). The other way is a token. Neither decides anything (C-298).

use super::text::shown;
use maud::{Markup, html};

/// The form for a token. `fault` says why the last try failed, `next` where to go afterwards.
pub(super) fn form(next: Option<&str>, fault: Option<&str>) -> Markup {
    html! {
        h1 { "Sign in" }
        @if let Some(fault) = fault { p.fault role="alert" { (shown(fault)) } }
        form method="post" action="/console/sign-in" {
            @if let Some(next) = next { input type="hidden" name="next" value=(next); }
            div.field {
                label for="token" { "Token" }
                input #token type="password" name="token" autocomplete="current-password" spellcheck="false" required autofocus;
            }
            div.buttons { button.primary type="submit" { "Sign in" } }
        }
        p.soft { code { "stasis token new" } " makes a token; " code { "stasis dev" } " prints a link that signs in once." }
    }
}

/// The page behind a one-time link.
pub(super) fn link(action: &str) -> Markup {
    html! {
        h1 { "Sign in" }
        p { "This link signs in once, on this browser." }
        form method="post" action=(action) {
            div.buttons { button.primary #sign-in type="submit" autofocus { "Sign in" } }
        }
    }
}

/// After signing out.
pub(super) fn signed_out() -> Markup {
    html! {
        h1 { "Signed out" }
        p { a.button href="/console/sign-in" { "Sign in again" } }
    }
}
