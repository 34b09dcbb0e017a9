//! Membership: this instance sends heartbeats, says what it serves, takes its share of the partitions, and
//! gives back what belongs to other instances.
//!
//! Holds throughout: a partition is given back only when nothing runs in it; an id that was tombstoned
//! is never used again, and an instance that joins under a new id holds nothing; this instance
//! buries members of its own service that run messages, and no others, since those have bounds of their
//! own: at once when their lock proves that they are dead, and those that it observed to be silent for
//! long enough; what this instance serves is set up after every join, since it is not kept
//! for an instance that was taken for dead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::mpsc;
use windrow_domain::millis;
use windrow_domain::partition::{Sharer, share};
use windrow_domain::{InstanceId, PartitionNo};
use windrow_store::member::{Evidence, Member, NewMember};
use windrow_store::partition::{Fence, Serving, Setup};
use windrow_store::{Kind, Result};

use crate::liveness::{Liveness, SilenceWatch};
use crate::member::host;
use crate::signal::Stop;
use windrow_store::error::chain;

use super::event_loop::Command;
use super::gauges::{count, set};
use super::runner::RunnerDeps;

/// The duty of the instance that looks for silent members.
const DUTY: &str = "messages.members";
/// Longest wait for partitions that another instance is to give back.
const UNSETTLED_MS_MAX: u64 = 500;

/// The membership of this instance.
pub(super) struct PartitionMembership {
    deps: Arc<RunnerDeps>,
    commands: mpsc::Sender<Command>,
    drained: mpsc::Receiver<Fence>,
    owned: BTreeMap<PartitionNo, Fence>,
    draining: BTreeSet<PartitionNo>,
    /// Partitions that were to be taken or given back, and it is unknown whether they were.
    unsure: BTreeSet<PartitionNo>,
    silence: SilenceWatch,
    liveness: Liveness,
    /// What dead processes left on this machine was removed since this one began.
    is_cleaned_up: bool,
    alarm: Alarm,
    /// What this instance serves was set up since it joined.
    is_set_up: bool,
    beat_at: u64,
    is_settled: bool,
}

impl PartitionMembership {
    pub(super) fn new(
        deps: Arc<RunnerDeps>,
        commands: mpsc::Sender<Command>,
        drained: mpsc::Receiver<Fence>,
    ) -> Self {
        let silence = SilenceWatch::new(deps.options.heartbeat_every, deps.options.stale_after);
        let liveness = Liveness::new(deps.options.live_folder.clone());
        Self {
            deps,
            commands,
            drained,
            owned: BTreeMap::new(),
            draining: BTreeSet::new(),
            unsure: BTreeSet::new(),
            silence,
            liveness,
            is_cleaned_up: false,
            alarm: Alarm::default(),
            is_set_up: false,
            beat_at: 0,
            is_settled: false,
        }
    }

    /// Joins, and sets up what this instance serves: after joining, so that no later set-up of another
    /// instance takes it away.
    pub(super) async fn join(&mut self) -> Result<()> {
        let serving = self.serving();
        self.is_set_up = false;
        let instance = self.deps.notifier.instance();
        let member = NewMember {
            instance,
            service: self.deps.service.clone(),
            host: host(),
            pid: std::process::id(),
            metadata: serving.to_metadata(),
            // Held before anybody can ask for it.
            lock: self.liveness.hold(instance),
        };
        self.deps.store.register(member).await?;
        self.set_up(serving).await
    }

    fn serving(&self) -> Serving {
        let RunnerDeps { registry, options, .. } = &*self.deps;
        Serving {
            object_types: registry.object_types(),
            lifecycle: options.lifecycle,
            own_max: options.own_max,
            consumers: registry.served_consumers(),
            publishers: registry.routes.served(),
        }
    }

    async fn set_up(&mut self, serving: Serving) -> Result<()> {
        let Serving { object_types, lifecycle, .. } = serving;
        let (service, partitions) = (self.deps.service.clone(), self.deps.options.partitions);
        self.deps.store.set_up(Setup { service, partitions, object_types, lifecycle }).await?;
        self.is_set_up = true;
        Ok(())
    }

    /// Keeps the membership until `leave` is given, then gives everything back and leaves. From `stop`
    /// on nothing is taken any more.
    pub(super) async fn run(mut self, stop: &Stop, leave: &Stop) {
        let deps = self.deps.clone();
        let mut verify = false;
        loop {
            let round = if stop.is_given() {
                self.last_round(verify).await
            } else {
                self.round(verify).await
            };
            match round {
                Ok(()) => verify = false,
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "the partitions were not checked");
                    self.silence.interrupt();
                    self.is_settled = false;
                }
            }
            let heartbeat_ms = millis(deps.options.heartbeat_every);
            let unsettled_ms = heartbeat_ms.min(UNSETTLED_MS_MAX);
            let wait_ms = if self.is_settled { heartbeat_ms } else { unsettled_ms };
            let next = deps.clock.millis().saturating_add(wait_ms);
            tokio::select! {
                () = deps.clock.sleep_until(next) => {}
                () = deps.notifier.verify_ownership.given() => verify = true,
                Some(fence) = self.drained.recv() => self.release(fence).await,
                () = leave.given() => break,
            }
        }
        // A database that is gone is not waited for: others see the silence.
        let grace = deps.options.grace;
        tokio::select! {
            () = self.leave() => {}
            () = deps.clock.sleep(grace) => tracing::warn!("the runner could not leave; other instances take over after a while"),
        }
    }

    /// One round: heartbeat, live members, shares.
    async fn round(&mut self, verify: bool) -> Result<()> {
        self.beat_in_time(verify).await?;
        let mut live = self.live().await?;
        if !live.iter().any(|one| one.instance == self.deps.notifier.instance()) {
            self.rejoin().await?;
            let (instance, own_max) = (self.deps.notifier.instance(), self.deps.options.own_max);
            live.push(Sharer { instance, own_max });
        }
        if !self.is_set_up {
            self.set_up(self.serving()).await?;
        }
        let me = self.deps.notifier.instance();
        let share = share(self.deps.options.partitions, &live, me);
        set(&self.deps.counters.partitions_unowned, share.unowned.into());
        self.alarm.observe(share.unowned, &live);
        let mine: BTreeSet<PartitionNo> = share.mine.into_iter().collect();
        self.take(&mine, verify).await?;
        let surplus = self.owned.keys().filter(|no| !mine.contains(no));
        let surplus: Vec<PartitionNo> =
            surplus.filter(|no| !self.draining.contains(no)).copied().collect();
        if !surplus.is_empty() {
            self.draining.extend(&surplus);
            self.tell(Command::Drain(surplus)).await;
        }
        self.is_settled = self.draining.is_empty()
            && self.unsure.is_empty()
            && self.owned.len() == mine.len()
            && mine.iter().all(|no| self.owned.contains_key(no));
        Ok(())
    }

    /// One round while everything ends: heartbeat, and what is left is still ours. Other instances take
    /// what was given back.
    async fn last_round(&mut self, verify: bool) -> Result<()> {
        self.beat_in_time(verify).await?;
        if verify {
            self.take(&BTreeSet::new(), verify).await?;
        }
        self.is_settled = true;
        Ok(())
    }

    async fn beat_in_time(&mut self, verify: bool) -> Result<()> {
        let now = self.deps.clock.millis();
        let is_time = now.saturating_sub(self.beat_at) >= millis(self.deps.options.heartbeat_every);
        if verify || is_time || self.beat_at == 0 {
            self.beat().await?;
            self.beat_at = now;
        }
        Ok(())
    }

    async fn beat(&mut self) -> Result<()> {
        let Err(error) = self.deps.store.heartbeat(self.deps.notifier.instance()).await else {
            return Ok(());
        };
        match error.kind {
            Kind::LeaseLost | Kind::Missing => self.rejoin().await,
            _ => Err(error),
        }
    }

    /// Another instance took this one for dead.
    async fn rejoin(&mut self) -> Result<()> {
        let instance = InstanceId::new();
        tracing::warn!(%instance, "this runner was taken for dead; it joins again under a new id");
        count(&self.deps.counters.lease_losses);
        self.deps.notifier.set_instance(instance);
        self.owned.clear();
        self.draining.clear();
        self.unsure.clear();
        self.tell(Command::Reset).await;
        self.join().await
    }

    /// The live members that run messages of this service, after dead ones were buried.
    async fn live(&mut self) -> Result<Vec<Sharer>> {
        let (deps, me) = (self.deps.clone(), self.deps.notifier.instance());
        let members = deps.store.members().await?;
        let is_ours =
            |member: &&Member| member.tombstoned_at.is_none() && member.service == deps.service;
        // Other parts of a process may have joined under the same name.
        let own_max = |member: &Member| Some(Serving::of(&member.metadata)?.own_max);
        let ours = members.iter().filter(is_ours);
        let live: Vec<(&Member, u16)> =
            ours.filter_map(|member| Some((member, own_max(member)?))).collect();
        let others = live.iter().map(|(member, _)| *member).filter(|one| one.instance != me);
        let others: Vec<&Member> = others.collect();
        let dead = self.liveness.bury_dead(&*deps.store, &others).await?;
        let living = others.iter().copied().filter(|member| !dead.contains(&member.instance));
        let silent = self.silence.observe(deps.clock.millis(), living);
        let sharer = |(member, own_max): &(&Member, u16)| Sharer {
            instance: member.instance,
            own_max: *own_max,
        };
        let mut live: Vec<Sharer> = live.iter().map(sharer).collect();
        live.retain(|one| !dead.contains(&one.instance));
        if !std::mem::replace(&mut self.is_cleaned_up, true) {
            self.liveness.remove_leftovers(&members);
        }
        let lease_ms = millis(deps.options.heartbeat_every).saturating_mul(2).max(1000);
        if !silent.is_empty() && deps.store.take_duty(me, DUTY, lease_ms).await? {
            for (instance, heartbeat_at) in silent {
                if deps.store.bury(instance, Evidence::Silent { heartbeat_at }).await? {
                    tracing::warn!(%instance, "a runner fell silent and is taken for dead");
                    live.retain(|one| one.instance != instance);
                }
            }
        }
        Ok(live)
    }

    /// Takes what is ours and free. To verify, it asks again for what we believe to have.
    async fn take(&mut self, mine: &BTreeSet<PartitionNo>, verify: bool) -> Result<()> {
        let wanted = mine.iter().filter(|no| verify || !self.owned.contains_key(no));
        // What turns out to be ours and should not be is drained like everything else.
        let mut wanted: BTreeSet<PartitionNo> = wanted.chain(&self.unsure).copied().collect();
        if verify {
            wanted.extend(self.owned.keys());
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let wanted: Vec<PartitionNo> = wanted.into_iter().collect();
        let me = self.deps.notifier.instance();
        let taken = match self.deps.store.take_partitions(me, &wanted).await {
            Ok(taken) => {
                self.unsure.clear();
                taken
            }
            Err(error) if matches!(error.kind, Kind::LeaseLost | Kind::Missing) => {
                return self.rejoin().await;
            }
            Err(error) => {
                self.unsure.extend(wanted);
                return Err(error);
            }
        };
        if verify {
            let ours: BTreeSet<PartitionNo> = taken.iter().map(|one| one.fence.partition).collect();
            // All others, also those that the loop has and we gave back meanwhile.
            let all = 0..self.deps.options.partitions;
            let lost: Vec<PartitionNo> = all.filter(|no| !ours.contains(no)).collect();
            self.owned.retain(|no, _| ours.contains(no));
            // What drains is closed again below, since taking it opens it.
            self.draining.clear();
            self.tell(Command::Lose(lost)).await;
        }
        if taken.is_empty() {
            return Ok(());
        }
        let partitions = taken.len();
        let suspects = taken.iter().filter(|taken| taken.is_suspect).count();
        self.owned.extend(taken.iter().map(|taken| (taken.fence.partition, taken.fence)));
        tracing::info!(partitions, suspects, "partitions were taken");
        let fences: Vec<Fence> = taken.iter().map(|taken| taken.fence).collect();
        if !self.tell(Command::Own(taken)).await {
            // It ends, and nothing began there.
            self.deps.store.release_partitions(me, &fences).await?;
        }
        Ok(())
    }

    /// Gives back what is drained.
    async fn release(&mut self, first: Fence) {
        let mut fences = vec![first];
        while let Ok(fence) = self.drained.try_recv() {
            fences.push(fence);
        }
        let me = self.deps.notifier.instance();
        if let Err(error) = self.deps.store.release_partitions(me, &fences).await {
            tracing::warn!(error = %chain(&error), "drained partitions were not given back");
            self.unsure.extend(fences.iter().map(|fence| fence.partition));
        }
        for fence in fences {
            self.draining.remove(&fence.partition);
            if self.owned.get(&fence.partition) == Some(&fence) {
                self.owned.remove(&fence.partition);
            }
        }
    }

    /// Tells the loop; false when it is gone, which it is only when everything ends.
    async fn tell(&self, command: Command) -> bool {
        self.commands.send(command).await.is_ok()
    }

    async fn leave(mut self) {
        if let Ok(fence) = self.drained.try_recv() {
            self.release(fence).await;
        }
        match self.deps.store.tombstone(self.deps.notifier.instance()).await {
            Ok(_) => self.liveness.release(),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the runner could not leave; other instances take over after a while");
            }
        }
    }
}

/// Logs once that partitions have no owner, and once that it is over.
#[derive(Default)]
struct Alarm {
    unowned: u16,
}

impl Alarm {
    fn observe(&mut self, unowned: u16, live: &[Sharer]) {
        if unowned == self.unowned {
            return;
        }
        let own_max: u32 = live.iter().map(|one| u32::from(one.own_max)).sum();
        let instances = live.len();
        match unowned {
            0 => tracing::info!(instances, own_max, "every partition may have an owner again"),
            _ => tracing::error!(
                unowned,
                instances,
                own_max,
                "partitions have no owner: every instance has as many as it may have"
            ),
        }
        self.unowned = unowned;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber, subscriber};

    use super::*;

    /// The levels of what was logged.
    #[derive(Clone, Default)]
    struct Levels(Arc<Mutex<Vec<Level>>>);

    impl Subscriber for Levels {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// Stored, and shared with processes of other builds. The golden scene buries its dead worker at once and no
    /// longer takes this duty, so the name is held here.
    #[test]
    fn the_duty_keeps_its_name() {
        assert_eq!(DUTY, "messages.members");
    }

    #[test]
    fn an_alarm_is_raised_once_and_ends_once() {
        let levels = Levels::default();
        let heard = levels.0.clone();
        subscriber::with_default(levels, || {
            let mut alarm = Alarm::default();
            for unowned in [0, 0, 5, 5, 5, 2, 2, 0, 0] {
                alarm.observe(unowned, &[]);
            }
        });
        let expected = [Level::ERROR, Level::ERROR, Level::INFO];
        assert_eq!(*heard.lock().unwrap(), expected, "for five, for two, for none");
    }
}
