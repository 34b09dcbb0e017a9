//! The check of the one rule that everything rests on: every line of a batch is in exactly one of
//! the four places (untouched, returned, leased, finished), and the sizes of the places add up to
//! the total.

use std::collections::BTreeSet;

use windrow_domain::batch::{Ending, State};
use windrow_domain::{Counts, InstanceId, LaneNo, LineSet, Phase, UpstreamId};

/// A batch, as its rows say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRows {
    /// Where the batch stands.
    pub state: State,
    /// How often it began anew.
    pub generation: u32,
    /// What its row says about the recipe that it was made with.
    pub recipe_hash: Option<[u8; 32]>,
    /// The generation of each of its recipes and the hash of its text, oldest first.
    pub recipes: Vec<(u32, [u8; 32])>,
    /// Its lanes.
    pub lanes: Vec<LaneRows>,
}

/// A lane, as its rows say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneRows {
    /// Its number.
    pub lane: LaneNo,
    /// The upstream that it belongs to.
    pub upstream: UpstreamId,
    /// Its phase.
    pub phase: Phase,
    /// Where untouched lines begin.
    pub cursor: u64,
    /// What the lane row counts.
    pub counts: Counts,
    /// The set of each returned row.
    pub returned: Vec<LineSet>,
    /// The outstanding set of each lease row.
    pub leased: Vec<LineSet>,
    /// The upstream that each lease was claimed for.
    pub leased_for: Vec<UpstreamId>,
    /// The holder and the outstanding set of each lease that is marked: its line runs alone.
    pub alone: Vec<(InstanceId, LineSet)>,
    /// The `seq` of each result row, by [`windrow_domain::attempt::Status::code`].
    pub finished: [LineSet; 4],
    /// Result rows, counted (a `seq` twice would hide in the sets).
    pub results: u64,
}

impl BatchRows {
    /// Err says in a sentence which line or number contradicts the rule.
    pub fn check(&self) -> Result<(), String> {
        self.lanes.iter().try_for_each(LaneRows::check)?;
        self.lanes.iter().try_for_each(LaneRows::check_upstream)?;
        self.check_alone()?;
        self.check_recipes()?;
        let done = self.lanes.iter().all(|lane| lane.phase == Phase::Done);
        let settled = !self.state.is_running();
        if done != settled && self.state != State::Failed {
            return Err(format!("batch is {} but its lanes done: {done}", self.state));
        }
        self.lanes.iter().try_for_each(|lane| self.check_phase(lane))
    }

    /// A marked lease has one line, and is the only one of its holder.
    fn check_alone(&self) -> Result<(), String> {
        let mut holders = BTreeSet::new();
        for (lane, holder, lines) in self
            .lanes
            .iter()
            .flat_map(|rows| rows.alone.iter().map(|(holder, lines)| (rows.lane, holder, lines)))
        {
            if lines.len() != 1 {
                return Err(format!("lane {lane}: {lines} is marked as running alone"));
            }
            if !holders.insert(*holder) {
                return Err(format!("lane {lane}: {lines} runs alone, and so does another line"));
            }
        }
        Ok(())
    }

    /// The recipe of generation 0 is the one that the batch was made with; none is for a generation that
    /// did not begin.
    fn check_recipes(&self) -> Result<(), String> {
        let made_with = self.recipes.iter().find(|(generation, _)| *generation == 0);
        if made_with.map(|(_, hash)| *hash) != self.recipe_hash {
            return Err("the batch was made with another recipe than is kept".to_owned());
        }
        match self.recipes.iter().find(|(generation, _)| *generation > self.generation) {
            Some((generation, _)) => {
                Err(format!("generation {generation} has a recipe, and did not begin"))
            }
            None => Ok(()),
        }
    }

    /// A lane's phase follows from the batch's state. A done lane has nothing leased, and has
    /// unfinished lines only when its batch was stopped.
    fn check_phase(&self, lane: &LaneRows) -> Result<(), String> {
        let (no, state) = (lane.lane, self.state);
        if lane.phase != Phase::Done {
            return match Phase::of(state) == lane.phase {
                true => Ok(()),
                false => Err(format!("lane {no}: {:?} in a batch that is {state}", lane.phase)),
            };
        }
        let stopped = match state {
            State::Cancelling | State::Expiring | State::Cancelled | State::Expired => true,
            State::Finalizing(ending) => ending != Ending::Completed,
            State::InProgress | State::Paused | State::Completed | State::Failed => false,
        };
        if lane.counts.leased > 0 || (lane.counts.unfinished() > 0 && !stopped) {
            return Err(format!("lane {no}: done in a batch that is {state}, {:?}", lane.counts));
        }
        Ok(())
    }
}

impl LaneRows {
    /// Err says in a sentence which line or number contradicts the rule.
    pub fn check(&self) -> Result<(), String> {
        let lane = self.lane;
        if !self.counts.adds_up() {
            return Err(format!("lane {lane}: {:?} does not add up", self.counts));
        }
        let untouched = LineSet::span(self.cursor, self.counts.untouched);
        let mut places = vec![("untouched", untouched)];
        places.extend(self.returned.iter().map(|set| ("returned", set.clone())));
        places.extend(self.leased.iter().map(|set| ("leased", set.clone())));
        places.extend(self.finished.iter().map(|set| ("finished", set.clone())));

        let mut seen = LineSet::new();
        for (place, set) in &places {
            let both = seen.intersection(set);
            if !both.is_empty() {
                return Err(format!("lane {lane}: {both} is {place} and elsewhere"));
            }
            seen = seen.union(set);
        }
        let all = LineSet::span(0, self.counts.total);
        if seen != all {
            let (lost, extra) = (all.difference(&seen), seen.difference(&all));
            return Err(format!("lane {lane}: lost [{lost}], extra [{extra}]"));
        }
        self.check_sizes()
    }

    /// A claim for an upstream binds the lane. Leases of before may be for another one: the lane was
    /// moved since.
    fn check_upstream(&self) -> Result<(), String> {
        let claimed_for = self.leased_for.iter().find(|upstream| !upstream.is_unknown());
        match claimed_for.filter(|_| self.upstream.is_unknown()) {
            Some(upstream) => Err(format!(
                "lane {}: its upstream is not known, and lines are leased for {upstream:?}",
                self.lane
            )),
            None => Ok(()),
        }
    }

    fn check_sizes(&self) -> Result<(), String> {
        let size = |sets: &[LineSet]| sets.iter().map(LineSet::len).sum::<u64>();
        let [completed, failed, not_found, skipped] = &self.finished;
        let pairs = [
            ("returned", self.counts.returned, size(&self.returned)),
            ("leased", self.counts.leased, size(&self.leased)),
            ("completed", self.counts.completed, completed.len()),
            ("failed", self.counts.failed, failed.len()),
            ("not found", self.counts.not_found, not_found.len()),
            ("skipped", self.counts.skipped, skipped.len()),
            ("finished", self.counts.finished(), self.results),
        ];
        for (what, counted, rows) in pairs {
            if counted != rows {
                return Err(format!(
                    "lane {}: {counted} {what} counted, {rows} in rows",
                    self.lane
                ));
            }
        }
        if self.counts.is_done(self.phase) != (self.phase == Phase::Done) {
            return Err(format!("lane {}: {:?} with {:?}", self.lane, self.phase, self.counts));
        }
        Ok(())
    }
}
