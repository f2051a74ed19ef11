//! JSON scanner: finds a few fields of an answer and skips the rest.
//!
//! It is exact for any valid JSON. It may not notice invalid JSON, but stays within its bytes and terminates.
//! Skipping an object or array costs a few instructions per 64 bytes, because answers of some megabytes are
//! evaluated on the thread that sends requests.

mod blocks;
pub mod whole;

use std::borrow::Cow;

use memchr::memchr2;

/// The text is not JSON, or does not have the requested shape.
#[derive(Debug, PartialEq, Eq)]
pub struct Unexpected;

/// A position in a JSON text.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Creates a cursor at a member's value in the object `bytes`; `None` if the member is missing. Fails if `bytes`
    /// are not an object.
    pub fn member(bytes: &'a [u8], name: &[u8]) -> Result<Option<Self>, Unexpected> {
        let mut value = None;
        Self::new(bytes).object(|member, cursor| {
            if member != name {
                return cursor.skip().map(|()| true);
            }
            value = Some(Self { bytes: cursor.bytes, at: cursor.at });
            Ok(false)
        })?;
        Ok(value)
    }

    /// Iterates over the members of an object, which must begin here after white space. Calls `member` with each name
    /// and the cursor at the value, which it must read or skip. Stops when it returns false, and leaves the cursor
    /// there. Fails for other values, and with the error of `member`.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&[u8], &mut Self) -> Result<bool, Unexpected>,
    ) -> Result<(), Unexpected> {
        self.expect(b'{')?;
        if self.next()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            if !member(&name, self)? {
                return Ok(());
            }
            match self.next()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(Unexpected),
            }
        }
    }

    /// Iterates over the elements of an array, which must begin here after white space. Calls `element` with each
    /// index and the cursor at the value, which it must read or skip. Stops when it returns false, and leaves the
    /// cursor there. Fails for other values, and with the error of `element`.
    pub fn array(
        &mut self,
        mut element: impl FnMut(usize, &mut Self) -> Result<bool, Unexpected>,
    ) -> Result<(), Unexpected> {
        self.expect(b'[')?;
        if self.next()? == b']' {
            self.at += 1;
            return Ok(());
        }
        for index in 0.. {
            if !element(index, self)? {
                return Ok(());
            }
            match self.next()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(Unexpected),
            }
        }
        Err(Unexpected)
    }

    /// Consumes a value and returns its JSON as written, without white space around it.
    /// Fails at the end of the text, or if no value begins here.
    pub fn value(&mut self) -> Result<&'a [u8], Unexpected> {
        self.next()?;
        let start = self.at;
        self.skip()?;
        Ok(&self.bytes[start..self.at])
    }

    /// Consumes a value. Fails at the end of the text, or if no value begins here.
    pub fn skip(&mut self) -> Result<(), Unexpected> {
        match self.next()? {
            b'"' => self.raw_string().map(drop),
            b'{' | b'[' => self.container().map(drop),
            _ => self.scalar().map(drop),
        }
    }

    /// Consumes an array; returns the number of objects directly in it. Fails for other values.
    pub fn objects_in_array(&mut self) -> Result<u64, Unexpected> {
        if self.next()? == b'[' { self.container() } else { Err(Unexpected) }
    }

    /// Skips white space; returns whether an object begins there. Fails at the end of the text.
    pub fn at_object(&mut self) -> Result<bool, Unexpected> {
        Ok(self.next()? == b'{')
    }

    /// Skips white space; returns whether an array begins there. Fails at the end of the text.
    pub fn at_array(&mut self) -> Result<bool, Unexpected> {
        Ok(self.next()? == b'[')
    }

    /// Reads `true` or `false`; fails for other values.
    pub fn boolean(&mut self) -> Result<bool, Unexpected> {
        match self.scalar()? {
            b"true" => Ok(true),
            b"false" => Ok(false),
            _ => Err(Unexpected),
        }
    }

    /// Reads a non-negative integer; fails for other values.
    pub fn whole(&mut self) -> Result<u64, Unexpected> {
        std::str::from_utf8(self.scalar()?).ok().and_then(|digits| digits.parse().ok()).ok_or(Unexpected)
    }

    /// Consumes a string and returns it unescaped; copies it only if it has escapes. Fails for other values.
    pub fn string(&mut self) -> Result<Cow<'a, [u8]>, Unexpected> {
        let start = self.at;
        let (inside, escapes) = self.raw_string()?;
        if !escapes {
            return Ok(Cow::Borrowed(inside));
        }
        let text: String =
            serde_json::from_slice(self.bytes[start..self.at].trim_ascii_start()).map_err(|_| Unexpected)?;
        Ok(Cow::Owned(text.into_bytes()))
    }

    /// Skips white space and returns the next byte without consuming it. Fails at the end of the text.
    fn next(&mut self) -> Result<u8, Unexpected> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(*byte);
            }
            self.at += 1;
        }
        Err(Unexpected)
    }

    /// Skips white space and consumes `byte`; fails if another byte follows.
    fn expect(&mut self, byte: u8) -> Result<(), Unexpected> {
        if self.next()? == byte {
            self.at += 1;
            Ok(())
        } else {
            Err(Unexpected)
        }
    }

    /// Skips white space and consumes a string. Returns the bytes between its quotes, not unescaped, and whether they
    /// have escapes. Fails for other values, and for a string without an end.
    fn raw_string(&mut self) -> Result<(&'a [u8], bool), Unexpected> {
        self.expect(b'"')?;
        let start = self.at;
        let mut escapes = false;
        loop {
            let rest = self.bytes.get(self.at..).ok_or(Unexpected)?;
            let special = memchr2(b'"', b'\\', rest).ok_or(Unexpected)?;
            if rest[special] == b'"' {
                let end = self.at + special;
                self.at = end + 1;
                return Ok((&self.bytes[start..end], escapes));
            }
            escapes = true;
            self.at += special + 2;
        }
    }

    /// Skips white space and consumes a number, `true`, `false` or `null`; returns it as written, unchecked. Fails for
    /// other values.
    fn scalar(&mut self) -> Result<&'a [u8], Unexpected> {
        self.next()?;
        let rest = &self.bytes[self.at..];
        let inside = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.');
        let length = rest.iter().position(|byte| !inside(byte)).unwrap_or(rest.len());
        self.at += length;
        if length == 0 { Err(Unexpected) } else { Ok(&rest[..length]) }
    }

    /// Consumes the object or array that begins at the cursor; returns the number of objects directly in it. Fails if
    /// it is incomplete.
    fn container(&mut self) -> Result<u64, Unexpected> {
        let container = blocks::container(&self.bytes[self.at..]).ok_or(Unexpected)?;
        self.at += container.length;
        Ok(container.objects)
    }
}

#[cfg(test)]
mod tests;
