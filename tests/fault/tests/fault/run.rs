//! `windrow run` over a file, with what it leaves behind.

use std::fs;
use std::path::PathBuf;

use windrow::store::Scope;
use windrow::store::inspect::BatchesQuery;
use windrow_fault::check::Ended;
use windrow_fault::{Backend, Fixture, Program, input, program};
use windrow_testkit::upstream::{Script, Upstream};

use crate::WITHIN;

/// A run over a file, and where its results go.
pub(crate) struct Run {
    fixture: Fixture,
    pub(crate) upstream: Upstream,
    lines: u64,
    input: PathBuf,
    pub(crate) results: PathBuf,
    errors: PathBuf,
    has_usual_bounds: bool,
}

impl Run {
    pub(crate) async fn new(backend: Backend, script: Script, lines: u64) -> Self {
        let fixture = Fixture::on(backend).await;
        let upstream = Upstream::start(script).await.unwrap();
        let input = fixture.folder().join("in.jsonl");
        fs::write(&input, input::text(lines)).unwrap();
        let bounds = "first_byte_ms_max = 1000\nidle_ms_max = 500\ntotal_ms_max = 20000\n\
                      breaker_open_ms_min = 200\nbreaker_open_ms_max = 500\n";
        let config = format!(
            "[upstreams.default]\nbase_url = \"{}\"\nnot_found_statuses = [404]\n{bounds}",
            upstream.url()
        );
        fs::write(fixture.folder().join("windrow.toml"), config).unwrap();
        let (results, errors) = ("out.jsonl", "out.errors.jsonl");
        let (results, errors) = (fixture.folder().join(results), fixture.folder().join(errors));
        Self { fixture, upstream, lines, input, results, errors, has_usual_bounds: false }
    }

    /// Leases, heartbeats and timeouts as they are by default, in place of the short ones of these tests.
    pub(crate) fn with_usual_bounds(&mut self) {
        let config = format!("[upstreams.default]\nbase_url = \"{}\"\n", self.upstream.url());
        fs::write(self.fixture.folder().join("windrow.toml"), config).unwrap();
        self.has_usual_bounds = true;
    }

    pub(crate) fn start(&self, name: &str) -> Program {
        let url = self.upstream.url();
        let mut command = program::run(&self.fixture, &self.input, &url, &self.results);
        // Faults come by number here, and a line may meet many of them.
        command.env("WINDROW_MAX_ATTEMPTS_ERROR", "50");
        if self.has_usual_bounds {
            for name in ["WINDROW_LOCK_FLOOR_MS", "WINDROW_HEARTBEAT_MS", "WINDROW_MEMBER_STALE_MS"]
            {
                command.env_remove(name);
            }
        }
        Program::start(&self.fixture, name, command)
    }

    /// Waits for its end with that code, and checks all that it promises. Each crash may have cost a
    /// line one more request.
    pub(crate) async fn end(&self, program: &mut Program, code: i32, crashes: u64) -> Ended {
        let status = program.ended(WITHIN).await;
        assert_eq!(status.code(), Some(code), "{}", program.said());
        let query = BatchesQuery { limit: 10, ..BatchesQuery::default() };
        let batches = self.fixture.store().batches(&Scope::All, query).await.unwrap().rows;
        assert_eq!(batches.len(), 1, "one command makes one batch");
        let ended = Ended::check(&self.fixture, batches[0].id, self.lines, crashes).await;
        let errors = self.errors.is_file().then_some(self.errors.as_path());
        ended.check_files(Some(&self.results), errors);
        ended.check_upstream(&self.upstream, crashes);
        ended
    }
}
