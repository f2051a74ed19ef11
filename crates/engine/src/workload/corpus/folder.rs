//! Temporary folder of one test, deleted when dropped.

use std::fs;
use std::path::PathBuf;

pub struct Folder(pub PathBuf);

impl Folder {
    /// Creates the folder for the test `name`; panics if it cannot.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("loadframe-corpus-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file into the folder; returns its path. Panics if it cannot.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    /// Deletes the folder with its files.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
