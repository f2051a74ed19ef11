//! A constant value in all encodings: writing it is a copy without escaping.

use serde_json::Value;

use super::Encoding;
use crate::util::encode::{push_json_text, push_percent};

/// A value in each of the encodings.
#[derive(Clone, Debug, Default)]
pub struct Encoded {
    json: Vec<u8>,
    json_text: Vec<u8>,
    percent: Vec<u8>,
    text: Vec<u8>,
    field: Vec<u8>,
}

impl Encoded {
    /// Encodes a JSON value.
    pub fn new(value: &Value) -> Self {
        let mut encoded = Self::default();
        match value.as_str() {
            Some(text) => encoded.set_text(text),
            None => encoded.set_plain(value.to_string().as_bytes()),
        }
        encoded
    }

    /// Replaces the value by text. Allocates only to grow a buffer.
    pub fn set_text(&mut self, text: &str) {
        for bytes in [&mut self.json, &mut self.json_text, &mut self.percent, &mut self.text, &mut self.field] {
            bytes.clear();
        }
        self.text.extend_from_slice(text.as_bytes());
        // A line end would start another header field (RFC 9110, section 5.5).
        self.field.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
        push_json_text(&mut self.json_text, text);
        push_percent(&mut self.percent, text);
        self.json.push(b'"');
        self.json.extend_from_slice(&self.json_text);
        self.json.push(b'"');
    }

    /// Replaces the value by the value of some JSON. Allocates only to grow a buffer, except for strings with
    /// escapes. Fails for an invalid string; other JSON is not checked.
    pub fn set_json(&mut self, json: &[u8]) -> Result<(), serde_json::Error> {
        if json.first() == Some(&b'"') {
            match serde_json::from_slice::<&str>(json) {
                Ok(text) => self.set_text(text),
                Err(_) => self.set_text(&serde_json::from_slice::<String>(json)?),
            }
        } else {
            self.set_plain(json);
        }
        Ok(())
    }

    /// Replaces the value by JSON other than a string. Its text is the same bytes.
    fn set_plain(&mut self, json: &[u8]) {
        self.set_text(&String::from_utf8_lossy(json));
        self.json.clear();
        self.json.extend_from_slice(json);
    }

    /// Returns the JSON value; null if its JSON is invalid.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// Returns the value's bytes in an encoding.
    pub fn encoded(&self, encoding: Encoding) -> &[u8] {
        match encoding {
            Encoding::Json => &self.json,
            Encoding::JsonText => &self.json_text,
            Encoding::Percent => &self.percent,
            Encoding::Text => &self.text,
            Encoding::Field => &self.field,
        }
    }
}
