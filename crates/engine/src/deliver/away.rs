//! Which failures say nothing about the message: nobody was reached, or who was reached is not ready.

use windrow_domain::attempt::{Class, Failure};

/// The code of a connection that was lost after a request had left: the receiver may have taken the
/// message, and the message may be why it went away.
pub const CONNECTION_CUT: &str = "connection_cut";

/// Codes of failures that are the target's alone, whatever their class: no connection in time; a
/// gateway without a server behind it, a server that is not ready; a broker that does not confirm, has
/// no leader or no room, or is still reading its files.
const CODES: [&str; 17] = [
    "connect_timeout",
    "http_502",
    "http_503",
    "http_504",
    "nats_no_stream",
    "nats_stream",
    "rabbitmq_nack",
    "redis_busy",
    "redis_clusterdown",
    "redis_loading",
    "redis_masterdown",
    "redis_noreplicas",
    "redis_oom",
    "redis_readonly",
    "redis_replicas",
    "redis_tryagain",
    "timeout",
];

/// Whether a failure means that the target is away: it was not reached, or said that it is not ready.
/// Such a try does not count, and the message waits; see [`windrow_domain::retry::GiveUpPolicy`].
pub fn is_unavailable(failure: &Failure) -> bool {
    match failure.class {
        Class::Throttled => true,
        Class::Network => failure.code != CONNECTION_CUT,
        Class::Server | Class::Timeout | Class::NotFound => CODES.contains(&&*failure.code),
        Class::Unacceptable | Class::Permanent | Class::Reprocessed => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_away_when_it_was_not_reached_or_is_not_ready() {
        for (class, code, is) in [
            (Class::Network, "connect_refused", true),
            (Class::Network, "connection_lost", true),
            (Class::Network, CONNECTION_CUT, false),
            (Class::Timeout, "connect_timeout", true),
            (Class::Timeout, "timeout", true),
            (Class::Timeout, "first_byte_timeout", false),
            (Class::Timeout, "handler_timeout", false),
            (Class::Throttled, "http_429", true),
            (Class::Server, "http_500", false),
            (Class::Server, "http_503", true),
            (Class::NotFound, "nats_no_stream", true),
            (Class::NotFound, "rabbitmq_unroutable", false),
            (Class::Permanent, "http_410", false),
        ] {
            let (code, message) = (code.to_owned(), String::new());
            let failure = Failure { class, code, message, retry_after: None };
            assert_eq!(is_unavailable(&failure), is, "{failure:?}");
        }
        assert!(CODES.is_sorted());
    }
}
