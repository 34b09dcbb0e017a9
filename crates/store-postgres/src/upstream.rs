//! Upstreams: what the database knows of each, registered once and changed only by a person.

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windrow_domain::upstream::MarkSecret;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::upstream::{UPSTREAMS_MAX, Upstream, Upstreams};

use crate::db::{Param, sql};
use crate::{PostgresBackend, rows};

#[async_trait]
impl Upstreams for PostgresBackend {
    async fn mark_secret(&self) -> Result<MarkSecret> {
        let found = self.db.rows(sql!("upstream/mark_secret"), &[]).await?;
        let secret = found.first().map(|row| row.get::<_, &[u8]>("secret"));
        let secret = secret.and_then(|secret| secret.try_into().ok());
        let because = "the database has no secret for marks";
        secret.map(MarkSecret).ok_or_else(|| Error::of(Kind::Corrupt).because(because))
    }

    async fn register_upstream(&self, upstream: Upstream) -> Result<Upstream> {
        let upstream_id = upstream.upstream.as_str();
        let params = params(&upstream_id, &upstream);
        let found = self.db.rows(sql!("upstream/register_upstream"), &params).await?;
        read(&found[0])
    }

    async fn set_upstream(&self, upstream: Upstream) -> Result<()> {
        let upstream_id = upstream.upstream.as_str();
        let params = params(&upstream_id, &upstream);
        self.db.rows(sql!("upstream/set_upstream"), &params).await.map(drop)
    }

    async fn upstreams(&self) -> Result<Vec<Upstream>> {
        let limit = i64::try_from(UPSTREAMS_MAX).unwrap_or(i64::MAX);
        let found = self.db.rows(sql!("upstream/upstreams"), &[(&limit as _, Type::INT8)]).await?;
        let mut upstreams = found.iter().map(read).collect::<Result<Vec<_>>>()?;
        // The database's order of names depends on its locale.
        upstreams.sort_unstable_by(|a, b| a.upstream.cmp(&b.upstream));
        Ok(upstreams)
    }
}

fn params<'a>(id: &'a &'a str, upstream: &'a Upstream) -> [Param<'a>; 3] {
    [(id, Type::TEXT), (&upstream.base_url, Type::TEXT), (&upstream.key_mark, Type::TEXT)]
}

fn read(row: &Row) -> Result<Upstream> {
    Ok(Upstream {
        upstream: rows::upstream(row)?,
        base_url: row.get("base_url"),
        key_mark: row.get("key_mark"),
    })
}
