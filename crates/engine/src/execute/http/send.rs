//! The last gate: a request is sent, unless it must not be before it is written.
//!
//! Holds throughout: whatever a request waits for (a place on a shared connection, a connection of its own, one that
//! another request has, a stream of HTTP/2), a gate that closes meanwhile takes it back; once its body was asked for
//! it runs to its end.

use std::error::Error as _;

use bytes::Bytes;
use reqwest::Request;

use crate::execute::Gate;
use crate::http::connect_gate::gated;
use crate::http::exchange::{ExchangeBounds, ExchangeError, HttpAnswer, exchange};
use crate::http::sent_body::{marked, unmarked};
use crate::http::streams::PlacedClient;

/// How often a request is sent again that a server of HTTP/2 has not looked at.
const REFUSALS_MAX: u32 = 2;

/// Sends a request and reads its answer. None when the gate closed before the request was written: then it is
/// taken back from wherever it waits. Of what a server of HTTP/2 says that it has not looked at, the request is
/// sent again, a few times.
pub(super) async fn send(
    client: &PlacedClient,
    bounds: &ExchangeBounds,
    gate: &Gate,
    mut head: Request,
    body: Option<Bytes>,
) -> Option<Result<HttpAnswer, ExchangeError>> {
    let mut refusals = 0;
    loop {
        let _place = tokio::select! {
            biased;
            () = gate.closed() => return None,
            place = client.place(body.is_none()) => place,
        };
        // Only a server of HTTP/2 has refusals after which the head is needed once more.
        let may_refuse = client.shares() && refusals < REFUSALS_MAX;
        let next = may_refuse.then(|| head.try_clone().expect("a head without a body"));
        let sent = match body.clone().map(|body| marked(body, gate)) {
            Some((body, sent)) => {
                *head.body_mut() = Some(body);
                sent
            }
            None => unmarked(),
        };
        let exchange = gated(gate, exchange(&client.client, head, bounds));
        let withdrawn = async {
            gate.closed().await;
            if sent.is_set() {
                std::future::pending::<()>().await;
            }
        };
        let result = tokio::select! {
            biased;
            result = exchange => result,
            () = withdrawn => return None,
        };
        match (result, next) {
            (Err(ExchangeError::Send(error)), _)
                if !gate.is_open() && (error.is_connect() || !sent.is_set()) =>
            {
                return None;
            }
            (Err(ExchangeError::Send(error)), Some(next))
                if is_unprocessed(&error) && gate.is_open() =>
            {
                refusals += 1;
                head = next;
            }
            (result, _) => return Some(result),
        }
    }
}

/// Whether a server of HTTP/2 said that it did nothing with the request.
fn is_unprocessed(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(found) = cause {
        if let Some(error) = found.downcast_ref::<h2::Error>() {
            let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            let leaves = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
            return error.is_remote() && (refused || leaves);
        }
        cause = found.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest::Method;
    use windrow_testkit::upstream::{Reply, Script, Upstream};

    use super::*;
    use crate::clock::Clock;
    use crate::http::client::{ClientOptions, build};
    use crate::http::options::Http;
    use crate::http::streams::StreamServer;

    const LONG: Duration = Duration::from_secs(30);
    const BOUNDS: ExchangeBounds =
        ExchangeBounds { first_byte: LONG, idle: LONG, total: LONG, body_bytes: 1 << 20 };

    /// A request that waits for a stream of a busy connection is not written when its gate has closed, and the
    /// one that has the stream comes to its end.
    async fn is_taken_back(method: Method, body: Option<Bytes>) {
        let gate_of_replies = windrow_testkit::upstream::Gate::default();
        let script = Script::always(Reply::Echo.held(&gate_of_replies));
        let upstream = Upstream::start(script).await.expect("a port is free");
        upstream.set_streams_max(1);
        let options = ClientOptions {
            https: false,
            version: Http::Http2,
            ca_file: None,
            connect_ms_max: 5_000,
            requests_max: 8,
        };
        let address = upstream.address();
        let server = StreamServer {
            host: address.ip().to_string(),
            port: address.port(),
            https: false,
            ca_file: None,
            connect_ms_max: 5_000,
        };
        let client = build(&options).expect("a client").pop().expect("one");
        let client = PlacedClient::new(client, Some(server));
        let url: reqwest::Url = upstream.url().parse().expect("a URL");
        let head = || Request::new(method.clone(), url.join("/v1/x").expect("a path"));
        let gate = Gate::new(&Clock::machine(), None);
        let first = send(&client, &BOUNDS, &gate, head(), body.clone());
        let others = async {
            upstream.saw(1).await;
            let waiting = (0..5).map(|_| send(&client, &BOUNDS, &gate, head(), body.clone()));
            let waiting = futures_util::future::join_all(waiting);
            let stop = async {
                // They are on their way to the connection by then.
                Clock::machine().sleep(Duration::from_millis(200)).await;
                gate.close();
            };
            let (waited, ()) = tokio::join!(waiting, stop);
            gate_of_replies.open();
            waited
        };
        let (first, waited) = tokio::join!(first, others);
        assert!(matches!(first, Some(Ok(_))), "{first:?}");
        assert!(waited.iter().all(Option::is_none), "{waited:?}");
        Clock::machine().sleep(Duration::from_millis(300)).await;
        assert_eq!(upstream.counts().requests, 1, "nothing arrives after the stop");
    }

    #[tokio::test]
    async fn a_request_that_waits_for_a_stream_is_taken_back() {
        is_taken_back(Method::POST, Some(Bytes::from_static(b"{}"))).await;
    }

    /// Its head is the whole request: nothing on the connection would hold it back.
    #[tokio::test]
    async fn a_request_without_a_body_that_waits_for_a_stream_is_taken_back() {
        is_taken_back(Method::GET, None).await;
    }
}
