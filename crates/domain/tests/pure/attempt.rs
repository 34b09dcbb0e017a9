//! Words and numbers that databases keep must read back for ever.

use std::collections::HashSet;

use windrow_domain::attempt::{Class, Failure, Status};

#[test]
fn a_status_reads_back_from_its_number() {
    let stored = [(0, "completed"), (1, "failed"), (2, "not_found"), (3, "skipped")];
    for (status, (code, word)) in Status::ALL.into_iter().zip(stored) {
        assert_eq!((status.code(), status.as_str()), (code, word));
        assert_eq!(Status::from_code(code), Some(status));
        assert_eq!(serde_json::to_string(&status).unwrap(), format!("{word:?}"));
    }
    assert_eq!([-1, 4, i16::MAX, i16::MIN].map(Status::from_code), [None; 4]);
}

#[test]
fn a_class_reads_back_from_its_word() {
    for class in Class::ALL {
        assert_eq!(class.to_string().parse(), Ok(class));
        assert_eq!(serde_json::to_string(&class).unwrap(), format!("{:?}", class.as_str()));
    }
    assert_eq!(
        Class::ALL.iter().map(|c| c.as_str()).collect::<HashSet<_>>().len(),
        Class::ALL.len()
    );
    assert!("oops".parse::<Class>().is_err());
}

#[test]
fn a_failure_is_unavailable_by_its_class_unless_it_is_said() {
    for class in Class::ALL {
        let failure = Failure::new(class, "code", "message");
        let unavailable = matches!(class, Class::Network | Class::Throttled);
        assert_eq!(failure.is_unavailable(), unavailable, "{class}");
        assert!(failure.clone().with_unavailable(true).is_unavailable());
        assert!(!failure.with_unavailable(false).is_unavailable());
    }
}
