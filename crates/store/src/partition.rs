//! Partitions: every stream belongs to one, and each has one owner at a time.
//!
//! Holds throughout: a partition changes hands only when it is free, when its owner gave it back, or
//! when its owner is tombstoned; every take raises its epoch, and epochs never go down; what an owner
//! commits under an old epoch is refused whole; what a live member serves stays set up.
//! Absent on purpose: which instance should own which partition, which `domain::partition::share`
//! computes.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_domain::partition::PARTITIONS_MAX;
use windrow_domain::{InstanceId, PartitionNo};

use crate::{Result, error};

/// Longest name of a service, in bytes.
pub const SERVICE_BYTES_MAX: usize = 200;
/// Most object types of a service.
pub const OBJECT_TYPES_MAX: usize = 1000;

/// How this database's messages are run. Service and partitions are fixed by the first instance; the
/// rest is what all live instances serve together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setup {
    /// The service whose instances run them.
    pub service: String,
    /// How many partitions there are.
    pub partitions: u16,
    /// The object types that have handlers, sorted.
    pub object_types: Vec<String>,
    /// Whether what happens to batches goes out as messages of the outbox.
    pub lifecycle: bool,
}

impl Setup {
    /// `Invalid` when a number or a name is out of its bounds.
    pub fn check(&self) -> Result<()> {
        error::within("partitions", self.partitions.into(), PARTITIONS_MAX.into())?;
        error::within("service", self.service.len() as u64, SERVICE_BYTES_MAX as u64)?;
        let types = self.object_types.len().max(1) as u64;
        error::within("object types", types, OBJECT_TYPES_MAX as u64)
    }
}

/// What an instance that runs messages says of itself, in its member's metadata. While it lives, no other
/// set-up takes away what it serves, and others know how much it owns at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// The object types that it has handlers of.
    #[serde(default)]
    pub object_types: Vec<String>,
    /// Whether it has a use for what happens to batches.
    #[serde(default)]
    pub lifecycle: bool,
    /// How many partitions it owns at most.
    #[serde(default = "unbounded")]
    pub own_max: u16,
    /// The consumers of the inbox that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<ServedRoute>,
    /// The publishers of the outbox that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publishers: Vec<ServedRoute>,
}

/// A consumer or publisher as its instance tells others of it: its name, and what it takes. A pattern is a
/// text, or with a star at its end everything that begins like it; an empty list takes everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedRoute {
    /// The name of the consumer or publisher.
    pub name: String,
    /// Patterns of owners.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// Patterns of streams.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<String>,
    /// Patterns of kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
}

impl ServedRoute {
    /// Whether such a message goes to it when it names no consumers.
    pub fn takes(&self, owner: &str, stream: &str, kind: &str) -> bool {
        let matches = |pattern: &String, text: &str| match pattern.strip_suffix('*') {
            Some(prefix) => text.starts_with(prefix),
            None => text == pattern,
        };
        let any = |patterns: &[String], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, text))
        };
        any(&self.owners, owner) && any(&self.streams, stream) && any(&self.kinds, kind)
    }
}

fn unbounded() -> u16 {
    PARTITIONS_MAX
}

/// What members say of their part in a service.
#[derive(Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum MemberRole {
    Messages(Serving),
}

impl Serving {
    /// As a member's metadata.
    pub fn to_metadata(&self) -> String {
        serde_json::to_string(&MemberRole::Messages(self.clone()))
            .expect("names and numbers are JSON")
    }

    /// What a member's metadata say; none for one that does not run messages.
    pub fn of(metadata: &str) -> Option<Self> {
        serde_json::from_str(metadata).ok().map(|MemberRole::Messages(serving)| serving)
    }
}

/// Proof of ownership: what a commit is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Fence {
    /// The partition.
    pub partition: PartitionNo,
    /// The epoch in which it was taken.
    pub epoch: u64,
}

/// A partition as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// Its number.
    pub no: PartitionNo,
    /// How often it was taken.
    pub epoch: u64,
    /// The instance that owns it; none when it is free.
    pub instance: Option<InstanceId>,
    /// Whether its owner is known and not tombstoned.
    pub is_owner_live: bool,
    /// Its last owner died, and no owner has yet gone through the heads of its streams one by one.
    pub is_suspect: bool,
    /// When it was taken last.
    pub taken_at: Option<Timestamp>,
}

/// A partition that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// The fence that proves the ownership.
    pub fence: Fence,
    /// Its last owner died while it had it: the due heads of its streams are suspects. Stays so through
    /// further takes until [`Partitions::clear_suspects`].
    pub is_suspect: bool,
}

/// Partitions of the streams: set up once, taken by one instance at a time, released.
#[async_trait]
pub trait Partitions {
    /// Fixes the service and the number of partitions, or checks them: `Conflict` when others are
    /// fixed, and the cause names both. Object types and `lifecycle` become what this one has together
    /// with what the live members of the service serve ([`Serving`]), so that an instance that starts with
    /// less takes nothing from the others; what no instance serves any more is gone. An instance registers
    /// first and sets up then: so it stays set up as long as it lives. A repeat has no effect. Gives
    /// what is set up now.
    async fn set_up(&self, setup: Setup) -> Result<Setup>;

    /// What was fixed; none before the first [`Partitions::set_up`].
    async fn setup(&self) -> Result<Option<Setup>>;

    /// Every partition, by number; none before the set-up.
    async fn partitions(&self) -> Result<Vec<Partition>>;

    /// Takes those of `wanted` that are free, or whose owner is tombstoned or unknown; the others are
    /// left alone. One that is already the instance's own is given again at its epoch. `LeaseLost` when
    /// the instance is tombstoned, `Missing` when it never registered. It waits for commits of the last
    /// owner that are under way.
    async fn take_partitions(
        &self,
        instance: InstanceId,
        wanted: &[PartitionNo],
    ) -> Result<Vec<Taken>>;

    /// Gives partitions back that the instance has drained. Those that are no longer its own have no
    /// effect. Gives how many are free now because of this.
    async fn release_partitions(&self, instance: InstanceId, fences: &[Fence]) -> Result<u64>;

    /// Says that the due heads of these partitions were gone through one by one, so that no later owner need do
    /// it again. `LeaseLost` when one is no longer the instance's own.
    async fn clear_suspects(&self, instance: InstanceId, fences: &[Fence]) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_tell_who_runs_messages() {
        let serving = Serving {
            object_types: vec!["a".into()],
            lifecycle: true,
            own_max: 7,
            consumers: Vec::new(),
            publishers: Vec::new(),
        };
        assert_eq!(Serving::of(&serving.to_metadata()), Some(serving.clone()));
        let little = Serving {
            object_types: Vec::new(),
            lifecycle: false,
            own_max: PARTITIONS_MAX,
            ..serving
        };
        assert_eq!(Serving::of(r#"{"role":"messages"}"#), Some(little));
        for other in ["", "{}", "[1]", r#"{"role":"x"}"#, r#"{"role":"messages","own_max":-1}"#] {
            assert_eq!(Serving::of(other), None, "{other}");
        }
    }
}
