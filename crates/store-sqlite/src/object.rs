//! Objects: the state that handlers keep between calls.

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::params;
use windrow_domain::partition::partition_of;
use windrow_store::Result;
use windrow_store::object::{ObjectKey, Objects, PutState};
use windrow_store::partition::Fence;

use crate::tx::{Tx, invalid, sql};
use crate::{SqliteBackend, partition};

#[async_trait]
impl Objects for SqliteBackend {
    async fn states(&self, keys: &[ObjectKey]) -> Result<Vec<Option<Bytes>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.to_vec();
        self.read(move |tx| keys.iter().map(|key| state(tx, key)).collect()).await
    }
}

fn state(tx: &Tx<'_>, key: &ObjectKey) -> Result<Option<Bytes>> {
    let of = params![key.owner.as_str(), key.stream.as_str()];
    tx.one(sql!("object/states"), of, |row| row.get::<_, Vec<u8>>(0).map(Bytes::from))
}

/// Writes states; `Invalid` for one whose partition has no fence.
pub(crate) fn put_states(tx: &Tx<'_>, fences: &[Fence], states: &[PutState]) -> Result<()> {
    if states.is_empty() {
        return Ok(());
    }
    let count = partition::count(tx)?;
    for PutState { key: ObjectKey { owner, stream }, state } in states {
        let no = partition_of(owner, stream, count);
        if !fences.iter().any(|fence| fence.partition == no) {
            let because = format!("partition {no} of object {stream} has no fence");
            return Err(invalid(because));
        }
        match state {
            Some(state) => {
                let put = params![owner.as_str(), stream.as_str(), state.as_ref(), tx.now];
                tx.run(sql!("object/put_states"), put)?
            }
            None => tx.run(sql!("object/forget_state"), [owner.as_str(), stream.as_str()])?,
        };
    }
    Ok(())
}
