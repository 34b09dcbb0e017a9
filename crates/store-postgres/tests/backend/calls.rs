//! Lists and statistics of calls read hardly more than they give, on tables with many calls.

use uuid::Uuid;
use windrow_domain::{CallState, InstanceId, Owner};
use windrow_store::call::{CallsQuery, StatsQuery};
use windrow_store::{Calls, Scope};
use windrow_store_postgres::PostgresStore;
use windrow_testkit::postgres::Database;

use crate::support::{Session, fresh, sessions_ended, store};

/// Most rows that a page of ten may read.
const READ_MAX: i64 = 60;
/// Whoever ran a few of them, long ago.
const INSTANCE: Uuid = Uuid::from_u128(7);

/// Twenty thousand calls, each older than the next by a second: completed ones, and every thousandth of
/// another kind; and as many in the archive. The small owner has the oldest fifteen.
const FILL: &str = "
    SET application_name = 'windrow';
    INSERT INTO windrow.calls
           (owner, request_id, object_type, object_id, method, hash, args, state, policy, reply, error, instance,
            created_at, updated_at, processed_at)
    SELECT CASE WHEN no > 19985 THEN 'small' ELSE 'large' END, 'r' || no, 'wallet', (no / 10)::text, 'deposit', '', '',
           c.state, 'retry', CASE c.state WHEN 2 THEN ''::bytea END, CASE c.state WHEN 3 THEN 'no' END,
           CASE WHEN no % 1000 = 4 THEN '00000000-0000-0000-0000-000000000007' WHEN c.state > 0 THEN
                     '00000000-0000-0000-0000-000000000008' END::uuid, at, at, CASE WHEN c.state > 1 THEN at END
      FROM (SELECT no, now() - no * interval '1 s' AS at,
                   CASE no % 1000 WHEN 1 THEN 0 WHEN 2 THEN 1 WHEN 3 THEN 3 ELSE 2 END AS state
              FROM generate_series(1, 20000) no) c;
    INSERT INTO windrow.calls_archive
           (owner, request_id, object_type, object_id, method, hash, args, state, policy, created_at, updated_at,
            processed_at, archived_at)
    SELECT owner, 'a' || request_id, object_type, object_id, method, hash, args, 2, policy, created_at, updated_at,
           created_at, now() FROM windrow.calls";

struct Watched {
    database: Database,
    session: Session,
    faults: Vec<String>,
}

impl Watched {
    /// Whole scans, and rows read by an index, of calls and their archive.
    async fn seen(&self) -> (i64, i64) {
        sessions_ended(&self.session).await;
        let counts =
            "SELECT sum(seq_scan)::bigint, sum(idx_tup_fetch)::bigint FROM pg_stat_user_tables
                      WHERE schemaname = 'windrow' AND relname IN ('calls', 'calls_archive')";
        let rows = self.session.query(counts, &[]).await.unwrap();
        (rows[0].get(0), rows[0].get(1))
    }

    async fn during(&mut self, what: &str, run: impl AsyncFnOnce(&PostgresStore)) {
        let before = self.seen().await;
        let reader = store(&self.database.url()).await;
        run(&reader).await;
        drop(reader);
        let after = self.seen().await;
        let (scans, read) = (after.0 - before.0, after.1 - before.1);
        if scans > 0 || read > READ_MAX {
            self.faults.push(format!("{what}: {scans} whole scans, {read} rows"));
        }
    }

    async fn list(&mut self, what: &str, scope: &Scope, found: usize, query: CallsQuery) {
        let query = CallsQuery { limit: 10, ..query };
        self.during(what, async |store| {
            let page = store.calls(scope, query).await.unwrap();
            assert_eq!(page.rows.len(), found, "{what}");
        })
        .await;
    }

    async fn lists(&mut self) {
        let any = CallsQuery::default;
        let all = &Scope::All;
        let small = Scope::Owner(Owner::new("small").unwrap());
        for state in CallState::ALL {
            let query = CallsQuery { states: vec![state], ..any() };
            let found = if state == CallState::Expired { 0 } else { 10 };
            self.list(state.as_str(), all, found, query).await;
        }
        let object = Some(("wallet".to_owned(), "1999".to_owned()));
        self.list("object", all, 10, CallsQuery { object, ..any() }).await;
        let instance = Some(InstanceId(INSTANCE));
        self.list("instance", all, 10, CallsQuery { instance, ..any() }).await;
        let stuck = CallsQuery { stuck_ms: Some(9_500_000), ..any() };
        self.list("stuck", all, 10, stuck).await;
        self.list("all", all, 10, any()).await;
        self.list("one owner", &small, 10, any()).await;
    }

    async fn stats(&mut self) {
        self.during("statistics", async |store| {
            let query = StatsQuery { window_ms: 5_000, old_ms: 60_000 };
            let small = Scope::Owner(Owner::new("small").unwrap());
            let stats = store.call_stats(&small, query).await.unwrap();
            assert_eq!((stats.rows, stats.archived_rows), (15, 15));
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_statistics_of_calls_read_hardly_more_than_they_give() {
    let database = fresh().await;
    // On a session of its own: what it scanned is counted when it ends, at the latest.
    Session::open(&database.url()).await.unwrap().batch_execute(FILL).await.unwrap();
    let session = Session::open(&database.url()).await.unwrap();
    let mut watched = Watched { database, session, faults: Vec::new() };
    watched.lists().await;
    watched.session.batch_execute("ANALYZE").await.unwrap();
    watched.lists().await;
    // Rare ones together are a matter of what the planner knows of them.
    let states = vec![CallState::Pending, CallState::Failed];
    let together = CallsQuery { states, ..CallsQuery::default() };
    watched.list("two states", &Scope::All, 10, together).await;
    watched.stats().await;
    assert!(watched.faults.is_empty(), "{}", watched.faults.join("\n"));
}
