//! Names are bounded, and ids read back.

use proptest::prelude::*;
use windrow_domain::ids::NAME_BYTES_MAX;
use windrow_domain::{BatchId, FileId, Owner, Target};

#[test]
fn a_name_has_bounds() {
    let long = "x".repeat(NAME_BYTES_MAX);
    for name in ["a", "gpt-4o mini", "Zoë/モデル", &long] {
        assert_eq!(Target::new(name).unwrap().as_str(), name);
        assert_eq!(Owner::new(name).unwrap().to_string(), name);
    }
    for name in ["", "a\nb", "a\0", "\u{85}", &format!("{long}x"), &"é".repeat(129)] {
        let bad = Target::new(name).unwrap_err();
        assert!(bad.to_string().starts_with("target name"), "{bad}");
        assert!(Owner::new(name).unwrap_err().to_string().len() < 400);
        assert!(serde_json::from_value::<Target>(name.into()).is_err(), "{name:?}");
    }
}

#[test]
fn ids_are_ordered_by_time_and_read_back() {
    let (first, second) = (FileId::new(), FileId::new());
    assert!(first < second);
    assert_eq!(first.to_string().parse::<FileId>().unwrap(), first);
    assert_eq!(format!("{first:?}"), format!("FileId({first})"));
    assert!("batch_1".parse::<BatchId>().is_err());
}

proptest! {
    #[test]
    fn a_name_reads_back_or_is_refused(name in ".{0,80}|\\PC{1,300}") {
        match Owner::new(name.clone()) {
            Ok(owner) => {
                let json = serde_json::to_string(&owner).unwrap();
                prop_assert_eq!(serde_json::from_str::<Owner>(&json).unwrap(), owner);
            }
            Err(bad) => prop_assert_eq!(bad.name, name),
        }
    }
}
