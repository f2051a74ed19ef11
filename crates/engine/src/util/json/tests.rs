//! Compares the scanner with a full parser on random documents.

use crate::util::draw::Draw;
use serde_json::{Map, Value, json};

use super::*;

/// Generator of random JSON; its strings contain characters that could confuse a scanner.
struct Random {
    draw: Draw,
    salt: u64,
}

impl Random {
    /// Creates a generator; `k` determines its values.
    fn new(k: u64) -> Self {
        Self { draw: Draw::new(7, 0, k), salt: 0 }
    }

    /// Returns a random number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.salt += 1;
        self.draw.bits(self.salt) % n
    }

    /// Returns a random string of significant characters.
    fn text(&mut self) -> String {
        let pieces =
            ["{", "}", "[", "]", "\"", "\\", "\"hits\":[{\"_id\":", "é", "\u{1f600}", ",", ":", "abc", "\n", "\\\""];
        (0..self.below(6)).map(|_| pieces[self.below(pieces.len() as u64) as usize]).collect()
    }

    /// Returns a random JSON value; containers are nested up to `depth`.
    fn value(&mut self, depth: u64) -> Value {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(self.below(100_000) as i64 - 50_000),
            3 => json!(self.draw.unit(self.salt) * 1e9),
            4 => json!(self.text()),
            5 => (0..self.below(5)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object(self.members(depth - 1)),
        }
    }

    /// Returns the members of a random object.
    fn members(&mut self, depth: u64) -> Map<String, Value> {
        (0..self.below(5)).map(|_| (self.text(), self.value(depth))).collect()
    }
}

/// Returns the value as text: compact, with white space, and sometimes with unnecessary escapes.
fn texts(value: &Value) -> [String; 3] {
    let dense = value.to_string();
    let escaped = dense.replace("\"n\"", "\"\\u006e\"").replace('é', "\\u00e9");
    [dense, format!(" {}\n", serde_json::to_string_pretty(value).unwrap()), escaped]
}

/// The cursor visits the members of random objects in order, and skips their values.
#[test]
fn members_come_in_order_and_values_are_passed_over() {
    for k in 0..2000 {
        let value = Value::Object(Random::new(k).members(4));
        for text in texts(&value) {
            let mut names = Vec::new();
            let walk = Cursor::new(text.as_bytes()).object(|name, cursor| {
                names.push(String::from_utf8(name.to_vec()).unwrap());
                cursor.skip().map(|()| true)
            });
            assert_eq!(walk, Ok(()), "{text}");
            assert_eq!(names, value.as_object().unwrap().keys().cloned().collect::<Vec<_>>(), "{text}");
        }
    }
}

#[test]
fn the_objects_of_an_array_are_counted_and_no_others() {
    for k in 0..2000 {
        let mut random = Random::new(k);
        let array: Vec<Value> = (0..random.below(8)).map(|_| random.value(4)).collect();
        let objects = array.iter().filter(|value| value.is_object()).count() as u64;
        let value = json!({"a": random.value(3), "n": array, "z": random.value(3)});
        for text in texts(&value) {
            let mut counted = None;
            let walk = Cursor::new(text.as_bytes()).object(|name, cursor| {
                if name == b"n" {
                    counted = Some(cursor.objects_in_array()?);
                    return Ok(true);
                }
                cursor.skip().map(|()| true)
            });
            assert_eq!((walk, counted), (Ok(()), Some(objects)), "{text}");
        }
    }
}

#[test]
fn scalars_are_read() {
    let read = |text: &'static str| Cursor::new(text.as_bytes());
    assert_eq!(read(" true ").boolean(), Ok(true));
    assert_eq!(read("false,").boolean(), Ok(false));
    assert_eq!(read("\n42}").whole(), Ok(42));
    assert_eq!(read("-1").whole(), Err(Unexpected));
    assert_eq!(read("\"true\"").boolean(), Err(Unexpected));
    assert_eq!(read("").whole(), Err(Unexpected));
}

/// Returning false from a callback ends the iteration before the rest of an incomplete text.
#[test]
fn a_walk_can_be_ended_before_the_rest_has_come() {
    let mut errors = None;
    let walk = Cursor::new(b"{\"took\": 3, \"errors\": true, \"items\": [{").object(|name, cursor| {
        if name == b"errors" {
            errors = Some(cursor.boolean()?);
            return Ok(false);
        }
        cursor.skip().map(|()| true)
    });
    assert_eq!((walk, errors), (Ok(()), Some(true)));
}

/// Truncated and invalid texts are errors.
#[test]
fn a_text_that_is_cut_off_or_no_json_ends_the_walk() {
    let walk = |text: &[u8]| Cursor::new(text).object(|_, cursor| cursor.skip().map(|()| true));
    for k in 0..200 {
        let text = json!({"a": Random::new(k).value(4), "b": {"c": [1]}}).to_string();
        for end in 0..text.len() {
            assert_eq!(walk(&text.as_bytes()[..end]), Err(Unexpected), "{}", &text[..end.min(60)]);
        }
    }
    for text in ["<html>", "[]", "{a: 1}", "{\"a\" 1}", "{\"a\": }", "{\"a\": 1 \"b\": 2}", "{\"a\": @}"] {
        assert_eq!(walk(text.as_bytes()), Err(Unexpected), "{text}");
    }
}
