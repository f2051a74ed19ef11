//! The lines of a file: one document each, but for empty ones and those that are not documents.

use memchr::memchr;

/// How lines are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineOptions {
    /// Before each document stands a line that says what to do with it, as bulk requests have them.
    pub actions: bool,
    /// Lines that are not documents are counted and kept aside; otherwise the first one is an error.
    pub set_aside: bool,
    /// The files are dumps of MediaWiki, whose revisions are the documents.
    pub mediawiki: bool,
}

/// Why a line is not a document; `None` if it is one.
pub fn flaw(text: &[u8]) -> Option<&'static str> {
    if !(text.starts_with(b"{") && text.ends_with(b"}")) {
        return Some("the line is not a JSON object");
    }
    std::str::from_utf8(text).is_err().then_some("the line is not UTF-8")
}

/// The lines of a file that are not empty.
pub struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    number: u64,
}

/// A line that is not empty.
pub struct CorpusLine<'a> {
    /// Without white space around it.
    pub text: &'a [u8],
    /// Where the line begins.
    pub offset: usize,
    /// From 1, if `Lines` began at the file's first byte.
    pub number: u64,
}

impl<'a> Lines<'a> {
    /// From an offset on, where a line begins.
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, number: 0 }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = CorpusLine<'a>;

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
