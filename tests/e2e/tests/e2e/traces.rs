//! Traces by configuration: a collector is sent what happened in a request.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use windrow_e2e::Server;
use windrow_e2e::raw::Request;
use windrow_e2e::server::{ADMIN_KEY, WITHIN};
use windrow_fault::wait;
use windrow_testkit::upstream::{Reply, Script, Upstream};

/// What the collector was sent: each span with the name of its service.
fn spans(collector: &Upstream) -> Vec<(String, Span)> {
    let mut all = Vec::new();
    for seen in collector.seen() {
        assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/traces"));
        assert_eq!(seen.header("content-type"), "application/x-protobuf");
        let export = ExportTraceServiceRequest::decode(seen.body).expect("it is an export");
        for resource in export.resource_spans {
            let attributes = resource.resource.unwrap_or_default().attributes;
            let name = attributes.into_iter().find(|pair| pair.key == "service.name");
            let name = name.and_then(|pair| text(pair.value?.value?)).unwrap_or_default();
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            all.extend(spans.map(|span| (name.clone(), span)));
        }
    }
    all
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let pair = span.attributes.iter().find(|pair| pair.key == name)?;
    text(pair.value.clone()?.value?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_is_sent_every_request_as_a_span_and_no_key() {
    let collector = Upstream::start(Script::new(|_| Reply::json(200, ""))).await.unwrap();
    let server = Server::with(&[&format!("otlp={}/v1/traces", collector.url())]).await;
    let asked = Request::new("GET", "/v1/files?limit=3", ADMIN_KEY);
    let asked = asked.header("x-request-id", "the-one-that-is-traced");
    assert_eq!(asked.send(server.address()).await.status, 200);

    let look = || async {
        let is_ours = |span: &Span| {
            attribute(span, "id").as_deref() == Some("the-one-that-is-traced")
                && span.name == "request"
        };
        spans(&collector).into_iter().find(|(_, span)| is_ours(span))
    };
    let state = || async { format!("it was sent {:?}", spans(&collector)) };
    let (service, span) = wait::until(WITHIN, look, state).await;
    assert_eq!(service, "windrow");
    assert_eq!(attribute(&span, "method").as_deref(), Some("GET"), "{span:?}");
    assert_eq!(attribute(&span, "route").as_deref(), Some("/v1/files"), "{span:?}");
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{span:?}");
    assert!(span.events.iter().any(|event| event.name == "answered"), "{span:?}");
    assert!(!format!("{span:?}").contains(ADMIN_KEY), "a key is nobody else's business");
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_not_there_keeps_nobody_waiting() {
    let collector = Upstream::start(Script::new(|_| Reply::Hang)).await.unwrap();
    let address = collector.url();
    let server = Server::with(&[&format!("otlp={address}/v1/traces")]).await;
    Request::new("GET", "/v1/files", ADMIN_KEY).send(server.address()).await;
    tokio::time::timeout(WITHIN, collector.saw(1)).await.expect("it is tried");
    collector.stop().await;
    let response = Request::new("GET", "/v1/files", ADMIN_KEY).send(server.address()).await;
    assert_eq!(response.status, 200);
}
