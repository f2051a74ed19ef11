//! Files, plain or compressed, read one after the other.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::Source;
use super::line_reader::{From, LineReader};
use crate::plan::PlanError;
use crate::workload::corpus::unpacked::stream;

/// Refuses the paths if one is a folder, or cannot be opened and decompressed.
pub fn check(paths: &[PathBuf]) -> Result<(), PlanError> {
    for path in paths {
        open(path).map_err(PlanError::new)?;
    }
    Ok(())
}

/// Opens a file for reading, decompressed by the ending of its name. Refuses a folder; errors name the path.
pub fn open(path: &Path) -> Result<Box<dyn Read>, String> {
    let say = |error: io::Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(say)?;
    if file.metadata().map_err(say)?.is_dir() {
        return Err(format!("{} is a folder: give files", path.display()));
    }
    stream(BufReader::with_capacity(1 << 20, file), path).map_err(say)
}

/// Returns the message for a file that cannot be read beyond its line number `line`.
pub fn damage(name: impl Display, line: u64, error: &io::Error) -> String {
    format!("{name}: cannot be read beyond line {line}: {error}")
}

/// Queues the lines of all files, until the queue closes; waits while the queue is full. An unreadable file is
/// skipped, and a damaged file is read up to the damage; both are recorded as damage. Always returns `Ok`.
pub fn read(source: &Source) -> Result<(), String> {
    for path in &source.plan.files {
        let mut line_reader = LineReader::new(source, From::File(path.display().to_string(), 0));
        let mut file = match open(path) {
            Ok(file) => file,
            Err(words) => {
                source.say_damage(words);
                continue;
            }
        };
        let whole = loop {
            if !source.queue.wait_for_room() {
                return Ok(());
            }
            match line_reader.fill(|buffer| file.read(buffer)) {
                Ok(0) => break true,
                Ok(count) => line_reader.arrived(count),
                // A signal arrived during the read of a pipe.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    source.say_damage(damage(path.display(), line_reader.line(), &error));
                    break false;
                }
            }
        };
        line_reader.end(whole);
    }
    Ok(())
}
