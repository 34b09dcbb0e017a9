//! The batch id of a command: the same command over the same file is the same batch.
//!
//! Holds throughout: the id follows from the command alone, so that two processes that start at the
//! same moment, or one that starts again, agree on it without asking each other.

use url::Url;
use windrow::domain::{BatchId, Owner};
use windrow::store::batch::Batch;
use windrow::store::{Kind, Scope, Store};

/// Numbers that are tried beyond the last one found: a batch in between may have been deleted.
const GAP_MAX: u32 = 8;

/// What makes two commands the same run.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The owner of the batch.
    pub(crate) owner: Owner,
    /// The canonical path, or the content's hash for standard input.
    pub(crate) source: String,
    pub(crate) to: Url,
}

/// What the store has of a command.
#[derive(Debug)]
pub(crate) struct PreviousRuns {
    /// The newest batch of the command.
    pub(crate) last: Option<Batch>,
    /// The number of a new one.
    pub(crate) free: u32,
}

impl Identity {
    /// The id of the command's run number `n`.
    ///
    /// A stored contract, as the id of a job under an `Idempotency-Key` is (`rest/create.rs` of the
    /// server). The two hash differently and stay two: with another hash, context or order of parts the
    /// same command no longer finds its batch, and everything is sent again.
    pub(crate) fn id(&self, n: u32) -> BatchId {
        let mut hasher = blake3::Hasher::new_derive_key("windrow 2026 run");
        for part in [self.owner.as_str(), &self.source, self.to.as_str()] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.update(&n.to_le_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        BatchId(uuid::Uuid::new_v8(bytes))
    }

    /// The ids of the runs from a number on, as far as [`Self::find`] looks.
    pub(crate) fn ids_from(&self, first: u32) -> impl Iterator<Item = BatchId> {
        (first..first + GAP_MAX).map(|n| self.id(n))
    }

    /// Finds the earlier runs of the command.
    pub(crate) async fn find(&self, store: &dyn Store) -> windrow::store::Result<PreviousRuns> {
        let scope = Scope::Owner(self.owner.clone());
        let (mut last, mut next, mut n) = (None, 0, 0);
        while n < next + GAP_MAX {
            match store.batch(&scope, self.id(n)).await {
                Ok(batch) => (last, next) = (Some(batch), n + 1),
                Err(error) if error.kind == Kind::Missing => {}
                Err(error) => return Err(error),
            }
            n += 1;
        }
        Ok(PreviousRuns { last, free: next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_follows_from_owner_source_url_and_number() {
        let identity = |owner: &str, source: &str, to: &str| Identity {
            owner: Owner::new(owner).unwrap(),
            source: source.to_owned(),
            to: to.parse().unwrap(),
        };
        let base = identity("a", "b", "http://h").id(0);
        assert_eq!(base, identity("a", "b", "http://h/").id(0));
        assert_eq!(base.0.get_version_num(), 8);
        let others = [
            identity("ab", "", "http://h").id(0),
            identity("a", "c", "http://h").id(0),
            identity("a", "b", "http://g").id(0),
            identity("a", "b", "http://h").id(1),
        ];
        assert!(others.iter().all(|other| *other != base));
    }

    #[test]
    fn the_id_of_a_command_stays_what_it_is() {
        let identity = Identity {
            owner: Owner::new("ada").unwrap(),
            source: "/data/requests.jsonl".to_owned(),
            to: "http://127.0.0.1:8000/v1".parse().unwrap(),
        };
        assert_eq!(identity.id(0).to_string(), "b0682785-6f0b-88a7-ae2f-d38e82f37be7");
        assert_eq!(identity.id(1).to_string(), "d05c8d1b-fee9-89e3-ba72-08df06355743");
    }
}
