//! The headers of a message: what it says about itself on its way, the same for every broker.

use std::collections::BTreeMap;

use windrow_engine::deliver::OutgoingMessage;

/// The message's id, where a broker has no place of its own for it.
pub(crate) const ID: &str = "Windrow-Id";
/// Whose message it is.
pub(crate) const OWNER: &str = "Windrow-Owner";
/// The header with the message's stream, exactly as it was sent.
pub(crate) const STREAM: &str = "Windrow-Stream";
/// The header with the message's kind, exactly as it was sent.
pub(crate) const KIND: &str = "Windrow-Kind";
/// When it was sent.
pub(crate) const SENT_AT: &str = "Windrow-Sent-At";

/// The headers of a message: what it is, and what its sender said, except for names that mean
/// something to us or to a broker.
pub(crate) fn of(message: &OutgoingMessage) -> Vec<(String, String)> {
    let sent = message.headers.iter().filter(|(name, _)| !name.is_empty() && !is_reserved(name));
    let sent = sent.map(|(name, value)| (name.clone(), value.clone()));
    let own = [
        (ID, message.id.clone()),
        (OWNER, message.owner.to_string()),
        (STREAM, message.stream.clone()),
        (KIND, message.kind.clone()),
        (SENT_AT, message.sent_at.to_string()),
    ];
    own.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(sent).collect()
}

/// Headers that brokers and we give a meaning to.
pub(crate) fn is_reserved(name: &str) -> bool {
    let starts = |prefix: &str| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    starts("windrow-") || starts("nats-")
}

/// Takes a header out, whatever the case of its name.
pub(crate) fn take(headers: &mut BTreeMap<String, String>, name: &str) -> Option<String> {
    let found = headers.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned()?;
    headers.remove(&found).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_meaning_are_reserved_in_any_case() {
        for name in ["windrow-id", "Nats-Msg-Id", "NATS-Rollup", "Windrow-"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["traceparent", "nat", "naïve-é", "x-windrow-id"] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    #[test]
    fn a_header_is_taken_out_by_any_case() {
        let mut headers = BTreeMap::from([("WINDROW-id".to_owned(), "7".to_owned())]);
        assert_eq!(take(&mut headers, ID).as_deref(), Some("7"));
        assert_eq!(take(&mut headers, ID), None);
    }
}
