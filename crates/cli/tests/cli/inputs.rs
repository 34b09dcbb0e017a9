//! What a file may be: packed, piped, or the wrong kind, which is named for what it is.

use std::io::Write as _;

use windrow_testkit::upstream::{Script, Upstream};

use crate::support::{Workdir, ids, ids_of};

fn gzip(text: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

#[tokio::test]
async fn a_packed_file_is_read_as_it_is_and_resumed_by_its_name() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("plain.jsonl", 200);
    let (first, second) = {
        let text = workdir.read("plain.jsonl");
        let at = text.match_indices('\n').nth(99).unwrap().0 + 1;
        (text[..at].to_owned(), text[at..].to_owned())
    };
    // Two packed files, one behind the other, are one.
    let packed = [gzip(&first), gzip(&second)].concat();
    std::fs::write(workdir.path("a.jsonl.gz"), packed).unwrap();
    let args = ["run", "a.jsonl.gz", "--to", &upstream.url()];
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")), ids_of(1..=200));
    let output = workdir.windrow(&args).await;
    assert!(output.out.contains("nothing was sent"), "{output:?}");
    assert_eq!(upstream.counts().requests, 200);

    let zstd = zstd::encode_all(workdir.read("plain.jsonl").as_bytes(), 1).unwrap();
    std::fs::write(workdir.path("b.zst"), zstd).unwrap();
    let output = workdir.windrow(&["ingest", "b.zst", "--json"]).await;
    assert_eq!(output.json()["file"]["lines"], 200, "{output:?}");
    // Cut off in the middle, it is not taken for a whole one.
    let whole = std::fs::read(workdir.path("b.zst")).unwrap();
    std::fs::write(workdir.path("cut.zst"), &whole[..whole.len() / 2]).unwrap();
    let output = workdir.windrow(&["ingest", "cut.zst"]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("nothing of it is kept"), "{output:?}");
}

#[tokio::test]
async fn a_pipe_is_read_once_and_its_results_go_to_standard_output() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 30);
    std::fs::write(workdir.path("a.gz"), gzip(&workdir.read("a.jsonl"))).unwrap();
    let to = upstream.url();
    for line in [
        format!("windrow run <(cat a.jsonl) --to {to}"),
        format!("windrow run <(cat a.gz) --to {to}"),
        format!("cat a.jsonl | windrow run /dev/stdin --to {to}"),
        format!("mkfifo p; cat a.jsonl > p & windrow run p --to {to}"),
    ] {
        let output = workdir.shell(&line, &[]).await;
        assert_eq!(output.code, 0, "{line}: {output:?}");
        assert_eq!(ids(&output.out), ids_of(1..=30), "{line}: {output:?}");
    }
    assert_eq!(upstream.counts().requests, 60, "the same content is the same run");
    let output = workdir.shell("windrow ingest <(cat a.gz) --name piped --json", &[]).await;
    assert_eq!(output.json()["file"]["lines"], 30, "{output:?}");
}

#[tokio::test]
async fn the_wrong_kind_of_file_is_named_for_what_it_is() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    let utf16: Vec<u8> = "\u{feff}{\"a\":1}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let array = br#"[{"custom_id":"a","method":"POST","url":"/v1/x","body":{}}]"#;
    for (content, is, remedy) in [
        (&array[..], "is a JSON array", "jq -c '.[]' in.jsonl"),
        (b"{\n  \"custom_id\": \"a\"\n}\n", "JSON that spans several lines", "jq -c . in.jsonl"),
        (b"id,prompt\n1,hello\n", "it looks like CSV", "make a request of each row"),
        (&utf16, "is UTF-16 text", "iconv -f UTF-16"),
        (b"PK\x03\x04....", "a zip archive or a spreadsheet", "unzip in.jsonl"),
    ] {
        std::fs::write(workdir.path("in.jsonl"), content).unwrap();
        for args in [&["run", "in.jsonl", "--to", &upstream.url()][..], &["ingest", "in.jsonl"]] {
            let output = workdir.windrow(args).await;
            assert_eq!(output.code, 3, "{output:?}");
            assert!(output.err.contains(is) && output.err.contains(remedy), "{output:?}");
            assert_eq!(output.err.lines().count(), 2, "one sentence, and what to do: {output:?}");
        }
    }
    assert_eq!(upstream.counts().requests, 0);
    assert!(workdir.windrow(&["files"]).await.out.contains("No files."), "nothing was kept");
}

#[tokio::test]
async fn names_that_nothing_is_done_with_are_counted() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    let line = |n: u32, more: &str| {
        format!(
            "{{\"custom_id\":\"{n}\",\"method\":\"POST\",\"url\":\"/x\",\"body\":{{\"headers\":1}}{more}}}\n"
        )
    };
    let text =
        line(1, ",\"headers\":{},\"timeout\":3") + &line(2, ",\"headers\":{}") + &line(3, "");
    workdir.write("a.jsonl", &text);
    let output = workdir.windrow(&["run", "a.jsonl", "--to", &upstream.url()]).await;
    assert_eq!(output.code, 0, "{output:?}");
    let wanted = "Warning: nothing is done with `headers` (2 lines), `timeout` (1 line)";
    assert!(output.err.contains(wanted), "{output:?}");
    let output = workdir.windrow(&["ingest", "a.jsonl", "--json"]).await.json();
    assert_eq!(output["unknown_keys"], serde_json::json!({ "headers": 2, "timeout": 1 }));
}
