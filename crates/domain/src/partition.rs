//! Partitions: which stream belongs to which, and whose turn it is to own them.
//!
//! Holds throughout: a stream's partition depends on its owner's name, its own and the number of
//! partitions, and on nothing else, for ever; every instance that sees the same live instances
//! computes the same shares; the shares are disjoint and as even as the bounds allow.

use sha2::{Digest, Sha256};

use crate::ids::{InstanceId, Owner, Stream};

/// A partition's number.
pub type PartitionNo = u16;

/// How many partitions there are by default.
pub const PARTITIONS_DEFAULT: u16 = 256;
/// Most partitions of a database.
pub const PARTITIONS_MAX: u16 = 4096;

/// What a stream's partition is computed from: the first four bytes of SHA-256 over `owner`, a zero byte
/// and `stream`, as a big-endian number. Databases compute the same.
pub fn stream_hash(owner: &str, stream: &str) -> u32 {
    let mut hasher = Sha256::new();
    hasher.update(owner.as_bytes());
    hasher.update([0]);
    hasher.update(stream.as_bytes());
    let hash = hasher.finalize();
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// The partition of a stream: its hash modulo `count`.
pub fn partition_of(owner: &Owner, stream: &Stream, count: u16) -> PartitionNo {
    let number = stream_hash(owner.as_str(), stream.as_str());
    PartitionNo::try_from(number % u32::from(count.max(1))).expect("less than a count of 16 bits")
}

/// How partitions are to be spread over the live instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Those that are this instance's to own.
    pub mine: Vec<PartitionNo>,
    /// How many are left over, because every instance has as many as it may have.
    pub unowned: u16,
}

/// An instance that owns partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sharer {
    /// Its identity.
    pub instance: InstanceId,
    /// How many partitions it owns at most.
    pub own_max: u16,
}

/// The share of `me` among `live`. Pairs of an instance and a partition have weights; the heaviest pair
/// whose instance is not full and whose partition is free comes together first. No instance has
/// more than it may own, and of the instances that may own more, none has two more than another.
/// When an instance comes or goes, mostly its own partitions move: the others give and get what
/// weighs least.
pub fn share(count: u16, live: &[Sharer], me: InstanceId) -> Share {
    let mut live = live.to_vec();
    live.sort_unstable();
    live.dedup_by_key(|sharer| sharer.instance);
    let pair = |at: usize, no| (weight(live[at].instance, no), at, no);
    let pairs = (0..live.len()).flat_map(|at| (0..count).map(move |no| pair(at, no)));
    let mut pairs: Vec<(u64, usize, PartitionNo)> = pairs.collect();
    pairs.sort_unstable_by(|one, other| other.cmp(one));
    let (level, mut more) = level(count, &live);
    let (mut owned, mut is_taken) = (vec![0_u16; live.len()], vec![false; usize::from(count)]);
    let mut share = Share { mine: Vec::new(), unowned: count };
    for (_, at, no) in pairs {
        let most = if more > 0 { level.saturating_add(1) } else { level };
        if is_taken[usize::from(no)] || owned[at] >= live[at].own_max.min(most) {
            continue;
        }
        is_taken[usize::from(no)] = true;
        share.unowned -= 1;
        owned[at] += 1;
        if owned[at] > level {
            more -= 1;
        }
        if live[at].instance == me {
            share.mine.push(no);
        }
    }
    share.mine.sort_unstable();
    share
}

/// How many partitions every instance gets that may own so many, and how many are left for
/// instances that may own one more.
fn level(count: u16, live: &[Sharer]) -> (u16, u32) {
    let filled = |level: u16| live.iter().map(|one| u32::from(one.own_max.min(level))).sum::<u32>();
    let highest = live.iter().map(|one| one.own_max).max().unwrap_or(0);
    let fits = (1..=highest).take_while(|&level| filled(level) <= u32::from(count));
    let level = fits.last().unwrap_or(0);
    (level, u32::from(count) - filled(level))
}

/// How much an instance is drawn to a partition (splitmix64 over both).
fn weight(instance: InstanceId, no: PartitionNo) -> u64 {
    let (high, low) = instance.0.as_u64_pair();
    let mut mixed = high ^ low.rotate_left(32) ^ u64::from(no).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn instances(count: usize) -> Vec<InstanceId> {
        (1..=count as u128).map(|n| InstanceId(Uuid::from_u128((n << 64) | (n * 7919)))).collect()
    }

    #[test]
    fn a_stream_keeps_its_partition_for_ever() {
        let of = |owner: &str, stream: &str| {
            let (owner, stream) = (Owner::new(owner).unwrap(), Stream::new(stream).unwrap());
            partition_of(&owner, &stream, PARTITIONS_DEFAULT)
        };
        // Kept by hand: a change here would tear streams that databases already hold.
        assert_eq!(
            [of("local", "wallet/1"), of("local", "wallet/2"), of("b", "wallet/1")],
            [47, 65, 28]
        );
    }

    /// As many instances as there are bounds.
    fn sharers(bounds: &[u16]) -> Vec<Sharer> {
        let sharer = |(instance, &own_max)| Sharer { instance, own_max };
        instances(bounds.len()).into_iter().zip(bounds).map(sharer).collect()
    }

    fn shares(count: u16, live: &[Sharer]) -> Vec<Share> {
        live.iter().map(|sharer| share(count, live, sharer.instance)).collect()
    }

    /// How many change hands, those included that had no owner or have none.
    fn moved(before: &[Share], after: &[Share]) -> usize {
        let owners = |shares: &[Share]| -> BTreeMap<PartitionNo, usize> {
            let of = |(at, share): (usize, &Share)| {
                share.mine.iter().map(move |&no| (no, at)).collect::<Vec<_>>()
            };
            shares.iter().enumerate().flat_map(of).collect()
        };
        let (before, after) = (owners(before), owners(after));
        let all: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        all.into_iter().filter(|no| before.get(no) != after.get(no)).count()
    }

    #[test]
    fn few_partitions_move_when_an_instance_joins() {
        let (three, four) = (sharers(&[4096; 3]), sharers(&[4096; 4]));
        let moved = moved(&shares(256, &three), &shares(256, &four));
        assert!(moved <= 85, "64 must move to the new one, {moved} did");
    }

    #[test]
    fn what_one_may_not_own_is_owned_by_those_who_may() {
        let owned = |count, bounds: &[u16]| {
            let shares = shares(count, &sharers(bounds));
            (shares.iter().map(|one| one.mine.len()).collect::<Vec<_>>(), shares[0].unowned)
        };
        assert_eq!(owned(8, &[1, 4096]), (vec![1, 7], 0));
        assert_eq!(owned(9, &[1, 4096, 4096]), (vec![1, 4, 4], 0));
        assert_eq!(owned(8, &[2, 3]), (vec![2, 3], 3));
        assert_eq!(owned(2, &[0, 1]), (vec![0, 1], 1));
        assert_eq!(share(8, &[], instances(1)[0]), Share { mine: Vec::new(), unowned: 8 });
    }

    proptest! {
        #[test]
        fn shares_are_disjoint_even_and_whole(
            count in 1_u16..600,
            bounds in prop::collection::vec(prop_oneof![1_u16..600, 1_u16..30], 1..12),
        ) {
            let live = sharers(&bounds);
            let shares = shares(count, &live);
            let owned: Vec<_> = shares.iter().flat_map(|share| share.mine.clone()).collect();
            let once: BTreeSet<_> = owned.iter().copied().collect();
            prop_assert_eq!(once.len(), owned.len());
            let all: usize = bounds.iter().map(|&bound| usize::from(bound)).sum();
            prop_assert_eq!(owned.len(), usize::from(count).min(all));
            for share in &shares {
                prop_assert_eq!(owned.len() + usize::from(share.unowned), usize::from(count));
            }
            let sizes = || shares.iter().map(|share| share.mine.len());
            let most = sizes().max().unwrap_or(0);
            for (size, &bound) in sizes().zip(&bounds) {
                prop_assert!(size <= usize::from(bound));
                prop_assert!(size + 1 >= most || size == usize::from(bound), "{size} beside {most}");
            }
        }

        #[test]
        fn few_partitions_move_whatever_the_bounds(
            bounds in prop::collection::vec(prop_oneof![1_u16..300, 1_u16..30], 2..9),
        ) {
            let all = sharers(&bounds);
            let (after, before) = (shares(256, &all), shares(256, &all[..all.len() - 1]));
            let (new, moved) = (after[all.len() - 1].mine.len(), moved(&before, &after));
            prop_assert!(moved <= 2 * new + 2 * all.len(), "{moved} moved for {new}");
        }
    }
}
