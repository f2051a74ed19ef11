//! Looks into JSON without reading it all: finds a few fields of an answer and passes over the rest.
//!
//! It is exact for any valid JSON, whatever its strings contain. It may not notice invalid JSON; it stays
//! within its bytes and ends. Passing over an object or an array costs a few instructions for each 64 bytes, because
//! an answer of some megabytes is judged on the thread that must not be late for the next one.

mod blocks;
pub mod whole;

use std::borrow::Cow;

use memchr::memchr2;

/// The text is not JSON, or not of the shape that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Unexpected;

/// A place in a JSON text.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// At the value of a member of the object that `bytes` are; `None` if it has no such member.
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

    /// Walks through the members of the object that is here. `member` is given each name, with the cursor at the
    /// value, which it has to read or to skip; when it returns false the walk ends there.
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

    /// Walks through the elements of the array that is here, as [`Cursor::object`] does through members.
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

    /// The JSON of the value that is here, as it is written.
    pub fn value(&mut self) -> Result<&'a [u8], Unexpected> {
        self.next()?;
        let start = self.at;
        self.skip()?;
        Ok(&self.bytes[start..self.at])
    }

    /// Passes over the value that is here.
    pub fn skip(&mut self) -> Result<(), Unexpected> {
        match self.next()? {
            b'"' => self.raw_string().map(drop),
            b'{' | b'[' => self.container().map(drop),
            _ => self.scalar().map(drop),
        }
    }

    /// How many objects the array that is here holds; passes over it.
    pub fn objects_in_array(&mut self) -> Result<u64, Unexpected> {
        if self.next()? == b'[' { self.container() } else { Err(Unexpected) }
    }

    /// Whether an object begins here.
    pub fn at_object(&mut self) -> Result<bool, Unexpected> {
        Ok(self.next()? == b'{')
    }

    /// Whether an array begins here.
    pub fn at_array(&mut self) -> Result<bool, Unexpected> {
        Ok(self.next()? == b'[')
    }

    /// The boolean that is here.
    pub fn boolean(&mut self) -> Result<bool, Unexpected> {
        match self.scalar()? {
            b"true" => Ok(true),
            b"false" => Ok(false),
            _ => Err(Unexpected),
        }
    }

    /// The whole number, not negative, that is here.
    pub fn whole(&mut self) -> Result<u64, Unexpected> {
        std::str::from_utf8(self.scalar()?).ok().and_then(|digits| digits.parse().ok()).ok_or(Unexpected)
    }

    /// The string that is here; only if it has escapes is it a copy.
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

    /// Passes over white space and shows what comes then.
    fn next(&mut self) -> Result<u8, Unexpected> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(*byte);
            }
            self.at += 1;
        }
        Err(Unexpected)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Unexpected> {
        if self.next()? == byte {
            self.at += 1;
            Ok(())
        } else {
            Err(Unexpected)
        }
    }

    /// What stands between the quotes of the string that is here, and whether it has escapes.
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

    /// The number or word that is here.
    fn scalar(&mut self) -> Result<&'a [u8], Unexpected> {
        self.next()?;
        let rest = &self.bytes[self.at..];
        let inside = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.');
        let length = rest.iter().position(|byte| !inside(byte)).unwrap_or(rest.len());
        self.at += length;
        if length == 0 { Err(Unexpected) } else { Ok(&rest[..length]) }
    }

    /// Passes over the object or array that is here; says how many objects it directly holds.
    fn container(&mut self) -> Result<u64, Unexpected> {
        let container = blocks::container(&self.bytes[self.at..]).ok_or(Unexpected)?;
        self.at += container.length;
        Ok(container.objects)
    }
}

#[cfg(test)]
mod tests;
