//! The migration that gives lanes their upstream: what was begun goes on where it was meant to, and a build
//! of before can claim nothing any more.

use rusqlite::Connection;

/// The migrations before it, and itself.
const BEFORE: [&str; 7] = [
    include_str!("../migrations/V0001__batch_plane.sql"),
    include_str!("../migrations/V0002__duties.sql"),
    include_str!("../migrations/V0003__server.sql"),
    include_str!("../migrations/V0004__message_plane.sql"),
    include_str!("../migrations/V0005__ids_by_queue.sql"),
    include_str!("../migrations/V0006__prune_events.sql"),
    include_str!("../migrations/V0007__calls_by_state.sql"),
];
const UPSTREAMS: &str = include_str!("../migrations/V0008__upstreams.sql");

/// The statements with which the build before looks for lines, claims them, and opens a lane again. It
/// knows no upstream.
const OLD_STATEMENTS: [&str; 5] = [
    include_str!("older/pick_lane.sql"),
    include_str!("older/pick_lane_of_batch.sql"),
    include_str!("older/waiting.sql"),
    include_str!("older/waiting_of_batch.sql"),
    include_str!("older/settle.sql"),
];

/// What the URLs of runs become; none for batches that were no run.
const LANES: [(&str, Option<&str>, &str); 7] = [
    ("run", Some("http://127.0.0.1:8000/"), "http://127.0.0.1:8000"),
    ("run", Some("http://host/"), "http://host:80"),
    ("run", Some("https://host/v1/"), "https://host:443/v1"),
    ("run", Some("https://host:8443/v1/x"), "https://host:8443/v1/x"),
    ("run", Some("http://[::1]/a"), "http://[::1]:80/a"),
    ("run", None, "?"),
    ("ingest", Some("http://host/"), "?"),
];

#[test]
fn what_was_begun_goes_where_it_was_meant_to_and_older_builds_claim_nothing() {
    let conn = Connection::open_in_memory().unwrap();
    for migration in BEFORE {
        conn.execute_batch(migration).unwrap();
    }
    for (no, (job_type, to, _)) in (1_u8..).zip(LANES) {
        let metadata = to.map_or("{}".to_owned(), |to| format!("{{\"to\":\"{to}\"}}"));
        let batch = (no.to_be_bytes(), job_type, metadata);
        let insert = "INSERT INTO batches
                (id, file_id, owner, endpoint, state, priority, job_type, metadata, created_at)
             VALUES (?1, ?1, 'ada', '/', 'in_progress', 0, ?2, ?3, 0)";
        conn.execute(insert, batch).unwrap();
        let lane = "INSERT INTO batch_lanes
                (batch_id, lane, target, owner, file_id, priority, due, created_at, phase, ready_at, total)
             VALUES (?1, 0, 'm', 'ada', ?1, 0, 0, 0, 'open', 0, 1)";
        conn.execute(lane, [no.to_be_bytes()]).unwrap();
    }
    // Prepared before, as a process that runs has them.
    let mut running: Vec<_> = OLD_STATEMENTS.map(|text| conn.prepare(text).unwrap()).into();
    conn.execute_batch(UPSTREAMS).unwrap();

    let mut lanes = conn.prepare("SELECT upstream FROM batch_lanes ORDER BY batch_id").unwrap();
    let lanes: Vec<String> =
        lanes.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(lanes, LANES.map(|(_, _, upstream)| upstream));

    for (statement, text) in running.iter_mut().zip(OLD_STATEMENTS) {
        for no in 1..=statement.parameter_count() {
            statement.raw_bind_parameter(no, "[\"m\"]").unwrap();
        }
        let error = statement.raw_query().next().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("no such column"), "{error}\n{text}");
    }
}
