//! What `windrow doctor` checks of messages: the set-up against the configuration, and what needs
//! attention.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use windrow::store::call::StatsQuery;
use windrow::store::message::Backlog;
use windrow::store::partition::{Serving, Setup};
use windrow::store::{Scope, Store};

use super::user_error;
use crate::config::Config;
use crate::exit_code::Exit;
use crate::{hint, text};

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
    /// Reads what `windrow doctor` says about messages.
    pub(crate) async fn read(config: &Config, store: &dyn Store) -> anyhow::Result<Self> {
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
        health.members(store, &setup).await?;
        health.backlog = store.backlog().await.map_err(user_error)?;
        let dead: u64 = health.backlog.iter().map(|queue| queue.dead).sum();
        if dead > 0 {
            let list = hint::command(&["dead-letters", "--all"]);
            let what = format!("{}: {list}", text::plural(dead, "dead letter"));
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
                "messages: service {}, {}, {} waiting.",
                setup.service,
                text::plural(setup.partitions.into(), "partition"),
                text::plural(waiting, "message")
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
            let what = format!(
                "{} without a live owner. To start one: {}",
                text::plural(free, "partition"),
                hint::command(&["work"])
            );
            self.look.push(what);
        }
        let suspect = partitions.iter().filter(|partition| partition.is_suspect).count() as u64;
        if suspect > 0 {
            let suspect = text::plural(suspect, "partition");
            self.look.push(format!("{suspect} of a process that died"));
        }
        Ok(())
    }

    /// Compares what the live processes serve: messages that only some of them take wait while another one
    /// owns their partition.
    async fn members(&mut self, store: &dyn Store, setup: &Setup) -> anyhow::Result<()> {
        let members = store.members().await.map_err(user_error)?;
        let live = members
            .iter()
            .filter(|member| member.tombstoned_at.is_none() && member.service == setup.service);
        let live: Vec<(String, BTreeSet<String>)> = live
            .filter_map(|member| {
                let name = format!("{} (pid {})", member.host, member.pid);
                Some((name, served(&Serving::of(&member.metadata)?)))
            })
            .collect();
        let all: BTreeSet<&String> = live.iter().flat_map(|(_, serves)| serves).collect();
        for what in all {
            let (with, without): (Vec<_>, Vec<_>) =
                live.iter().partition(|(_, serves)| serves.contains(what));
            if !without.is_empty() {
                self.look.push(format!(
                    "{what} is served by {}, but not by {}, where its messages wait: give all processes the \
                     same configuration",
                    names(&with),
                    names(&without)
                ));
            }
        }
        Ok(())
    }

    async fn calls(&mut self, store: &dyn Store) -> anyhow::Result<()> {
        let query = StatsQuery { window_ms: WINDOW_MS, old_ms: OLD_MS };
        let stats = store.call_stats(&Scope::All, query).await.map_err(user_error)?;
        let old = text::long_time(Duration::from_millis(OLD_MS));
        if stats.stuck > 0 {
            let list = hint::command(&["calls", "--stuck", "--all"]);
            let what = format!(
                "{} running for more than {old}: {list}",
                text::plural(stats.stuck, "call")
            );
            self.look.push(what);
        }
        if stats.pending_old > 0 {
            let pending = text::plural(stats.pending_old, "call");
            self.look.push(format!("{pending} pending for more than {old}"));
        }
        Ok(())
    }
}

/// Most processes that a line names.
const NAMED_MAX: usize = 5;

fn names(members: &[&(String, BTreeSet<String>)]) -> String {
    let shown: Vec<&str> = members.iter().take(NAMED_MAX).map(|(name, _)| name.as_str()).collect();
    match members.len().saturating_sub(NAMED_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// What a process serves, in words.
fn served(serving: &Serving) -> BTreeSet<String> {
    let types = serving.object_types.iter().map(|name| format!("object type {name}"));
    let consumers = serving.consumers.iter().map(|route| format!("inbox handler {}", route.name));
    let publishers = serving.publishers.iter().map(|route| format!("publisher {}", route.name));
    types.chain(consumers).chain(publishers).collect()
}
