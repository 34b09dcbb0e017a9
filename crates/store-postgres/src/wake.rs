//! How instances wake each other: `NOTIFY` to a channel for each instance.
//!
//! Holds throughout: a listener has a connection of its own outside the pool, which is driven by
//! reading the stream and closed with it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Connection, Socket};
use windrow_domain::{InstanceId, Owner, RequestId};
use windrow_store::call::CallKey;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::wake::{Wake, Wakes};

use crate::PostgresBackend;
use crate::db::sql;
use crate::error::from_driver;

#[async_trait]
impl Wakes for PostgresBackend {
    async fn listen(&self, instance: InstanceId) -> Result<BoxStream<'static, Wake>> {
        // A pooler gives each transaction another connection, and none would be told.
        if self.db.options.transaction_pooler {
            return Ok(stream::pending().boxed());
        }
        let opened = async {
            let (client, connection) = self.db.connection().await?;
            let mut listener = WakeListener { connection, early: VecDeque::new(), client };
            let channel = instance.0.simple().to_string();
            let text = sql!("wake/listen").text(0).replace("{instance}", &channel);
            listener.begin(&text).await.map_err(|cause| match cause {
                Some(cause) => from_driver(cause),
                None => Error::of(Kind::Unavailable),
            })?;
            Ok(listener)
        };
        let listener: WakeListener = self.db.in_time(opened).await??;
        let next = |mut listener: WakeListener| async {
            listener.next().await.map(|wake| (wake, listener))
        };
        Ok(stream::unfold(listener, next).boxed())
    }

    async fn set_idle(&self, instance: InstanceId, asleep: bool) -> Result<()> {
        let params = [(&instance.0 as _, Type::UUID)];
        let sql = if asleep { sql!("wake/fall_asleep") } else { sql!("wake/wake_up") };
        self.db.lone(sql, &params).await.map(drop)
    }
}

/// A listening instance: its connection, and the wakes that have not been read yet.
struct WakeListener {
    connection: Connection<Socket, NoTlsStream>,
    /// What was heard before listening was confirmed.
    early: VecDeque<Wake>,
    /// Kept, because the connection ends with it.
    client: Client,
}

impl WakeListener {
    /// Begins to listen, and moves the connection meanwhile. None: it ended.
    async fn begin(&mut self, text: &str) -> Result<(), Option<tokio_postgres::Error>> {
        let Self { connection, early, client } = self;
        let mut begun = pin!(client.batch_execute(text));
        poll_fn(|context| {
            loop {
                if let Poll::Ready(begun) = begun.as_mut().poll(context) {
                    return Poll::Ready(begun.map_err(Some));
                }
                match connection.poll_message(context) {
                    Poll::Ready(Some(Ok(message))) => early.extend(heard(&message)),
                    Poll::Ready(Some(Err(cause))) => return Poll::Ready(Err(Some(cause))),
                    Poll::Ready(None) => return Poll::Ready(Err(None)),
                    Poll::Pending => break,
                }
            }
            match begun.as_mut().poll(context) {
                Poll::Ready(begun) => Poll::Ready(begun.map_err(Some)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// What is heard next; none when the way to the database is lost.
    async fn next(&mut self) -> Option<Wake> {
        loop {
            if let Some(wake) = self.early.pop_front() {
                return Some(wake);
            }
            let message = poll_fn(|context| self.connection.poll_message(context)).await;
            self.early.extend(heard(&message?.ok()?));
        }
    }
}

/// What a message of the server tells, if it is one of ours.
fn heard(message: &AsyncMessage) -> Option<Wake> {
    let AsyncMessage::Notification(told) = message else { return None };
    match told.payload().split_at_checked(1)? {
        // What cannot be read may be any of them.
        ("w", numbers) => Some(Wake::Work(
            numbers.split(',').map(str::parse).collect::<Result<_, _>>().unwrap_or_default(),
        )),
        ("c", names) => {
            let (owner, request): (String, String) = serde_json::from_str(names).ok()?;
            let (owner, request_id) = (Owner::new(owner).ok()?, RequestId::new(request).ok()?);
            Some(Wake::Answered(CallKey { owner, request_id }))
        }
        _ => None,
    }
}
