//! NDJSON files as one sequence of documents: each non-empty line is a document.
//!
//! The files are mapped, not read. An [`Index`] look-up and a short scan find a document. The page cache
//! holds the parts in use.

use std::fs::File;
use std::iter;
use std::path::{Path, PathBuf};

use memchr::memrchr;
use memmap2::{Advice, Mmap};

use super::cache::Stamp;
use super::document_limits::DocumentLimits;
use super::index::{Index, aside};
use super::lines::{LineOptions, Lines, flaw};
use super::unpacked::unpacked;
use crate::plan::PlanError;

/// Files in order.
#[derive(Debug)]
pub struct Files {
    parts: Vec<CorpusFile>,
    documents: u64,
    reading: LineOptions,
}

#[derive(Debug)]
struct CorpusFile {
    /// The file with lines that are not documents.
    aside: Option<PathBuf>,
    map: Mmap,
    /// The number of its first document.
    first: u64,
    index: Index,
}

impl Files {
    /// Maps the files, unpacked if necessary. New or changed files are checked line by line, up to the
    /// required number of documents. Refuses invalid lines, unless they are set aside, and files with fewer documents
    /// than required.
    pub fn open(paths: &[PathBuf], limits: DocumentLimits, reading: LineOptions) -> Result<Self, PlanError> {
        let mut files = Self { parts: Vec::new(), documents: 0, reading };
        for path in paths {
            let most = limits.most().map_or(u64::MAX, |documents| documents - files.documents);
            // An unpacked dump without revisions would be refused as empty: unpack at least one.
            let plain = unpacked(path, reading.mediawiki.then_some(most.max(1)))?;
            let (map, stamp) = map(&plain)?;
            let _ = map.advise(Advice::Sequential);
            let index = Index::open(&plain, path, &map, stamp, most, reading)?;
            let _ = map.advise(Advice::Normal);
            let first = files.documents;
            files.documents += index.documents.min(most);
            files.parts.push(CorpusFile { aside: aside(path, map.len()), map, first, index });
        }
        let name = |path: &PathBuf| path.display().to_string();
        match paths {
            [path] => limits.check(files.documents, format_args!("{}: the file has", path.display()))?,
            _ => limits.check(
                files.documents,
                format_args!("{}: the files together have", paths.iter().map(name).collect::<Vec<_>>().join(", ")),
            )?,
        }
        Ok(files)
    }

    /// Returns the number of documents.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Returns the number of lines set aside, and the cache files that contain them.
    pub fn set_aside(&self) -> (u64, Vec<&Path>) {
        let parts = || self.parts.iter().filter(|part| part.index.broken > 0);
        (parts().map(|part| part.index.broken).sum(), parts().filter_map(|part| part.aside.as_deref()).collect())
    }

    /// Appends up to `count` documents starting with number `first`, each as `prefix`, the document, and a line end;
    /// fewer at the end of the files.
    pub fn append(&self, first: u64, count: u64, prefix: &[u8], out: &mut Vec<u8>) {
        for document in self.documents_from(first).take(count as usize) {
            out.extend_from_slice(prefix);
            out.extend_from_slice(document);
            out.push(b'\n');
        }
    }

    /// Returns whether an action line precedes each document.
    pub fn has_actions(&self) -> bool {
        self.reading.actions
    }

    /// Appends the action lines of `count` documents starting with number `first`, each with a line end. Only for files
    /// with actions.
    pub fn append_actions(&self, first: u64, count: u64, out: &mut Vec<u8>) {
        for (action, _) in self.pairs_from(first).take(count as usize) {
            out.extend_from_slice(action);
            out.push(b'\n');
        }
    }

    /// Iterates over the documents from number `first`, without line ends.
    fn documents_from(&self, first: u64) -> impl Iterator<Item = &[u8]> {
        self.pairs_from(first).map(|(_, document)| document)
    }

    /// Iterates over pairs of action line and document from number `first`, to the end of the files. The action is
    /// empty in files without actions.
    fn pairs_from(&self, first: u64) -> impl Iterator<Item = (&[u8], &[u8])> {
        let start = self.parts.partition_point(|part| part.first <= first).saturating_sub(1);
        let within = self.parts.get(start).map_or(0, |part| first - part.first);
        self.parts.iter().skip(start).enumerate().flat_map(move |(i, part)| {
            let number = if i == 0 { within } else { 0 };
            let (offset, further) = part.index.find(number).unwrap_or((part.map.len() as u64, 0));
            let actions = self.reading.actions;
            // The index points to documents, after their actions.
            let offset = if actions { line_before(&part.map, offset as usize) } else { offset as usize };
            let mut lines = Lines::new(&part.map, offset);
            let pairs = iter::from_fn(move || {
                let action = if actions { lines.next()?.text } else { &[] };
                Some((action, lines.next()?.text))
            });
            let unchecked = part.index.broken == 0;
            let documents = pairs.filter(move |(_, document)| unchecked || flaw(document).is_none());
            documents.skip(further as usize)
        })
    }
}

/// Returns the offset of the last non-empty line before offset `at`; 0 if the text before is a single line.
fn line_before(bytes: &[u8], at: usize) -> usize {
    let text = bytes[..at].trim_ascii_end();
    memrchr(b'\n', text).map_or(0, |end| end + 1)
}

/// Maps a file into memory; returns the map and the file's state. Refuses an empty file, and other than regular files.
fn map(path: &Path) -> Result<(Mmap, Stamp), PlanError> {
    let wrong = |error: &dyn std::fmt::Display| PlanError::new(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let metadata = file.metadata().map_err(|error| wrong(&error))?;
    if !metadata.is_file() {
        return Err(wrong(&"not a file"));
    }
    if metadata.len() == 0 {
        return Err(wrong(&"the file is empty"));
    }
    // SAFETY: the map is only read, as bytes, for which every value is valid. Truncation of the file during
    // the run would end the process, as for every reader of a mapped file, but not corrupt it.
    let map = unsafe { Mmap::map(&file) }.map_err(|error| wrong(&error))?;
    Ok((map, Stamp::of(&metadata)))
}

#[cfg(test)]
mod tests {
    use super::super::cache;
    use super::super::folder::Folder;
    use super::*;

    /// Opens files that must have `documents` documents.
    fn open(paths: &[PathBuf], documents: Option<u64>) -> Result<Files, PlanError> {
        Files::open(paths, DocumentLimits { documents, at_most: None }, LineOptions::default())
    }

    /// Returns the member `n` of `count` documents from number `first`.
    fn numbers(files: &Files, first: u64, count: usize) -> Vec<u64> {
        let number = |document: &[u8]| serde_json::from_slice::<serde_json::Value>(document).unwrap()["n"].as_u64();
        files.documents_from(first).take(count).map(|document| number(document).unwrap()).collect()
    }

    #[test]
    fn several_files_are_one_sequence() {
        let folder = Folder::new("sequence");
        let lines = |range: std::ops::Range<u64>| range.map(|n| format!("{{\"n\": {n}}}\n")).collect::<String>();
        let paths = [
            folder.file("a", lines(0..200)),
            folder.file("b", lines(200..201).trim_end()),
            folder.file("c", format!("\n\n{}\n  \n", lines(201..500).replace('\n', "\r\n\r\n"))),
        ];
        let files = open(&paths, None).unwrap();
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
        assert_eq!(open(&paths, Some(2)).unwrap().documents(), 2);
        assert_eq!(open(&paths[1..], Some(1)).unwrap().documents(), 1);
    }

    /// A dump of which no revision is needed does not count as an empty file.
    #[test]
    fn a_dump_after_the_last_required_revision_is_not_refused() {
        let folder = Folder::new("two-dumps");
        let revision = |id| {
            format!(
                "<mediawiki><page><title>T</title><id>1</id><revision><id>{id}</id><text>t</text></revision></page></mediawiki>"
            )
        };
        let paths = [folder.file("a.xml", revision(7)), folder.file("b.xml", revision(8))];
        let reading = LineOptions { mediawiki: true, ..LineOptions::default() };
        let documents = |most| {
            let limits = DocumentLimits { documents: Some(most), at_most: None };
            Files::open(&paths, limits, reading).map(|files| files.documents())
        };
        assert_eq!((documents(1), documents(2)), (Ok(1), Ok(2)));
        for path in &paths {
            let stamp = Stamp::of(&std::fs::metadata(path).unwrap());
            for ending in [".1-revisions.ndjson", ".1-revisions.lock", ".2-revisions.ndjson", ".2-revisions.lock"] {
                let _ = std::fs::remove_file(cache::folder().unwrap().join(cache::name(path, stamp, ending)));
            }
        }
    }

    /// Without `documents`, `at_most` limits the number of documents but does not require it.
    #[test]
    fn at_most_takes_as_many_as_there_are_where_nothing_says_how_many_there_must_be() {
        let folder = Folder::new("at-most");
        let paths = [folder.file("x.json", "{\"a\":1}\n{\"a\":2}\n")];
        let documents = |at_most| {
            let limits = DocumentLimits { documents: None, at_most: Some(at_most) };
            Files::open(&paths, limits, LineOptions::default()).unwrap().documents()
        };
        assert_eq!((documents(1), documents(2), documents(300)), (1, 2, 2));
    }

    /// A file with fewer documents than required is refused.
    #[test]
    fn a_file_that_was_cut_off_is_noticed_as_far_as_it_is_needed() {
        let folder = Folder::new("cut-off");
        let path = folder.file("cut.json", "{\"n\": 0}\n{\"n\": 1}\n");
        let open = |documents, at_most| {
            let limits = DocumentLimits { documents: Some(documents), at_most };
            Files::open(std::slice::from_ref(&path), limits, LineOptions::default())
        };
        assert_eq!(open(300, Some(2)).unwrap().documents(), 2);
        assert_eq!(open(2, Some(300)).unwrap().documents(), 2);
        let refused = |needed| {
            format!(
                "{}: the file has 2 documents, and {needed} are needed; check that nothing is missing",
                path.display()
            )
        };
        assert_eq!(open(300, Some(3)).unwrap_err().message, refused(3));
        assert_eq!(open(3, Some(300)).unwrap_err().message, refused(3));
        assert_eq!(open(300, None).unwrap_err().message, refused(300));
        let two = [folder.file("a", "{\"n\": 0}\n"), folder.file("b", "{\"n\": 1}\n")];
        let limits = DocumentLimits { documents: Some(300), at_most: Some(40) };
        let error = Files::open(&two, limits, LineOptions::default()).unwrap_err().message;
        let names = format!("{}, {}", two[0].display(), two[1].display());
        assert_eq!(
            error,
            format!("{names}: the files together have 2 documents, and 40 are needed; check that nothing is missing")
        );
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_the_reason() {
        let folder = Folder::new("unusable");
        let error = |path: &Path| {
            let error = open(&[path.to_owned()], None).unwrap_err().message;
            error.strip_prefix(&format!("{}:", path.display())).expect("the message begins with the path").to_owned()
        };
        assert_eq!(error(&folder.0.join("missing")), " No such file or directory (os error 2)");
        assert_eq!(error(&folder.0), " not a file");
        assert_eq!(error(&folder.file("empty", "")), " the file is empty");
        assert_eq!(error(&folder.file("blank", "\n \n")), " the file contains no documents");
        let remedy = "; correct it, or say broken: set_aside";
        let broken = folder.file("broken", "{\"n\": 0}\n\n{\"n\": 1\n{\"n\": 2}\n");
        assert_eq!(error(&broken), format!("3: the line is not a JSON object: \"{{\\\"n\\\": 1\"{remedy}"));
        assert_eq!(error(&folder.file("array", "[1]\n")), format!("1: the line is not a JSON object: \"[1]\"{remedy}"));
    }

    #[test]
    fn lines_of_actions_are_not_documents() {
        let folder = Folder::new("actions");
        let lines: String = (0..300).map(|n| format!("{{\"index\": {{}}}}\n\n{{\"n\": {n}}}\n")).collect();
        let path = [folder.file("bulk", &lines)];
        let reading = LineOptions { actions: true, ..LineOptions::default() };
        let files = Files::open(&path, DocumentLimits::default(), reading).unwrap();
        assert_eq!(files.documents(), 300);
        for first in [0, 1, 63, 64, 65, 200, 299, 300] {
            assert_eq!(numbers(&files, first, 70), (first..300.min(first + 70)).collect::<Vec<_>>(), "from {first}");
        }
        let error = |text: &str| {
            Files::open(&[folder.file("odd", text)], DocumentLimits::default(), reading).unwrap_err().message
        };
        assert!(
            error("{\"n\": 1}\n")
                .ends_with("odd:1: a line with an action, index or create, was expected: \"{\\\"n\\\": 1}\"")
        );
        assert!(error("{\"delete\": {}}\n").contains("odd:1: a line with an action"));
        assert!(error("{\"create\": {}}\n").contains("odd:1: the action lacks a document"));
    }

    #[test]
    fn each_document_keeps_its_own_action_line() {
        let folder = Folder::new("action-lines");
        let pair = |n: usize| {
            let broken = if n % 50 == 3 { "{\"create\": {\"_id\": \"none\"}}\n{\"n\"\n" } else { "" };
            format!("{broken}\n{{\"create\": {{\"_id\": \"{n}\"}}}}\r\n  \n{{\"n\": {n}}}\n")
        };
        let path = [folder.file("bulk", (0..300).map(pair).collect::<String>())];
        let reading = LineOptions { actions: true, set_aside: true, ..LineOptions::default() };
        let files = Files::open(&path, DocumentLimits::default(), reading).unwrap();
        let _ = std::fs::remove_file(files.set_aside().1[0]);
        assert_eq!((files.documents(), files.set_aside().0), (300, 6));
        for first in [0, 1, 3, 4, 63, 64, 65, 200, 299, 300] {
            let mut out = Vec::new();
            files.append_actions(first, 70, &mut out);
            let line = |n| format!("{{\"create\": {{\"_id\": \"{n}\"}}}}\n");
            let expected: String = (first..300.min(first + 70)).map(line).collect();
            assert_eq!(String::from_utf8(out).unwrap(), expected, "from {first}");
        }
    }

    #[test]
    fn broken_lines_can_be_kept_aside_and_are_never_sent() {
        let folder = Folder::new("aside");
        let mut text = Vec::new();
        for n in 0..500 {
            text.extend_from_slice(format!("{{\"n\": {n}}}\n").as_bytes());
            text.extend_from_slice(if n % 100 == 7 { b"{\"n\": \"\xff\"}\n{\"n\"\n" } else { b"\n" });
        }
        let path = [folder.file("mixed", &text)];
        let files =
            Files::open(&path, DocumentLimits::default(), LineOptions { set_aside: true, ..LineOptions::default() })
                .unwrap();
        let stamp = Stamp { bytes: text.len() as u64, changed: 0 };
        let aside = cache::folder().unwrap().join(cache::name(&path[0], stamp, ".broken"));
        assert_eq!((files.documents(), files.set_aside()), (500, (10, vec![aside.as_path()])));
        for first in [0, 7, 8, 64, 107, 108, 499] {
            assert_eq!(numbers(&files, first, 70), (first..500.min(first + 70)).collect::<Vec<_>>(), "from {first}");
        }
        let kept = std::fs::read(&aside).unwrap();
        std::fs::remove_file(&aside).unwrap();
        assert!(
            kept.starts_with(
                b"16: the line is not UTF-8: {\"n\": \"\xff\"}\n17: the line is not a JSON object: {\"n\"\n"
            )
        );
        let error = open(&path, None).unwrap_err().message;
        assert!(error.contains("mixed:16: the line is not UTF-8"), "{error}");
    }
}
