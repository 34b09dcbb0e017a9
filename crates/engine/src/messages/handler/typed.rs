//! Objects with types of their own: state, arguments and replies as JSON.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windrow_store::transactional::Sql;

use super::{
    Context, Effects, HandlerError, Object, StateChange, TRANSACTION_TIMEOUT, Transactional,
};

/// Objects whose state, methods and replies have types of their own, kept and sent as JSON. Registered with
/// [`Builder::typed`](crate::messages::Builder::typed), called with
/// [`Client::ask`](crate::messages::Client::ask).
#[async_trait]
pub trait Typed: Send + Sync + 'static {
    /// The state between calls.
    type State: Serialize + DeserializeOwned + Default + PartialEq + Clone + Send + Sync + 'static;
    /// Its methods: an enum with a variant for each, read from `{method: args}`. A method without
    /// arguments is called with `null`.
    type Call: DeserializeOwned + Send + 'static;
    /// The reply of every method.
    type Reply: Serialize + Send + 'static;

    /// The type's name, without a slash.
    const TYPE: &'static str;

    /// Runs a method. `state` is stored when it was changed. What is put into `effects` besides is
    /// committed with it.
    async fn run(
        &self,
        context: &Context,
        state: &mut Self::State,
        call: Self::Call,
        effects: &mut Effects,
    ) -> Result<Self::Reply, HandlerError>;
}

/// As [`Typed`], with SQL of its own in the transaction of each call; see [`Transactional`]. Registered with
/// [`Builder::typed_tx`](crate::messages::Builder::typed_tx).
#[async_trait]
pub trait TypedTransactional: Send + Sync + 'static {
    /// As [`Typed::State`].
    type State: Serialize + DeserializeOwned + Default + PartialEq + Clone + Send + Sync + 'static;
    /// As [`Typed::Call`].
    type Call: DeserializeOwned + Send + 'static;
    /// As [`Typed::Reply`].
    type Reply: Serialize + Send + 'static;

    /// The type's name, without a slash.
    const TYPE: &'static str;

    /// Runs a method; what `sql` writes, `state` and `effects` are committed together.
    async fn run(
        &self,
        context: &Context,
        sql: &mut dyn Sql,
        state: &mut Self::State,
        call: Self::Call,
        effects: &mut Effects,
    ) -> Result<Self::Reply, HandlerError>;

    /// As [`Transactional::timeout`].
    fn timeout(&self) -> Duration {
        TRANSACTION_TIMEOUT
    }
}

/// A [`Typed`] object as an [`Object`], or a [`TypedTransactional`] one as a [`Transactional`] one.
pub(crate) struct TypedObject<T>(pub(crate) T);

/// A call as its method and arguments: what [`read_call`] reads.
pub(crate) fn write_call<C: Serialize>(call: &C) -> Result<(String, Bytes), serde_json::Error> {
    let (method, args) = match serde_json::to_value(call)? {
        serde_json::Value::String(method) => return Ok((method, Bytes::new())),
        serde_json::Value::Object(tagged) if tagged.len() == 1 => {
            tagged.into_iter().next().unwrap_or_default()
        }
        _ => {
            let bad = "a call must be an enum with a variant for each method";
            return Err(serde::ser::Error::custom(bad));
        }
    };
    Ok((method, serde_json::to_vec(&args)?.into()))
}

/// Reads `{method: args}`: what an externally tagged enum is made from.
fn read_call<C: DeserializeOwned>(method: &str, args: &[u8]) -> Result<C, HandlerError> {
    let args: serde_json::Value = match args {
        [] => serde_json::Value::Null,
        args => serde_json::from_slice(args)
            .map_err(|bad| HandlerError::permanent(format!("the arguments are not JSON: {bad}")))?,
    };
    let bad = |bad: serde_json::Error| HandlerError::permanent(format!("cannot {method}: {bad}"));
    if args.is_null() {
        // A variant without arguments is its name alone.
        let name = serde_json::Value::String(method.to_owned());
        if let Ok(call) = serde_json::from_value(name) {
            return Ok(call);
        }
    }
    let mut tagged = serde_json::Map::new();
    tagged.insert(method.to_owned(), args);
    serde_json::from_value(serde_json::Value::Object(tagged)).map_err(bad)
}

#[async_trait]
impl<T: Typed> Object for TypedObject<T> {
    const TYPE: &'static str = T::TYPE;

    async fn call(
        &self,
        context: Context,
        method: &str,
        args: Bytes,
    ) -> Result<Effects, HandlerError> {
        let call = read_call::<T::Call>(method, &args)?;
        let before: T::State = read_state(&context)?;
        let (mut state, mut effects) = (before.clone(), Effects::none());
        let reply = self.0.run(&context, &mut state, call, &mut effects).await?;
        finish(&context, &before, &state, &reply, effects)
    }
}

#[async_trait]
impl<T: TypedTransactional> Transactional for TypedObject<T> {
    const TYPE: &'static str = T::TYPE;

    async fn call(
        &self,
        context: Context,
        sql: &mut dyn Sql,
        method: &str,
        args: Bytes,
    ) -> Result<Effects, HandlerError> {
        let call = read_call::<T::Call>(method, &args)?;
        let before: T::State = read_state(&context)?;
        let (mut state, mut effects) = (before.clone(), Effects::none());
        let reply = self.0.run(&context, sql, &mut state, call, &mut effects).await?;
        finish(&context, &before, &state, &reply, effects)
    }

    fn timeout(&self) -> Duration {
        self.0.timeout()
    }
}

fn read_state<S: DeserializeOwned + Default>(context: &Context) -> Result<S, HandlerError> {
    match &context.state {
        None => Ok(S::default()),
        Some(state) => serde_json::from_slice(state)
            .map_err(|bad| HandlerError::permanent(format!("the state cannot be read: {bad}"))),
    }
}

/// The effects with the reply, and with the state when it is new or was changed.
fn finish<S: Serialize + PartialEq>(
    context: &Context,
    before: &S,
    state: &S,
    reply: &impl Serialize,
    mut effects: Effects,
) -> Result<Effects, HandlerError> {
    if state != before || context.state.is_none() {
        effects.state = StateChange::Put(serde_json::to_vec(state)?.into());
    }
    effects.reply = serde_json::to_vec(reply)?.into();
    Ok(effects)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Call {
        Deposit { cents: u64 },
        Balance,
    }

    #[test]
    fn a_method_is_a_variant_and_its_arguments_are_the_fields() {
        let read = |method: &str, args: &str| read_call::<Call>(method, args.as_bytes());
        assert_eq!(read("deposit", r#"{"cents":5}"#), Ok(Call::Deposit { cents: 5 }));
        assert_eq!(read("balance", ""), Ok(Call::Balance));
        assert_eq!(read("balance", "null"), Ok(Call::Balance));
        for call in [Call::Deposit { cents: 5 }, Call::Balance] {
            let (method, args) = write_call(&call).unwrap();
            assert_eq!(read_call::<Call>(&method, &args), Ok(call));
        }
        assert!(write_call(&7).is_err(), "a number names no method");
        for (method, args) in [("steal", "{}"), ("deposit", "{"), ("deposit", r#"{"cents":-1}"#)] {
            let error = read(method, args).unwrap_err();
            assert_eq!(error.0.class, windrow_domain::attempt::Class::Permanent, "{method}");
        }
    }
}
