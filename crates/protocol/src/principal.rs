//! Principals: authenticated persons and programs, their roles and rights (I-65).
//!
//! Who somebody is comes from sign-in alone (C-177); nothing here authenticates. Rights are checked inside the commands
//! that need them, not only at the door.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One verb that a principal may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Right {
    #[serde(rename = "runs:read")]
    RunsRead,
    #[serde(rename = "runs:start")]
    RunsStart,
    #[serde(rename = "runs:cancel")]
    RunsCancel,
    #[serde(rename = "runs:pause")]
    RunsPause,
    #[serde(rename = "runs:move")]
    RunsMove,
    #[serde(rename = "runs:attest")]
    RunsAttest,
    #[serde(rename = "signals:send")]
    SignalsSend,
    #[serde(rename = "jobs:claim")]
    JobsClaim,
    #[serde(rename = "approvals:decide")]
    ApprovalsDecide,
    #[serde(rename = "workflows:write")]
    WorkflowsWrite,
    #[serde(rename = "tools:write")]
    ToolsWrite,
    #[serde(rename = "audit:read")]
    AuditRead,
    /// All other rights, and tokens, resources and policy.
    #[serde(rename = "admin")]
    Admin,
}

impl Right {
    pub const ALL: [Self; 13] = [
        Self::RunsRead,
        Self::RunsStart,
        Self::RunsCancel,
        Self::RunsPause,
        Self::RunsMove,
        Self::RunsAttest,
        Self::SignalsSend,
        Self::JobsClaim,
        Self::ApprovalsDecide,
        Self::WorkflowsWrite,
        Self::ToolsWrite,
        Self::AuditRead,
        Self::Admin,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RunsRead => "runs:read",
            Self::RunsStart => "runs:start",
            Self::RunsCancel => "runs:cancel",
            Self::RunsPause => "runs:pause",
            Self::RunsMove => "runs:move",
            Self::RunsAttest => "runs:attest",
            Self::SignalsSend => "signals:send",
            Self::JobsClaim => "jobs:claim",
            Self::ApprovalsDecide => "approvals:decide",
            Self::WorkflowsWrite => "workflows:write",
            Self::ToolsWrite => "tools:write",
            Self::AuditRead => "audit:read",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no right")]
pub struct UnknownRight(pub String);

impl FromStr for Right {
    type Err = UnknownRight;
    fn from_str(text: &str) -> Result<Self, UnknownRight> {
        Self::ALL.into_iter().find(|right| right.as_str() == text).ok_or_else(|| UnknownRight(text.to_owned()))
    }
}

/// A set of rights.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rights(BTreeSet<Right>);

impl Rights {
    pub const fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Every right.
    pub fn all() -> Self {
        Self(BTreeSet::from([Right::Admin]))
    }

    /// What a principal has whose configuration names no rights.
    pub fn default_of(kind: Kind) -> Self {
        match kind {
            Kind::Person => Self::from_iter([Right::RunsRead, Right::ApprovalsDecide]),
            Kind::Program => Self::none(),
        }
    }

    /// Whether the right is held, by itself or through `admin`.
    pub fn has(&self, right: Right) -> bool {
        self.0.contains(&right) || self.0.contains(&Right::Admin)
    }

    /// Whether every right of `self` is held by `other`: a token has its principal's rights or fewer.
    pub fn within(&self, other: &Self) -> bool {
        self.iter().all(|right| other.has(right))
    }

    /// What both hold: the rights of a token, whatever its principal has lost since.
    pub fn and(&self, other: &Self) -> Self {
        Right::ALL.into_iter().filter(|&right| self.has(right) && other.has(right)).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = Right> + '_ {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Self(rights.into_iter().collect())
    }
}

/// What kind of principal it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Person,
    /// Another program. It decides approvals only where policy names it (C-178).
    Program,
}

/// An authenticated person or program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The subject: what eligibility, distinctness and separation compare (C-179).
    pub id: String,
    /// The name that is shown.
    pub name: String,
    pub kind: Kind,
    pub namespace: String,
    /// The privacy partition of its runs (W-75), if it has one.
    pub partition: Option<String>,
    /// Roles for approvals.
    pub roles: Roles,
    pub rights: Rights,
}

/// The roles of a principal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Roles {
    /// Every role there is or will be.
    All,
    These(BTreeSet<String>),
}

impl Roles {
    pub fn has(&self, role: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(roles) => roles.contains(role),
        }
    }
}

impl<S: Into<String>> FromIterator<S> for Roles {
    fn from_iter<I: IntoIterator<Item = S>>(roles: I) -> Self {
        Self::These(roles.into_iter().map(Into::into).collect())
    }
}

/// The namespace of everything that names none.
pub const DEFAULT_NAMESPACE: &str = "default";

impl Principal {
    /// The subject of the principal of whoever reaches the socket or opens the store itself.
    pub const LOCAL: &'static str = "local";

    /// The principal `local`: every right, every role (I-19a). Who shows it puts the system user's name in.
    pub fn local() -> Self {
        Self {
            id: Self::LOCAL.to_owned(),
            name: Self::LOCAL.to_owned(),
            kind: Kind::Person,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            partition: None,
            roles: Roles::All,
            rights: Rights::all(),
        }
    }

    /// The same principal, shown with another name.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    pub fn can(&self, right: Right) -> bool {
        self.rights.has(right)
    }

    pub fn has_role(&self, role: &str) -> bool {
        self.roles.has(role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_is_all_rights_and_defaults_depend_on_the_kind() {
        for right in Right::ALL {
            // I-65
            assert!(Rights::all().has(right), "{right}");
            assert_eq!(right.as_str().parse(), Ok(right));
            assert_eq!(serde_json::to_string(&right).unwrap(), format!("\"{right}\""));
        }
        // I-65
        let person = Rights::default_of(Kind::Person);
        assert!(person.has(Right::RunsRead) && person.has(Right::ApprovalsDecide) && !person.has(Right::RunsStart));
        assert!(Rights::default_of(Kind::Program).is_empty());
    }

    #[test]
    fn a_token_never_has_more_than_its_principal() {
        let principal = Rights::from_iter([Right::RunsRead, Right::RunsStart]);
        // I-65
        assert!(Rights::from_iter([Right::RunsRead]).within(&principal));
        assert!(!Rights::all().within(&principal));
        assert_eq!(Rights::all().and(&principal), principal);
    }

    #[test]
    fn local_has_every_right_and_every_role() {
        let local = Principal::local().named("ana");
        // I-19a
        assert!(local.id == "local" && local.name == "ana" && local.has_role("finance") && local.can(Right::Admin));
    }
}
