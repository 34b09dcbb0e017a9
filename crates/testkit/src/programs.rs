//! Finding server programs: distributions keep them out of `PATH`, each in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The folder that holds `initdb` and `postgres`; the newest version where there are several.
pub fn postgres_folder() -> Option<PathBuf> {
    let mut folders = path_folders();
    folders.extend(newest_first("/usr/lib/postgresql", "", "bin"));
    folders.push(PathBuf::from("/usr/local/pgsql/bin"));
    folders.extend(newest_first("/usr", "pgsql-", "bin"));
    folders.extend(newest_first("/usr/libexec", "postgresql", ""));
    for homebrew in ["/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"] {
        folders.extend(newest_first(homebrew, "postgresql", "bin"));
    }
    folders.extend(pg_config_folder());
    folders.into_iter().find_map(|folder| postgres_folder_at(&folder))
}

/// The pooler's program.
pub fn pgbouncer() -> Option<PathBuf> {
    let mut folders = path_folders();
    folders.extend(["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from));
    folders.extend(["/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin"].map(PathBuf::from));
    folders.into_iter().map(|folder| folder.join("pgbouncer")).find(|program| program.is_file())
}

/// Follows links, since a server looks for its own files beside the real program.
fn postgres_folder_at(folder: &Path) -> Option<PathBuf> {
    let initdb = folder.join("initdb").canonicalize().ok()?;
    let real = initdb.parent()?;
    real.join("postgres").is_file().then(|| real.to_path_buf())
}

pub(crate) fn path_folders() -> Vec<PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}

fn pg_config_folder() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(text.trim()))
}

/// `base/<prefix><version>/<inner>`, highest version first.
fn newest_first(base: &str, prefix: &str, inner: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(base) else {
        return Vec::new();
    };
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let rest = name.strip_prefix(prefix)?;
            Some((version(rest), entry.path().join(inner)))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, folder)| folder).collect()
}

fn version(text: &str) -> Vec<u32> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let base = tempfile::tempdir().unwrap();
        for name in ["9.6", "15", "8.4", "other"] {
            fs::create_dir_all(base.path().join(name).join("bin")).unwrap();
        }
        let found = newest_first(base.path().to_str().unwrap(), "", "bin");
        assert_eq!(found[0], base.path().join("15/bin"));
        assert_eq!(found[1], base.path().join("9.6/bin"));
    }

    #[test]
    fn a_folder_counts_only_with_both_programs_and_links_are_followed() {
        let base = tempfile::tempdir().unwrap();
        let real = base.path().canonicalize().unwrap().join("real");
        let links = base.path().join("links");
        fs::create_dir_all(&real).unwrap();
        fs::create_dir_all(&links).unwrap();
        fs::write(real.join("initdb"), "").unwrap();
        std::os::unix::fs::symlink(real.join("initdb"), links.join("initdb")).unwrap();
        assert_eq!(postgres_folder_at(&links), None);
        fs::write(real.join("postgres"), "").unwrap();
        assert_eq!(postgres_folder_at(&links), Some(real));
    }
}
