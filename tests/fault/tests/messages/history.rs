//! The recorded history: the database itself notes every change of a partition's owner, and for every
//! event who owned its stream at that moment. Nothing that an instance believes goes into it.
//!
//! Holds throughout: a note commits with what it is about.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tokio::task::{JoinSet, block_in_place};
use tokio_postgres::NoTls;
use uuid::Uuid;
use windrow::store::message::MessagesQuery;
use windrow::store::{Scope, Store};
use windrow_fault::{Fixture, wait};

use crate::{WITHIN, number, owner, stream};

const POSTGRES: &str = "
CREATE TABLE public.takes (
    seq bigint GENERATED ALWAYS AS IDENTITY, no bigint, epoch bigint, instance uuid);
CREATE FUNCTION public.note_take() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.takes (no, epoch, instance) VALUES (NEW.no, NEW.epoch, NEW.instance);
    RETURN NULL;
END $$;
CREATE TRIGGER note_take AFTER UPDATE OF epoch, instance ON windrow.partitions
    FOR EACH ROW EXECUTE FUNCTION public.note_take();
CREATE TABLE public.effects (stream text, version bigint, instance uuid, said text);
CREATE FUNCTION public.note_effect() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.effects
    SELECT NEW.stream, NEW.version, p.instance, NEW.headers->>'instance'
    FROM windrow.streams AS s JOIN windrow.partitions AS p ON p.no = s.partition
    WHERE s.owner = NEW.owner AND s.queue = 0 AND s.name = NEW.stream;
    RETURN NULL;
END $$;
CREATE TRIGGER note_effect AFTER INSERT ON windrow.events
    FOR EACH ROW EXECUTE FUNCTION public.note_effect();";

const SQLITE: &str = "
CREATE TABLE takes (seq INTEGER PRIMARY KEY, no INTEGER, epoch INTEGER, instance BLOB) STRICT;
CREATE TRIGGER note_take AFTER UPDATE OF epoch, instance ON partitions BEGIN
    INSERT INTO takes (no, epoch, instance) VALUES (NEW.no, NEW.epoch, NEW.instance);
END;
CREATE TABLE effects (stream TEXT, version INTEGER, instance BLOB, said TEXT) STRICT;
CREATE TRIGGER note_effect AFTER INSERT ON events BEGIN
    INSERT INTO effects
    SELECT NEW.stream, NEW.version, p.instance, json_extract(NEW.headers, '$.instance')
    FROM streams AS s JOIN partitions AS p ON p.no = s.partition
    WHERE s.owner = NEW.owner AND s.queue = 0 AND s.name = NEW.stream;
END;";

const TAKES: &str = "SELECT no, epoch, instance FROM takes ORDER BY seq";
const EFFECTS: &str = "SELECT stream, version, instance, said FROM effects";

/// A partition at an epoch, and whose it was; none when it was given back.
struct Take {
    no: i64,
    epoch: i64,
    instance: Option<Uuid>,
}

/// An event, who owned its stream then, and who says that it made it.
struct Effect {
    stream: String,
    version: i64,
    instance: Option<Uuid>,
    said: Option<String>,
}

/// From now on the database takes notes.
pub(crate) async fn record(fixture: &Fixture) {
    if fixture.database().contains("://") {
        connect(fixture.database(), async |client| client.batch_execute(POSTGRES).await.unwrap())
            .await;
    } else {
        block_in_place(|| file(fixture.database()).execute_batch(SQLITE).unwrap());
    }
}

/// Waits until no message is left.
pub(crate) async fn settle(store: &dyn Store) {
    let query = || MessagesQuery { limit: 10, ..MessagesQuery::default() };
    let look = || async {
        let page = store.messages(&Scope::All, query()).await.ok()?;
        page.rows.is_empty().then_some(())
    };
    let state = || async {
        let (left, all) = (store.messages(&Scope::All, query()).await, store.backlog().await);
        let partitions = store.partitions().await.unwrap();
        let owned = partitions.iter().filter(|partition| partition.is_owner_live).count();
        format!("{owned} partitions are owned, {all:?}, and the first that wait are {left:#?}")
    };
    wait::until(WITHIN, look, state).await;
}

/// Every message took effect once and in its stream's order, under the one who owned the stream; and
/// partitions changed hands as they should.
pub(crate) async fn check(fixture: &Fixture, written: &BTreeMap<String, u64>) {
    check_effects(fixture.store(), written).await;
    let letters = fixture.store().dead_letters(&Scope::All, query()).await.unwrap();
    assert_eq!(letters.rows, [], "nothing is to be given up on");
    let (takes, effects) = notes(fixture).await;
    check_takes(&takes);
    for Effect { stream, version, instance, said } in &effects {
        let owner = instance.map(|instance| instance.to_string());
        assert!(owner.is_some(), "nobody owned {stream} when version {version} came to be");
        assert_eq!(owner, *said, "another than its owner changed {stream} to version {version}");
    }
    let total: u64 = written.values().sum();
    assert_eq!(effects.len() as u64, total, "every effect was noted");
    println!("{total} messages of {} streams, {} changes of owners", written.len(), takes.len());
}

fn query() -> MessagesQuery {
    MessagesQuery { limit: 100, ..MessagesQuery::default() }
}

/// Every message took effect once and in its stream's order.
pub(crate) async fn check_effects(store: &dyn Store, written: &BTreeMap<String, u64>) {
    for (name, count) in written {
        let mut numbers = Vec::new();
        loop {
            let from = numbers.len() as u64 + 1;
            let page = store.read_stream(&owner(), &stream(name), from, 1000).await.unwrap();
            if page.is_empty() {
                break;
            }
            numbers.extend(page.iter().map(|event| number(&event.payload)));
        }
        let wanted: Vec<u64> = (1..=*count).collect();
        assert_eq!(numbers, wanted, "the effects of stream {name}");
    }
}

/// Epochs never go down, each belongs to one instance, and a new owner has a new one.
fn check_takes(takes: &[Take]) {
    let mut last: BTreeMap<i64, (i64, Option<Uuid>)> = BTreeMap::new();
    let mut epochs = BTreeSet::new();
    for Take { no, epoch, instance } in takes {
        let (before, owner) = last.insert(*no, (*epoch, *instance)).unwrap_or_default();
        assert!(*epoch >= before, "the epoch of partition {no} went from {before} to {epoch}");
        if instance.is_some() && *instance != owner {
            assert!(*epoch > before, "partition {no} has a new owner in its old epoch {epoch}");
            assert!(epochs.insert((*no, *epoch)), "partition {no} was taken twice in {epoch}");
        }
    }
}

async fn notes(fixture: &Fixture) -> (Vec<Take>, Vec<Effect>) {
    if !fixture.database().contains("://") {
        return block_in_place(|| notes_of_file(fixture.database()));
    }
    connect(fixture.database(), async |client| {
        let takes = client.query(TAKES, &[]).await.unwrap();
        let takes = takes.iter().map(|row| {
            let (no, epoch, instance) = (row.get(0), row.get(1), row.get(2));
            Take { no, epoch, instance }
        });
        let effects = client.query(EFFECTS, &[]).await.unwrap();
        let effects = effects.iter().map(|row| {
            let (stream, version, instance) = (row.get(0), row.get(1), row.get(2));
            Effect { stream, version, instance, said: row.get(3) }
        });
        (takes.collect(), effects.collect())
    })
    .await
}

fn notes_of_file(path: &str) -> (Vec<Take>, Vec<Effect>) {
    let file = file(path);
    let id = |bytes: Option<Vec<u8>>| bytes.map(|bytes| Uuid::from_slice(&bytes).unwrap());
    let mut takes = file.prepare(TAKES).unwrap();
    let takes = takes.query_map([], |row| {
        Ok(Take { no: row.get(0)?, epoch: row.get(1)?, instance: id(row.get(2)?) })
    });
    let mut effects = file.prepare(EFFECTS).unwrap();
    let effects = effects.query_map([], |row| {
        let (stream, version, instance) = (row.get(0)?, row.get(1)?, id(row.get(2)?));
        Ok(Effect { stream, version, instance, said: row.get(3)? })
    });
    let takes = takes.unwrap().collect::<Result<_, _>>().unwrap();
    (takes, effects.unwrap().collect::<Result<_, _>>().unwrap())
}

fn file(path: &str) -> rusqlite::Connection {
    let file = rusqlite::Connection::open(Path::new(path)).unwrap();
    file.busy_timeout(WITHIN).unwrap();
    file
}

/// A connection for one piece of work.
pub(crate) async fn connect<T>(
    url: &str,
    work: impl AsyncFnOnce(&mut tokio_postgres::Client) -> T,
) -> T {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { drop(connection.await) });
    work(&mut client).await
}
