//! TLS by configuration: who trusts the certificate is served, and nobody else.

use std::fs;

use reqwest::{Certificate, Client, Version};
use tempfile::TempDir;
use windrow_e2e::Server;
use windrow_e2e::server::ADMIN_KEY;
use windrow_fault::{Backend, Fixture};

/// A certificate of one's own, and its key, in files.
struct Pair {
    folder: TempDir,
    pem: String,
}

impl Pair {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let pem = made.cert.pem();
        fs::write(folder.path().join("cert.pem"), &pem).unwrap();
        fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Self { folder, pem }
    }

    fn settings(&self, cert: &str, key: &str) -> [String; 2] {
        let path = |file: &str| self.folder.path().join(file).display().to_string();
        [format!("tls_cert={}", path(cert)), format!("tls_key={}", path(key))]
    }
}

/// One that trusts these certificates alone.
fn trusting(pems: &[&str]) -> Client {
    let certificates = pems.iter().map(|pem| Certificate::from_pem(pem.as_bytes()).unwrap());
    Client::builder().tls_certs_only(certificates).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_trusts_the_certificate_is_served_and_plain_text_is_not() {
    let pair = Pair::new();
    let [cert, key] = pair.settings("cert.pem", "key.pem");
    let server = Server::with(&[&cert, &key]).await;
    assert!(server.url().starts_with("https://127.0.0.1:"), "{}", server.url());
    let url = format!("{}/files", server.url());

    let response = trusting(&[&pair.pem]).get(&url).bearer_auth(ADMIN_KEY).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
    assert!(response.text().await.unwrap().contains("\"has_more\":false"));

    let stranger = trusting(&[&Pair::new().pem]).get(&url).bearer_auth(ADMIN_KEY).send().await;
    assert!(stranger.unwrap_err().is_connect(), "another's certificate is no reason to trust");
    // It is told in TLS's own words that it speaks none, or cut off; it is never served.
    let plain = Client::new().get(url.replace("https", "http")).bearer_auth(ADMIN_KEY).send().await;
    assert!(plain.is_err(), "{plain:?}");
    // They took nobody's place.
    let response = trusting(&[&pair.pem]).get(&url).bearer_auth(ADMIN_KEY).send().await.unwrap();
    assert_eq!(response.status(), 200);
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_cannot_be_used_is_told_at_the_start() {
    let (pair, other) = (Pair::new(), Pair::new());
    let foreign = other.folder.path().join("key.pem");
    fs::copy(foreign, pair.folder.path().join("foreign.pem")).unwrap();
    fs::write(pair.folder.path().join("empty.pem"), "").unwrap();
    let fixture = Fixture::on(Backend::Sqlite).await;
    for (cert, key, cause) in [
        ("nowhere.pem", "key.pem", "nowhere.pem"),
        ("cert.pem", "nowhere.pem", "nowhere.pem"),
        ("key.pem", "key.pem", "cannot be used together"),
        ("cert.pem", "empty.pem", "empty.pem"),
        ("cert.pem", "foreign.pem", "cannot be used together"),
    ] {
        let [cert, key] = pair.settings(cert, key);
        let told = Server::refusal(&fixture, &[&cert, &key], ADMIN_KEY).await;
        let text = told.to_string();
        assert!(text.contains("the TLS configuration is not valid"), "{text}");
        assert!(text.contains(cause), "{cert} {key}: {text}");
        assert!(text.contains("`tls_cert` and `tls_key`"), "there is no remedy: {text}");
    }
    let [cert, _] = pair.settings("cert.pem", "key.pem");
    let half = Server::refusal(&fixture, &[&cert], ADMIN_KEY).await.to_string();
    assert!(half.contains("tls_key"), "{half}");
}
