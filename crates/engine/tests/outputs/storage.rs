//! Storages: whole outputs or none.

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use windrow_engine::storage::{Kind, PART_BYTES, Storage};

use crate::support::bytes;

/// Every file under a folder, whatever its name.
fn files(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path.file_name().unwrap().to_string_lossy().into_owned()),
        }
    }
    found
}

#[tokio::test]
async fn an_output_is_invisible_until_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    for storage in [Storage::local(folder.path()).unwrap(), Storage::memory()] {
        for size in [10, PART_BYTES, 2 * PART_BYTES + 12_345] {
            let piece: Vec<u8> = (0..=250).cycle().take(100_003).collect();
            let whole: Vec<u8> = piece.iter().copied().cycle().take(size).collect();
            let mut writer = storage.create("a/b.jsonl").unwrap();
            for part in whole.chunks(piece.len()) {
                writer.write(part).await.unwrap();
            }
            assert_eq!(storage.list("a", 10).await.unwrap(), []);
            assert_eq!(storage.read("a/b.jsonl").await.err().unwrap().kind, Kind::Missing);
            assert_eq!(writer.finish().await.unwrap(), size as u64);
            assert_eq!(storage.size("a/b.jsonl").await.unwrap(), size as u64);
            assert!(bytes(&storage, "a/b.jsonl").await == whole);
            storage.delete("a/b.jsonl").await.unwrap();
            storage.delete("a/b.jsonl").await.unwrap();
        }
    }
    assert_eq!(files(folder.path()), [""; 0], "nothing half written is left");
}

#[tokio::test]
async fn a_part_of_an_output_is_read_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    for storage in [Storage::local(folder.path()).unwrap(), Storage::memory()] {
        let whole: Vec<u8> = (0..=250).cycle().take(3 << 20).collect();
        let mut writer = storage.create("a/b.jsonl").unwrap();
        writer.write(&whole).await.unwrap();
        writer.finish().await.unwrap();
        let len = whole.len();
        for part in [0..1, 5..17, (1 << 20) - 3..(2 << 20) + 9, len - 4..len] {
            let bytes = part.start as u64..part.end as u64;
            let pieces = storage.read_range("a/b.jsonl", bytes).await.unwrap();
            let read: Vec<Bytes> = pieces.try_collect().await.unwrap();
            assert!(read.concat() == whole[part.clone()], "{part:?}");
        }
    }
}

#[tokio::test]
async fn an_aborted_output_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::local(folder.path()).unwrap();
    let mut writer = storage.create("a/b.jsonl").unwrap();
    writer.write(&vec![b'x'; 2 * PART_BYTES]).await.unwrap();
    assert_eq!(files(folder.path()).len(), 1, "it is staged under another name");
    writer.abort().await;
    assert_eq!(files(folder.path()), [""; 0]);
}

#[tokio::test]
async fn an_output_takes_the_place_of_an_older_one() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::local(folder.path()).unwrap();
    for text in ["old and long", "new"] {
        let mut writer = storage.create("one").unwrap();
        writer.write(text.as_bytes()).await.unwrap();
        writer.finish().await.unwrap();
        assert_eq!(bytes(&storage, "one").await, text.as_bytes());
    }
}

#[test]
fn a_folder_that_cannot_be_made_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Storage::local(file.join("outputs")).unwrap_err();
    assert!(error.to_string().starts_with("could not open the folder"), "{error}");
}
