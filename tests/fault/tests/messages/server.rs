//! PostgreSQL goes away in the middle of it.

use std::time::Duration;

use tokio::task::block_in_place;
use windrow_fault::instance::Bounds;
use windrow_fault::{Fixture, rounds, wait};
use windrow_testkit::postgres::{Cluster, Options, Shutdown};

use crate::history;
use crate::instances::Instances;
use crate::writers::Writers;

const BOUNDS: Bounds = Bounds { heartbeat_ms: 200, stale_ms: 1_000, attempts_max: 1000 };
const WORK: Duration = Duration::from_secs(2);
/// Long enough for everybody to be silent for too long.
const AWAY: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_loses_no_message_and_doubles_none() {
    let options = Options { durable: true, connections_max: 150, ..Options::default() };
    let mut cluster = block_in_place(|| Cluster::start(&options)).unwrap();
    let fixture = Fixture::at(cluster.url()).await;
    history::record(&fixture).await;
    let mut instances = Instances::start(&fixture, 3, BOUNDS).await;
    let mut writers = Writers::start(fixture.database(), fixture.database(), 1).await;
    for how in [Shutdown::Immediate, Shutdown::Fast, Shutdown::Immediate].repeat(rounds(1, 5)) {
        wait::pause(WORK).await;
        block_in_place(|| cluster.stop(how));
        wait::pause(AWAY).await;
        block_in_place(|| cluster.start_again()).unwrap();
    }
    wait::pause(WORK).await;
    let written = writers.finish().await;
    history::settle(fixture.store()).await;
    instances.all_run();
    println!("{} sends repeated", written.repeats);
    history::check(&fixture, &written.streams).await;
    writers.check_read(&written).await;
}
