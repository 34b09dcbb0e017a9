//! Objects with types of their own: state, arguments and replies as JSON.

use std::marker::PhantomData;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Context;
use super::{Effects, HandlerError, Object, StateChange};

/// An object whose state and methods have types.
#[async_trait]
pub trait Typed: Send + Sync + 'static {
    /// What it is between calls.
    type State: Serialize + DeserializeOwned + Default + PartialEq + Clone + Send + Sync + 'static;
    /// What it is asked: an enum with a variant for each method, read from `{method: args}`. A method
    /// without arguments is called with `null`.
    type Call: DeserializeOwned + Send + 'static;
    /// What it answers.
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

/// A [`Typed`] object as an [`Object`].
pub struct AsObject<T>(T, PhantomData<fn() -> T>);

impl<T: Typed> AsObject<T> {
    /// Reads and writes for it.
    pub fn new(typed: T) -> Self {
        Self(typed, PhantomData)
    }
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
impl<T: Typed> Object for AsObject<T> {
    fn object_type(&self) -> &str {
        T::TYPE
    }

    async fn call(
        &self,
        context: Context,
        method: &str,
        args: Bytes,
    ) -> Result<Effects, HandlerError> {
        let call = read_call::<T::Call>(method, &args)?;
        let before: T::State = match &context.state {
            None => T::State::default(),
            Some(state) => serde_json::from_slice(state).map_err(|bad| {
                HandlerError::permanent(format!("the state cannot be read: {bad}"))
            })?,
        };
        let mut state = before.clone();
        let mut effects = Effects::none();
        let reply = self.0.run(&context, &mut state, call, &mut effects).await?;
        if state != before || context.state.is_none() {
            effects.state = StateChange::Put(serde_json::to_vec(&state)?.into());
        }
        effects.reply = serde_json::to_vec(&reply)?.into();
        Ok(effects)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
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
        for (method, args) in [("steal", "{}"), ("deposit", "{"), ("deposit", r#"{"cents":-1}"#)] {
            let error = read(method, args).unwrap_err();
            assert_eq!(error.0.class, windrow_domain::attempt::Class::Permanent, "{method}");
        }
    }
}
