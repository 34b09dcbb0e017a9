//! Upstreams: what the database knows of each, registered once and changed only by a person.

use async_trait::async_trait;
use rusqlite::{Row, params};
use windrow_domain::upstream::MarkSecret;
use windrow_store::Result;
use windrow_store::upstream::{UPSTREAMS_MAX, Upstream, Upstreams};

use crate::tx::sql;
use crate::{SqliteBackend, rows};

#[async_trait]
impl Upstreams for SqliteBackend {
    async fn mark_secret(&self) -> Result<MarkSecret> {
        let read = |row: &Row<'_>| row.get(0).map(MarkSecret);
        self.read(move |tx| tx.sure(sql!("upstream/mark_secret"), [], read)).await
    }

    async fn register_upstream(&self, upstream: Upstream) -> Result<Upstream> {
        self.write(move |tx| {
            let new = params![upstream.upstream.as_str(), upstream.base_url, upstream.key_mark];
            tx.sure(sql!("upstream/register_upstream"), new, read)
        })
        .await
    }

    async fn set_upstream(&self, upstream: Upstream) -> Result<()> {
        self.write(move |tx| {
            let new = params![upstream.upstream.as_str(), upstream.base_url, upstream.key_mark];
            tx.run(sql!("upstream/set_upstream"), new).map(|_| ())
        })
        .await
    }

    async fn upstreams(&self) -> Result<Vec<Upstream>> {
        let limit = i64::try_from(UPSTREAMS_MAX).unwrap_or(i64::MAX);
        self.read(move |tx| tx.all(sql!("upstream/upstreams"), [limit], read)).await
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Upstream> {
    Ok(Upstream { upstream: rows::name(row, 0)?, base_url: row.get(1)?, key_mark: row.get(2)? })
}
