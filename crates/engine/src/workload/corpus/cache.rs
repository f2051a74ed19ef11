//! Cache folder for files derived from others: LOADFRAME_CACHE, or the system's cache folder.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::util::draw::hash_name;

/// Returns the cache folder of corpora, which may not exist: in LOADFRAME_CACHE if it is set, by default in the user's
/// cache folder, or below `/var/cache` for root. `None` if the environment defines none.
pub fn folder() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = rustix::process::geteuid().is_root();
    let base = match set("LOADFRAME_CACHE") {
        Some(ours) => ours,
        // Servers started by root run as another user, who cannot read root's home.
        None if root => PathBuf::from("/var/cache/loadframe"),
        None => set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?.join("loadframe"),
    };
    Some(base.join("corpora"))
}

/// State of a file: its size and modification time in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub bytes: u64,
    pub changed: i64,
}

impl Stamp {
    /// Returns the state of a file from its metadata.
    pub fn of(metadata: &fs::Metadata) -> Self {
        let changed = metadata.mtime().wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec());
        Self { bytes: metadata.len(), changed }
    }
}

/// Returns the file name, in the cache, of a file derived from `path` in the state `stamp`: it is different for
/// another path or state. `ending`: appended to the name.
pub fn name(path: &Path, stamp: Stamp, ending: &str) -> String {
    let full = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let key = hash_name(&format!("{}\n{}\n{}", full.display(), stamp.bytes, stamp.changed));
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{key:016x}-{file}{ending}")
}
