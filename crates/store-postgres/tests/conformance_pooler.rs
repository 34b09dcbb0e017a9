//! The contract's meaning, through a transaction pooler that knows no prepared statements.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod world;

windrow_store_conformance::suite!(world = crate::world::PostgresWorld::pooled);

mod messages {
    windrow_store_conformance::message_suite!(world = crate::world::PostgresWorld::pooled);
}
