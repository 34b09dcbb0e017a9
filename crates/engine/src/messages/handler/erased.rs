//! Objects of any type behind one pointer, as the registry keeps them: the name of the type is a constant of
//! the trait, which a trait object cannot have.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use windrow_store::transactional::Sql;

use super::{Context, Effects, HandlerError, Object, Transactional};

type Called<'a> = BoxFuture<'a, Result<Effects, HandlerError>>;

/// An [`Object`], or one that is somewhere else.
pub(crate) trait DynObject: Send + Sync {
    fn call<'a>(&'a self, context: Context, method: &'a str, args: Bytes) -> Called<'a>;

    fn is_outside(&self) -> bool;
}

impl<T: Object> DynObject for T {
    fn call<'a>(&'a self, context: Context, method: &'a str, args: Bytes) -> Called<'a> {
        Object::call(self, context, method, args)
    }

    fn is_outside(&self) -> bool {
        Object::is_outside(self)
    }
}

/// A [`Transactional`] object.
pub(crate) trait DynTransactional: Send + Sync {
    fn call<'a>(
        &'a self,
        context: Context,
        sql: &'a mut dyn Sql,
        method: &'a str,
        args: Bytes,
    ) -> Called<'a>;

    fn timeout(&self) -> Duration;
}

impl<T: Transactional> DynTransactional for T {
    fn call<'a>(
        &'a self,
        context: Context,
        sql: &'a mut dyn Sql,
        method: &'a str,
        args: Bytes,
    ) -> Called<'a> {
        Transactional::call(self, context, sql, method, args)
    }

    fn timeout(&self) -> Duration {
        Transactional::timeout(self)
    }
}
