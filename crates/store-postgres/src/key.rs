//! Keys: found by the hash of their secret, noted when used, revoked for ever.
//!
//! Holds throughout: looking a key up is one statement that locks nothing; of two callers that add the
//! same key at once, one adds it and the other is told the same or to repeat the call.

use async_trait::async_trait;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::KeyId;
use windrow_store::Scope;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::inspect::{Binding, Cursor, Page};
use windrow_store::key::{Key, Keys, KeysQuery, NewKey};

use crate::db::sql;
use crate::inspect::{TimeKey, page};
use crate::{PostgresBackend, rows};

#[async_trait]
impl Keys for PostgresBackend {
    async fn add_key(&self, key: NewKey) -> Result<Key> {
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&key.id.0 as _, Type::UUID),
            (&&key.hash[..] as _, Type::BYTEA),
            (&key.owner.as_str() as _, Type::TEXT),
            (&key.role.as_str() as _, Type::TEXT),
            (&key.name as _, Type::TEXT),
            (&key.hint as _, Type::TEXT),
            (&key.expires_at as _, Type::TIMESTAMPTZ),
        ];
        let found = self.db.rows(sql!("key/add_key"), &params).await?;
        match found.as_slice() {
            // Two who add it at the same moment: the one that made nothing may not see the other's.
            [] => Err(Error::of(Kind::Busy)),
            [row] if row.get::<_, &[u8]>("hash") == key.hash && key.is(&rows::key(row)?) => {
                rows::key(row)
            }
            _ => Err(Error::of(Kind::Conflict).because("its id or its secret is in use already")),
        }
    }

    async fn find_key(&self, hash: &[u8; 32]) -> Result<Key> {
        let params = [(&self.db.now() as _, Type::TIMESTAMPTZ), (&&hash[..] as _, Type::BYTEA)];
        let found = self.db.lone(sql!("key/find_key"), &params).await?;
        found.first().ok_or_else(|| Error::of(Kind::Missing)).and_then(rows::key)
    }

    async fn touch_keys(&self, keys: &[KeyId]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = keys.iter().map(|key| key.0).collect();
        let params = [(&self.db.now() as _, Type::TIMESTAMPTZ), (&ids as _, Type::UUID_ARRAY)];
        self.db.rows(sql!("key/touch_keys"), &params).await.map(drop)
    }

    async fn revoke_key(&self, scope: &Scope, key: KeyId) -> Result<Key> {
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&key.0 as _, Type::UUID),
            (&scope.owner() as _, Type::TEXT),
        ];
        let found = self.db.rows(sql!("key/revoke_key"), &params).await?;
        found.first().ok_or_else(|| Error::of(Kind::Missing)).and_then(rows::key)
    }

    async fn keys(&self, scope: &Scope, query: KeysQuery) -> Result<Page<Key>> {
        let limit = i64::from(query.limit);
        let binding = Binding::new("keys", scope, &());
        let after: Option<TimeKey> = Cursor::open(&binding, query.after.as_deref())?;
        let params = [
            (&scope.owner() as _, Type::TEXT),
            (&after.map(|key| key.0) as _, Type::TIMESTAMPTZ),
            (&after.map(|key| key.1) as _, Type::UUID),
            (&(limit + 1) as _, Type::INT8),
        ];
        let found = self.db.rows(sql!("key/keys"), &params).await?;
        let keys = found.iter().map(rows::key).collect::<Result<Vec<_>>>()?;
        Ok(page(keys, limit, &binding, |key| (key.created_at, key.id.0)))
    }
}
