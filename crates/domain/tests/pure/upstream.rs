//! The identity of an upstream: what is stored of it, and when two are the same.

use windrow_domain::upstream::UPSTREAM_BYTES_MAX;
use windrow_domain::{Route, Target, UpstreamId};

/// Stored with every lane: with another text a batch is nobody's.
#[test]
fn an_upstream_of_a_url_is_stored_so() {
    for (scheme, host, port, path, text) in [
        ("http", "h", 80, "/", "http://h:80"),
        ("HTTPS", "API.Example.com", 443, "/v1/", "https://api.example.com:443/v1"),
        ("http", "[::1]", 8000, "", "http://[::1]:8000"),
        ("http", "localhost", 80, "/V1/x", "http://localhost:80/V1/x"),
    ] {
        assert_eq!(UpstreamId::of_url(scheme, host, port, path).unwrap().as_str(), text);
    }
    let local = UpstreamId::of_url("http", "localhost", 80, "/");
    assert_ne!(local, UpstreamId::of_url("http", "127.0.0.1", 80, "/"), "nobody looks names up");
    assert_eq!((UpstreamId::own().as_str(), UpstreamId::unknown().as_str()), ("", "?"));
    assert_eq!(Target::no_model().as_str(), "(no model)");
}

#[test]
fn an_upstream_has_bounds() {
    assert!(UpstreamId::new("u".repeat(UPSTREAM_BYTES_MAX)).is_ok());
    assert!(UpstreamId::new("u".repeat(UPSTREAM_BYTES_MAX + 1)).is_err());
    assert!(UpstreamId::new("a\nb").is_err());
    assert!(serde_json::from_str::<UpstreamId>("\"a\\nb\"").is_err());
}

#[test]
fn a_route_says_its_upstream_unless_it_is_the_programs_own() {
    let target = Target::new("m").unwrap();
    assert_eq!(Route::from(target.clone()).to_string(), "m");
    let route = Route::new(UpstreamId::new("main").unwrap(), target);
    assert_eq!(route.to_string(), "m of main");
}
