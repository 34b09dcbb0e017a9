//! Members: instances join, send heartbeats, take duties and leave.
//!
//! Holds throughout: a heartbeat is one update of one row; a tombstone is for ever; leaving gives the
//! leases back in the same transaction, and burying another one leaves them to be lost; a duty is judged and
//! taken in one guarded statement.

use async_trait::async_trait;
use tokio_postgres::types::Type;
use windrow_domain::InstanceId;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::member::{Evidence, Member, Members, NewMember};

use crate::db::{Sql, sql};
use crate::{PostgresBackend, rows};

#[async_trait]
impl Members for PostgresBackend {
    async fn register(&self, member: NewMember) -> Result<()> {
        let lock = member.lock.as_ref();
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&member.instance.0 as _, Type::UUID),
            (&member.service as _, Type::TEXT),
            (&member.host as _, Type::TEXT),
            (&i64::from(member.pid) as _, Type::INT8),
            (&member.metadata as _, Type::TEXT),
            (&lock.map(|lock| &*lock.boot_id) as _, Type::TEXT),
            (&lock.map(|lock| lock.device.cast_signed()) as _, Type::INT8),
            (&lock.map(|lock| lock.inode.cast_signed()) as _, Type::INT8),
            (&lock.map(|lock| &*lock.path) as _, Type::TEXT),
        ];
        let joined = self.db.rows(sql!("member/register"), &params).await?;
        if joined.is_empty() { Err(Error::of(Kind::LeaseLost).because(TOMBSTONED)) } else { Ok(()) }
    }

    async fn heartbeat(&self, instance: InstanceId) -> Result<()> {
        let params = [(&self.db.now() as _, Type::TIMESTAMPTZ), (&instance.0 as _, Type::UUID)];
        let found = self.db.lone(HEARTBEAT, &params).await?;
        match found.first().map(|row| row.get::<_, bool>("alive")) {
            Some(true) => Ok(()),
            Some(false) => Err(Error::of(Kind::LeaseLost).because(TOMBSTONED)),
            None => Err(Error::of(Kind::Missing)),
        }
    }

    async fn take_duty(&self, instance: InstanceId, duty: &str, lease_ms: u64) -> Result<bool> {
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&instance.0 as _, Type::UUID),
            (&duty as _, Type::TEXT),
            (&lease_ms.cast_signed() as _, Type::INT8),
        ];
        let taken = self.db.lone(sql!("member/take_duty"), &params).await?;
        Ok(!taken.is_empty())
    }

    async fn tombstone(&self, instance: InstanceId) -> Result<u64> {
        let params = [(&self.db.now() as _, Type::TIMESTAMPTZ), (&instance.0 as _, Type::UUID)];
        let buried = self.db.rows(Sql::value("member/tombstone"), &params).await?;
        let lines: Option<i64> = buried[0].get("answer");
        lines.map(i64::cast_unsigned).ok_or_else(|| Error::of(Kind::Missing))
    }

    async fn bury(&self, instance: InstanceId, evidence: Evidence) -> Result<bool> {
        let seen = match evidence {
            Evidence::LockGot => None,
            Evidence::Silent { heartbeat_at } => Some(heartbeat_at),
        };
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&instance.0 as _, Type::UUID),
            (&seen as _, Type::TIMESTAMPTZ),
        ];
        let buried = self.db.rows(sql!("member/bury"), &params).await?;
        let buried = buried.first().map(|row| row.get("buried"));
        buried.ok_or_else(|| Error::of(Kind::Missing))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        // Every instance asks all the time.
        let params = [(&self.db.now() as _, Type::TIMESTAMPTZ)];
        let found = self.db.lone(sql!("member/members"), &params).await?;
        Ok(found.iter().map(rows::member).collect())
    }
}

/// Says that an instance is alive; also part of an exchange.
pub(crate) const HEARTBEAT: Sql = sql!("member/heartbeat");

const TOMBSTONED: &str = "the instance was tombstoned; register again under a new id";
