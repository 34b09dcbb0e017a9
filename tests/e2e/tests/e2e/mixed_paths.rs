//! A job whose lines ask for different paths, with different methods: where the upstream's table allows it.

use serde_json::{Value, json};
use windrow_e2e::Server;
use windrow_e2e::raw::{Request, Response};
use windrow_e2e::server::WITHIN;
use windrow_fault::{Backend, wait};

const KEYS: &str = "methods = [\"GET\", \"POST\"]\npaths = [\"/items/*\", \"/search\"]\n";

fn line(no: u32, method: &str, url: &str) -> String {
    let mut line = json!({ "custom_id": format!("c-{no}"), "method": method, "url": url });
    if method == "POST" {
        line["body"] = json!({ "n": no });
    }
    format!("{line}\n")
}

fn mixed() -> String {
    [line(1, "GET", "/items/1"), line(2, "POST", "/items/2"), line(3, "GET", "/search?q=a%20b")]
        .concat()
}

async fn create(server: &Server, key: &str, lines: String) -> Response {
    let request = Request::new("POST", "/api/jobs", key);
    let request = request.header("content-type", "application/jsonl").body(lines);
    request.send(server.address()).await
}

/// What the first error of a job says that was refused for its lines.
async fn refused(server: &Server, key: &str, lines: String) -> String {
    let job = create(server, key, lines).await;
    assert_eq!(job.status, 201, "{job:?}");
    let job = job.json();
    assert_eq!(job["status"], "failed", "{job}");
    job["errors"][0]["message"].as_str().unwrap().to_owned()
}

async fn ended(server: &Server, key: &str, id: &str) -> Value {
    let path = format!("/api/jobs/{id}");
    let look = || async {
        let job = Request::new("GET", &path, key).send(server.address()).await.json();
        job["finishedAt"].is_string().then_some(job)
    };
    wait::until(WITHIN, look, || async { server.said() }).await
}

async fn lines_ask_for_different_paths_where_the_table_allows_it(backend: Backend) {
    let server = Server::with_upstream_keys(backend, KEYS).await;
    let (ann, bob) = (server.key("ann").await, server.key("bob").await);
    let job = create(&server, &ann, mixed()).await;
    assert_eq!(job.status, 201, "{job:?}");
    let id = job.json()["jobId"].as_str().unwrap().to_owned();
    let job = ended(&server, &ann, &id).await;
    assert_eq!((&job["status"], &job["counts"]["done"]), (&json!("completed"), &json!(3)), "{job}");
    assert_eq!(job["lanes"].as_array().unwrap().len(), 1, "{job}");
    let seen = server.upstream().seen();
    let mut seen: Vec<_> =
        seen.iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect();
    seen.sort_unstable();
    assert_eq!(seen, ["GET /items/1", "GET /search?q=a%20b", "POST /items/2"]);

    // Another owner sees nothing of it, and one without a key gets nowhere.
    for path in [format!("/api/jobs/{id}"), format!("/api/jobs/{id}/items/1/attempts")] {
        Request::new("GET", &path, &bob).send(server.address()).await.refused(404);
        Request::new("GET", &path, "nobody").send(server.address()).await.refused(401);
    }
    create(&server, "nobody", mixed()).await.refused(401);

    let other = refused(&server, &bob, mixed() + &line(4, "GET", "/admin/keys")).await;
    assert!(other.contains("/admin/keys") && other.contains("`paths`"), "{other}");
    let other = refused(&server, &bob, mixed() + &line(4, "DELETE", "/items/1")).await;
    assert!(other.contains("DELETE") && other.contains("`methods`"), "{other}");
    let escape = refused(&server, &bob, line(1, "GET", "/items/../admin")).await;
    assert!(escape.contains("`url`"), "{escape}");
    assert_eq!(server.upstream().counts().requests, 3, "what is refused is not sent");
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_paths_are_one_job() {
    lines_ask_for_different_paths_where_the_table_allows_it(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_paths_are_one_job_on_postgres() {
    lines_ask_for_different_paths_where_the_table_allows_it(Backend::Postgres).await;
}

/// Without the keys it is refused, and each refusal names the key to set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_keys_different_paths_and_methods_are_refused() {
    let server = Server::start().await;
    let key = server.key("ann").await;
    let posts = line(1, "POST", "/items/1") + &line(2, "POST", "/items/2");
    let paths = create(&server, &key, posts).await;
    paths.refused(400);
    let message = paths.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`paths`") && message.contains("`endpoint`"), "{message}");
    let method = refused(&server, &key, line(1, "GET", "/items/1")).await;
    assert!(method.contains("POST") && method.contains("`methods`"), "{method}");
    assert_eq!(server.upstream().counts().requests, 0);
    server.check();

    // A table without `paths` takes no lines without a model.
    let server = Server::with_upstream_keys(Backend::Sqlite, "targets = [\"m\"]\n").await;
    let key = server.key("ann").await;
    let none = refused(&server, &key, line(1, "POST", "/items/1")).await;
    assert!(none.contains("without a model") && none.contains("`paths`"), "{none}");
    server.check();
}
