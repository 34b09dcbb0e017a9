//! Opening a storage: a folder, a bucket or memory, out of the text that people write.
//!
//! Absent on purpose: credentials in the text. A bucket's come from the usual `AWS_*` environment,
//! and its endpoint, too (`AWS_ENDPOINT_URL`), when it is not Amazon's; or from settings by the same names.

use std::path::Path as FilePath;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::prefix::PrefixStore;

use super::{Error, Kind, Location, Result, Storage};

impl Storage {
    /// A folder on a disk, created when it is not there.
    pub fn local(path: impl AsRef<FilePath>) -> Result<Self> {
        let path = path.as_ref();
        let wrong = |source| Error::of_io("open the folder", path.display(), source);
        std::fs::create_dir_all(path).map_err(wrong)?;
        let root = path.canonicalize().map_err(wrong)?;
        let objects = LocalFileSystem::new_with_prefix(&root)
            .map_err(|source| Error::of_object("open the folder", path.display(), source))?
            .with_fsync(true)
            .with_automatic_cleanup(true);
        Ok(Self { objects: Arc::new(objects), location: Location::Folder(root) })
    }

    /// What a text names: a path, `file:///path`, or `s3://bucket/prefix`.
    pub fn open(text: &str) -> Result<Self> {
        Self::open_over(text, AmazonS3Builder::from_env)
    }

    /// The same, where a bucket is reached with these settings (`AWS_ENDPOINT_URL`, `AWS_REGION`, …) and not
    /// with those of the environment. Names that are not known are left out.
    pub fn open_with(text: &str, settings: &[(&str, &str)]) -> Result<Self> {
        Self::open_over(text, || {
            settings.iter().fold(AmazonS3Builder::new(), |builder, (name, value)| {
                match name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                    Ok(key) => builder.with_config(key, *value),
                    Err(_) => builder,
                }
            })
        })
    }

    fn open_over(text: &str, builder: impl FnOnce() -> AmazonS3Builder) -> Result<Self> {
        let refuse =
            |because: &str| Err(Error::new("open the storage", text, Kind::Other).because(because));
        match text.split_once("://") {
            None if text.is_empty() => refuse("it is empty; name a folder or s3://bucket/prefix"),
            None => Self::local(text),
            Some(("s3", rest)) => Self::bucket(text, rest, builder()),
            Some(("file", rest)) if rest.contains('%') => {
                refuse("escapes in a file URL are not read; give the folder as a plain path")
            }
            Some(("file", rest)) => match rest.strip_prefix("localhost").unwrap_or(rest) {
                path if path.starts_with('/') => Self::local(path),
                _ => refuse("a file URL has three slashes: file:///path"),
            },
            Some(_) => refuse("only a path, file:///path and s3://bucket/prefix are known"),
        }
    }

    /// One that is gone with the process, for tests.
    pub fn memory() -> Self {
        Self { objects: Arc::new(InMemory::new()), location: Location::Memory }
    }

    fn bucket(text: &str, rest: &str, builder: AmazonS3Builder) -> Result<Self> {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            let because = "it names no bucket; write s3://bucket/prefix";
            return Err(Error::new("open the storage", text, Kind::Other).because(because));
        }
        let objects = builder
            .with_bucket_name(bucket)
            .build()
            .map_err(|source| Error::of_object("open the storage", text, source))?;
        let location = Location::Bucket(text.to_owned());
        Ok(match prefix.trim_matches('/') {
            "" => Self { objects: Arc::new(objects), location },
            prefix => Self { objects: Arc::new(PrefixStore::new(objects, prefix)), location },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn because(text: &str) -> String {
        let error = Storage::open(text).unwrap_err();
        error.source().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn a_text_that_names_no_storage_says_what_would() {
        assert!(because("").contains("name a folder"));
        assert!(because("ftp://host/a").contains("s3://bucket/prefix"));
        assert!(because("file://a").contains("three slashes"));
        assert!(because("file:///a%20b").contains("plain path"));
        assert!(because("s3://").contains("no bucket"));
    }

    #[test]
    fn a_bucket_opens_without_a_network() {
        let storage = Storage::open("s3://outputs/some/where/").unwrap();
        assert_eq!(storage.describe(), "s3://outputs/some/where/");
    }

    #[test]
    fn a_path_and_a_file_url_name_the_same_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/outputs");
        let one = Storage::open(path.to_str().unwrap()).unwrap();
        let two = Storage::open(&format!("file://{}", path.display())).unwrap();
        assert_eq!(one.describe(), two.describe());
        assert!(path.is_dir());
    }
}
