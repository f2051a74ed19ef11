//! Captured values: data from a client's answers for its later requests, such as a token or an id.

use super::Encoding;
use super::encoded::Encoded;

/// Captured values of one client or user, by the slots of [`super::Variables`]. Memory grows with the slots
/// used.
#[derive(Debug, Default)]
pub struct Captured {
    values: Vec<(bool, Encoded)>,
}

impl Captured {
    /// Empty, for clients that capture nothing.
    pub const NONE: Self = Self { values: Vec::new() };

    /// Returns whether the slot has a value.
    pub fn has(&self, slot: usize) -> bool {
        self.values.get(slot).is_some_and(|(known, _)| *known)
    }

    /// Stores text in a slot. Allocates only to grow a buffer.
    pub fn keep_text(&mut self, slot: usize, text: &str) {
        let (known, value) = self.place(slot);
        value.set_text(text);
        *known = true;
    }

    /// Stores the value of some JSON in a slot, with its type. Fails for an invalid string, and then leaves the slot
    /// as it is.
    pub fn keep_json(&mut self, slot: usize, json: &[u8]) -> Result<(), serde_json::Error> {
        let (known, value) = self.place(slot);
        value.set_json(json)?;
        *known = true;
        Ok(())
    }

    /// Returns the value in a slot as text; `None` if the slot is empty.
    pub fn text(&self, slot: usize) -> Option<&[u8]> {
        self.values.get(slot).filter(|(known, _)| *known).map(|(_, value)| value.encoded(Encoding::Text))
    }

    /// Returns a slot: whether it has a value, and the value. Creates the slot if necessary.
    fn place(&mut self, slot: usize) -> &mut (bool, Encoded) {
        if self.values.len() <= slot {
            self.values.resize_with(slot + 1, Default::default);
        }
        &mut self.values[slot]
    }

    /// Moves all values from `other` into the same slots, and marks these slots of `other` as empty.
    pub fn learn(&mut self, other: &mut Self) {
        for (slot, news) in other.values.iter_mut().enumerate().filter(|(_, (known, _))| *known) {
            std::mem::swap(self.place(slot), news);
            news.0 = false;
        }
    }

    /// Clears all values, for another user of the client.
    pub fn forget(&mut self) {
        self.values.iter_mut().for_each(|(known, _)| *known = false);
    }

    /// Appends the value in a slot in an encoding; nothing if the slot is empty.
    pub(super) fn write(&self, slot: usize, encoding: Encoding, out: &mut Vec<u8>) {
        if let Some((true, value)) = self.values.get(slot) {
            out.extend_from_slice(value.encoded(encoding));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value in slot 0 in an encoding.
    fn written(captured: &Captured, encoding: Encoding) -> String {
        let mut out = Vec::new();
        captured.write(0, encoding, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_value_is_kept_in_its_own_type_until_it_is_forgotten() {
        let mut captured = Captured::default();
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
    fn learning_changes_only_the_learnt_slots() {
        let (mut captured, mut news) = (Captured::default(), Captured::default());
        captured.keep_text(0, "old");
        captured.keep_text(1, "kept");
        news.keep_text(0, "new");
        news.keep_text(2, "more");
        captured.learn(&mut news);
        assert_eq!([0, 1, 2].map(|slot| captured.text(slot)), [Some(&b"new"[..]), Some(b"kept"), Some(b"more")]);
        assert_eq!([0, 1, 2].map(|slot| news.has(slot)), [false; 3]);
        captured.learn(&mut news);
        assert_eq!(captured.text(0), Some(&b"new"[..]));
    }

    #[test]
    fn captured_values_are_found_by_slot() {
        let mut captured = Captured::NONE;
        captured.keep_text(2, "x");
        assert_eq!([0, 1, 2, 3].map(|slot| captured.has(slot)), [false, false, true, false]);
        assert_eq!((captured.text(2), captured.text(1)), (Some(&b"x"[..]), None));
    }

    #[test]
    fn an_invalid_string_is_an_error() {
        assert!(Captured::default().keep_json(0, b"\"abc").is_err());
    }
}
