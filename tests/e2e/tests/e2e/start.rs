//! A start that cannot be right is refused, with what is wrong and what to do.

use windrow_e2e::Server;
use windrow_e2e::server::keys;
use windrow_fault::{Backend, Fixture};

async fn a_key_that_is_no_admins_is_refused(fixture: Fixture) {
    let made = keys(&fixture, &["create", "--owner", "ann"]).await;
    let told = Server::refusal(&fixture, &[], made["secret"].as_str().unwrap()).await;
    let text = told.to_string();
    assert!(text.contains("the key in WINDROW_ADMIN_KEY belongs to a member"), "{text}");
    assert!(text.contains("choose another, or unset the variable"), "there is no remedy: {text}");

    let made = keys(&fixture, &["create", "--admin", "--owner", "root"]).await;
    let (secret, id) = (made["secret"].as_str().unwrap(), made["key"]["id"].as_str().unwrap());
    keys(&fixture, &["revoke", id, "--owner", "root"]).await;
    let told = Server::refusal(&fixture, &[], secret).await;
    let text = told.to_string();
    assert!(text.contains("WINDROW_ADMIN_KEY was revoked, or has expired"), "{text}");
    assert!(!text.contains(secret), "a key is told nowhere");

    // What cannot be a key at all is another fault.
    let told = Server::refusal(&fixture, &[], "short").await.to_string();
    assert!(told.contains("WINDROW_ADMIN_KEY is not usable as a key"), "{told}");
    let list = keys(&fixture, &["list", "--all"]).await;
    assert_eq!(list["rows"].as_array().unwrap().len(), 2, "a refused start makes no key: {list}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admins_key_that_is_no_admins_is_refused() {
    a_key_that_is_no_admins_is_refused(Fixture::on(Backend::Sqlite).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admins_key_that_is_no_admins_is_refused_on_postgres() {
    a_key_that_is_no_admins_is_refused(Fixture::on(Backend::Postgres).await).await;
}
