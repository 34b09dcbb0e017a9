//! Uploads that are no good: each is refused with a reason, and nothing of it is kept.

use windrow_e2e::Server;
use windrow_e2e::raw::{BOUNDARY, Request, form};

use crate::{LINE, files, good_form};

const PURPOSE: (&str, Option<&str>, &[u8]) = ("purpose", None, b"batch");
const FILE: (&str, Option<&str>, &[u8]) = ("file", Some("in.jsonl"), LINE);
const ANCHOR: (&str, Option<&str>, &[u8]) = ("expires_after[anchor]", None, b"created_at");

/// Forms that no client would send, and what is wrong with each.
fn bad_forms() -> Vec<(&'static str, Vec<u8>)> {
    let seconds = |text: &'static [u8]| ("expires_after[seconds]", None, text);
    let nameless = String::from_utf8(form(&[PURPOSE, FILE])).unwrap();
    let nameless = nameless.replace("name=\"purpose\"", "name2=\"purpose\"");
    let long = [b'x'; 2000];
    vec![
        ("nothing at all", Vec::new()),
        ("only the end", format!("--{BOUNDARY}--\r\n").into_bytes()),
        ("another boundary", b"--other\r\n\r\nbatch\r\n--other--\r\n".to_vec()),
        ("no form", LINE.to_vec()),
        ("no file", form(&[PURPOSE])),
        ("no purpose", form(&[FILE])),
        ("two files", form(&[PURPOSE, FILE, FILE])),
        ("another purpose", form(&[("purpose", None, b"fine-tune"), FILE])),
        ("another purpose behind the file", form(&[FILE, ("purpose", None, b"fine-tune")])),
        ("an empty purpose", form(&[("purpose", None, b""), FILE])),
        ("a purpose of broken text", form(&[("purpose", None, b"batch\xff"), FILE])),
        ("a purpose without end", form(&[("purpose", None, &long), FILE])),
        ("a part without a name", nameless.into_bytes()),
        ("too many parts", form(&[PURPOSE; 40])),
        ("an anchor without seconds", form(&[PURPOSE, ANCHOR, FILE])),
        ("an anchor without seconds, late", form(&[PURPOSE, FILE, ANCHOR])),
        ("seconds that are none", form(&[PURPOSE, ANCHOR, seconds(b"soon"), FILE])),
        ("seconds that are none, late", form(&[FILE, PURPOSE, ANCHOR, seconds(b"soon")])),
        ("too few seconds", form(&[PURPOSE, ANCHOR, seconds(b"-1"), FILE])),
        ("too few seconds, late", form(&[PURPOSE, FILE, ANCHOR, seconds(b"1")])),
        ("a name of nothing", form(&[PURPOSE, ("file", Some("a/"), LINE)])),
        ("a name with a bell", form(&[PURPOSE, ("file", Some("a\x07.jsonl"), LINE)])),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_form_is_refused_and_nothing_of_it_is_kept() {
    let server = Server::start().await;
    let (key, to) = (server.key("ann").await, server.address());
    for (what, form) in bad_forms() {
        println!("{what}");
        Request::upload(&key, form).send(to).await.refused(400);
        assert_eq!(files(&server, &key).await, [""; 0], "{what}");
    }
    let whole = good_form();
    // Cut off anywhere, as the length says it is whole.
    for end in [1, 30, BOUNDARY.len() + 30, 140, 200, whole.len() - 8, whole.len() - 5] {
        println!("{end} of {}", whole.len());
        Request::upload(&key, &whole[..end]).send(to).await.refused(400);
        assert_eq!(files(&server, &key).await, [""; 0], "{end} bytes");
    }
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_no_form_is_refused() {
    let server = Server::start().await;
    let (key, to) = (server.key("ann").await, server.address());
    let upload = || Request::new("POST", "/v1/files", &key).body(good_form());
    for kind in [
        "application/json",
        "text/plain",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"",
        "multipart/mixed; boundary=x",
        "multipart",
        "\x01",
    ] {
        let response = upload().header("content-type", kind).send(to).await;
        // What is no header at all ends before the API.
        if kind != "\x01" {
            assert!([400, 415].contains(&response.status), "{kind}: {response:?}");
            response.refused(response.status);
        }
    }
    upload().send(to).await.refused(415);
    assert_eq!(files(&server, &key).await, [""; 0]);
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parts_of_a_form_may_come_in_any_order() {
    let server = Server::start().await;
    let (key, to) = (server.key("ann").await, server.address());
    let seconds = ("expires_after[seconds]", None, &b"3600"[..]);
    let other = ("new_thing", None, &b"of a newer client"[..]);
    for parts in [
        [PURPOSE, ANCHOR, seconds, FILE, other],
        [FILE, PURPOSE, ANCHOR, seconds, other],
        [other, seconds, FILE, ANCHOR, PURPOSE],
    ] {
        let response = Request::upload(&key, form(&parts)).send(to).await;
        assert_eq!(response.status, 200, "{parts:?}: {response:?}");
        let file = response.json();
        let [created, expires] = ["created_at", "expires_at"].map(|at| file[at].as_i64().unwrap());
        // The two are read off a clock one after the other.
        assert!((3599..=3600).contains(&(expires - created)), "{parts:?}: {file}");
        let path = format!("/v1/files/{}", file["id"].as_str().unwrap());
        assert_eq!(Request::new("GET", &path, &key).send(to).await.json(), file);
    }
    let sly = form(&[PURPOSE, ("file", Some("../../etc/passwd"), LINE)]);
    assert_eq!(Request::upload(&key, sly).send(to).await.json()["filename"], "passwd");
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_past_the_bound_is_refused_and_not_kept() {
    let server = Server::with(&["upload_bytes_max=1000"]).await;
    let (key, to) = (server.key("ann").await, server.address());
    for bytes in [1001, 100_000, 30_000_000] {
        let large = form(&[PURPOSE, ("file", Some("large.jsonl"), &vec![b'x'; bytes])]);
        let response = Request::upload(&key, large).send(to).await;
        assert_eq!(response.refused(413), "file_too_large");
    }
    assert_eq!(files(&server, &key).await, [""; 0]);
    let response = Request::upload(&key, good_form()).send(to).await;
    assert_eq!(response.status, 200, "{response:?}");
    server.check();
}
