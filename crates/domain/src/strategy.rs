//! Strategies: which of its recipe's requests a row asks next, and when it has asked them all.
//!
//! Holds throughout: only a miss leads to the next strategy; trouble (429, 5xx, a timeout) repeats the
//! same one. An answer that is not acceptable is asked for once more, then counts as a miss. The row's
//! history says it all, so a crash changes nothing.

use crate::attempt::{Class, Failure, Status};
use crate::retry::Policy;

/// The code of an answer that its recipe did not accept.
pub const UNACCEPTABLE: &str = "unacceptable";
/// How often an answer that is not acceptable is asked for, with one strategy.
const UNACCEPTABLE_MAX: u32 = 2;

/// What a row's history says about its strategies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Misses since the recipe of its batch was last set.
    pub missed: u32,
    /// Attempts since the last miss that the row used up.
    pub counted: u32,
    /// Answers since the last miss that were not acceptable.
    pub unaccepted: u32,
}

/// What follows from a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another strategy, at once.
    Now,
    /// The same one again, after the wait of its class.
    Later,
    /// All were asked.
    GiveUp(Status),
}

impl Misses {
    /// The strategy that is asked now, of so many.
    pub fn strategy(self, strategies: usize) -> usize {
        self.missed as usize % strategies.max(1)
    }

    /// A failure as the history is to keep it: an answer that was not acceptable for the last time is a
    /// miss.
    pub fn classed(self, mut failure: Failure) -> Failure {
        if failure.class == Class::Unacceptable && self.unaccepted + 1 >= UNACCEPTABLE_MAX {
            failure.class = Class::NotFound;
        }
        failure
    }

    /// What follows from a miss of a row with so many strategies.
    pub fn after_miss(self, strategies: usize, policy: &Policy, failure: &Failure) -> Next {
        let strategies = u32::try_from(strategies).unwrap_or(u32::MAX).max(1);
        let asked = match strategies {
            1 if failure.code == UNACCEPTABLE => 1,
            1 => policy.not_found_attempts(),
            _ => policy.attempts_not_found_max.unwrap_or(strategies).clamp(1, strategies),
        };
        match (self.missed + 1) % asked {
            0 if failure.code == UNACCEPTABLE => Next::GiveUp(Status::Failed),
            0 => Next::GiveUp(Status::NotFound),
            _ if strategies == 1 => Next::Later,
            _ => Next::Now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_FOUND: Next = Next::GiveUp(Status::NotFound);

    fn missed(missed: u32) -> Misses {
        Misses { missed, ..Misses::default() }
    }

    fn miss() -> Failure {
        Failure::new(Class::NotFound, "not_found", "Nothing was found.")
    }

    fn bad() -> Failure {
        Failure::new(Class::Unacceptable, UNACCEPTABLE, "It has no price.")
    }

    #[test]
    fn every_strategy_is_asked_once_without_a_wait() {
        let policy = Policy::default();
        let after = |count| missed(count).after_miss(3, &policy, &miss());
        assert_eq!([after(0), after(1), after(2)], [Next::Now, Next::Now, NOT_FOUND]);
        let asked = [0, 1, 2, 3].map(|count| missed(count).strategy(3));
        assert_eq!(asked, [0, 1, 2, 0], "a row that is put back begins with the first again");
        assert_eq!([after(3), after(4), after(5)], [Next::Now, Next::Now, NOT_FOUND]);
    }

    #[test]
    fn a_lone_strategy_is_asked_twice_with_a_wait() {
        let policy = Policy::default();
        let after = |count| missed(count).after_miss(1, &policy, &miss());
        assert_eq!([after(0), after(1), after(2)], [Next::Later, NOT_FOUND, Next::Later]);
    }

    #[test]
    fn the_operator_bounds_the_strategies_of_a_generation() {
        let policy = Policy { attempts_not_found_max: Some(2), ..Policy::default() };
        let after = |count| missed(count).after_miss(3, &policy, &miss());
        assert_eq!([after(0), after(1)], [Next::Now, NOT_FOUND]);
        assert_eq!(missed(2).strategy(3), 2, "the next generation asks what was left");
        let policy = Policy { attempts_not_found_max: Some(1), ..policy };
        assert_eq!(missed(0).after_miss(3, &policy, &miss()), NOT_FOUND);
        let policy = Policy { attempts_not_found_max: Some(9), ..policy };
        assert_eq!(missed(2).after_miss(3, &policy, &miss()), NOT_FOUND);
    }

    #[test]
    fn an_answer_that_is_not_acceptable_is_asked_for_once_more() {
        let policy = Policy::default();
        let first = missed(0).classed(bad());
        assert_eq!(first.class, Class::Unacceptable);
        let second = Misses { unaccepted: 1, ..missed(0) }.classed(bad());
        assert_eq!(second.class, Class::NotFound);
        assert_eq!(missed(0).after_miss(2, &policy, &second), Next::Now);
        let failed = Next::GiveUp(Status::Failed);
        assert_eq!(missed(1).after_miss(2, &policy, &second), failed, "its reason is the row's");
        assert_eq!(missed(0).after_miss(1, &policy, &second), failed);
        assert_eq!(missed(1).after_miss(2, &policy, &miss()), NOT_FOUND);
    }
}
