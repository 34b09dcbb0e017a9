//! A file whose lock the kernel holds for one process.
//!
//! Holds throughout: the file is created once, by its instance, and named after it; others open it
//! without creating, and believe it only when device and inode are those that the instance wrote down. It is
//! opened close-on-exec, as the standard library opens every file: a child that a handler starts does
//! not keep it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use windrow_domain::InstanceId;
use windrow_store::member::ProcessLock;

/// What the names of locks end with.
const EXTENSION: &str = "lock";
/// What the name of a lock that is not held yet ends with.
const EXTENSION_NEW: &str = "new";
/// The kernel's own name of its boot. It is the same in every container of a machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The boot of this machine; none where the kernel does not say it.
pub(super) fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string(BOOT_ID).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The lock of an instance of this process. Dropped, it is free while its file stays, as after a
/// crash.
pub(super) struct HeldLock {
    pub(super) instance: InstanceId,
    pub(super) mark: ProcessLock,
    pub(super) path: PathBuf,
    _file: File,
}

impl HeldLock {
    /// Creates the file and locks it.
    pub(super) fn create(
        folder: &Path,
        boot_id: &str,
        instance: InstanceId,
    ) -> io::Result<HeldLock> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = folder.canonicalize()?.join(format!("{instance}.{EXTENSION}"));
        let text = path.to_str().ok_or_else(|| io::Error::other("its path is not UTF-8"))?;
        let mut options = OpenOptions::new();
        // Others try every lock that they see: it has its name only when it is held.
        let unnamed = path.with_extension(EXTENSION_NEW);
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&unnamed)?;
        file.try_lock()?;
        std::fs::rename(&unnamed, &path)?;
        let found = file.metadata()?;
        let mark = ProcessLock {
            boot_id: boot_id.to_owned(),
            device: found.dev(),
            inode: found.ino(),
            path: text.to_owned(),
        };
        Ok(HeldLock { instance, mark, path, _file: file })
    }

    /// Removes the file, then frees the lock.
    pub(super) fn remove(self) {
        remove(&self.path);
    }
}

/// The lock of a process that is dead, held by this one.
pub(super) struct Proof {
    path: PathBuf,
    _file: File,
}

impl Proof {
    /// Removes the file, then frees the lock.
    pub(super) fn remove(self) {
        remove(&self.path);
    }
}

/// Proof that no process holds the lock; none when one does, or when it is not known. The caller has seen
/// that the boot is that of this machine.
pub(super) fn prove_dead(lock: &ProcessLock, folder: &Path) -> Option<Proof> {
    let told = Path::new(&lock.path);
    // Another container may see the same folder under another name.
    let here = folder.join(told.file_name()?);
    [told.to_owned(), here].into_iter().find_map(|path| {
        let file = OpenOptions::new().read(true).write(true).open(&path).ok()?;
        let found = file.metadata().ok()?;
        let is_same = (found.dev(), found.ino()) == (lock.device, lock.inode);
        (is_same && file.try_lock().is_ok()).then_some(Proof { path, _file: file })
    })
}

/// Whether a process holds the lock: that instance lives, however silent it is. The caller has seen that the boot is that
/// of this machine.
pub(super) fn is_held(lock: &ProcessLock, folder: &Path) -> bool {
    let told = Path::new(&lock.path);
    let Some(name) = told.file_name() else { return false };
    [told.to_owned(), folder.join(name)].into_iter().any(|path| {
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { return false };
        let is_same = file
            .metadata()
            .is_ok_and(|found| (found.dev(), found.ino()) == (lock.device, lock.inode));
        is_same && matches!(file.try_lock(), Err(TryLockError::WouldBlock))
    })
}

/// The instance whose lock a file is, by its name.
pub(super) fn instance_of(path: &Path) -> Option<InstanceId> {
    let is_lock = path.extension().is_some_and(|extension| extension == EXTENSION);
    path.file_stem().filter(|_| is_lock)?.to_str()?.parse().ok()
}

/// Whether no process holds the lock of a file that is there.
pub(super) fn is_unheld(path: &Path) -> bool {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.is_ok_and(|file| file.try_lock().is_ok())
}

/// Removes a file unless a process holds its lock.
pub(super) fn remove_unheld(path: &Path) {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    if opened.is_ok_and(|file| file.try_lock().is_ok()) {
        remove(path);
    }
}

/// A file that is gone already was removed by another process.
fn remove(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::debug!(path = %path.display(), %error, "a lock of a process was left");
        }
        Ok(()) | Err(_) => {}
    }
}
