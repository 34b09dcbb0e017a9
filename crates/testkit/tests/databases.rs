//! Each test's database is its own, migrated, and its deadlocks are counted.

#![cfg(feature = "net")]
#![expect(clippy::unwrap_used, reason = "a test")]

use tokio::task::JoinSet;
use tokio_postgres::{Client, Error, NoTls};
use windrow_testkit::postgres::Database;
use windrow_testkit::required;

async fn migrate(url: String) -> Result<(), Error> {
    let (client, _tasks) = connect(&url).await?;
    client
        .batch_execute("CREATE TABLE hay (id int PRIMARY KEY); INSERT INTO hay VALUES (1), (2)")
        .await
}

async fn connect(url: &str) -> Result<(Client, JoinSet<Result<(), Error>>), Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    Ok((client, tasks))
}

async fn count(client: &Client) -> i64 {
    client.query_typed("SELECT count(*) FROM hay", &[]).await.unwrap()[0].get(0)
}

#[tokio::test]
async fn two_tests_never_share_a_database() {
    let (one, two) = tokio::join!(Database::fresh(migrate), Database::fresh(migrate));
    assert_ne!(one.name(), two.name());
    let (client, _tasks) = connect(&one.url()).await.unwrap();
    client.batch_execute("DELETE FROM hay").await.unwrap();
    let (other, _tasks) = connect(&two.url()).await.unwrap();
    assert_eq!((count(&client).await, count(&other).await), (0, 2));
}

#[tokio::test]
async fn a_closed_database_is_gone_though_somebody_is_connected() {
    let database = Database::empty().await;
    let url = database.url();
    let (_client, _tasks) = connect(&url).await.unwrap();
    database.close().await;
    assert!(connect(&url).await.is_err());
}

#[tokio::test]
async fn a_dropped_database_is_gone() {
    let database = Database::fresh(migrate).await;
    let url = database.url();
    drop(database);
    assert!(connect(&url).await.is_err());
}

#[tokio::test]
async fn the_pooler_reaches_the_same_database() {
    let database = Database::fresh(migrate).await;
    let Some(url) = required("a transaction pooler", database.pooler_url()) else { return };
    let (client, _tasks) = connect(&url).await.unwrap();
    assert_eq!(count(&client).await, 2);
}

#[tokio::test]
async fn deadlocks_are_counted() {
    let database = Database::fresh(migrate).await;
    assert_eq!(database.deadlocks().await, 0);
    let (one, _tasks) = connect(&database.url()).await.unwrap();
    let (two, _tasks) = connect(&database.url()).await.unwrap();
    let lock = |id| format!("SELECT 1 FROM hay WHERE id = {id} FOR UPDATE");
    one.batch_execute(&format!("BEGIN; {}", lock(1))).await.unwrap();
    two.batch_execute(&format!("BEGIN; {}", lock(2))).await.unwrap();
    let (to_two, to_one) = (lock(2), lock(1));
    let (a, b) = tokio::join!(
        async {
            let outcome = one.batch_execute(&to_two).await;
            one.batch_execute("ROLLBACK").await.unwrap();
            outcome
        },
        async {
            let outcome = two.batch_execute(&to_one).await;
            two.batch_execute("ROLLBACK").await.unwrap();
            outcome
        },
    );
    assert!(a.is_err() || b.is_err());
    assert_eq!(database.deadlocks().await, 1);
}
