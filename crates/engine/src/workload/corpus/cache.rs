//! Where files are kept that were made of others and can be made again: LOADFRAME_CACHE, or where the system has such.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::util::draw::hash_name;

/// The folder of corpora within the cache; `None` if nothing says where that is.
pub fn folder() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = rustix::process::geteuid().is_root();
    let base = match set("LOADFRAME_CACHE") {
        Some(ours) => ours,
        // Root's servers run as another user, who cannot look into root's home.
        None if root => PathBuf::from("/var/cache/loadframe"),
        None => set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?.join("loadframe"),
    };
    Some(base.join("corpora"))
}

/// What identifies a state of a file: its size and the nanosecond of its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub bytes: u64,
    pub changed: i64,
}

impl Stamp {
    pub fn of(metadata: &fs::Metadata) -> Self {
        let changed = metadata.mtime().wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec());
        Self { bytes: metadata.len(), changed }
    }
}

/// The name, within the cache, of something made of a file in one state.
pub fn name(path: &Path, stamp: Stamp, ending: &str) -> String {
    let full = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let key = hash_name(&format!("{}\n{}\n{}", full.display(), stamp.bytes, stamp.changed));
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{key:016x}-{file}{ending}")
}
