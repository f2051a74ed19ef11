//! Validates a whole JSON object and reports its members, in one pass.
//!
//! [`Cursor`](super::Cursor) skips unneeded values and may miss errors in them. Here every byte is checked,
//! because accepted lines go into requests that a store refuses as a whole for one bad line.

use std::borrow::Cow;

use super::Unexpected;

/// Maximum nesting of a value in the object. Stores and parsers of their answers recurse into documents, and
/// fail on deeper ones.
pub const DEEPEST: usize = 256;

/// Reason why a text cannot be sent as an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// It is not a single JSON object.
    NoObject,
    /// It is nested deeper than [`DEEPEST`].
    TooDeep,
}

impl From<Unexpected> for Invalid {
    /// Returns [`Invalid::NoObject`].
    fn from(_: Unexpected) -> Self {
        Self::NoObject
    }
}

/// Calls `member` with the name, unescaped, and the JSON of each member of an object, in order. Fails unless `text`,
/// which must be valid UTF-8, is one JSON object with optional white space around it; the error may follow some
/// members.
pub fn members<'a>(text: &'a [u8], mut member: impl FnMut(Cow<'a, [u8]>, &'a [u8])) -> Result<(), Invalid> {
    let mut scan = Scan { bytes: text, at: 0 };
    scan.expect(b'{')?;
    if scan.next()? == b'}' {
        scan.at += 1;
        return Ok(scan.end()?);
    }
    loop {
        let name = scan.name()?;
        scan.expect(b':')?;
        scan.next()?;
        let start = scan.at;
        scan.value()?;
        member(name, &text[start..scan.at]);
        match scan.take()? {
            b',' => {}
            b'}' => return Ok(scan.end()?),
            _ => return Err(Invalid::NoObject),
        }
    }
}

/// Returns the nesting depth of a JSON value: 0 for a scalar, 1 for a flat object. Invalid JSON counts up to its
/// error.
pub fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut at) = (0usize, 0, 0);
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let mut string = Scan { bytes: json, at };
                // Stop at invalid JSON.
                if string.string().is_err() {
                    return deepest;
                }
                at = string.at;
            }
            _ => {}
        }
    }
    deepest
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    /// Skips white space and returns the next byte without consuming it. Fails at the end of the text.
    #[inline]
    fn next(&mut self) -> Result<u8, Unexpected> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(Unexpected),
            }
        }
    }

    /// Skips white space and consumes the next byte. Fails at the end of the text.
    #[inline]
    fn take(&mut self) -> Result<u8, Unexpected> {
        let byte = self.next()?;
        self.at += 1;
        Ok(byte)
    }

    /// Skips white space and consumes `byte`; fails if another byte follows.
    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Unexpected> {
        if self.take()? == byte { Ok(()) } else { Err(Unexpected) }
    }

    /// Fails unless only white space follows.
    fn end(&mut self) -> Result<(), Unexpected> {
        if self.next().is_err() { Ok(()) } else { Err(Unexpected) }
    }

    /// Consumes a member's name, in quotes; returns it unescaped, or as written if it is not valid Unicode. Fails if
    /// no valid string begins here.
    #[inline]
    fn name(&mut self) -> Result<Cow<'a, [u8]>, Unexpected> {
        self.expect(b'"')?;
        let start = self.at;
        let escapes = self.string()?;
        let name = &self.bytes[start..self.at - 1];
        if !escapes {
            return Ok(Cow::Borrowed(name));
        }
        // A name that is not valid Unicode stays as written.
        let text: Result<String, _> = serde_json::from_slice(&self.bytes[start - 1..self.at]);
        Ok(text.map_or(Cow::Borrowed(name), |text| Cow::Owned(text.into_bytes())))
    }

    /// Consumes a value of any type; fails if it is invalid, or nested deeper than [`DEEPEST`].
    fn value(&mut self) -> Result<(), Invalid> {
        let mut open = Open::default();
        loop {
            // A value begins here.
            match self.take()? {
                b'"' => drop(self.string()?),
                b'{' => {
                    if self.next()? == b'}' {
                        self.at += 1;
                    } else {
                        open.push(true)?;
                        self.member()?;
                        continue;
                    }
                }
                b'[' => {
                    if self.next()? == b']' {
                        self.at += 1;
                    } else {
                        open.push(false)?;
                        continue;
                    }
                }
                b't' => self.word(b"rue")?,
                b'f' => self.word(b"alse")?,
                b'n' => self.word(b"ull")?,
                b'-' => self.number()?,
                b'0'..=b'9' => {
                    self.at -= 1;
                    self.number()?;
                }
                _ => return Err(Invalid::NoObject),
            }
            // The value has ended; its container may end too.
            loop {
                let Some(is_object) = open.last() else { return Ok(()) };
                match (self.take()?, is_object) {
                    (b',', true) => {
                        self.member()?;
                        break;
                    }
                    (b',', false) => break,
                    (b'}', true) | (b']', false) => open.pop(),
                    _ => return Err(Invalid::NoObject),
                }
            }
        }
    }

    /// Consumes a member's name and colon; fails if they do not follow.
    #[inline]
    fn member(&mut self) -> Result<(), Unexpected> {
        self.expect(b'"')?;
        self.string()?;
        self.expect(b':')
    }

    /// Consumes the bytes `rest`: a literal such as `true` without its first byte. Fails if other bytes follow.
    fn word(&mut self, rest: &[u8]) -> Result<(), Unexpected> {
        if !self.bytes[self.at..].starts_with(rest) {
            return Err(Unexpected);
        }
        self.at += rest.len();
        Ok(())
    }

    /// Consumes a number after its sign; fails if it is not valid JSON.
    #[inline]
    fn number(&mut self) -> Result<(), Unexpected> {
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Consumes decimal digits; fails if there is none.
    #[inline]
    fn digits(&mut self) -> Result<(), Unexpected> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Unexpected) }
    }

    /// Consumes a string after its first quote; returns whether it has escapes. Fails if it is not valid JSON.
    #[inline]
    fn string(&mut self) -> Result<bool, Unexpected> {
        let mut escapes = false;
        loop {
            self.at += plain(self.bytes.get(self.at..).ok_or(Unexpected)?);
            let byte = *self.bytes.get(self.at).ok_or(Unexpected)?;
            self.at += 1;
            match byte {
                b'"' => return Ok(escapes),
                b'\\' => {
                    escapes = true;
                    self.escape()?;
                }
                // Control characters must be escaped.
                _ => return Err(Unexpected),
            }
        }
    }

    /// Consumes an escape after its backslash; fails if it is not valid JSON.
    fn escape(&mut self) -> Result<(), Unexpected> {
        let rest = self.bytes.get(self.at..).ok_or(Unexpected)?;
        self.at += match rest {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 1,
            [b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => 5,
            _ => return Err(Unexpected),
        };
        Ok(())
    }
}

/// Returns the number of leading bytes that are neither quotes, nor backslashes, nor control characters.
///
/// Eight at a time: a byte is 0 if subtracting 1 from it borrows, and below 32 if subtracting 32 does. A
/// borrow may mark the byte above as well, but the lowest mark is always right.
#[inline]
fn plain(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let mut words = text.chunks_exact(8);
    let mut at = 0;
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("chunks have the requested length"));
        let (quotes, backslashes) = (word ^ (ONES * u64::from(b'"')), word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let marks = (quotes.wrapping_sub(ONES) & !quotes) | (backslashes.wrapping_sub(ONES) & !backslashes) | control;
        if marks & TOPS != 0 {
            return at + (marks & TOPS).trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = words.remainder();
    at + rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len())
}

/// Stack of open containers, outermost first: whether each is an object.
#[derive(Default)]
struct Open {
    bits: [u64; DEEPEST / 64],
    depth: usize,
}

impl Open {
    /// Adds a container, an object or an array; fails if there are [`DEEPEST`] already.
    #[inline]
    fn push(&mut self, is_object: bool) -> Result<(), Invalid> {
        let word = self.bits.get_mut(self.depth / 64).ok_or(Invalid::TooDeep)?;
        let bit = self.depth % 64;
        *word = *word & !(1 << bit) | u64::from(is_object) << bit;
        self.depth += 1;
        Ok(())
    }

    /// Returns whether the innermost open container is an object; `None` if none is open.
    #[inline]
    fn last(&self) -> Option<bool> {
        let last = self.depth.checked_sub(1)?;
        Some(self.bits[last / 64] >> (last % 64) & 1 == 1)
    }

    /// Removes the innermost container; there must be one.
    #[inline]
    fn pop(&mut self) {
        self.depth -= 1;
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use crate::util::draw::Draw;

    use super::*;

    /// Returns whether the validator accepts a text.
    fn is_whole(text: &[u8]) -> bool {
        members(text, |_, _| ()).is_ok()
    }

    /// Returns whether the general parser accepts it as an object.
    fn is_object(text: &[u8]) -> bool {
        text.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(text).is_ok()
    }

    /// `members` reports names unescaped, and values as written, in order.
    #[test]
    fn members_are_shown_in_their_order_as_they_are_written() {
        let text = " {\"a\" : [1, {\"b\": \"}\"}] ,\"\":\"x\\\"y\",\"\\u0061\":-1.5e+3,\"\\ud800\": null , \"a\":{}} ";
        let mut shown = Vec::new();
        members(text.as_bytes(), |name, value| {
            shown.push((String::from_utf8(name.into_owned()).unwrap(), str::from_utf8(value).unwrap()));
        })
        .unwrap();
        let expected =
            [("a", "[1, {\"b\": \"}\"}]"), ("", "\"x\\\"y\""), ("a", "-1.5e+3"), ("\\ud800", "null"), ("a", "{}")];
        assert_eq!(shown, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    /// The validator accepts exactly the objects that `serde_json` accepts.
    #[test]
    fn objects_of_the_general_parser_are_accepted() {
        // Random texts of significant characters, and valid texts with bytes changed, removed or cut off.
        let valid =
            "{\"a\": [0, -1.5e+30, {}, [], {\"b\\n\": null}, true, false], \"c\\u00e9\": \"é\\\"\\\\ \\/ 12345678\"}";
        let signs = b"{}[]\",:\\ \t\n0123-+.eEutrflnas\x01\x1f\x20\x7f";
        let (mut taken, mut refused) = (0, 0);
        for k in 0..200_000 {
            let draw = Draw::new(1, 2, k);
            let sign = |salt: u64| signs[(draw.bits(salt) % signs.len() as u64) as usize];
            let mut text = valid.as_bytes().to_vec();
            for change in 0..draw.bits(0) % 3 {
                let at = (draw.bits(10 + change) % text.len() as u64) as usize;
                match draw.bits(20 + change) % 4 {
                    0 => text[at] = sign(30 + change),
                    1 => text.insert(at, sign(30 + change)),
                    2 => drop(text.remove(at)),
                    _ => text.truncate(at + 1),
                }
            }
            if draw.bits(1).is_multiple_of(4) {
                text = (0..draw.bits(2) % 12).map(|place| sign(40 + place)).collect();
                text.insert(0, b'{');
            }
            if std::str::from_utf8(&text).is_err() {
                continue;
            }
            let whole = is_object(&text);
            assert_eq!(is_whole(&text), whole, "{}", String::from_utf8_lossy(&text));
            if whole { taken += 1 } else { refused += 1 }
        }
        assert!(taken > 10_000 && refused > 10_000, "{taken} {refused}");
    }

    /// Mismatched brackets and nesting deeper than `DEEPEST` are refused.
    #[test]
    fn every_bracket_has_its_partner_and_nesting_its_bound() {
        for depth in [1, 63, 64, 65, 128, 129, DEEPEST] {
            for k in 0..20 {
                let draw = Draw::new(1, 2, k);
                let object = |level: usize| draw.bits(level as u64).is_multiple_of(2);
                let mut text = "{\"\":".to_owned();
                (0..depth).for_each(|level| text.push_str(if object(level) { "{\"\":" } else { "[" }));
                text.push('1');
                (0..depth).rev().for_each(|level| text.push(if object(level) { '}' } else { ']' }));
                assert!(is_whole(format!("{text}}}").as_bytes()));
                assert!(!is_whole(text.as_bytes()));
                let [right, wrong] = if text.contains("1}") { ["1}", "1]"] } else { ["1]", "1}"] };
                let wrong = text.replacen(right, wrong, 1);
                assert!(!is_whole(format!("{wrong}}}").as_bytes()), "{wrong}");
            }
        }
        assert_eq!([&b"1"[..], b"[]", b"[{\"a[[\": \"]{\"}, [], [[]]]"].map(depth), [0, 1, 3]);
        for depth in [DEEPEST + 1, 5_000, 1_000_000] {
            for [open, close] in [["[", "]"], ["{\"\":", "}"]] {
                let text = format!("{{\"\":{}1{}}}", open.repeat(depth), close.repeat(depth));
                assert_eq!(members(text.as_bytes(), |_, _| ()), Err(Invalid::TooDeep));
            }
        }
    }

    /// `plain` stops at quotes, backslashes and control characters at every position.
    #[test]
    fn every_byte_is_found_at_every_place() {
        for length in 0..40 {
            for at in 0..length {
                for byte in 0..=255 {
                    let mut text = vec![b'x'; length];
                    text[at] = byte;
                    let end = if matches!(byte, b'"' | b'\\' | 0..0x20) { at } else { length };
                    assert_eq!(plain(&text), end, "{byte} at {at} of {length}");
                }
            }
        }
    }
}
