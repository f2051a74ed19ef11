//! Search for the first event of a source before its phase, which reads the searched bytes again.

use std::fs;
use std::io::ErrorKind;
use std::time::Duration;

use memchr::memchr_iter;

use super::ahead::{Ahead, Search};
use super::{files, listen, stdin};
use crate::plan::{PlanError, Source};
use crate::workload::corpus::unpacked::is_packed;

/// Total size up to which compressed files are read to their ends, because that takes about a second; bytes.
const CHECKED: u64 = 16 << 20;

/// The search for the first event of a source. Dropping it closes the port that no phase has taken over.
#[derive(Debug)]
pub struct FirstEvent {
    plan: Source,
    search: Search,
}

impl FirstEvent {
    /// Creates the search; opens nothing yet. Refuses invalid pointers and steps.
    pub fn new(plan: Source) -> Result<Self, PlanError> {
        Ok(Self { search: Search::new(&plan)?, plan })
    }

    /// Blocks until the source has an event, or `stop` is called. Fails if it ends without one, if none arrives within
    /// `patience`, if the port cannot be opened, and for damaged files. A generator always has one.
    pub fn wait(&self, patience: Duration) -> Result<(), PlanError> {
        match &self.plan.listen {
            Some(listen) => listen::hold(&self.search, listen, patience),
            None if self.plan.stdin => stdin::hold(&self.search, patience),
            None if self.plan.files.is_empty() => Ok(()),
            None => self.search_files(),
        }
    }

    /// Ends `wait` in another thread soon, with an error.
    pub fn stop(&self) {
        self.search.stop();
    }

    /// Fails unless a line of the files is an event, and for damage that it finds. Reads compressed files of up to
    /// 16 MiB in all to their ends, and others up to the first event.
    fn search_files(&self) -> Result<(), PlanError> {
        let packed = self.plan.files.iter().filter(|path| is_packed(path));
        let bytes: u64 = packed.filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum();
        let mut has_event = false;
        for path in &self.plan.files {
            let to_end = is_packed(path) && bytes <= CHECKED;
            if has_event && !to_end {
                continue;
            }
            let name = path.display().to_string();
            // The phase opens the path again, so it would miss the lines that the search takes from a pipe.
            if fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir()) {
                return Err(PlanError::new(format!("{name} is a pipe or device: pass its lines on standard input")));
            }
            let mut file = files::open(path).map_err(PlanError::new)?;
            let (mut ahead, mut lines) = (Ahead::default(), 0);
            loop {
                self.search.check(0, &name)?;
                let before = ahead.bytes.len();
                match ahead.fill(|buffer| file.read(buffer)) {
                    Ok(count) => {
                        lines += memchr_iter(b'\n', &ahead.bytes[before..]).count() as u64;
                        has_event = has_event || ahead.has_event(&self.search, count == 0);
                        if count == 0 || (has_event && !to_end) {
                            break;
                        }
                        if has_event {
                            ahead.bytes.clear();
                        } else {
                            ahead.forget(self.plan.longest_line);
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(PlanError::new(files::damage(name, lines, &error))),
                }
            }
        }
        if has_event {
            return Ok(());
        }
        Err(self
            .search
            .none(&self.plan.files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")))
    }
}

impl Drop for FirstEvent {
    /// Closes the port, unless a phase has taken it over.
    fn drop(&mut self) {
        self.plan.listen.iter().for_each(listen::release);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    /// Returns the search for a source with bids, of lines up to 60 bytes, and with more keys.
    fn first(more: serde_json::Value) -> FirstEvent {
        let mut source = json!({
            "events": {"type": "/type", "kinds": {"bid": {"id": "/id", "time": "/time"}}}, "longest_line": 60,
        });
        source.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        FirstEvent::new(from_value(source).unwrap()).unwrap()
    }

    const BID: &str = r#"{"type":"bid","id":"a","time":5}"#;

    #[test]
    fn a_path_that_cannot_be_read_twice_is_refused() {
        let error = first(json!({"files": ["/dev/null"]})).wait(Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("pipe or device"), "{error}");
    }

    #[test]
    fn files_are_searched_beyond_overlong_lines_and_a_replay_needs_its_time() {
        let path = std::env::temp_dir().join(format!("loadframe-first-event-{}", std::process::id()));
        let overlong = "x".repeat(300_000);
        let replay = json!({"files": [&path], "replay": {"time": "/due", "speed": 1.0}});
        for (lines, more, has_event) in [
            (format!("{overlong}\n{BID}"), json!({"files": [&path]}), true),
            (format!("{overlong}{BID}"), json!({"files": [&path]}), false),
            (format!("{BID}\n"), replay.clone(), false),
            (format!("{}\n", BID.replace('}', ",\"due\":5}")), replay, true),
        ] {
            std::fs::write(&path, lines).unwrap();
            assert_eq!(first(more).wait(Duration::ZERO).is_ok(), has_event);
        }
        std::fs::remove_file(path).unwrap();
    }
}
