//! Templates: text with holes such as `${name}` in a request's path or body, filled per request.
//!
//! A template is compiled once into literals and holes with their encodings. Rendering copies the literals
//! and draws the holes. A JSON string that is exactly one hole becomes a value with its own type: `{"gte":
//! "${low}"}` yields a number. `$${` stands for a literal `${`.

use serde_json::Value;

use crate::plan::PlanError;
use crate::util::encode::{push_json_text, push_percent};
use crate::workload::variables::{Encoding, Values, VariableId, Variables};

/// A compiled template.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// All literals, one after the other.
    literals: Vec<u8>,
    /// The holes, each with the length of `literals` before it.
    holes: Vec<Hole>,
}

#[derive(Clone, Debug)]
struct Hole {
    at: usize,
    variable: VariableId,
    encoding: Encoding,
}

/// A literal or a hole.
enum Piece<'a> {
    Text(&'a str),
    Hole(&'a str),
}

impl Template {
    /// Compiles a JSON value. Keys may have holes too, but remain strings. Refuses unknown variables.
    pub fn json(value: &Value, variables: &Variables) -> Result<Self, PlanError> {
        let mut template = Self::default();
        template.push_json(value, variables)?;
        Ok(template)
    }

    /// Compiles text inside a JSON string. Refuses unknown variables.
    pub(crate) fn json_text(text: &str, variables: &Variables) -> Result<Self, PlanError> {
        let mut template = Self::default();
        template.push_text(text, variables, Encoding::JsonText, push_json_text)?;
        Ok(template)
    }

    /// Appends bytes unchanged, without looking for holes.
    pub fn push_literal(&mut self, bytes: impl AsRef<[u8]>) {
        self.literals.extend_from_slice(bytes.as_ref());
    }

    /// Appends `text` as part of a JSON string: literals and holes are escaped. Refuses unknown variables.
    pub fn push_json_text(&mut self, text: &str, variables: &Variables) -> Result<(), PlanError> {
        self.push_text(text, variables, Encoding::JsonText, push_json_text)
    }

    /// Appends `text` as a segment of a path or query string: literals and holes are percent-encoded. Refuses unknown
    /// variables.
    pub fn push_segment(&mut self, text: &str, variables: &Variables) -> Result<(), PlanError> {
        self.push_text(text, variables, Encoding::Percent, push_percent)
    }

    /// Appends `text` as a whole path: literals stay unchanged, holes are percent-encoded. Refuses spaces, control
    /// characters and characters outside ASCII, and unknown variables.
    pub fn push_path(&mut self, text: &str, variables: &Variables) -> Result<(), PlanError> {
        if let Some(bad) = text.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(PlanError::new(format!("path {text:?} contains {bad:?}; percent-encode it")));
        }
        self.push_text(text, variables, Encoding::Percent, |literals, text| literals.extend_from_slice(text.as_bytes()))
    }

    /// Appends `text` with unencoded literals and holes. Refuses unknown variables.
    pub fn push_verbatim(&mut self, text: &str, variables: &Variables) -> Result<(), PlanError> {
        self.push_text(text, variables, Encoding::Text, |literals, text| literals.extend_from_slice(text.as_bytes()))
    }

    /// Appends `text` as a header field's value, in which no value can end the field. Refuses control characters and
    /// unknown variables.
    pub fn push_field(&mut self, text: &str, variables: &Variables) -> Result<(), PlanError> {
        if let Some(bad) = text.chars().find(|c| c.is_control()) {
            return Err(PlanError::new(format!("{text:?} contains {bad:?}, which a header cannot carry")));
        }
        self.push_text(text, variables, Encoding::Field, |literals, text| literals.extend_from_slice(text.as_bytes()))
    }

    /// Appends the JSON of `value`, with the holes in its strings and keys. A string that is one hole takes the JSON
    /// type of its variable. Refuses unknown variables.
    pub fn push_json(&mut self, value: &Value, variables: &Variables) -> Result<(), PlanError> {
        match value {
            Value::Object(mapping) => {
                for (i, (key, value)) in mapping.iter().enumerate() {
                    self.push_literal(if i == 0 { "{\"" } else { ",\"" });
                    self.push_text(key, variables, Encoding::JsonText, push_json_text)?;
                    self.push_literal("\":");
                    self.push_json(value, variables)?;
                }
                self.push_literal(if mapping.is_empty() { "{}" } else { "}" });
            }
            Value::Array(values) => {
                for (i, value) in values.iter().enumerate() {
                    self.push_literal(if i == 0 { "[" } else { "," });
                    self.push_json(value, variables)?;
                }
                self.push_literal(if values.is_empty() { "[]" } else { "]" });
            }
            Value::String(text) => {
                if let [Piece::Hole(name)] = pieces(text)?.as_slice() {
                    return self.push_hole(name, variables, Encoding::Json);
                }
                self.push_literal("\"");
                self.push_text(text, variables, Encoding::JsonText, push_json_text)?;
                self.push_literal("\"");
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => self.push_literal(value.to_string()),
        }
        Ok(())
    }

    /// Returns the bytes of a template without holes; `None` if it has holes.
    pub fn fixed(&self) -> Option<&[u8]> {
        self.holes.is_empty().then_some(&self.literals)
    }

    /// Iterates over the variables in its holes; one may repeat.
    pub fn variables(&self) -> impl Iterator<Item = VariableId> {
        self.holes.iter().map(|hole| hole.variable)
    }

    /// Appends the text of the template with `values`. Allocates only to grow `out`.
    pub fn render(&self, values: &Values, out: &mut Vec<u8>) {
        let mut done = 0;
        for Hole { at, variable, encoding } in &self.holes {
            out.extend_from_slice(&self.literals[done..*at]);
            values.write(*variable, *encoding, out);
            done = *at;
        }
        out.extend_from_slice(&self.literals[done..]);
    }

    /// Appends `text`: its literals by `push`, its holes in `encoding`. Refuses unknown variables, and a hole without
    /// an end.
    fn push_text(
        &mut self,
        text: &str,
        variables: &Variables,
        encoding: Encoding,
        push: fn(&mut Vec<u8>, &str),
    ) -> Result<(), PlanError> {
        for piece in pieces(text)? {
            match piece {
                Piece::Text(text) => push(&mut self.literals, text),
                Piece::Hole(name) => self.push_hole(name, variables, encoding)?,
            }
        }
        Ok(())
    }

    /// Appends a hole for variable `name`; refuses an unknown one.
    fn push_hole(&mut self, name: &str, variables: &Variables, encoding: Encoding) -> Result<(), PlanError> {
        let hole = Hole { at: self.literals.len(), variable: variables.find(name)?, encoding };
        self.holes.push(hole);
        Ok(())
    }
}

/// Returns the variables' names in the holes of a text; empty for an invalid template.
pub(crate) fn names(text: &str) -> Vec<&str> {
    let pieces = pieces(text).unwrap_or_default();
    pieces.into_iter().filter_map(|piece| if let Piece::Hole(name) = piece { Some(name) } else { None }).collect()
}

/// Splits `a${b}c$${d` into the text `a`, the hole `b`, the texts `c`, `${` and `d`. Refuses a hole without an end.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, PlanError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let before = &rest[..at];
        if let Some(before) = before.strip_suffix('$') {
            pieces.extend([Piece::Text(before), Piece::Text("${")]);
            rest = &rest[at + 2..];
            continue;
        }
        let name = &rest[at + 2..];
        let unclosed =
            || PlanError::new(format!("{text:?} has a \"${{\" without a \"}}\"; write \"$${{\" for a literal one"));
        let end = name.find('}').ok_or_else(unclosed)?;
        if at > 0 {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Hole(&name[..end]));
        rest = &name[end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::util::draw::Draw;
    use crate::workload::variables::Captured;

    /// Returns constants of several types, and the variable `k`: the request's number.
    fn variables() -> Variables {
        let forms = json!({
            "low": {"constant": 7},
            "share": {"constant": 0.5},
            "name": {"constant": "Ann \"A\" Lee"},
            "k": {"sequential": {"from": 0}},
        });
        Variables::parse(forms.as_object().unwrap()).unwrap()
    }

    /// Returns the text of a template in request `k`.
    fn rendered(template: &Template, k: u64) -> String {
        let mut out = Vec::new();
        let (variables, draw) = (variables(), Draw::new(1, 2, k));
        template.render(&Values { variables: &variables, draw: &draw, captured: &Captured::NONE }, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// Returns the text of a JSON template with [`variables`] in request 3, for which `k` is 3. Panics if the template
    /// is invalid.
    fn json_text(value: Value) -> String {
        rendered(&Template::json(&value, &variables()).unwrap(), 3)
    }

    /// Returns the text of a path's template in request 3.
    fn path(text: &str) -> Result<String, PlanError> {
        let mut template = Template::default();
        template.push_path(text, &variables())?;
        Ok(rendered(&template, 3))
    }

    #[test]
    fn json_without_holes_is_itself() {
        let value = json!({"a": [1, 2.5, null, true, "x\"y\\z\n"], "b": {}, "c": [], "é": {"d": -3}});
        let template = Template::json(&value, &variables()).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(template.fixed().unwrap()).unwrap(), value);
        assert_eq!(rendered(&template, 0), value.to_string());
    }

    #[test]
    fn a_string_that_is_one_hole_becomes_the_value_in_its_own_type() {
        let body = json_text(json!({"gte": "${low}", "boost": "${share}", "user": "${name}", "n": ["${k}", "${k}"]}));
        assert_eq!(body, r#"{"gte":7,"boost":0.5,"user":"Ann \"A\" Lee","n":[3,3]}"#);
    }

    #[test]
    fn a_hole_inside_a_longer_string_is_text() {
        assert_eq!(json_text(json!("user-${low} ${name}!")), r#""user-7 Ann \"A\" Lee!""#);
        assert_eq!(json_text(json!({"f${low}": 1, "${k}": 2})), r#"{"f7":1,"3":2}"#);
    }

    #[test]
    fn the_hole_of_a_path_cannot_change_the_path() {
        assert_eq!(path("/a/_doc/${name}?x=${low}").unwrap(), "/a/_doc/Ann%20%22A%22%20Lee?x=7");
        let mut template = Template::default();
        template.push_segment("a/b ${low}", &variables()).unwrap();
        assert_eq!(rendered(&template, 0), "a%2Fb%207");
    }

    #[test]
    fn a_text_and_a_field_have_their_values_as_they_are() {
        let mut template = Template::default();
        template.push_verbatim("<\"${name}\">\r\n", &variables()).unwrap();
        assert_eq!(rendered(&template, 3), "<\"Ann \"A\" Lee\">\r\n");
        let mut template = Template::default();
        template.push_field("Bearer ${name}", &variables()).unwrap();
        assert_eq!(rendered(&template, 3), "Bearer Ann \"A\" Lee");
        assert!(template.push_field("a\r\nhost: x", &variables()).is_err());
    }

    #[test]
    fn a_doubled_dollar_escapes_a_hole() {
        assert_eq!(json_text(json!("$${low} $5 $$ $")), r#""${low} $5 $$ $""#);
        assert_eq!(json_text(json!("$${${low}}")), r#""${7}""#);
        assert_eq!(json_text(json!("$${low}")), r#""${low}""#);
    }

    #[test]
    fn a_bad_hole_is_refused_with_a_remedy() {
        let error = |value: Value| Template::json(&value, &variables()).unwrap_err().message;
        assert_eq!(error(json!({"gte": "${lov}"})), "unknown variable \"lov\"; did you mean \"low\"?");
        assert_eq!(error(json!("${low")), "\"${low\" has a \"${\" without a \"}\"; write \"$${\" for a literal one");
        assert_eq!(path("/a b").unwrap_err().message, "path \"/a b\" contains ' '; percent-encode it");
        assert!(path("/a\r\nhost: x").is_err());
    }

    #[test]
    fn rendering_into_a_buffer_with_room_moves_nothing() {
        let template = Template::json(&json!({"a": "${low}", "b": "x${k}", "c": "${share}"}), &variables()).unwrap();
        let mut out = Vec::with_capacity(256);
        let before = out.as_ptr();
        for k in 0..100 {
            out.clear();
            let (variables, draw) = (variables(), Draw::new(1, 2, k));
            template.render(&Values { variables: &variables, draw: &draw, captured: &Captured::NONE }, &mut out);
        }
        assert_eq!((out.as_ptr(), out.capacity()), (before, 256));
    }
}
