//! Cursors come back as they were made, or not at all.

use proptest::prelude::*;
use windrow_domain::{BatchId, Owner};
use windrow_store::inspect::{Binding, Cursor, FinishedQuery};
use windrow_store::{Kind, Scope};

type Key = (i64, BatchId, u16, u64);

fn key() -> impl Strategy<Value = Key> {
    any::<(i64, u128, u16, u64)>()
        .prop_map(|(at, id, lane, seq)| (at, BatchId(uuid::Uuid::from_u128(id)), lane, seq))
}

fn binding() -> Binding {
    Binding::new("pending", &Scope::All, &FinishedQuery::default())
}

fn open(binding: &Binding, text: &str) -> Result<Option<Key>, Kind> {
    Cursor::open(binding, Some(text)).map_err(|error| error.kind)
}

proptest! {
    #[test]
    fn a_cursor_reads_back(key in key()) {
        prop_assert_eq!(open(&binding(), &Cursor::seal(&binding(), &key)), Ok(Some(key)));
    }

    #[test]
    fn a_changed_byte_is_refused(key in key(), at: prop::sample::Index, byte: u8) {
        let text = Cursor::seal(&binding(), &key);
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        if let Ok(changed) = String::from_utf8(bytes) {
            prop_assert_eq!(open(&binding(), &changed), Err(Kind::Invalid));
        }
    }

    #[test]
    fn a_cut_or_grown_cursor_is_refused(key in key(), cut: prop::sample::Index, more in "[A-Za-z0-9_-]{1,9}") {
        let text = Cursor::seal(&binding(), &key);
        prop_assert_eq!(open(&binding(), &text[..cut.index(text.len())]), Err(Kind::Invalid));
        prop_assert_eq!(open(&binding(), &format!("{text}{more}")), Err(Kind::Invalid));
    }

    #[test]
    fn garbage_is_refused_and_never_panics(text in ".{0,60}|[A-Za-z0-9_-]{0,80}") {
        prop_assert_eq!(open(&binding(), &text), Err(Kind::Invalid));
    }
}

#[test]
fn a_cursor_fits_only_the_query_it_was_made_for() {
    let owner = |name: &str| Scope::Owner(Owner::new(name).unwrap());
    let query = FinishedQuery { limit: 10, ..FinishedQuery::default() };
    let other = FinishedQuery { bodies: true, ..query.clone() };
    let bindings = [
        Binding::new("finished", &Scope::All, &query),
        Binding::new("pending", &Scope::All, &query),
        Binding::new("finished", &owner("a"), &query),
        Binding::new("finished", &owner("b"), &query),
        Binding::new("finished", &Scope::All, &other),
    ];
    for (made, sealed) in bindings.iter().enumerate() {
        let text = Cursor::seal(sealed, &(1_u64, 2_u64));
        for (asked, binding) in bindings.iter().enumerate() {
            let opened = Cursor::open::<(u64, u64)>(binding, Some(&text));
            assert_eq!(opened.is_ok(), made == asked, "made for {made}, asked for {asked}");
        }
    }
}

#[test]
fn no_cursor_is_the_first_page() {
    assert_eq!(Cursor::open::<Key>(&binding(), None).unwrap(), None);
    let other_key = Cursor::seal(&binding(), &"text");
    assert_eq!(open(&binding(), &other_key), Err(Kind::Invalid));
    assert_eq!(open(&binding(), &"A".repeat(100_000)), Err(Kind::Invalid));
}
