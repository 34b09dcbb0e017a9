//! Handlers over HTTP: a call or a message becomes one signed POST, and the answer is its effects.
//!
//! The request's body and the answer's are JSON; [`wire`] says which. It is signed as Standard Webhooks
//! has it, with `webhook-id` and `idempotency-key` = `owner/id`, the same at every attempt. Which
//! answers mean that the receiver is unavailable, that the request is repeated, or that it never
//! is, is decided in `crate::http::endpoint`.
//!
//! Holds throughout: the beginning of an attempt is stored before it is sent, unless the receiver is known to
//! be unavailable, so a receiver that kills its callers is found; the receiver may get a request more than
//! once and knows it by its key; what it answers is committed exactly once.

pub mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::deliver::{BadOption, webhook};
use crate::http::endpoint::SignedEndpoint;

use super::handler::erased::DynObject;
use super::handler::{Consumer, Context, Effects, HandlerError};

/// Where a handler is, and how to treat it: the same options as a webhook's.
pub type Options = webhook::Options;

/// A handler that is somewhere else.
#[derive(Clone)]
pub struct Remote(Arc<SignedEndpoint>);

impl Remote {
    /// Checks the options, reads keys and makes a client. Nothing is sent yet.
    pub fn new(options: &Options) -> Result<Self, BadOption> {
        let json = "application/json".to_owned();
        let endpoint = SignedEndpoint::new(&Options { content_type: json, ..options.clone() })?;
        Ok(Self(Arc::new(endpoint)))
    }

    async fn ask(&self, context: &Context, payload: Bytes) -> Result<Effects, HandlerError> {
        let body = Bytes::from(wire::write(context, &payload)?);
        let id = format!("{}/{}", context.owner, context.id);
        let answer = self.0.post(&id, [], body).await.map_err(HandlerError)?;
        // Unlike a webhook's, its body is what was asked for.
        let body = answer.body.map_err(|error| HandlerError(self.0.lost(&error)))?;
        wire::read(context, &body)
    }
}

impl DynObject for Remote {
    fn call<'a>(
        &'a self,
        context: Context,
        _: &'a str,
        args: Bytes,
    ) -> BoxFuture<'a, Result<Effects, HandlerError>> {
        async move { self.ask(&context, args).await }.boxed()
    }

    fn is_outside(&self) -> bool {
        true
    }
}

#[async_trait]
impl Consumer for Remote {
    async fn consume(&self, context: Context, payload: Bytes) -> Result<Effects, HandlerError> {
        self.ask(&context, payload).await
    }

    fn is_outside(&self) -> bool {
        true
    }
}
