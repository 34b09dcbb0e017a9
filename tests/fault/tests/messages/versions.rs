//! Two writers believe the same of a stream.

use tokio::task::JoinSet;
use windrow::domain::Expected;
use windrow::domain::event::VersionConflict;
use windrow::store::Kind;
use windrow::store::event::{Append, NewEvent};
use windrow::store::message::Headers;
use windrow_fault::{Backend, Fixture, fixture, rounds};

use crate::{on_both_stores, owner, stream};

const STREAM: &str = "raced";

on_both_stores!(of_two_writers_one_wins_and_the_other_is_told_both_versions);

async fn of_two_writers_one_wins_and_the_other_is_told_both_versions(backend: Backend) {
    let base = Fixture::on(backend).await;
    let mut handles = Vec::new();
    for _ in 0..3 {
        handles.push(fixture::open(base.database()).await.unwrap());
    }
    for version in 0..rounds(100, 1000) {
        let mut race = JoinSet::new();
        for (writer, store) in handles.iter().enumerate() {
            let (store, append) = (store.clone(), append(version, writer));
            race.spawn(async move { (writer, store.append(vec![append]).await) });
        }
        let (mut won, mut told) = (Vec::new(), 0);
        for (writer, outcome) in race.join_all().await {
            match outcome {
                Ok(appended) => {
                    assert_eq!((appended[0].first, appended[0].last), (version + 1, version + 1));
                    won.push(writer);
                }
                Err(error) => {
                    assert_eq!(error.kind, Kind::Conflict, "{error:?}");
                    let both = VersionConflict {
                        stream: STREAM.to_owned(),
                        expected: version,
                        actual: version + 1,
                    };
                    assert_eq!(error.version_conflict(), Some(&both));
                    told += 1;
                }
            }
        }
        assert_eq!((won.len(), told), (1, handles.len() - 1));
        let store = base.store();
        let events = store.read_stream(&owner(), &stream(STREAM), version + 1, 10).await.unwrap();
        let ids: Vec<&str> = events.iter().map(|event| event.id.as_str()).collect();
        assert_eq!(ids, [format!("{version}-{}", won[0])]);
    }
}

fn append(version: u64, writer: usize) -> Append {
    let event = NewEvent {
        id: format!("{version}-{writer}"),
        kind: "raced".to_owned(),
        payload: writer.to_string().into(),
        headers: Headers::new(),
    };
    Append {
        owner: owner(),
        stream: stream(STREAM),
        expected: Expected::Version(version),
        events: vec![event],
    }
}
