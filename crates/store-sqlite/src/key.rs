//! API keys: stored by the hash of their secret, with the owner and the role that they stand for.

use async_trait::async_trait;
use rusqlite::{Row, params};
use uuid::Uuid;
use windrow_domain::KeyId;
use windrow_store::inspect::{Binding, Cursor, Page};
use windrow_store::key::{Key, Keys, KeysQuery, NewKey};
use windrow_store::{Error, Kind, Result, Scope};

use crate::tx::{Tx, sql};
use crate::{SqliteBackend, inspect, rows};

#[async_trait]
impl Keys for SqliteBackend {
    async fn add_key(&self, key: NewKey) -> Result<Key> {
        self.write(move |tx| add(tx, &key)).await
    }

    async fn find_key(&self, hash: &[u8; 32]) -> Result<Key> {
        let hash = *hash;
        let find = move |tx: &Tx<'_>| {
            let found = tx.one(sql!("key/find_key"), params![tx.now, hash], read_key)?;
            found.ok_or_else(|| Error::of(Kind::Missing))
        };
        self.read(find).await
    }

    async fn touch_keys(&self, keys: &[KeyId]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let keys = keys.to_vec();
        self.write(move |tx| {
            keys.iter().try_for_each(|key| {
                tx.run(sql!("key/touch_keys"), params![tx.now, key.0.into_bytes()]).map(|_| ())
            })
        })
        .await
    }

    async fn revoke_key(&self, scope: &Scope, key: KeyId) -> Result<Key> {
        let scope = scope.clone();
        self.write(move |tx| {
            let found = find(tx, &scope, key)?;
            tx.run(sql!("key/revoke_key"), params![tx.now, found.id.0.into_bytes()])?;
            find(tx, &scope, key)
        })
        .await
    }

    async fn keys(&self, scope: &Scope, query: KeysQuery) -> Result<Page<Key>> {
        let scope = scope.clone();
        self.read(move |tx| list(tx, &scope, &query)).await
    }
}

fn read_key(row: &Row<'_>) -> rusqlite::Result<Key> {
    Ok(Key {
        id: KeyId(rows::uuid(row, 0)?),
        owner: rows::name(row, 1)?,
        role: rows::parsed(row, 2)?,
        name: row.get(3)?,
        hint: row.get(4)?,
        created_at: rows::time(row, 5)?,
        expires_at: rows::time_opt(row, 6)?,
        last_used_at: rows::time_opt(row, 7)?,
        revoked_at: rows::time_opt(row, 8)?,
    })
}

fn find(tx: &Tx<'_>, scope: &Scope, key: KeyId) -> Result<Key> {
    let of = params![key.0.into_bytes(), scope.owner()];
    tx.one(sql!("key/find"), of, read_key)?.ok_or_else(|| Error::of(Kind::Missing))
}

fn add(tx: &Tx<'_>, new: &NewKey) -> Result<Key> {
    let id = new.id.0.into_bytes();
    let found = tx.all(sql!("key/find_repeat"), params![id, new.hash], |row| {
        Ok((read_key(row)?, row.get::<_, [u8; 32]>(9)?))
    })?;
    match found.as_slice() {
        [] => {}
        [(key, hash)] if *hash == new.hash && new.is(key) => return Ok(key.clone()),
        _ => {
            let because = "its id or its secret is in use already";
            return Err(Error::of(Kind::Conflict).because(because));
        }
    }
    let key = params![
        id,
        new.hash,
        new.owner.as_str(),
        new.role.as_str(),
        new.name,
        new.hint,
        tx.now,
        new.expires_at.map(|at| at.as_microsecond())
    ];
    tx.run(sql!("key/add_key"), key)?;
    find(tx, &Scope::All, new.id)
}

fn list(tx: &Tx<'_>, scope: &Scope, query: &KeysQuery) -> Result<Page<Key>> {
    let binding = Binding::new("keys", scope, &());
    let after: Option<(i64, Uuid)> = Cursor::open(&binding, query.after.as_deref())?;
    let (at, id) = after.unwrap_or((i64::MAX, Uuid::max()));
    let (id, limit) = (id.into_bytes(), query.limit + 1);
    let rows = match scope.owner() {
        None => tx.all(sql!("key/keys"), params![at, id, limit], read_key)?,
        Some(owner) => {
            tx.all(sql!("key/keys_of_owner"), params![at, id, limit, owner], read_key)?
        }
    };
    Ok(inspect::page(rows, query.limit, &binding, |key| {
        (key.created_at.as_microsecond(), key.id.0)
    }))
}
