//! Where a command writes lines: a file, standard output, or a device.
//!
//! Holds throughout: a file appears complete or not at all, and an older one stays until then.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::error::CliError;
use crate::exit_code::Exit;

/// Bytes that go to a file at once: each piece costs a change of threads.
const PIECE_BYTES: usize = 1 << 20;

/// Anything that takes bytes.
pub(crate) type Out<'a> = &'a mut (dyn AsyncWrite + Send + Unpin);

/// Where lines are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputTarget {
    Standard,
    File(PathBuf),
}

impl OutputTarget {
    /// `-` is standard output.
    pub(crate) fn of(path: PathBuf) -> Self {
        if path.as_os_str() == "-" { OutputTarget::Standard } else { OutputTarget::File(path) }
    }

    /// The path, if it has one.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        match self {
            OutputTarget::Standard => None,
            OutputTarget::File(path) => Some(path),
        }
    }

    /// The name to print.
    pub(crate) fn name(&self) -> String {
        match self {
            OutputTarget::Standard => "standard output".to_owned(),
            OutputTarget::File(path) => path.display().to_string(),
        }
    }

    /// Fails if nothing could be written there later.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let OutputTarget::File(path) = self else { return Ok(()) };
        let tried = if path.is_dir() {
            Err(io::Error::from(io::ErrorKind::IsADirectory))
        } else if is_plain(path) {
            staged(path).map(drop)
        } else {
            Ok(())
        };
        tried.with_context(|| {
            let what = format!("could not write {}", path.display());
            let remedy = "name a file in a writable folder with --out.";
            CliError::new(Exit::Outputs, what, remedy)
        })
    }

    /// Writes what `fill` produces. An error carries `remedy`.
    pub(crate) async fn put(
        &self,
        remedy: impl Into<String>,
        fill: impl AsyncFnOnce(Out<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let put = match self {
            OutputTarget::Standard => put_standard(fill).await,
            OutputTarget::File(path) if is_plain(path) => put_file(path, fill).await,
            OutputTarget::File(path) => put_device(path, fill).await,
        };
        put.with_context(|| {
            CliError::new(Exit::Outputs, format!("could not write {}", self.name()), remedy)
        })
    }
}

/// A pipe or a device must be written to, not replaced.
fn is_plain(path: &Path) -> bool {
    path.metadata().map_or(true, |found| found.is_file())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

/// A file beside the one that is meant, not yet visible under its name.
fn staged(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".windrow-").permissions(std::fs::Permissions::from_mode(0o666));
    builder.tempfile_in(folder_of(path))
}

async fn put_standard(fill: impl AsyncFnOnce(Out<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut out = tokio::io::stdout();
    let filled = match fill(&mut out).await {
        // What is written last may fail only here.
        Ok(()) => out.flush().await.map_err(anyhow::Error::from),
        failed => failed,
    };
    match filled {
        Ok(()) => Ok(()),
        // A reader that went away (`| head`) has what it wanted.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn put_device(
    path: &Path,
    fill: impl AsyncFnOnce(Out<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = tokio::fs::OpenOptions::new().write(true).open(path).await?;
    fill(&mut out).await?;
    Ok(out.flush().await?)
}

async fn put_file(
    path: &Path,
    fill: impl AsyncFnOnce(Out<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (file, staged) = staged(path)?.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    file.set_max_buf_size(PIECE_BYTES);
    fill(&mut file).await?;
    file.flush().await?;
    file.sync_all().await?;
    staged.persist(path)?;
    Ok(())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    };
    error.chain().any(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_could_not_be_filled_leaves_the_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let target = OutputTarget::of(path.clone());
        let fill = async |out: Out<'_>| Ok(out.write_all(b"one").await?);
        target.put("x", fill).await.unwrap();
        let broken = async |out: Out<'_>| {
            out.write_all(b"tw").await?;
            anyhow::bail!("cut")
        };
        let error = target.put("try again.", broken).await.unwrap_err();
        assert_eq!(crate::error::exit_code(&error), Exit::Outputs);
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn a_folder_and_a_missing_folder_are_told_beforehand() {
        let folder = tempfile::tempdir().unwrap();
        assert!(OutputTarget::of(folder.path().to_owned()).check().is_err());
        assert!(OutputTarget::of(folder.path().join("no/x")).check().is_err());
        assert!(OutputTarget::of(folder.path().join("x")).check().is_ok());
        assert!(OutputTarget::of("/dev/null".into()).check().is_ok());
    }
}
