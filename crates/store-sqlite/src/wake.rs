//! Waking: SQLite cannot notify other processes, so nothing is sent and nothing is stored.
//!
//! Holds throughout: a listener gets no wake and polls from time to time; within one process the
//! engine wakes itself. That nothing is stored saves an idle instance its commits.

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use windrow_domain::InstanceId;
use windrow_store::Result;
use windrow_store::wake::{Wake, Wakes};

use crate::SqliteBackend;

#[async_trait]
impl Wakes for SqliteBackend {
    async fn listen(&self, _: InstanceId) -> Result<BoxStream<'static, Wake>> {
        Ok(stream::pending().boxed())
    }

    async fn set_idle(&self, _: InstanceId, _: bool) -> Result<()> {
        Ok(())
    }
}
