//! What the doctor says of messages: does what runs fit the configuration, and does anything need a
//! hand?

use std::time::Duration;

use serde::Serialize;
use windrow::prelude::*;
use windrow::store::call::StatsQuery;
use windrow::store::message::Backlog;
use windrow::store::partition::Setup;

use super::user_error;
use crate::config::Config;
use crate::exit_code::Exit;
use crate::text;

/// How far back calls are looked at.
const WINDOW_MS: u64 = 3_600_000;
/// From when on a call without an answer is stuck.
const OLD_MS: u64 = 60_000;

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Health {
    /// How messages are run; none when nobody has run them.
    setup: Option<Setup>,
    /// How much waits.
    backlog: Vec<Backlog>,
    /// What needs a hand.
    look: Vec<String>,
    /// What contradicts itself.
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
                let what = "messages are configured, and nobody has run them on this database yet";
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
            let what = format!("{dead} dead letters: `windrow dead-letters --all` says why");
            health.look.push(what);
        }
        health.calls(store).await?;
        Ok(health)
    }

    /// How the command ends because of it.
    pub(crate) fn exit_code(&self) -> Exit {
        match (self.wrong.is_empty(), self.is_misconfigured) {
            (false, _) => Exit::Contradiction,
            (true, true) => Exit::Config,
            (true, false) => Exit::Success,
        }
    }

    /// For people; nothing when there is nothing to say.
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

    /// Only a configuration that would run messages has something to say about how they are run.
    fn compare(&mut self, config: &Config, setup: &Setup) {
        if config.tables.is_empty() {
            return;
        }
        let partitions = config.bounds.messages.partitions;
        if (setup.service.as_str(), setup.partitions) != (config.service.as_str(), partitions) {
            self.is_misconfigured = true;
            self.look.push(format!(
                "they are run by service {:?} with {} partitions, and this configuration says \
                 {:?} with {partitions}",
                setup.service, setup.partitions, config.service
            ));
        }
        let mut types: Vec<&str> =
            config.tables.objects.iter().map(|(name, _)| name.as_str()).collect();
        types.sort_unstable();
        if setup.object_types != types {
            self.look.push(format!(
                "those who run them have the object types [{}], and this configuration [{}]",
                setup.object_types.join(", "),
                types.join(", ")
            ));
        }
        let lifecycle = !config.tables.publish.is_empty();
        if setup.lifecycle != lifecycle {
            let what = match lifecycle {
                true => {
                    "this configuration has publishers, and nobody who runs them had any when the \
                     last of them started: what happens to batches does not go out"
                }
                false => {
                    "what happens to batches goes out as messages, and this configuration has no \
                     publisher for them"
                }
            };
            self.look.push(what.to_owned());
        }
    }

    async fn partitions(&mut self, store: &dyn Store, setup: &Setup) -> anyhow::Result<()> {
        let partitions = store.partitions().await.map_err(user_error)?;
        if partitions.len() != usize::from(setup.partitions) {
            self.wrong.push(format!(
                "there are {} partitions, and {} were set up",
                partitions.len(),
                setup.partitions
            ));
        }
        let free = partitions.iter().filter(|partition| !partition.is_owner_live).count() as u64;
        if free > 0 {
            let free = text::count(free);
            let what =
                format!("nobody runs {free} partitions: start `windrow serve` or `windrow work`");
            self.look.push(what);
        }
        let suspect = partitions.iter().filter(|partition| partition.is_suspect).count() as u64;
        if suspect > 0 {
            let suspect = text::count(suspect);
            self.look.push(format!("{suspect} partitions were left by one that died"));
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
            self.look.push(format!("{pending} calls have waited for more than {old}"));
        }
        Ok(())
    }
}
