//! Calls as a program writes them: an object, a method, arguments, and an `.await`.
//!
//! Holds throughout: nothing is submitted before the `.await`; a call under an id of the caller's choice is
//! made once, and a repeat gets the same answer; without one, each call has an id of its own.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windrow_domain::{InstanceId, Owner, RequestId};
use windrow_store::call::{CallKey, NewCall};
use windrow_store::{Error, Kind};

use crate::messages::handler::typed::write_call;

use super::{CallOutcome, Client, ClientError};

/// How long a call is waited for unless it says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An object, to be called. Made by [`Client::object`].
pub struct ObjectRef<'a> {
    client: &'a Client,
    object_type: String,
    object_id: String,
}

impl<'a> ObjectRef<'a> {
    pub(super) fn new(client: &'a Client, object_type: String, object_id: String) -> Self {
        Self { client, object_type, object_id }
    }

    /// Calls a method with arguments in JSON.
    pub fn call<A: Serialize + ?Sized>(&self, method: impl Into<String>, args: &A) -> CallRequest {
        let args = serde_json::to_vec(args).map(Bytes::from);
        self.request(args.map(|args| (method.into(), args)))
    }

    /// Calls a method with these bytes as arguments.
    pub fn call_raw(&self, method: impl Into<String>, args: impl Into<Bytes>) -> CallRequest {
        self.request(Ok((method.into(), args.into())))
    }

    fn request(&self, method: serde_json::Result<(String, Bytes)>) -> CallRequest {
        CallRequest {
            client: self.client.clone(),
            object_type: self.object_type.clone(),
            object_id: self.object_id.clone(),
            method,
            id: None,
            caller: None,
            expires_in: None,
            timeout: TIMEOUT,
        }
    }
}

/// A call, submitted and waited for by `.await`, which gives its [`CallOutcome`].
#[must_use = "a call is made when it is awaited"]
pub struct CallRequest {
    client: Client,
    object_type: String,
    object_id: String,
    method: serde_json::Result<(String, Bytes)>,
    id: Option<String>,
    caller: Option<String>,
    expires_in: Option<Duration>,
    timeout: Duration,
}

fn invalid(subject: &str, because: impl Into<windrow_store::error::Cause>) -> ClientError {
    Error::new(Kind::Invalid, "call object", subject).because(because).into()
}

impl CallRequest {
    /// Under this id: repeats with the same id, method and arguments get the same answer.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// For this owner, instead of the client's.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.client.owner = Some(owner);
        self
    }

    /// With the name of the program that calls.
    pub fn caller(mut self, caller: impl Into<String>) -> Self {
        self.caller = Some(caller.into());
        self
    }

    /// With a life: a call that still waits after that time fails, and an answer is kept no longer.
    pub fn expires_in(mut self, life: Duration) -> Self {
        self.expires_in = Some(life);
        self
    }

    /// Waits for the answer no longer than that: then the outcome is [`CallOutcome::Pending`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The call as it would be submitted.
    pub fn into_new_call(self) -> Result<NewCall, ClientError> {
        let owner = self.client.owner.clone();
        let owner = owner.ok_or_else(|| invalid("owner", "neither call nor client names one"))?;
        let id = self.id.unwrap_or_else(|| InstanceId::new().to_string());
        let request_id = RequestId::new(id).map_err(|bad| invalid("id", bad))?;
        let (method, args) = self.method.map_err(|bad| invalid("arguments", bad))?;
        let key = CallKey { owner, request_id };
        let call = NewCall::new(key, self.object_type, self.object_id, method).args(args);
        let now = self.client.inner.clock.now();
        let expires_at =
            self.expires_in.map(|life| now.checked_add(life).unwrap_or(Timestamp::MAX));
        Ok(NewCall { caller_client: self.caller, expires_at, ..call })
    }
}

impl IntoFuture for CallRequest {
    type Output = Result<CallOutcome, ClientError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let (client, timeout) = (self.client.clone(), self.timeout);
        async move { client.call(self.into_new_call()?, timeout).await }.boxed()
    }
}

/// Why a typed call has no reply.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The handler failed for good; a repeat under the same id gets the same error.
    #[error("the call failed: {0}")]
    Failed(String),
    /// There is no answer yet: a repeat under the same id waits for it.
    #[error("the call has no answer yet")]
    Pending,
    /// The answer is not kept any more.
    #[error("the answer of the call has expired")]
    Expired,
    /// The reply is not of the type's.
    #[error("the reply cannot be read")]
    Reply(#[source] serde_json::Error),
    /// The call was not made.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A call of a typed object, submitted and waited for by `.await`, which gives its reply.
#[must_use = "a call is made when it is awaited"]
pub struct Ask<Reply>(CallRequest, PhantomData<fn() -> Reply>);

impl<Reply> Ask<Reply> {
    pub(super) fn new(object: ObjectRef<'_>, call: &impl Serialize) -> Self {
        Self(object.request(write_call(call)), PhantomData)
    }

    /// As [`CallRequest::id`].
    pub fn id(self, id: impl Into<String>) -> Self {
        Self(self.0.id(id), PhantomData)
    }

    /// As [`CallRequest::owner`].
    pub fn owner(self, owner: Owner) -> Self {
        Self(self.0.owner(owner), PhantomData)
    }

    /// As [`CallRequest::caller`].
    pub fn caller(self, caller: impl Into<String>) -> Self {
        Self(self.0.caller(caller), PhantomData)
    }

    /// As [`CallRequest::expires_in`].
    pub fn expires_in(self, life: Duration) -> Self {
        Self(self.0.expires_in(life), PhantomData)
    }

    /// As [`CallRequest::timeout`]; then the error is [`AskError::Pending`].
    pub fn timeout(self, timeout: Duration) -> Self {
        Self(self.0.timeout(timeout), PhantomData)
    }

    /// The same call without types: its `.await` gives a [`CallOutcome`].
    pub fn untyped(self) -> CallRequest {
        self.0
    }
}

impl<Reply: DeserializeOwned> IntoFuture for Ask<Reply> {
    type Output = Result<Reply, AskError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let call = self.0.into_future();
        async move {
            match call.await? {
                CallOutcome::Reply(reply) => {
                    serde_json::from_slice(&reply).map_err(AskError::Reply)
                }
                CallOutcome::Failed(error) => Err(AskError::Failed(error)),
                CallOutcome::Pending => Err(AskError::Pending),
                CallOutcome::Expired => Err(AskError::Expired),
            }
        }
        .boxed()
    }
}
