//! The way into an owner's inbox for messages from outside.

use async_trait::async_trait;
use windrow_domain::{Owner, Stream};
use windrow_store::message::NewMessage;
use windrow_store::{Error, Kind};

use crate::deliver::{Inbox, IncomingMessage};

use super::Client;

/// Takes messages into an owner's inbox.
#[derive(Clone)]
pub struct OwnerInbox {
    pub(super) client: Client,
    pub(super) owner: Owner,
}

#[async_trait]
impl Inbox for OwnerInbox {
    async fn accept(&self, arrived: Vec<IncomingMessage>) -> Result<(), Error> {
        let owned = arrived.into_iter().map(|arrived| {
            let stream = Stream::new(arrived.stream)
                .map_err(|bad| Error::new(Kind::Invalid, "accept", "stream").because(bad))?;
            let message = NewMessage::inbox(self.owner.clone(), stream, arrived.id)
                .kind(arrived.kind)
                .payload(arrived.payload);
            Ok(NewMessage { headers: arrived.headers, ..message })
        });
        let messages = owned.collect::<Result<Vec<_>, Error>>()?;
        if messages.is_empty() {
            return Ok(());
        }
        self.client.send(messages).await.map(|_| ())
    }
}
