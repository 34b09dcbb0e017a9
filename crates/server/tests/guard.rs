//! Keys that are revoked while they are looked for: a store that answers late must not be believed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use windrow_domain::Role;
use windrow_engine::signal::Stop;
use windrow_server::{App, Options, Parts};
use windrow_store::layer::{LayeredStore, StoreLayer};
use windrow_store::{Kind, Store};

use support::{NoModels, key};

/// Keeps the reply to one `find_key` back until it is let go.
#[derive(Clone, Default)]
struct DelayedReply {
    /// The next one is kept back.
    armed: Arc<AtomicBool>,
    /// One has its answer, and is kept back.
    held: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[async_trait]
impl StoreLayer for DelayedReply {
    type Span = ();

    async fn begin(&self, _: &'static str) {}

    fn end(&self, (): (), verb: &'static str, _: Option<Kind>) {
        if verb == "find_key" && self.armed.swap(false, Ordering::SeqCst) {
            self.held.notify_one();
            // The answer is known, and the one who asked does not have it yet.
            tokio::task::block_in_place(|| Handle::current().block_on(self.go_on.notified()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_that_is_revoked_while_it_is_looked_for_is_not_believed_afterwards() {
    let (folder, store) = support::database().await;
    let ((ann, ann_key), (_, admin_key)) =
        (key(&*store, "ann", Role::Member).await, key(&*store, "root", Role::Admin).await);
    let late = DelayedReply::default();
    // A key is believed for so long that only its revocation can end it here.
    let options = Options::default().key_cache_max(Duration::from_secs(3600));
    let layered = Arc::new(LayeredStore::new(store as Arc<dyn Store>, late.clone()));
    let parts = support::parts(layered, folder.path(), NoModels);
    let (stop, mut tasks) = (Stop::new(), JoinSet::new());
    let url = support::serve(App::new(Parts { options, ..parts }), &stop, &mut tasks).await;
    let http = reqwest::Client::new();
    let ask = |key: &str| http.get(format!("{url}/v1/files")).bearer_auth(key).send();

    // The admin is known before, so that only ann's key is looked for late.
    assert_eq!(ask(&admin_key).await.unwrap().status(), 200);
    late.armed.store(true, Ordering::SeqCst);
    let asking = JoinSet::from_iter([ask(&ann_key)]);
    late.held.notified().await;
    let revoke = http.delete(format!("{url}/api/keys/{ann}")).bearer_auth(&admin_key).send();
    assert_eq!(revoke.await.unwrap().status(), 200);
    late.go_on.notify_one();

    // It was asked before the end, and may have its answer; nothing asked later may.
    let first = asking.join_all().await.pop().unwrap().unwrap();
    assert!([200, 401].contains(&first.status().as_u16()), "{first:?}");
    assert_eq!(ask(&ann_key).await.unwrap().status(), 401, "a revoked key is believed");
    assert_eq!(ask(&admin_key).await.unwrap().status(), 200);
    stop.give();
    tasks.join_all().await;
}
