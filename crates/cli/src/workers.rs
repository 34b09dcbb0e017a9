//! Whether anybody works on a batch, as far as the database knows.
//!
//! Holds throughout: it is read, never guessed from times of the batch. Lines that are leased are held by
//! a process; without any, a live worker may come for them; without either, nobody does.

use windrow::store::Store;
use windrow::store::batch::Batch;
use windrow::store::member::{Member, ServedUpstreams};

use crate::context::Context;
use crate::text;

/// Services that run one batch of their own and no other. Their members do not say which one.
const ALONE: [&str; 4] = ["windrow run", "windrow retry", "windrow demo", "windrow kickoff"];

/// The live processes that run batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveProcesses(Vec<LiveProcess>);

#[derive(Clone, Debug)]
struct LiveProcess {
    /// It has one batch of its own.
    alone: bool,
    serves: ServedUpstreams,
}

impl LiveProcesses {
    /// Reads who is alive.
    pub(crate) async fn read(context: &Context, store: &dyn Store) -> windrow::store::Result<Self> {
        let members = store.members().await?;
        let live = members.iter().filter(|member| is_live(context, member));
        let processes = live.filter_map(|member| {
            // What runs messages only, or cannot claim any more, says nothing of upstreams.
            let serves = ServedUpstreams::read(&member.metadata)?;
            Some(LiveProcess { alone: ALONE.contains(&member.service.as_str()), serves })
        });
        Ok(Self(processes.collect()))
    }
}

/// Whether it was heard of lately, by the clock of the database.
pub(crate) fn is_live(context: &Context, member: &Member) -> bool {
    let stale = context.config.bounds.engine.member_stale_after;
    member.tombstoned_at.is_none() && u128::from(member.silent_ms) < stale.as_millis()
}

/// Who works on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workers {
    /// Live processes that take any batch of its upstreams.
    shared: u64,
    /// Those that have one batch of their own, which goes to one of its upstreams, too.
    alone: u64,
    /// Lines that some process holds.
    leased: u64,
}

impl Workers {
    /// Reads who works on a batch.
    pub(crate) async fn read(
        context: &Context,
        store: &dyn Store,
        batch: &Batch,
    ) -> windrow::store::Result<Self> {
        Ok(Self::of(&LiveProcesses::read(context, store).await?, batch))
    }

    /// Who works on a batch, when these processes are alive.
    pub(crate) fn of(live: &LiveProcesses, batch: &Batch) -> Self {
        let may_claim = |process: &&LiveProcess| {
            let serves = &process.serves.upstreams;
            batch.upstreams.iter().any(|bound| bound.is_unknown() || serves.contains(bound))
        };
        let (mut shared, mut alone) = (0, 0);
        for process in live.0.iter().filter(may_claim) {
            *(if process.alone { &mut alone } else { &mut shared }) += 1;
        }
        Self { shared, alone, leased: batch.counts.leased }
    }

    /// Whether some process has lines of it or may come for them.
    pub(crate) fn any(self) -> bool {
        self.shared + self.alone + self.leased > 0
    }

    /// In a few words.
    pub(crate) fn text(self) -> String {
        let held = text::plural(self.leased, "line");
        let workers = text::plural(self.shared, "worker");
        match (self.shared, self.alone, self.leased) {
            (0, 0, 0) => "nobody works on it".to_owned(),
            (0, _, 0) => "a `windrow run` is alive, perhaps for another batch".to_owned(),
            (0, _, _) => format!("{held} held by a process"),
            (_, _, 0) => format!("{workers} alive"),
            (..) => format!("{workers} alive, {held} held"),
        }
    }
}
