//! The gate of a line, asked once more when its connection is there: a connection may take seconds, and
//! a request that was stopped meanwhile must not be written.
//!
//! Holds throughout: only a request that was begun by [`gated`] is judged. One that waits for a connection that
//! is there already is withdrawn by its executor, as long as its body was not asked for (`sent_body.rs`).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tower::{BoxError, Layer, Service};

use crate::execute::Gate;

tokio::task_local! {
    static GATE: Gate;
}

/// Runs a request whose connection is refused when the gate has closed by the time it is made.
pub(crate) async fn gated<F: Future>(gate: &Gate, request: F) -> F::Output {
    GATE.scope(gate.clone(), request).await
}

/// Wraps what makes connections.
#[derive(Clone, Debug)]
pub(crate) struct GateLayer;

impl<S> Layer<S> for GateLayer {
    type Service = GatedConnector<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GatedConnector(inner)
    }
}

/// Makes connections, and gives them to requests whose gate is open.
#[derive(Clone, Debug)]
pub(crate) struct GatedConnector<S>(S);

impl<S, R> Service<R> for GatedConnector<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let connect = self.0.call(request);
        Box::pin(async move {
            let connection = connect.await?;
            // In the background, for the pool, there is no gate to ask.
            if GATE.try_with(Gate::is_open) == Ok(false) {
                return Err("the request was withdrawn while its connection was made".into());
            }
            Ok(connection)
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tower::service_fn;

    use super::*;
    use crate::clock::Clock;

    /// A connection that is there when the test says so.
    async fn connect(gate: &Gate, meanwhile: impl FnOnce()) -> Result<u8, BoxError> {
        let (made, connection) = oneshot::channel::<u8>();
        let mut connection = Some(connection);
        let mut connector = GateLayer.layer(service_fn(move |()| {
            let connection = connection.take().expect("one connection");
            async move { connection.await.map_err(BoxError::from) }
        }));
        let connecting = gated(gate, connector.call(()));
        tokio::pin!(connecting);
        assert!(futures_util::poll!(connecting.as_mut()).is_pending());
        meanwhile();
        made.send(7).expect("it waits");
        connecting.await
    }

    #[tokio::test]
    async fn a_connection_is_given_to_a_request_whose_gate_is_still_open() {
        let gate = Gate::new(&Clock::machine(), None);
        assert_eq!(connect(&gate, || ()).await.unwrap(), 7);
        assert!(connect(&gate, || gate.close()).await.is_err());
        let late = Gate::new(&Clock::machine(), Some(0));
        assert!(connect(&late, || ()).await.is_err());
    }

    #[tokio::test]
    async fn a_connection_that_the_pool_makes_by_itself_asks_no_gate() {
        let mut connector = GateLayer.layer(service_fn(|()| async { Ok::<u8, BoxError>(7) }));
        assert_eq!(connector.call(()).await.unwrap(), 7);
    }
}
