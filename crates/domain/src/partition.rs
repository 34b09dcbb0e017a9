//! Partitions: which stream belongs to which, and whose turn it is to own them.
//!
//! Holds throughout: a stream's partition depends on its owner's name, its own and the number of
//! partitions, and on nothing else, for ever; every instance that sees the same live instances
//! computes the same shares; the shares are disjoint and as even as the bounds allow.

use sha2::{Digest, Sha256};

use crate::ids::{InstanceId, Owner, Stream};

/// A partition's number.
pub type PartitionNo = u16;

/// How many partitions there are unless somebody says otherwise.
pub const PARTITIONS_DEFAULT: u16 = 256;
/// Most partitions.
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
    /// How many nobody may own, because everybody has as many as it may have.
    pub unowned: u16,
}

/// The share of `me` among `live`: every partition goes to the instance with the highest weight for it
/// that is not full. Nobody has more than its even share, rounded up, nor more than `own_max`. When an
/// instance comes or goes, mostly its own partitions move.
pub fn share(count: u16, live: &[InstanceId], me: InstanceId, own_max: u16) -> Share {
    let mut live: Vec<InstanceId> = live.to_vec();
    live.sort_unstable();
    live.dedup();
    let even = usize::from(count).div_ceil(live.len().max(1));
    let most = even.min(usize::from(own_max));
    let mut full = vec![0_usize; live.len()];
    let mut share = Share::default();
    for no in 0..count {
        let open = (0..live.len()).filter(|&at| full[at] < most);
        match open.max_by_key(|&at| (weight(live[at], no), live[at])) {
            Some(at) => {
                full[at] += 1;
                if live[at] == me {
                    share.mine.push(no);
                }
            }
            None => share.unowned += 1,
        }
    }
    share
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
    use std::collections::BTreeSet;

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

    #[test]
    fn few_partitions_move_when_an_instance_joins() {
        let (three, four) = (instances(3), instances(4));
        let kept: usize = three
            .iter()
            .map(|&me| {
                let before: BTreeSet<_> = share(256, &three, me, 4096).mine.into_iter().collect();
                share(256, &four, me, 4096).mine.iter().filter(|no| before.contains(no)).count()
            })
            .sum();
        assert!(kept >= 150, "64 must move to the new one, {} did", 256 - kept);
    }

    proptest! {
        #[test]
        fn shares_are_disjoint_even_and_whole(count in 1_u16..600, live in 1_usize..12, own_max in 1_u16..600) {
            let live = instances(live);
            let shares: Vec<_> = live.iter().map(|&me| share(count, &live, me, own_max)).collect();
            let owned: Vec<_> = shares.iter().flat_map(|share| share.mine.clone()).collect();
            let once: BTreeSet<_> = owned.iter().copied().collect();
            prop_assert_eq!(once.len(), owned.len());
            prop_assert_eq!(owned.len() + usize::from(shares[0].unowned), usize::from(count));
            let most = usize::from(count).div_ceil(live.len()).min(usize::from(own_max));
            prop_assert!(shares.iter().all(|share| share.mine.len() <= most));
            prop_assert!(usize::from(own_max) * live.len() < usize::from(count) || shares[0].unowned == 0);
        }
    }
}
