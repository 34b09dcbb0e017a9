//! Rows of a table, run by a recipe: strategies, what is found, and what is not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, FileId, Owner, State, UpstreamId};
use windrow_engine::clock::Clock;
use windrow_engine::execute::http::{Config, HttpExecutor, Upstream as Settings};
use windrow_engine::ingest::{Options as IngestOptions, ingest_input};
use windrow_engine::rows::InputOptions;
use windrow_engine::storage::Storage;
use windrow_engine::{Engine, Options, Until};
use windrow_store::batch::{LaneUpstreams, NewBatch};
use windrow_store::ingest::NewFile;
use windrow_store::inspect::{FinishedQuery, PAGE_MAX};
use windrow_store::record::Finished;
use windrow_store::{Scope, Store};
use windrow_store_sqlite::SqliteStore;
use windrow_testkit::upstream::{Reply, Script, Upstream};

const SHOP: &str = r#"
upstream = "shop"
[input]
id = "sku"
skip = "not title"
[let]
q = "title | upper"
[[try]]
name = "by title"
path = "/search"
query = { q = "{{ q }}" }
pick = "answer.results"
[[try]]
name = "by sku"
path = "/items/{{ sku }}"
accept = "it.price is number"
[columns]
price = "it.price if try == 'by sku' else it[0].price"
found_by = "try"
"#;

/// Finds what is asked for by title (A), by sku (7), not at all, without a price (bad), or after trouble (B).
fn shop(path: &str, seen: &AtomicU32) -> Reply {
    let found = |price| Reply::json(200, format!(r#"{{"results":[{{"price":{price}}}]}}"#));
    match path {
        "/search?q=A" => found(3),
        "/search?q=B" if seen.fetch_add(1, Ordering::SeqCst) == 0 => Reply::error(503, "busy"),
        "/search?q=B" => found(5),
        "/items/7" => Reply::json(200, r#"{"price":9}"#),
        "/items/bad" => Reply::json(200, r#"{"price":"none"}"#),
        path if path.starts_with("/search") => Reply::json(200, r#"{"results":[]}"#),
        _ => Reply::error(404, "no such item"),
    }
}

struct World {
    store: Arc<dyn Store>,
    batch: BatchId,
}

impl World {
    async fn new(csv: &str, recipe: &str) -> Self {
        let store = SqliteStore::open(windrow_store_sqlite::Options::default()).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let storage = Storage::memory();
        let owner = Owner::new("ann").unwrap();
        let file = NewFile {
            id: FileId::new(),
            owner: owner.clone(),
            name: "in.csv".to_owned(),
            purpose: "batch".to_owned(),
            expires_at: None,
        };
        let (told, options) = (InputOptions::default(), IngestOptions::default());
        let done = ingest_input(&*store, &storage, csv.as_bytes(), file, &told, options).await;
        let file = done.unwrap().file.id;
        let batch = NewBatch {
            upstreams: LaneUpstreams::from(UpstreamId::new("shop").unwrap()),
            recipe: Some(recipe.to_owned()),
            ..NewBatch::over(file, owner, "rows")
        };
        let batch = store.create_batch(batch).await.unwrap().id;
        Self { store, batch }
    }

    async fn run(&self, upstreams: Vec<Settings>) -> State {
        let config = Config { upstreams, default: None };
        let executor = HttpExecutor::new(config).unwrap().named_only();
        let mut options = Options::default();
        options.retry.backoff_ms_min = 1;
        options.retry.backoff_unacceptable_ms_min = 1;
        let engine = Engine::builder(self.store.clone()).executor(executor).options(options);
        let ended = engine.only(self.batch).until(Until::Closed(self.batch)).run();
        tokio::time::timeout(Duration::from_secs(30), ended).await.unwrap().unwrap();
        self.store.verify(self.batch).await.unwrap().check().unwrap();
        self.store.batch(&Scope::All, self.batch).await.unwrap().state
    }

    async fn results(&self) -> Vec<Finished> {
        let query = FinishedQuery {
            batch: Some(self.batch),
            bodies: true,
            limit: PAGE_MAX,
            ..FinishedQuery::default()
        };
        let page = self.store.finished(&Scope::All, query).await.unwrap();
        page.rows.into_iter().map(|row| row.result).collect()
    }
}

fn settings(name: &str, upstream: &Upstream) -> Settings {
    let mut settings = Settings::new(upstream.url());
    settings.name = name.to_owned();
    settings.paths = vec!["/*".to_owned()];
    settings
}

#[tokio::test]
async fn every_row_is_asked_by_its_strategies_and_has_one_result() {
    let seen = Arc::new(AtomicU32::new(0));
    let script = Script::new(move |request| shop(&request.path, &seen));
    let upstream = Upstream::start(script).await.unwrap();
    let csv = "sku,title\n1,a\n7,\"x\ny\"\n3,z\nbad,q\n5,\n6,b\n";
    let world = World::new(csv, SHOP).await;
    assert_eq!(world.run(vec![settings("shop", &upstream)]).await, State::Completed);
    let results = world.results().await;
    let shown: Vec<_> = results
        .iter()
        .map(|row| {
            let code = row.error_code.as_deref().unwrap_or("");
            (row.custom_id.as_deref().unwrap(), row.status, row.shaped.as_deref(), code)
        })
        .collect();
    let by = |price, name| format!(r#"{{"price":{price},"found_by":"{name}"}}"#);
    let (a, b) = (by(3, "by title"), by(9, "by sku"));
    let c = by(5, "by title");
    assert_eq!(
        shown,
        [
            ("1", Status::Completed, Some(&*a), ""),
            ("7", Status::Completed, Some(&*b), ""),
            ("3", Status::NotFound, None, "not_found"),
            ("bad", Status::Failed, None, "unacceptable"),
            ("5", Status::Skipped, None, "skipped"),
            ("6", Status::Completed, Some(&*c), ""),
        ]
    );
    assert_eq!(results[0].normalised.as_deref(), Some(r#"{"q":"A"}"#));
    let paths: Vec<_> = upstream.seen().into_iter().map(|seen| seen.path).collect();
    let asked = |path: &str| paths.iter().filter(|seen| *seen == path).count();
    assert_eq!(asked("/search?q=B"), 2, "trouble repeats the same strategy: {paths:?}");
    assert_eq!(asked("/items/bad"), 2, "once more, then it is given up: {paths:?}");
    assert_eq!(asked("/items/3"), 1, "{paths:?}");
    assert_eq!(paths.len(), 10, "a row that is skipped asks for nothing: {paths:?}");
}

#[tokio::test]
async fn a_strategy_goes_to_an_upstream_of_its_own() {
    let first = Upstream::start(Script::always(Reply::error(404, "none"))).await.unwrap();
    let script = Script::always(Reply::json(200, r#"{"price":1}"#));
    let second = Upstream::start(script).await.unwrap();
    let recipe = r#"
upstream = "shop"
[[try]]
path = "/a/{{ sku }}"
[[try]]
upstream = "other"
path = "/b/{{ sku }}"
[columns]
price = "it.price"
"#;
    let rows: String = (0..40).map(|number| format!("{number}\n")).collect();
    let world = World::new(&format!("sku\n{rows}"), recipe).await;
    let upstreams = vec![settings("shop", &first), settings("other", &second)];
    assert_eq!(world.run(upstreams).await, State::Completed);
    let results = world.results().await;
    assert!(results.iter().all(|row| row.shaped.as_deref() == Some(r#"{"price":1}"#)));
    assert_eq!((first.counts().requests, second.counts().requests), (40, 40));
}

#[tokio::test]
async fn a_job_that_finds_nothing_pauses_and_says_so() {
    let upstream = Upstream::start(Script::always(Reply::error(400, "no"))).await.unwrap();
    let rows: String = (0..500).map(|number| format!("{number}\n")).collect();
    let recipe = "upstream = \"shop\"\n[[try]]\npath = \"/a/{{ sku }}\"\n";
    let world = World::new(&format!("sku\n{rows}"), recipe).await;
    let paused = async {
        loop {
            let batch = world.store.batch(&Scope::All, world.batch).await.unwrap();
            if batch.state == State::Paused {
                return batch;
            }
            Clock::machine().sleep(Duration::from_millis(10)).await;
        }
    };
    let mut settings = settings("shop", &upstream);
    settings.concurrency_max = 2;
    settings.concurrency_start = 2;
    let executor = HttpExecutor::new(Config { upstreams: vec![settings], default: None }).unwrap();
    let running = Engine::builder(world.store.clone()).executor(executor.named_only()).start();
    let batch = tokio::time::timeout(Duration::from_secs(30), paused).await.unwrap();
    running.stop().await.unwrap();
    assert!(batch.last_error.unwrap().starts_with("Nothing was found for any of the first 50"));
    assert!(upstream.counts().requests < 500);
}
