//! Lines of a file: one document each, except for empty lines and lines that are not documents.

use memchr::memchr;

/// Options for reading lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineOptions {
    /// An action line precedes each document, as in bulk requests.
    pub actions: bool,
    /// Count and set aside lines that are not documents. If false, the first is an error.
    pub set_aside: bool,
    /// The files are MediaWiki dumps; their revisions are the documents.
    pub mediawiki: bool,
}

/// Returns why a line is not a document; `None` if it is one.
pub fn flaw(text: &[u8]) -> Option<&'static str> {
    if !(text.starts_with(b"{") && text.ends_with(b"}")) {
        return Some("the line is not a JSON object");
    }
    std::str::from_utf8(text).is_err().then_some("the line is not UTF-8")
}

/// Non-empty lines of a file.
pub struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    number: u64,
}

/// A non-empty line.
pub struct CorpusLine<'a> {
    /// The line without surrounding white space.
    pub text: &'a [u8],
    /// Offset of the line.
    pub offset: usize,
    /// Line number from 1, if `Lines` began at the file's first byte.
    pub number: u64,
}

impl<'a> Lines<'a> {
    /// Creates the lines from offset `at`, which must be the beginning of a line.
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, number: 0 }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = CorpusLine<'a>;

    /// Returns the next non-empty line; `None` at the end of the file.
    fn next(&mut self) -> Option<CorpusLine<'a>> {
        while self.at < self.bytes.len() {
            let offset = self.at;
            let rest = &self.bytes[offset..];
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            self.at = offset + length + 1;
            self.number += 1;
            let text = rest[..length].trim_ascii();
            if !text.is_empty() {
                return Some(CorpusLine { text, offset, number: self.number });
            }
        }
        None
    }
}
