//! What an operator may say, and what is wrong with it.

use std::error::Error as _;

use windrow_domain::upstream::MarkSecret;
use windrow_domain::{Route, UpstreamId};
use windrow_engine::execute::http::{Config, Http, HttpExecutor, KeySource, Upstream};
use windrow_engine::execute::{Attempt, Executor};

use crate::{LINE, attempt, failure, target};

fn read(json: &str) -> Result<Config, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

fn complaint(change: impl FnOnce(&mut Upstream)) -> String {
    let mut upstream = Upstream::new("http://h");
    change(&mut upstream);
    let config = Config { upstreams: Vec::new(), default: Some(upstream) };
    let error = HttpExecutor::new(config).expect_err("it should have been refused");
    assert!(error.source().is_none_or(|source| !source.to_string().is_empty()));
    error.to_string()
}

#[test]
fn a_configuration_is_read_by_its_names() {
    let config = read(
        r#"{"upstreams":[{"targets":["big","small"],"base_url":"http://a:1/v1","http":"http2",
            "api_key":{"env":"PATH_OF_KEY"},"concurrency_max":7,"requests_per_sec_max":2.5,
            "not_found_when":[{"pointer":"/a","equals":null}],"variants":[{"query":"x=1"}]}],
            "default":{"base_url":"http://b","api_key":{"file":"key"}}}"#,
    )
    .unwrap();
    let first = &config.upstreams[0];
    assert_eq!((first.http, first.concurrency_max), (Http::Http2, 7));
    assert_eq!(first.api_key, Some(KeySource::Env("PATH_OF_KEY".to_owned())));
    assert_eq!(first.first_byte_ms_max, Upstream::default().first_byte_ms_max);
    assert_eq!(config.default.unwrap().api_key, Some(KeySource::File("key".into())));
    assert!(read(r#"{"default":{"base_uri":"http://b"}}"#).unwrap_err().contains("base_uri"));
    assert!(read(r#"{"default":{"api_key":{"text":"sk"}}}"#).unwrap_err().contains("text"));
}

#[tokio::test]
async fn each_target_has_its_upstream_and_its_limits() {
    let upstream = |targets: &[&str], url: &str, concurrency_max| {
        let targets = targets.iter().map(|name| target(name)).collect();
        Upstream::new(url).targets(targets).concurrency_max(concurrency_max)
    };
    let upstreams = vec![upstream(&["a", "b"], "http://h:1/v1", 3)];
    let mut config = Config { upstreams, default: None };
    let executor = HttpExecutor::new(config.clone()).unwrap();
    let own = |name: &str| Route::from(target(name));
    assert!(executor.serves(&own("a")) && !executor.serves(&own("c")));
    let limits = executor.limits(&own("b")).concurrency;
    assert_eq!((limits.max, limits.start), (3, 3));
    assert_eq!(executor.host(&own("b")), "http://h:1");

    config.default = Some(Upstream::new("https://other"));
    let executor = HttpExecutor::new(config.clone()).unwrap();
    assert!(executor.serves(&own("c")));
    assert_eq!(executor.host(&own("c")), "https://other");

    config.upstreams.push(upstream(&["b"], "http://x", 1));
    let error = HttpExecutor::new(config).unwrap_err().to_string();
    assert_eq!(error, "two upstreams serve the target b");
}

#[test]
fn a_value_that_cannot_be_used_is_named() {
    assert_eq!(complaint(|it| it.base_url = String::new()), "upstream : base_url is missing");
    assert!(complaint(|it| it.base_url = "h".to_owned()).contains("is not a URL"));
    assert!(complaint(|it| it.total_ms_max = 0).ends_with("total_ms_max must be at least 1"));
    assert!(complaint(|it| it.concurrency_max = 0).contains("concurrency_max"));
    assert!(complaint(|it| it.requests_per_sec_max = Some(f64::NAN)).contains("above 0"));
    assert!(complaint(|it| it.breaker_ratio = 1.5).contains("breaker_ratio"));
    assert!(complaint(|it| it.method = Some("BREW".to_owned())).contains("method must be one of"));
    assert!(complaint(|it| it.not_found_statuses = Some(vec![200])).contains("not_found_statuses"));
    assert!(complaint(|it| it.endpoints = vec!["v1".to_owned()]).contains("endpoints"));
    assert!(complaint(|it| it.ca_file = Some("no/such.pem".into())).contains("no/such.pem"));
    let var = || Some(KeySource::Env("WINDROW_NO_SUCH_VARIABLE".to_owned()));
    assert!(complaint(|it| it.api_key = var()).contains("WINDROW_NO_SUCH_VARIABLE"));
    for (name, value) in [("Host", "x"), ("idempotency-key", "x"), ("a b", "x"), ("x", "a\nb")] {
        let put = |it: &mut Upstream| drop(it.headers.0.insert(name.to_owned(), value.to_owned()));
        assert!(complaint(put).contains(name), "{name}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let mut upstream = Upstream::new("http://h");
    upstream.headers.0.insert("x-token".to_owned(), "hush-hush".to_owned());
    let config = Config { upstreams: Vec::new(), default: Some(upstream) };
    assert!(!format!("{config:?}").contains("hush"));
    let executor = HttpExecutor::new(config).unwrap();
    assert!(!format!("{executor:?}").contains("hush"));
}

/// An upstream with a name, and the routes and marks of an executor over it.
fn named(name: &str, url: &str, change: impl FnOnce(&mut Upstream)) -> HttpExecutor {
    let mut upstream = Upstream::new(url).name(name.to_owned());
    change(&mut upstream);
    HttpExecutor::new(Config { upstreams: Vec::new(), default: Some(upstream) })
        .expect("the settings are good")
}

/// A lane goes to the upstream that it names: never to the default, which is another host.
#[tokio::test]
async fn a_lane_goes_to_its_upstream_or_nowhere() {
    let executor = named("", "http://Host/v1/", |_| {});
    let id = |text: &str| UpstreamId::new(text).unwrap();
    let route = |upstream: &str| Route::new(id(upstream), target("m"));
    assert_eq!(executor.upstreams(), [id(""), id("http://host:80/v1")]);
    assert!(executor.serves(&route("")) && executor.serves(&route("http://host:80/v1")));
    assert!(!executor.serves(&route("http://host:80")) && !executor.serves(&route("?")));
    assert_eq!(executor.binds(&target("m")), Some(id("http://host:80/v1")));
    let executor = executor.named_only();
    assert_eq!(executor.upstreams(), [id("http://host:80/v1")]);
    assert!(!executor.serves(&route("")), "those of another program's own executor");
    let lost = Attempt { upstream: id("http://other:80"), ..attempt(LINE) };
    let outcome = executor.execute(lost).await;
    assert_eq!((failure(&outcome).code.as_str(), outcome.reached), ("no_upstream", false));
    assert_eq!(named("main", "http://host", |_| {}).upstreams(), [id(""), id("main")]);
}

#[test]
fn a_mark_tells_keys_and_headers_apart_and_shows_nothing() {
    let secret = MarkSecret([7; 32]);
    let mark = |change: &dyn Fn(&mut Upstream), secret| {
        let executor = named("main", "http://host", change);
        executor.registrations(&secret).pop().unwrap().key_mark
    };
    let header = |value: &'static str| {
        move |it: &mut Upstream| drop(it.headers.0.insert("x-key".to_owned(), value.to_owned()))
    };
    assert_eq!(mark(&|_| {}, secret), "", "no key");
    let one = mark(&header("one"), secret);
    assert_eq!(one, mark(&header("one"), secret));
    assert_ne!(one, mark(&header("two"), secret));
    assert_ne!(one, mark(&header("one"), MarkSecret([8; 32])), "another database");
    assert!(one.len() == 64 && !one.contains("one"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "sk-1").unwrap();
    let keyed = |it: &mut Upstream| it.api_key = Some(KeySource::File(file.path().to_owned()));
    assert_ne!(mark(&keyed, secret), "");
    let known = named("main", "http://HOST:80/", |_| {}).registrations(&secret);
    assert_eq!(known[0].base_url, "http://host:80");
}

#[test]
fn paths_and_methods_say_what_may_be_asked_for() {
    let upstream = Upstream::new("http://h").endpoints(vec!["/v1/x".to_owned()]);
    let upstream = upstream.paths(vec!["/items/*".to_owned(), "/search".to_owned()]);
    for (path, allowed) in
        [("/v1/x", true), ("/items/7", true), ("/search", true), ("/search/x", false), ("/", false)]
    {
        assert_eq!(upstream.allows_path(path), allowed, "{path}");
    }
    assert!(Upstream::new("http://h").allows_path("/anything"));
    assert!(complaint(|it| it.paths = vec!["items".to_owned()]).contains("paths must be"));
    assert!(complaint(|it| it.paths = vec!["/a*b".to_owned()]).contains("paths must be"));
    assert!(complaint(|it| it.methods = vec!["FETCH".to_owned()]).contains("methods must be"));
}
