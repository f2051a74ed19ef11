//! What one client has taken from answers for its later requests: a token, an id.

use super::Encoding;
use super::encoded::Encoded;

/// One client's values, by the slots that [`super::Variables`] gave to the variables of that kind.
#[derive(Debug, Default)]
pub struct Captured {
    values: Vec<(bool, Encoded)>,
}

impl Captured {
    /// Of a client that never takes any.
    pub const NONE: Self = Self { values: Vec::new() };

    /// Nothing yet, in `slots`.
    pub fn new(slots: usize) -> Self {
        Self { values: vec![Default::default(); slots] }
    }

    /// Whether there is a value.
    pub fn has(&self, slot: usize) -> bool {
        self.values.get(slot).is_some_and(|(known, _)| *known)
    }

    /// Keeps a text. Allocates nothing but room.
    pub fn keep_text(&mut self, slot: usize, text: &str) {
        if let Some((known, value)) = self.values.get_mut(slot) {
            value.set_text(text);
            *known = true;
        }
    }

    /// Keeps the value that some JSON stands for, in its own type.
    pub fn keep_json(&mut self, slot: usize, json: &[u8]) -> Result<(), serde_json::Error> {
        let Some((known, value)) = self.values.get_mut(slot) else { return Ok(()) };
        value.set_json(json)?;
        *known = true;
        Ok(())
    }

    /// Another user has taken over the client.
    pub fn forget(&mut self) {
        self.values.iter_mut().for_each(|(known, _)| *known = false);
    }

    pub(super) fn write(&self, slot: usize, encoding: Encoding, out: &mut Vec<u8>) {
        if let Some((true, value)) = self.values.get(slot) {
            out.extend_from_slice(value.encoded(encoding));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(captured: &Captured, encoding: Encoding) -> String {
        let mut out = Vec::new();
        captured.write(0, encoding, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_value_is_kept_in_its_own_type_until_it_is_forgotten() {
        let mut captured = Captured::new(1);
        assert!(!captured.has(0));
        captured.keep_json(0, br#""a \"b\"\n\u00e9""#).unwrap();
        assert!(captured.has(0));
        assert_eq!(written(&captured, Encoding::Json), r#""a \"b\"\né""#);
        assert_eq!(written(&captured, Encoding::JsonText), r#"a \"b\"\né"#);
        assert_eq!(written(&captured, Encoding::Percent), "a%20%22b%22%0A%C3%A9");
        assert_eq!(written(&captured, Encoding::Text), "a \"b\"\né");
        assert_eq!(written(&captured, Encoding::Field), "a \"b\" é");
        captured.keep_json(0, b"-1.50").unwrap();
        assert_eq!(written(&captured, Encoding::Json), "-1.50", "a number stays as the answer has it");
        captured.keep_json(0, br#"{"a": ["x"]}"#).unwrap();
        assert_eq!(written(&captured, Encoding::JsonText), r#"{\"a\": [\"x\"]}"#);
        captured.keep_text(0, "a\r\nhost: x");
        assert_eq!(written(&captured, Encoding::Field), "a  host: x", "no field can end another");
        captured.forget();
        assert!(!captured.has(0));
        assert_eq!(written(&captured, Encoding::Json), "");
    }

    #[test]
    fn a_client_without_slots_keeps_nothing() {
        let mut captured = Captured::NONE;
        captured.keep_text(0, "x");
        assert!(!captured.has(0));
    }

    #[test]
    fn what_is_no_string_after_all_is_an_error() {
        assert!(Captured::new(1).keep_json(0, b"\"abc").is_err());
    }
}
