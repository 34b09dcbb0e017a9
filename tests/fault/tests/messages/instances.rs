//! Instances as processes: started, killed, frozen, stopped, and replaced.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use windrow_fault::instance::{Bounds, setup};
use windrow_fault::{Fixture, Program, wait};

use crate::WITHIN;

/// The instances of a test.
pub(crate) struct Instances<'a> {
    fixture: &'a Fixture,
    bounds: Bounds,
    programs: Vec<Program>,
    /// When each that stands still goes on, in rounds of the dice.
    frozen: Vec<Option<u32>>,
    /// What happened to them.
    pub(crate) counts: FaultCounts,
}

/// How often something was done to an instance.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultCounts {
    pub(crate) killed: u32,
    pub(crate) frozen: u32,
    pub(crate) stopped: u32,
}

impl<'a> Instances<'a> {
    /// Sets the database up and starts that many.
    pub(crate) async fn start(fixture: &'a Fixture, count: usize, bounds: Bounds) -> Self {
        fixture.store().set_up(setup()).await.unwrap();
        let programs: Vec<Program> = (0..count).map(|no| spawn(fixture, bounds, no)).collect();
        Self {
            fixture,
            bounds,
            programs,
            frozen: vec![None; count],
            counts: FaultCounts::default(),
        }
    }

    /// `kill -9`, and nobody takes its place.
    pub(crate) fn kill(&mut self, no: usize) {
        self.programs.remove(no).kill();
        self.frozen.remove(no);
    }

    fn replace(&mut self, no: usize) -> Program {
        self.frozen[no] = None;
        std::mem::replace(&mut self.programs[no], spawn(self.fixture, self.bounds, no))
    }

    /// Starts others for those that ended; gives how many did.
    pub(crate) fn replace_ended(&mut self) -> u32 {
        let mut ended = 0;
        for no in 0..self.programs.len() {
            if !self.programs[no].runs() {
                drop(self.replace(no));
                ended += 1;
            }
        }
        ended
    }

    /// Does something bad at random to one of them, for that long.
    pub(crate) async fn harass(&mut self, dice: &mut fastrand::Rng, time: Duration) {
        let clock = windrow::engine::clock::Clock::machine();
        while clock.elapsed() < time {
            wait::pause(Duration::from_millis(dice.u64(100..500))).await;
            self.thaw_due();
            let no = dice.usize(0..self.programs.len());
            match dice.u8(0..10) {
                0..4 => {
                    // It may stand still: that is killed the same.
                    self.replace(no).kill();
                    self.counts.killed += 1;
                }
                4..9 if self.frozen[no].is_none() => {
                    self.programs[no].freeze().await;
                    self.frozen[no] = Some(dice.u32(1..10));
                    self.counts.frozen += 1;
                }
                9 if self.frozen[no].is_none() => {
                    let mut old = self.replace(no);
                    old.terminate();
                    let status = old.ended(WITHIN).await;
                    // One that has only just begun does not listen yet.
                    let is_young = status.signal() == Some(Signal::TERM.as_raw());
                    assert!(status.success() || is_young, "{status}: {}", old.said());
                    self.counts.stopped += 1;
                }
                _ => {}
            }
        }
        self.frozen.fill(Some(0));
        self.thaw_due();
    }

    /// One round less for those that stand still.
    fn thaw_due(&mut self) {
        for (program, frozen) in self.programs.iter().zip(&mut self.frozen) {
            *frozen = match *frozen {
                Some(0) => {
                    program.thaw();
                    None
                }
                Some(rounds) => Some(rounds - 1),
                None => None,
            };
        }
    }

    pub(crate) async fn freeze(&self, no: usize) {
        self.programs[no].freeze().await;
    }

    pub(crate) fn thaw(&self, no: usize) {
        self.programs[no].thaw();
    }

    /// All of them must have lived until now.
    pub(crate) fn all_run(&mut self) {
        for program in &mut self.programs {
            assert!(program.runs(), "an instance ended: {}", program.said());
        }
    }
}

fn spawn(fixture: &Fixture, bounds: Bounds, no: usize) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_instance"));
    command.arg(fixture.database()).args(bounds.words());
    Program::start(fixture, &format!("instance-{no}"), command)
}
