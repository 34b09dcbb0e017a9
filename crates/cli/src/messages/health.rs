//! What `windrow doctor` checks of messages: the set-up against the configuration, and what needs
//! attention.

use std::time::Duration;

use serde::Serialize;
use windrow::store::call::StatsQuery;
use windrow::store::message::Backlog;
use windrow::store::partition::Setup;
use windrow::store::{Scope, Store};

use super::user_error;
use crate::config::Config;
use crate::exit_code::Exit;
use crate::text;

/// The window of time for call statistics.
const WINDOW_MS: u64 = 3_600_000;
/// Age from which a call without a reply is stuck.
const OLD_MS: u64 = 60_000;

/// What was found; serialised for `--json`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Health {
    /// How messages are run; none when they never were.
    setup: Option<Setup>,
    /// How many messages wait, by queue.
    backlog: Vec<Backlog>,
    /// What needs attention.
    look: Vec<String>,
    /// Inconsistencies.
    wrong: Vec<String>,
    #[serde(skip)]
    is_misconfigured: bool,
}

impl Health {
    /// Looks at everything.
    pub(crate) async fn look(config: &Config, store: &dyn Store) -> anyhow::Result<Self> {
        let mut health =
            Self { setup: store.setup().await.map_err(user_error)?, ..Self::default() };
        let Some(setup) = health.setup.clone() else {
            if !config.tables.is_empty() {
                let what = "messages are configured, but were never run on this database";
                health.look.push(what.to_owned());
            }
            return Ok(health);
        };
        health.compare(config, &setup);
        health.partitions(store, &setup).await?;
        health.backlog = store.backlog().await.map_err(user_error)?;
        let dead: u64 = health.backlog.iter().map(|queue| queue.dead).sum();
        if dead > 0 {
            let dead = text::count(dead);
            let what = format!("{dead} dead letters: `windrow dead-letters --all` lists them");
            health.look.push(what);
        }
        health.calls(store).await?;
        Ok(health)
    }

    /// The exit code that follows from it.
    pub(crate) fn exit_code(&self) -> Exit {
        match (self.wrong.is_empty(), self.is_misconfigured) {
            (false, _) => Exit::Contradiction,
            (true, true) => Exit::Config,
            (true, false) => Exit::Success,
        }
    }

    /// As lines of text; none when there is nothing to report.
    pub(crate) fn output(&self) -> Vec<String> {
        let wrong = self.wrong.iter().map(|what| format!("WRONG  messages: {what}"));
        let look = self.look.iter().map(|what| format!("look   messages: {what}"));
        let waiting: u64 = self.backlog.iter().map(|queue| queue.messages).sum();
        let well = self.setup.as_ref().map(|setup| {
            format!(
                "messages: service {}, {} partitions, {} messages wait.",
                setup.service,
                text::count(setup.partitions.into()),
                text::count(waiting)
            )
        });
        wrong.chain(look).chain(well).collect()
    }

    /// Compares the set-up with the configuration, if that would run messages.
    fn compare(&mut self, config: &Config, setup: &Setup) {
        if config.tables.is_empty() {
            return;
        }
        let partitions = config.bounds.messages.partitions;
        if (setup.service.as_str(), setup.partitions) != (config.service.as_str(), partitions) {
            self.is_misconfigured = true;
            self.look.push(format!(
                "the database has service {:?} with {} partitions, but this configuration has \
                 {:?} with {partitions}",
                setup.service, setup.partitions, config.service
            ));
        }
        let mut types: Vec<&str> =
            config.tables.objects.iter().map(|(name, _)| name.as_str()).collect();
        types.sort_unstable();
        if setup.object_types != types {
            self.look.push(format!(
                "running processes have the object types [{}], but this configuration has [{}]",
                setup.object_types.join(", "),
                types.join(", ")
            ));
        }
        let lifecycle = !config.tables.publish.is_empty();
        if setup.lifecycle != lifecycle {
            let what = if lifecycle {
                "this configuration has publishers, but the process that started last had none: \
                     messages about batches are not sent"
            } else {
                "messages about batches are sent, but this configuration has no publisher for them"
            };
            self.look.push(what.to_owned());
        }
    }

    async fn partitions(&mut self, store: &dyn Store, setup: &Setup) -> anyhow::Result<()> {
        let partitions = store.partitions().await.map_err(user_error)?;
        if partitions.len() != usize::from(setup.partitions) {
            self.wrong.push(format!(
                "there are {} partitions, but {} were set up",
                partitions.len(),
                setup.partitions
            ));
        }
        let free = partitions.iter().filter(|partition| !partition.is_owner_live).count() as u64;
        if free > 0 {
            let free = text::count(free);
            let what = format!(
                "{free} partitions have no live owner: start `windrow serve` or `windrow work`"
            );
            self.look.push(what);
        }
        let suspect = partitions.iter().filter(|partition| partition.is_suspect).count() as u64;
        if suspect > 0 {
            let suspect = text::count(suspect);
            self.look.push(format!("{suspect} partitions belonged to a process that died"));
        }
        Ok(())
    }

    async fn calls(&mut self, store: &dyn Store) -> anyhow::Result<()> {
        let query = StatsQuery { window_ms: WINDOW_MS, old_ms: OLD_MS };
        let stats = store.call_stats(&Scope::All, query).await.map_err(user_error)?;
        let old = text::long_time(Duration::from_millis(OLD_MS));
        if stats.stuck > 0 {
            let stuck = text::count(stats.stuck);
            let what = format!(
                "{stuck} calls have run for more than {old}: `windrow calls --stuck --all`"
            );
            self.look.push(what);
        }
        if stats.pending_old > 0 {
            let pending = text::count(stats.pending_old);
            self.look.push(format!("{pending} calls have been pending for more than {old}"));
        }
        Ok(())
    }
}
