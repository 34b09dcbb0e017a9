//! Two commits of one instance meet at one message: the fence lets both pass, since both are the owner's.
//! It happens when a connection broke and nobody knows that its commit is still under way.

use tokio::task::JoinSet;
use windrow_domain::{DeadLetterId, Queue};
use windrow_store::message::{
    Commit, Dead, Done, FailedAttempt, MessageRef, MessagesQuery, Started,
};
use windrow_store::{Kind, Messages, Scope};

use crate::messages::{Runner, message};
use crate::support::{Session, fresh, store, until};

/// Every way in which a commit changes a message.
fn ways(runner: &Runner, at: MessageRef) -> Vec<(&'static str, Commit)> {
    let (error, not_before) = ("no".to_owned(), jiff::Timestamp::from_second(1).unwrap());
    let again =
        FailedAttempt { at, error: error.clone(), not_before, waiting: Vec::new(), counts: true };
    vec![
        ("started", Commit { started: vec![Started { at }], ..runner.effects() }),
        ("failed", Commit { failed: vec![again], ..runner.effects() }),
        ("done", Commit { done: vec![Done { at, consumer: None }], ..runner.effects() }),
        (
            "dead",
            Commit {
                dead: vec![Dead { at, id: DeadLetterId::new(), error, counts: true }],
                ..runner.effects()
            },
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_meets_another_of_its_instance_changes_what_it_says_or_nothing() {
    let database = fresh().await;
    let store = store(&database.url()).await;
    let session = Session::open(&database.url()).await.unwrap();
    let watcher = Session::open(&database.url()).await.unwrap();
    let runner = Runner::join(&store).await;
    let at = store.send(vec![message(Queue::Inbox, "a", "m".to_owned())]).await.unwrap()[0].at;
    for (way, commit) in ways(&runner, at) {
        session
            .batch_execute("BEGIN; UPDATE windrow.messages SET attempts = attempts + 1")
            .await
            .unwrap();
        let mut late = JoinSet::new();
        let committer = store.clone();
        late.spawn(
            async move { committer.commit(commit).await.map(drop).map_err(|error| error.kind) },
        );
        let waiting = "SELECT FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event_type = 'Lock'";
        until("the second one waits", async || {
            !watcher.query(waiting, &[]).await.unwrap().is_empty()
        })
        .await;
        session.batch_execute("COMMIT").await.unwrap();
        assert_eq!(late.join_next().await.unwrap().unwrap(), Err(Kind::Conflict), "{way}");
        let query = MessagesQuery { limit: 5, ..MessagesQuery::default() };
        assert_eq!(
            store.messages(&Scope::All, query.clone()).await.unwrap().rows.len(),
            1,
            "{way}"
        );
        assert!(store.dead_letters(&Scope::All, query).await.unwrap().rows.is_empty(), "{way}");
    }
}
