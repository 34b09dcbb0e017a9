//! One type per identifier, so that a batch can never be passed where a file is meant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Longest name of an owner or a target, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A fresh identifier, ordered by the time it was made.
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

uuid_id!(
    /// An immutable, ordered list of lines.
    FileId
);
uuid_id!(
    /// One run over a file.
    BatchId
);
uuid_id!(
    /// A tranche leased to one instance. Made by the caller, so that a claim can be repeated.
    LeaseId
);
uuid_id!(
    /// One running process of the engine.
    InstanceId
);
uuid_id!(
    /// An entry of a batch's audit log.
    AuditEntryId
);
uuid_id!(
    /// An API key. It names the key and is no secret.
    KeyId
);
uuid_id!(
    /// A message that was given up on. Made by the instance that gave up.
    DeadLetterId
);

/// A lane's number within its file: the lines of a file that go to one target.
pub type LaneNo = u16;

/// A name that is empty, or longer than [`NAME_BYTES_MAX`], or holds a control character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadName {
    /// What was to be named: "owner", "target", "stream", …
    pub what: &'static str,
    /// The name as given.
    pub name: String,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.name.chars().take(40).collect();
        write!(
            f,
            "{} name {shown:?} must have 1 to {NAME_BYTES_MAX} bytes and no control characters",
            self.what
        )
    }
}

impl std::error::Error for BadName {}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name, checked against the bounds of a name.
            pub fn new(name: impl Into<String>) -> Result<Self, BadName> {
                let name = name.into();
                let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
                if fits && !name.chars().any(char::is_control) {
                    Ok(Self(name))
                } else {
                    Err(BadName { what: $what, name })
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(name: String) -> Result<Self, BadName> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

name!(
    /// The owner of a file or batch. Every query is bound to it.
    Owner,
    "owner"
);
name!(
    /// Where the lines of a lane go: a model, an endpoint, a host.
    Target,
    "target"
);
/// The one target of all lines that name no model.
pub const NO_MODEL: &str = "(no model)";

impl Target {
    /// The one target of all lines that name no model.
    pub fn no_model() -> Self {
        Self(NO_MODEL.to_owned())
    }
}

name!(
    /// What is in order: messages, events and calls of one stream happen one after another.
    Stream,
    "stream"
);
name!(
    /// How a caller names a call, so that repeating it does nothing twice.
    RequestId,
    "request id"
);
