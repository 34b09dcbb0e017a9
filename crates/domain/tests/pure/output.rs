//! The ids of outputs lead back to their batch, and no other file's id leads anywhere.

use proptest::prelude::*;
use uuid::{Builder, Uuid};
use windrow_domain::{BatchId, FileId, OutputKind};

/// A batch id of either version that batches have.
fn batch() -> impl Strategy<Value = BatchId> {
    any::<([u8; 16], bool)>().prop_map(|(bytes, by_time)| {
        let version = if by_time { uuid::Version::SortRand } else { uuid::Version::Custom };
        let builder = Builder::from_bytes(bytes).with_variant(uuid::Variant::RFC4122);
        BatchId(builder.with_version(version).into_uuid())
    })
}

proptest! {
    #[test]
    fn an_output_leads_back_to_its_batch(batch in batch()) {
        let (output, errors) = (FileId::output_of(batch), FileId::errors_of(batch));
        prop_assert_eq!(output.source(), Some((batch, OutputKind::Output)));
        prop_assert_eq!(errors.source(), Some((batch, OutputKind::Errors)));
        prop_assert!(output != errors && output.0 != batch.0 && errors.0 != batch.0);
    }

    #[test]
    fn two_batches_share_no_output(one in batch(), two in batch()) {
        prop_assume!(one != two);
        for kinds in [OutputKind::ALL, [OutputKind::Errors, OutputKind::Output]] {
            for (first, second) in OutputKind::ALL.into_iter().zip(kinds) {
                prop_assert_ne!(FileId::of_output(one, first), FileId::of_output(two, second));
            }
        }
    }

    #[test]
    fn a_file_made_by_time_is_no_output(bytes: [u8; 16]) {
        let builder = Builder::from_bytes(bytes).with_variant(uuid::Variant::RFC4122);
        let id = FileId(builder.with_version(uuid::Version::SortRand).into_uuid());
        prop_assert_eq!(id.source(), None);
    }

    #[test]
    fn what_leads_to_a_batch_is_its_output(bits: u128) {
        let id = FileId(Uuid::from_u128(bits));
        if let Some((batch, kind)) = id.source() {
            prop_assert_eq!(FileId::of_output(batch, kind), id);
        }
    }
}

#[test]
fn a_fresh_file_and_the_empty_id_are_no_outputs() {
    assert_eq!(FileId::new().source(), None);
    assert_eq!(FileId(Uuid::nil()).source(), None);
    assert_eq!(FileId(Uuid::max()).source(), None);
}
