//! Instances are killed while clients give up and ask again; then every cent is looked for.

use std::collections::BTreeMap;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;
use windrow::domain::{CallState, Stream};
use windrow::engine::messages::{CallOutcome, Client};
use windrow::store::call::CallsQuery;
use windrow::store::{MessageStore, Scope};

use crate::Args;
use crate::place::{Place, ask, owner, start};
use crate::wallet::{Ask, Balance};

const WALLETS: usize = 20;
const CLIENTS: usize = 8;
const FIRST_CENTS: u64 = 1_000;
/// Longest wait for everything to settle once nobody is killed any more.
const SETTLE: Duration = Duration::from_secs(60);

/// An instance, until its standard input ends with its parent.
pub(crate) async fn serve(place: &Place) -> Result<()> {
    let runner = start(place.open().await?).await?;
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().lines().count());
    ended.await?;
    runner.stop().await;
    Ok(())
}

/// One thing that a client asked, with the answer it got.
struct Asked {
    id: String,
    wallet: String,
    ask: Ask,
    outcome: CallOutcome,
}

fn name(wallet: usize) -> String {
    format!("w{wallet}")
}

pub(crate) async fn run(place: &Place, args: &Args) -> Result<ExitCode> {
    let store = place.open().await?;
    let run = format!("{:x}", std::process::id());
    let mut herd = Instances::start(args, place)?;
    let client = Client::new(Arc::clone(&store));
    wait_for_set_up(&client).await?;
    let until = Instant::now() + Duration::from_secs(args.secs);
    let tally = Arc::new(Tally::default());
    let mut clients = JoinSet::new();
    for no in 0..CLIENTS {
        let mut dice = fastrand::Rng::with_seed(args.seed ^ (no as u64 + 1));
        let (client, tally) = (client.clone(), Arc::clone(&tally));
        let prefix = format!("{run}-{no}");
        clients.spawn(async move { visit(&client, &prefix, &mut dice, until, &tally).await });
    }
    let killed = herd.kill_until(until, fastrand::Rng::with_seed(args.seed)).await?;
    let mut asked = Vec::new();
    while let Some(done) = clients.join_next().await {
        asked.extend(done??);
    }
    let settled = settle(&*store).await;
    let verdict = match settled {
        Ok(()) => check(&client, &*store, &asked).await,
        Err(late) => Err(late),
    };
    herd.stop();
    println!(
        "{} calls, {} given up half way and repeated, {killed} instances killed",
        asked.len(),
        tally.gave_up.load(Ordering::Relaxed),
    );
    match verdict {
        Ok(cents) => {
            println!("all {cents} cents are there, and every repeated call got the same answer");
            Ok(ExitCode::SUCCESS)
        }
        Err(wrong) => {
            eprintln!("WRONG: {wrong:#}");
            Ok(ExitCode::FAILURE)
        }
    }
}

#[derive(Default)]
struct Tally {
    gave_up: AtomicU64,
}

async fn wait_for_set_up(client: &Client) -> Result<()> {
    for _ in 0..300 {
        if client.store().setup().await?.is_some() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("no instance came up within 30 s")
}

/// Asks until the time is up, and keeps what was answered.
async fn visit(
    client: &Client,
    prefix: &str,
    dice: &mut fastrand::Rng,
    until: Instant,
    tally: &Tally,
) -> Result<Vec<Asked>> {
    let mut asked = Vec::new();
    while Instant::now() < until {
        let id = format!("{prefix}-{}", asked.len());
        let (wallet, to) = (name(dice.usize(..WALLETS)), name(dice.usize(..WALLETS)));
        let cents = dice.u64(1..100);
        let ask = match dice.u8(..10) {
            0..2 => Ask::Deposit { cents: FIRST_CENTS },
            2..3 => Ask::Withdraw { cents },
            _ => Ask::Transfer { to, cents },
        };
        let outcome = insist(client, &id, &wallet, &ask, dice, tally).await?;
        asked.push(Asked { id, wallet, ask, outcome });
    }
    Ok(asked)
}

/// Gives up after a random moment, and asks again under the same id, until there is an answer.
async fn insist(
    client: &Client,
    id: &str,
    wallet: &str,
    call: &Ask,
    dice: &mut fastrand::Rng,
    tally: &Tally,
) -> Result<CallOutcome> {
    loop {
        let patience = Duration::from_millis(dice.u64(1..400));
        match tokio::time::timeout(patience, ask(client, id, wallet, call)).await {
            Ok(Ok(outcome @ (CallOutcome::Reply(_) | CallOutcome::Failed(_)))) => {
                return Ok(outcome);
            }
            Ok(Ok(CallOutcome::Expired)) => bail!("call {id} has expired"),
            // Busy, or cut off: what was written is found under the id.
            Ok(Err(_) | Ok(CallOutcome::Pending)) | Err(_) => {
                tally.gave_up.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Until no call is on its way: transfers ask the other wallet.
async fn settle(store: &dyn MessageStore) -> Result<()> {
    let late = Instant::now() + SETTLE;
    let states = vec![CallState::Pending, CallState::Processing];
    while Instant::now() < late {
        let query = CallsQuery { states: states.clone(), limit: 1, ..CallsQuery::default() };
        if store.calls(&Scope::Owner(owner()), query).await?.rows.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("calls were still on their way after {} s", SETTLE.as_secs())
}

/// Every answer once more, every balance against what was answered, and every event.
async fn check(client: &Client, store: &dyn MessageStore, asked: &[Asked]) -> Result<u64> {
    let mut expected: BTreeMap<String, (i64, u64)> = BTreeMap::new();
    for Asked { id, wallet, ask: question, outcome } in asked {
        let again = ask(client, id, wallet, question).await?;
        anyhow::ensure!(again == *outcome, "call {id} gave {outcome:?} and then {again:?}");
        if let CallOutcome::Reply(_) = outcome {
            for (wallet, cents) in moved(wallet, question) {
                let entry = expected.entry(wallet).or_default();
                *entry = (entry.0 + cents, entry.1 + 1);
            }
        }
    }
    let mut total = 0;
    for (wallet, (cents, changes)) in &expected {
        let id = format!("check-{}-{wallet}", std::process::id());
        let CallOutcome::Reply(reply) = ask(client, &id, wallet, &Ask::Balance).await? else {
            bail!("wallet {wallet} has no balance");
        };
        let balance: Balance = serde_json::from_slice(&reply)?;
        let found = i64::try_from(balance.cents)?;
        anyhow::ensure!(found == *cents, "wallet {wallet} has {found} cents, not {cents}");
        let stream = Stream::new(format!("wallet/{wallet}"))?;
        let version = store.stream_version(&owner(), &stream).await?;
        anyhow::ensure!(
            version == *changes,
            "wallet {wallet} tells of {version} changes, and {changes} were answered"
        );
        total += balance.cents;
    }
    Ok(total)
}

/// What a question that was granted does to which wallets.
fn moved(wallet: &str, ask: &Ask) -> Vec<(String, i64)> {
    let signed = |cents: &u64| i64::try_from(*cents).expect("small sums");
    match ask {
        Ask::Deposit { cents } | Ask::Credit { cents } => vec![(wallet.to_owned(), signed(cents))],
        Ask::Withdraw { cents } => vec![(wallet.to_owned(), -signed(cents))],
        Ask::Transfer { to, cents } => {
            vec![(wallet.to_owned(), -signed(cents)), (to.clone(), signed(cents))]
        }
        Ask::Balance => Vec::new(),
    }
}

/// The instances, as processes that can be killed.
struct Instances {
    program: std::path::PathBuf,
    place: Place,
    children: Vec<Child>,
}

impl Instances {
    fn start(args: &Args, place: &Place) -> Result<Self> {
        let program = std::env::current_exe().context("the program's own path")?;
        let mut herd = Self { program, place: place.clone(), children: Vec::new() };
        for _ in 0..args.instances.max(1) {
            let child = herd.spawn()?;
            herd.children.push(child);
        }
        Ok(herd)
    }

    fn spawn(&self) -> Result<Child> {
        let mut command = Command::new(&self.program);
        command.arg("--instance").stdin(Stdio::piped());
        match &self.place {
            Place::File(path) => command.arg("--file").arg(path),
            Place::Url(url) => command.args(["--database", url]),
        };
        command.spawn().context("starting an instance")
    }

    /// Kills one after another, and starts a new one for each.
    async fn kill_until(&mut self, until: Instant, mut dice: fastrand::Rng) -> Result<u64> {
        let mut killed = 0;
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(dice.u64(500..1_500))).await;
            let victim = dice.usize(..self.children.len());
            self.children[victim].kill()?;
            self.children[victim].wait()?;
            killed += 1;
            let child = self.spawn()?;
            self.children[victim] = child;
        }
        Ok(killed)
    }

    fn stop(&mut self) {
        for child in &mut self.children {
            drop(child.stdin.take());
        }
        for child in &mut self.children {
            let _gone = child.wait();
        }
    }
}

impl Drop for Instances {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _gone = child.kill();
        }
    }
}
