//! JSON Pointer (RFC 6901): finds one value in a JSON text without parsing the rest.

use crate::plan::PlanError;

use crate::util::json::{Cursor, Unexpected};

/// Location in a JSON text, such as `/items/0/id`. The empty pointer is the whole text.
#[derive(Clone, Debug)]
pub struct Pointer {
    text: String,
    tokens: Vec<Vec<u8>>,
}

impl Pointer {
    /// Parses a pointer such as `/items/0/id`. Refuses text that does not begin with a slash, unless it is empty.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let mut tokens = text.split('/');
        if tokens.next() != Some("") {
            return Err(PlanError::new(format!("{text:?} is not a JSON pointer; write a slash before each name")));
        }
        let tokens = tokens.map(|token| token.replace("~1", "/").replace("~0", "~").into_bytes()).collect();
        Ok(Self { text: text.to_owned(), tokens })
    }

    /// Parses a dotted name, such as `items.0.id`, as a pointer. Does not fail: each text is a name.
    pub fn dotted(name: &str) -> Result<Self, PlanError> {
        let tokens = name.replace('~', "~0").replace('/', "~1").replace('.', "/");
        Self::parse(&format!("/{tokens}"))
    }

    /// Returns the pointer as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the unescaped names in the pointer, from the outermost.
    pub fn tokens(&self) -> &[Vec<u8>] {
        &self.tokens
    }

    /// Returns the name of the outermost member in the pointer; `None` for the whole text.
    pub fn outermost(&self) -> Option<&[u8]> {
        self.tokens.first().map(Vec::as_slice)
    }

    /// Returns the JSON of the value at this location, given the JSON `value` of the outermost member; `None` if it is
    /// missing. Fails if the JSON is invalid on the way.
    pub fn find_within<'a>(&self, value: &'a [u8]) -> Result<Option<&'a [u8]>, Unexpected> {
        match self.tokens.get(1..) {
            None | Some([]) => Ok(Some(value)),
            Some(rest) => find(&mut Cursor::new(value), rest),
        }
    }

    /// Returns the JSON of the value at this location in `json`; `None` if it is missing. Fails if the JSON is invalid
    /// on the way.
    pub fn find<'a>(&self, json: &'a [u8]) -> Result<Option<&'a [u8]>, Unexpected> {
        find(&mut Cursor::new(json), &self.tokens)
    }
}

/// Returns the JSON of the value at the path `tokens` below the cursor's value; `None` if it is missing. Leaves the
/// cursor anywhere in that value. Fails if the JSON is invalid on the way.
fn find<'a>(cursor: &mut Cursor<'a>, tokens: &[Vec<u8>]) -> Result<Option<&'a [u8]>, Unexpected> {
    let Some((first, rest)) = tokens.split_first() else { return cursor.value().map(Some) };
    let mut value = None;
    if cursor.at_object()? {
        cursor.object(|name, cursor| {
            if name != first.as_slice() {
                return cursor.skip().map(|()| true);
            }
            value = find(cursor, rest)?;
            Ok(false)
        })?;
    } else if cursor.at_array()? {
        let digits = std::str::from_utf8(first).ok().filter(|digits| *digits == "0" || !digits.starts_with(['0', '+']));
        let Some(wanted) = digits.and_then(|digits| digits.parse::<usize>().ok()) else { return Ok(None) };
        cursor.array(|index, cursor| {
            if index != wanted {
                return cursor.skip().map(|()| true);
            }
            value = find(cursor, rest)?;
            Ok(false)
        })?;
    } else {
        cursor.skip()?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the JSON text at a pointer; `None` if it is missing.
    fn at(pointer: &str, json: &str) -> Option<String> {
        let value = Pointer::parse(pointer).unwrap().find(json.as_bytes()).unwrap();
        value.map(|json| String::from_utf8(json.to_vec()).unwrap())
    }

    #[test]
    fn the_examples_of_the_standard_are_found() {
        // RFC 6901, section 5.
        let json = r#"{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8}"#;
        for (pointer, value) in [
            ("", json),
            ("/foo", r#"["bar", "baz"]"#),
            ("/foo/0", r#""bar""#),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/c%d", "2"),
            ("/e^f", "3"),
            ("/g|h", "4"),
            ("/i\\j", "5"),
            ("/k\"l", "6"),
            ("/ ", "7"),
            ("/m~0n", "8"),
        ] {
            assert_eq!(at(pointer, json).as_deref(), Some(value), "{pointer}");
        }
    }

    #[test]
    fn values_deep_inside_are_found_as_they_are_written() {
        let json = r#" {"a" : [ {"x": "}]"}, [1, {"b" :  {"c":[true , null,-1.5e3]} } ] ] , "d":"é\u0041"} "#;
        assert_eq!(at("/a/1/1/b/c/2", json).as_deref(), Some("-1.5e3"));
        assert_eq!(at("/a/1/1/b/c/1", json).as_deref(), Some("null"));
        assert_eq!(at("/a/0/x", json).as_deref(), Some("\"}]\""));
        assert_eq!(at("/d", json).as_deref(), Some("\"é\\u0041\""));
    }

    #[test]
    fn missing_values_are_not_found() {
        let json = r#"{"a": [1, 2], "b": "text", "c": []}"#;
        for pointer in ["/x", "/a/2", "/a/-", "/a/01", "/a/+1", "/a/x", "/b/0", "/c/0", "/a/0/0"] {
            assert_eq!(at(pointer, json), None, "{pointer}");
        }
    }

    #[test]
    fn invalid_json_and_invalid_pointers_are_errors() {
        for (pointer, json) in
            [("", ""), ("/a", ""), ("/a", "<html>"), ("/a", "{\"a\": "), ("/b", "{\"a\"}"), ("/1", "[1, ")]
        {
            assert!(Pointer::parse(pointer).unwrap().find(json.as_bytes()).is_err(), "{json}");
        }
        assert_eq!(
            Pointer::parse("a").unwrap_err().message,
            "\"a\" is not a JSON pointer; write a slash before each name"
        );
    }
}
