//! A batch that every lane of is done and that nobody flipped: the sweep finds it.

use windrow_domain::{InstanceId, State};
use windrow_store::{Claim, Finalise, Inspect, Record, Scope};

use crate::support::{Session, batch, completed, file, fresh, request, store};

/// The fold flips a batch in the transaction that ends its last lane. Should one ever be missed, the sweep's
/// own look flips it, by the same test.
#[tokio::test]
async fn a_batch_whose_lanes_are_done_and_that_was_not_flipped_is_found() {
    let database = fresh().await;
    let store = store(&database.url()).await;
    let sheet = file(&store, 3).await;
    let (missed, running) = (batch(&store, sheet).await, batch(&store, sheet).await);
    let me = InstanceId::new();
    let request = windrow_store::claim::Request { only: Some(missed), ..request(10) };
    let tranche = store.lease_tranche(me, request).await.unwrap().unwrap();
    let reply = store.record(me, vec![completed(&tranche)]).await.unwrap();
    assert_eq!(reply.finalizing, [missed]);
    let session = Session::open(&database.url()).await.unwrap();
    let unflipped = format!(
        "UPDATE windrow.batches SET state = 'in_progress', finalizing_at = NULL WHERE id = '{missed}'"
    );
    session.batch_execute(&unflipped).await.unwrap();
    let state = async |id| store.batch(&Scope::All, id).await.unwrap().state;
    assert_eq!(state(missed).await, State::InProgress);
    assert_eq!(store.find_unclosed(10).await.unwrap(), [missed]);
    assert!(matches!(state(missed).await, State::Finalizing(_)), "it can be closed now");
    assert_eq!(state(running).await, State::InProgress);
}
