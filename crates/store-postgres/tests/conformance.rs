//! The contract's meaning, on PostgreSQL itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod world;

windrow_store_conformance::suite!(world = crate::world::PostgresWorld::direct);

mod messages {
    windrow_store_conformance::message_suite!(world = crate::world::PostgresWorld::direct);
}
