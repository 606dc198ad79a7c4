//! Enums of the wire that have the words of the laws.
//!
//! The wire has types of its own, since a document describes them; what a word means, and how it is spelled, is said in
//! `protocol` alone. A twin is held to its law by two exhaustive matches: neither can have a variant that the other lacks.

/// A wire enum with the variants of an enum of `protocol`, and the way from one to the other. With `words` it takes the
/// law's spelling, too.
macro_rules! twin {
    (
        $(#[$doc:meta])*
        pub enum $name:ident = $law:path { $($(#[$about:meta])* $variant:ident),* $(,)? } $($words:ident)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$about])* $variant),*
        }

        impl From<$law> for $name {
            fn from(law: $law) -> $name {
                type Law = $law;
                match law { $(Law::$variant => $name::$variant),* }
            }
        }

        impl From<$name> for $law {
            fn from(wire: $name) -> $law {
                type Law = $law;
                match wire { $($name::$variant => Law::$variant),* }
            }
        }

        $crate::twin::words!($name $law; $($words)?);
    };
}

macro_rules! words {
    ($name:ident $law:path;) => {};
    ($name:ident $law:path; words) => {
        impl $name {
            /// The word on the wire.
            pub fn as_str(self) -> &'static str {
                <$law>::from(self).as_str()
            }
        }
    };
}

pub(crate) use {twin, words};
