//! Encoding of commands.

use loadframe_engine::util::digits::{push_i64, push_u64};
use loadframe_engine::workload::variables::Values;
use loadframe_engine::workload::variables::template::Template;

use crate::crud::Scalar;

/// Appends commands to a buffer.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    word: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Creates a writer to `out`; `word` is scratch space for one word.
    pub fn new(out: &'a mut Vec<u8>, word: &'a mut Vec<u8>) -> Self {
        Self { out, word }
    }

    /// Starts a command with this number of words.
    pub fn begin(&mut self, words: usize) {
        length(self.out, b'*', words);
    }

    /// Appends a word.
    pub fn word(&mut self, word: impl AsRef<[u8]>) {
        push(self.out, word.as_ref());
    }

    /// Appends a word that is rendered with `values`.
    pub fn drawn(&mut self, template: &Template, values: &Values) {
        self.word.clear();
        template.render(values, self.word);
        push(self.out, self.word);
    }

    /// Appends the value of a field as a word.
    pub fn value(&mut self, value: &Scalar) {
        self.word.clear();
        text(value, self.word);
        push(self.out, self.word);
    }
}

/// Appends a word with its length.
fn push(out: &mut Vec<u8>, word: &[u8]) {
    length(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Appends a line with a kind and a length.
fn length(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    push_u64(out, length as u64);
    out.extend_from_slice(b"\r\n");
}

/// Appends a value as text for a hash: numbers as digits, lists and mappings as JSON, null as the empty string.
fn text(value: &Scalar, out: &mut Vec<u8>) {
    match value {
        Scalar::Null => {}
        Scalar::Bool(yes) => out.extend_from_slice(if *yes { b"true" } else { b"false" }),
        Scalar::Int(number) => push_i64(out, *number),
        Scalar::Float(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Scalar::Text(text) => out.extend_from_slice(text.as_bytes()),
        Scalar::Json(json) => out.extend_from_slice(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_how_many_words_and_bytes_come() {
        let (mut out, mut word) = (Vec::new(), Vec::new());
        let mut writer = Writer::new(&mut out, &mut word);
        writer.begin(3);
        writer.word("SET");
        writer.word(b"a b\r\n");
        writer.value(&Scalar::Int(-1_234_567_890));
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$5\r\na b\r\n\r\n$11\r\n-1234567890\r\n");
    }

    #[test]
    fn values_are_texts() {
        let told = |value: Scalar| {
            let mut out = Vec::new();
            text(&value, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(told(Scalar::Null), "");
        assert_eq!(told(Scalar::Bool(true)), "true");
        assert_eq!(told(Scalar::Float(0.5)), "0.5");
        assert_eq!(told(Scalar::Text("x".into())), "x");
        assert_eq!(told(Scalar::Json(b"[1]")), "[1]");
    }
}
