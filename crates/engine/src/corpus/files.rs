//! NDJSON files as one sequence of documents: a line is a document, empty lines are none.
//!
//! The files are mapped, not read; of every [`EVERY`] documents one offset is kept, so that a batch is found by one
//! look-up and a short way forward. Nothing else is kept: the page cache holds what is in use.

use std::fs::File;
use std::path::{Path, PathBuf};

use memchr::memchr;
use memmap2::Mmap;

use crate::plan::PlanError;

/// One offset is kept for so many documents: 8 bytes for about 32 KiB of file.
const EVERY: u64 = 64;

/// Files, in their order.
#[derive(Debug)]
pub struct Files {
    parts: Vec<Part>,
    documents: u64,
}

#[derive(Debug)]
struct Part {
    map: Mmap,
    /// The number of its first document.
    first: u64,
    /// Where its documents 0, `EVERY`, 2 `EVERY`, ... begin.
    offsets: Vec<usize>,
}

impl Files {
    /// Maps the files and checks each line, up to `documents` of them if that is given.
    pub fn open(paths: &[PathBuf], documents: Option<u64>) -> Result<Self, PlanError> {
        let mut files = Self { parts: Vec::new(), documents: 0 };
        for path in paths {
            let map = map(path)?;
            files.add(path, map, documents.unwrap_or(u64::MAX))?;
        }
        match documents {
            Some(asked) if asked > files.documents => {
                let found = files.documents;
                let plural = if paths.len() == 1 { "the file has" } else { "the files have" };
                Err(PlanError(format!("{asked} documents were asked for, but {plural} {found}")))
            }
            _ => Ok(files),
        }
    }

    /// How many documents there are.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The documents from number `first` on, without their line ends.
    pub fn documents_from(&self, first: u64) -> impl Iterator<Item = &[u8]> {
        let start = self.parts.partition_point(|part| part.first <= first).saturating_sub(1);
        let within = self.parts.get(start).map_or(0, |part| first - part.first);
        let skipped = self.parts.iter().skip(start).enumerate().flat_map(move |(i, part)| {
            let number = if i == 0 { within } else { 0 };
            let offset = part.offsets.get((number / EVERY) as usize).copied().unwrap_or(part.map.len());
            Lines { bytes: &part.map, at: offset, number: 0 }.skip((number % EVERY) as usize)
        });
        skipped.map(|line| line.text)
    }

    fn add(&mut self, path: &Path, map: Mmap, most: u64) -> Result<(), PlanError> {
        let mut part = Part { map, first: self.documents, offsets: Vec::new() };
        for line in (Lines { bytes: &part.map, at: 0, number: 0 }) {
            if self.documents == most {
                break;
            }
            if !(line.text.starts_with(b"{") && line.text.ends_with(b"}")) {
                let place = format!("{}:{}", path.display(), line.number);
                let start = String::from_utf8_lossy(&line.text[..line.text.len().min(40)]);
                return Err(PlanError(format!("{place}: the line is no JSON object: {start:?}")));
            }
            if (self.documents - part.first) % EVERY == 0 {
                part.offsets.push(line.offset);
            }
            self.documents += 1;
        }
        if part.offsets.is_empty() && self.documents < most {
            return Err(PlanError(format!("{}: the file has no documents", path.display())));
        }
        self.parts.push(part);
        Ok(())
    }
}

fn map(path: &Path) -> Result<Mmap, PlanError> {
    let wrong = |error: &dyn std::fmt::Display| PlanError(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let metadata = file.metadata().map_err(|error| wrong(&error))?;
    if !metadata.is_file() {
        return Err(wrong(&"not a file"));
    }
    if metadata.len() == 0 {
        return Err(wrong(&"the file is empty"));
    }
    // SAFETY: the map is only read, as bytes, for which every value is valid. Like every reader of a mapped file we
    // rely on nobody cutting it short meanwhile, which would end the process, not corrupt it.
    unsafe { Mmap::map(&file) }.map_err(|error| wrong(&error))
}

/// The lines of a file that are not empty.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    number: u64,
}

struct Line<'a> {
    /// Without white space around it.
    text: &'a [u8],
    /// Where the line begins.
    offset: usize,
    /// From 1, if `Lines` began at the file's first byte.
    number: u64,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        while self.at < self.bytes.len() {
            let offset = self.at;
            let rest = &self.bytes[offset..];
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            self.at = offset + length + 1;
            self.number += 1;
            let text = rest[..length].trim_ascii();
            if !text.is_empty() {
                return Some(Line { text, offset, number: self.number });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder of its own for one test, gone when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("loadframe-files-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn numbers(files: &Files, first: u64, count: usize) -> Vec<u64> {
        let number = |document: &[u8]| serde_json::from_slice::<serde_json::Value>(document).unwrap()["n"].as_u64();
        files.documents_from(first).take(count).map(|document| number(document).unwrap()).collect()
    }

    #[test]
    fn several_files_are_one_sequence() {
        let folder = Folder::new("sequence");
        let lines = |range: std::ops::Range<u64>| range.map(|n| format!("{{\"n\": {n}}}\n")).collect::<String>();
        let paths = [
            folder.file("a", &lines(0..200)),
            folder.file("b", lines(200..201).trim_end()),
            folder.file("c", &format!("\n\n{}\n  \n", lines(201..500).replace('\n', "\r\n\r\n"))),
        ];
        let files = Files::open(&paths, None).unwrap();
        assert_eq!(files.documents(), 500);
        for first in (0..500).chain([500, 501, u64::MAX]) {
            let expected: Vec<u64> = (first..500.min(first.saturating_add(70))).collect();
            assert_eq!(numbers(&files, first, 70), expected, "from {first}");
        }
    }

    #[test]
    fn fewer_documents_than_there_are_can_be_asked_for() {
        let folder = Folder::new("fewer");
        let paths = [folder.file("a", "{\"n\": 0}\n{\"n\": 1}\nnot looked at\n"), folder.file("b", "{\"n\": 9}")];
        assert_eq!(Files::open(&paths, Some(2)).unwrap().documents(), 2);
        assert_eq!(Files::open(&paths[1..], Some(1)).unwrap().documents(), 1);
    }

    #[test]
    fn more_documents_than_there_are_cannot() {
        let folder = Folder::new("more");
        let paths = [folder.file("a", "{\"n\": 0}\n{\"n\": 1}\n")];
        let error = Files::open(&paths, Some(3)).unwrap_err();
        assert_eq!(error.0, "3 documents were asked for, but the file has 2");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_the_reason() {
        let folder = Folder::new("unusable");
        let error = |path: &Path| {
            let error = Files::open(&[path.to_owned()], None).unwrap_err().0;
            error.strip_prefix(&format!("{}:", path.display())).expect("the message begins with the path").to_owned()
        };
        assert_eq!(error(&folder.0.join("missing")), " No such file or directory (os error 2)");
        assert_eq!(error(&folder.0), " not a file");
        assert_eq!(error(&folder.file("empty", "")), " the file is empty");
        assert_eq!(error(&folder.file("blank", "\n \n")), " the file has no documents");
        let broken = folder.file("broken", "{\"n\": 0}\n\n{\"n\": 1\n{\"n\": 2}\n");
        assert_eq!(error(&broken), "3: the line is no JSON object: \"{\\\"n\\\": 1\"");
        assert_eq!(error(&folder.file("array", "[1]\n")), "1: the line is no JSON object: \"[1]\"");
    }
}
