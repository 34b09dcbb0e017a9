//! Objects: the state that handlers keep between calls.
//!
//! Holds throughout: only a commit writes a state, under the fence of its stream's partition.

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use windrow_domain::{Owner, Stream};

use crate::{Result, error};

/// Longest state of an object, in bytes.
pub const STATE_BYTES_MAX: usize = 1024 * 1024;
/// Most objects of one read.
pub const OBJECTS_MAX: usize = 1000;

/// The key of an object: its owner and its stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectKey {
    /// The owner of the object.
    pub owner: Owner,
    /// Its stream: `type/id`, see `domain::call::object_stream`.
    pub stream: Stream,
}

/// What an object is from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutState {
    /// The object whose state is written.
    pub key: ObjectKey,
    /// Its state; none forgets it.
    pub state: Option<Bytes>,
}

impl PutState {
    /// `Invalid` when it is too large.
    pub fn check(&self) -> Result<()> {
        let bytes = self.state.as_ref().map_or(1, |state| state.len().max(1));
        error::within("state", bytes as u64, STATE_BYTES_MAX as u64)
    }
}

/// `Invalid` when too many objects are asked for at once.
pub fn check_objects(keys: &[ObjectKey]) -> Result<()> {
    error::at_most("objects", keys.len(), OBJECTS_MAX)
}

/// Reads the states that commits wrote.
#[async_trait]
pub trait Objects {
    /// The states of these objects, up to [`OBJECTS_MAX`], in their order; none for one that has none.
    async fn states(&self, keys: &[ObjectKey]) -> Result<Vec<Option<Bytes>>>;
}
