//! Sign-ins of the console: one-time links and sessions, in this process only (I-52).
//!
//! Links and cookies are 256 random bits and are kept as their SHA-256 alone. A link is spent by the exchange that
//! succeeds with it; opening it shows a page and changes nothing (C-214). Invariant: the number of sign-ins is bounded;
//! the oldest go first.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use protocol::digest::Digest;
use protocol::time::Time;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Name of the session cookie.
pub(crate) const COOKIE: &str = "stasis_session";
/// How long a link may wait to be used.
const LINK_LIFE: Duration = Duration::from_secs(10 * 60);
/// How long a session lasts: a working day.
const SESSION_LIFE: Duration = Duration::from_secs(12 * 3_600);
/// Sessions kept at once.
const SESSIONS: usize = 4_096;
/// Links kept at once.
const LINKS: usize = 256;

/// On whose word a session stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// A one-time link for this subject.
    Link(String),
    /// A token; a session ends with it.
    Token(String),
}

/// A session that is alive.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) by: By,
    pub(crate) csrf: String,
}

#[derive(Default)]
pub(crate) struct Sessions(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    links: HashMap<Digest, (Time, String)>,
    sessions: HashMap<Digest, (Time, Session)>,
}

impl Sessions {
    /// A one-time link for a subject; the text is told once.
    pub(crate) fn link(&self, subject: &str, now: Time) -> String {
        let secret = secret();
        let mut inner = self.lock();
        make_room(&mut inner.links, LINKS, now);
        inner.links.insert(Digest::of(&secret), (now + LINK_LIFE, subject.to_owned()));
        secret
    }

    /// Spends a link: its subject, once.
    pub(crate) fn spend(&self, link: &str, now: Time) -> Option<By> {
        let (until, subject) = self.lock().links.remove(&Digest::of(link))?;
        (now < until).then_some(By::Link(subject))
    }

    /// Opens a session and gives the value of its cookie.
    pub(crate) fn open(&self, by: By, now: Time) -> String {
        let cookie = secret();
        let session = Session { by, csrf: secret() };
        let mut inner = self.lock();
        make_room(&mut inner.sessions, SESSIONS, now);
        inner.sessions.insert(Digest::of(&cookie), (now + SESSION_LIFE, session));
        cookie
    }

    pub(crate) fn find(&self, cookie: &str, now: Time) -> Option<Session> {
        let inner = self.lock();
        let (until, session) = inner.sessions.get(&Digest::of(cookie))?;
        (now < *until).then(|| session.clone())
    }

    /// Ends a session.
    pub(crate) fn close(&self, cookie: &str) {
        self.lock().sessions.remove(&Digest::of(cookie));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops what has ended, and then the oldest while there is no room for one more.
fn make_room<T>(map: &mut HashMap<Digest, (Time, T)>, most: usize, now: Time) {
    map.retain(|_, (until, _)| now < *until);
    while map.len() >= most {
        let oldest = map.iter().min_by_key(|(_, (until, _))| *until).map(|(key, _)| *key);
        let Some(oldest) = oldest else { return };
        map.remove(&oldest);
    }
}

/// 256 random bits as text.
fn secret() -> String {
    URL_SAFE_NO_PAD.encode(crate::clock::random::<32>())
}

/// The `Set-Cookie` of a session: gone with the browser, unseen by scripts, and sent to no request that another site
/// makes (I-52).
pub(crate) fn set_cookie(cookie: &str, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE}={cookie}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", SESSION_LIFE.as_secs())
}

/// The `Set-Cookie` that ends one.
pub(crate) fn clear_cookie() -> String {
    format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1_000_000);

    #[test]
    fn a_link_signs_in_once_and_not_after_its_time() {
        let sessions = Sessions::default();
        let link = sessions.link("local", NOW);
        assert_eq!(sessions.spend(&link, NOW), Some(By::Link("local".into()))); // I-52
        assert_eq!(sessions.spend(&link, NOW), None); // C-289
        let late = sessions.link("local", NOW);
        assert_eq!(sessions.spend(&late, NOW + LINK_LIFE), None);
        assert_eq!(sessions.spend("guess", NOW), None);
    }

    #[test]
    fn a_session_lasts_until_it_is_closed_or_its_day_is_over() {
        let sessions = Sessions::default();
        let (one, two) = (sessions.open(By::Link("a".into()), NOW), sessions.open(By::Link("b".into()), NOW));
        assert_ne!(sessions.find(&one, NOW).unwrap().csrf, sessions.find(&two, NOW).unwrap().csrf); // C-221
        sessions.close(&one);
        assert!(sessions.find(&one, NOW).is_none());
        assert!(sessions.find(&two, NOW + SESSION_LIFE).is_none());
    }

    #[test]
    fn sign_ins_are_bounded_and_the_oldest_goes_first() {
        let sessions = Sessions::default();
        let first = sessions.link("a", NOW);
        for second in 1..=LINKS as u64 {
            sessions.link("a", NOW + Duration::from_millis(second));
        }
        assert_eq!(sessions.lock().links.len(), LINKS);
        assert_eq!(sessions.spend(&first, NOW), None);
    }

    #[test]
    fn the_cookie_is_unseen_by_scripts_and_other_sites() {
        let cookie = set_cookie("x", true);
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains("Secure")); // I-52
    }
}
