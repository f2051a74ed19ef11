//! Values of a statement: drawn as JSON and sent as text. The server parses them by the type of their parameter.

use std::borrow::Cow;
use std::error::Error;
use std::io::Write;

use bytes::{BufMut, BytesMut};
use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::Values;
use loadframe_engine::workload::variables::template::Template;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

use crate::crud::{Cell, Scalar};
use loadframe_engine::util::json::{Cursor, Unexpected};

/// One value: JSON, or plain text.
#[derive(Debug)]
pub enum Param<'a> {
    /// A typed value.
    Scalar(Scalar<'a>),
    /// Text, such as an id.
    Text(Cow<'a, [u8]>),
}

impl ToSql for Param<'_> {
    /// Appends the value as text, and returns whether it is null. A JSON parameter gets text in quotes, an array
    /// parameter a JSON list as an array. The server refuses other JSON for an array parameter.
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let scalar = match self {
            Self::Scalar(scalar) => scalar,
            Self::Text(text) => {
                out.put_slice(text);
                return Ok(IsNull::No);
            }
        };
        match scalar {
            Scalar::Null => return Ok(IsNull::Yes),
            Scalar::Json(json) if matches!(kind.kind(), Kind::Array(_)) => {
                let start = out.len();
                if array(json, out).is_err() {
                    // An error here would look like a lost connection.
                    out.truncate(start);
                    out.put_slice(b"not a list: ");
                    out.put_slice(json);
                }
            }
            // JSON puts text in quotes.
            Scalar::Text(text) if *kind == Type::JSON || *kind == Type::JSONB => {
                serde_json::to_writer(out.writer(), text)?;
            }
            scalar => plain(scalar, out),
        }
        Ok(IsNull::No)
    }

    /// Returns true: the server parses the text.
    fn accepts(_: &Type) -> bool {
        true
    }

    /// Returns the text format.
    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// Appends a value as text; null as nothing.
fn plain(scalar: &Scalar, out: &mut BytesMut) {
    let mut writer = out.writer();
    match scalar {
        Scalar::Null => Ok(()),
        Scalar::Bool(yes) => write!(writer, "{yes}"),
        Scalar::Int(number) => write!(writer, "{number}"),
        Scalar::Float(number) => write!(writer, "{number}"),
        Scalar::Text(text) => writer.write_all(text.as_bytes()),
        Scalar::Json(json) => writer.write_all(json),
    }
    .expect("writing to a buffer cannot fail");
}

/// Appends a JSON list in the server's text form of an array: `{1,"a",{2}}`. Fails if it is not a valid JSON
/// list.
fn array(json: &[u8], out: &mut BytesMut) -> Result<(), Unexpected> {
    out.put_u8(b'{');
    Cursor::new(json).array(|place, cursor| {
        if place > 0 {
            out.put_u8(b',');
        }
        match Scalar::parse(cursor.value()?).ok_or(Unexpected)? {
            Scalar::Null => out.put_slice(b"NULL"),
            Scalar::Json(json) if json.first() == Some(&b'[') => array(json, out)?,
            Scalar::Json(json) => quote(json, out),
            Scalar::Text(text) => quote(text.as_bytes(), out),
            scalar => plain(&scalar, out),
        }
        Ok(true)
    })?;
    out.put_u8(b'}');
    Ok(())
}

/// Appends a quoted element of an array; escapes quotation marks and backslashes.
fn quote(text: &[u8], out: &mut BytesMut) {
    out.put_u8(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

/// Buffers reused by a client's requests.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The id.
    pub id: Vec<u8>,
    /// Names of columns, each followed by a separator; or a whole document as JSON.
    pub text: Vec<u8>,
    /// The other values.
    pub drawn: Drawn,
}

/// Drawn values of a statement, as JSON in one buffer.
#[derive(Debug, Default)]
pub struct Drawn {
    json: Vec<u8>,
    /// The end of each value.
    ends: Vec<usize>,
}

impl Drawn {
    /// Replaces the drawn values by one value for each cell.
    pub fn draw<'a>(&mut self, cells: impl IntoIterator<Item = &'a Cell>, values: &Values) {
        self.json.clear();
        self.ends.clear();
        for cell in cells {
            cell.json(values, &mut self.json);
            self.ends.push(self.json.len());
        }
    }

    /// Returns the JSON of each value.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.json[begin..*end])
    }

    /// Parses the drawn values and appends them to `params`. Fails for a value that is not JSON.
    pub fn add_to<'a>(&'a self, params: &mut Vec<Param<'a>>) -> Result<(), Failure> {
        for json in self.values() {
            params.push(Param::Scalar(Scalar::parse(json).ok_or_else(unfit)?));
        }
        Ok(())
    }
}

/// Renders an id into `buffer`, whose content it replaces, and returns it as a text parameter.
pub fn id<'a>(template: &Template, values: &Values, buffer: &'a mut Vec<u8>) -> Param<'a> {
    buffer.clear();
    template.render(values, buffer);
    Param::Text(Cow::Borrowed(buffer))
}

/// Returns the failure, of class Client, for a value that cannot be sent.
pub fn unfit() -> Failure {
    Failure::new(ErrorClass::Client, "a value of the request is not valid JSON")
}

/// A statement for the simple protocol: its text in pieces, with a value between each two.
#[derive(Debug, Default)]
pub struct Pieces {
    texts: Vec<String>,
    /// For each piece but the last, the index of the value that follows it.
    places: Vec<usize>,
}

impl Pieces {
    /// Splits a statement at its `$1`, `$2`, ..., but not inside quotes, dollar quotes or comments. Refuses `$0`.
    pub fn new(statement: &str) -> Result<Self, PlanError> {
        let mut pieces = Self::default();
        let mut text = String::new();
        let mut rest = statement;
        while let Some(next) = rest.chars().next() {
            let digits = rest.strip_prefix('$').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
            if digits > 0 {
                let place: usize = rest[1..=digits].parse().unwrap_or(0);
                let place = place.checked_sub(1).ok_or_else(|| PlanError::new("the first value is $1"))?;
                pieces.texts.push(std::mem::take(&mut text));
                pieces.places.push(place);
                rest = &rest[digits + 1..];
                continue;
            }
            let taken = opaque(rest).unwrap_or(next.len_utf8());
            text.push_str(&rest[..taken]);
            rest = &rest[taken..];
        }
        pieces.texts.push(text);
        Ok(pieces)
    }

    /// Returns the number of values that it needs: the highest index plus 1, or 0 without any.
    pub fn values(&self) -> usize {
        self.places.iter().map(|place| place + 1).max().unwrap_or(0)
    }

    /// Returns the statement with these values inserted as literals. Panics if there are fewer than it needs.
    pub fn fill(&self, params: &[Param]) -> String {
        let mut whole = String::new();
        for (text, place) in self.texts.iter().zip(&self.places) {
            whole.push_str(text);
            literal(&params[*place], &mut whole);
        }
        whole.push_str(self.texts.last().map_or("", String::as_str));
        whole
    }
}

/// Returns the length in bytes of the quoted text, comment or name at the start of `rest`; `None` if it starts with
/// none of them.
fn opaque(rest: &str) -> Option<usize> {
    Some(match *rest.as_bytes().first()? {
        quote @ (b'\'' | b'"') => rest[1..].find(char::from(quote)).map_or(rest.len(), |end| end + 2),
        b'-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
        b'E' | b'e' if rest[1..].starts_with('\'') => escape_string(rest),
        b'/' if rest.starts_with("/*") => comment(rest),
        b'$' => {
            // A dollar-quoted string: `$$it's$$`, `$tag$...$tag$`.
            let end = 1 + name(&rest[1..], false);
            if rest.as_bytes().get(end) != Some(&b'$') {
                return None;
            }
            let tag = &rest[..=end];
            rest[tag.len()..].find(tag).map_or(rest.len(), |end| end + 2 * tag.len())
        }
        _ => Some(name(rest, true)).filter(|length| *length > 0)?,
    })
}

/// Returns the length in bytes of the string with backslash escapes at the start of `rest`, such as `E'it\'s'`.
fn escape_string(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 2;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length in bytes of the comment at the start of `rest`; comments can be nested.
fn comment(rest: &str) -> usize {
    let mut depth = 1;
    let mut at = 2;
    while depth > 0 {
        match rest.as_bytes().get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            Some(_) => at += 1,
            None => return rest.len(),
        }
    }
    at
}

/// Returns the length in bytes of the name or keyword at the start of `rest`, 0 without one. `dollars`: whether it may
/// contain `$` after its first character, as names may, but not the tags of dollar quotes.
fn name(rest: &str, dollars: bool) -> usize {
    if rest.starts_with(|first: char| first == '$' || first.is_ascii_digit()) {
        return 0;
    }
    let is_end =
        |next: char| next.is_ascii() && !next.is_ascii_alphanumeric() && next != '_' && !(dollars && next == '$');
    rest.find(is_end).unwrap_or(rest.len())
}

/// Splits a statement into its commands at semicolons outside quotes, and replaces comments by spaces. Leaves out empty
/// commands.
pub fn commands(statement: &str) -> Vec<String> {
    let mut commands = vec![String::new()];
    let mut rest = statement;
    while let Some(next) = rest.chars().next() {
        let taken = opaque(rest).unwrap_or(next.len_utf8());
        match commands.last_mut() {
            Some(last) if rest.starts_with("--") || rest.starts_with("/*") => last.push(' '),
            Some(last) if next != ';' => last.push_str(&rest[..taken]),
            _ => commands.push(String::new()),
        }
        rest = &rest[taken..];
    }
    commands.retain(|command| !command.trim().is_empty());
    commands
}

/// Appends a value as an SQL literal. A space before a negative number prevents `--`, which starts a comment.
fn literal(param: &Param, out: &mut String) {
    let text = match param {
        Param::Scalar(Scalar::Null) => return out.push_str("NULL"),
        Param::Scalar(Scalar::Bool(yes)) => return out.push_str(if *yes { "true" } else { "false" }),
        Param::Scalar(Scalar::Int(number)) => return out.push_str(&format!(" {number}")),
        Param::Scalar(Scalar::Float(number)) => return out.push_str(&format!(" {number}")),
        Param::Scalar(Scalar::Text(text)) => text.clone(),
        Param::Scalar(Scalar::Json(json)) => String::from_utf8_lossy(json),
        Param::Text(text) => String::from_utf8_lossy(text),
    };
    out.push('\'');
    out.push_str(&text.replace('\'', "''"));
    out.push('\'');
}

#[cfg(test)]
mod tests {
    use loadframe_engine::util::draw::Draw;
    use loadframe_engine::workload::variables::{Captured, Variables};
    use serde_json::json;

    use super::*;

    /// Returns the text that is sent for a JSON value and a parameter of this type, or "NULL".
    fn sent(json: &str, kind: &Type) -> String {
        let mut out = BytesMut::new();
        match Param::Scalar(Scalar::parse(json.as_bytes()).unwrap()).to_sql(kind, &mut out).unwrap() {
            IsNull::Yes => "NULL".to_owned(),
            IsNull::No => String::from_utf8(out.to_vec()).unwrap(),
        }
    }

    #[test]
    fn each_cell_has_its_own_part_of_the_drawn_values() {
        let forms = json!({"n": {"constant": 7}, "t": {"constant": "a"}});
        let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
        let cells = ["${n}", "${t}", "b"].map(|text| Cell::new(&text.into(), &variables).unwrap());
        let draw = Draw::new(1, 2, 3);
        let values = Values { variables: &variables, draw: &draw, captured: &Captured::NONE };
        let mut drawn = Drawn::default();
        drawn.draw([&cells[0]], &values);
        drawn.draw(&cells, &values);
        assert_eq!(drawn.values().collect::<Vec<_>>(), [&b"7"[..], b"\"a\"", b"\"b\""]);
        let mut params = Vec::new();
        drawn.add_to(&mut params).unwrap();
        let texts: Vec<_> = params.iter().map(|param| format!("{param:?}")).collect();
        assert_eq!(texts, ["Scalar(Int(7))", r#"Scalar(Text("a"))"#, r#"Scalar(Text("b"))"#]);
    }

    #[test]
    fn a_value_is_sent_as_the_text_that_its_type_reads() {
        assert_eq!(sent("null", &Type::INT4), "NULL");
        assert_eq!(sent("-7", &Type::INT8), "-7");
        assert_eq!(sent("0.5", &Type::NUMERIC), "0.5");
        assert_eq!(sent("true", &Type::BOOL), "true");
        assert_eq!(sent(r#""it's""#, &Type::TEXT), "it's");
        assert_eq!(sent(r#""it's""#, &Type::JSONB), r#""it's""#);
        assert_eq!(sent(r#"{"a": [1]}"#, &Type::JSONB), r#"{"a": [1]}"#);
        assert_eq!(sent(r#"[1, null, 3]"#, &Type::INT4_ARRAY), "{1,NULL,3}");
        assert_eq!(sent(r#"["a", "b\"c", "d\\e"]"#, &Type::TEXT_ARRAY), r#"{"a","b\"c","d\\e"}"#);
        assert_eq!(sent(r#"[[1, 2], [3, 4]]"#, &Type::INT4_ARRAY), "{{1,2},{3,4}}");
        assert_eq!(sent(r#"{"a": [1]}"#, &Type::INT4_ARRAY), r#"not a list: {"a": [1]}"#);
    }

    #[test]
    fn commands_end_at_semicolons_outside_quotes_and_names() {
        assert_eq!(commands("SELECT a$b; SELECT c$d;"), ["SELECT a$b", " SELECT c$d"]);
        assert_eq!(commands("DO $x$ a; b $x$; SELECT $1"), ["DO $x$ a; b $x$", " SELECT $1"]);
        assert_eq!(commands(r"SELECT E'\';'; SELECT 2 /* /* ; */ ; */"), [r"SELECT E'\';'", " SELECT 2  "]);
    }

    #[test]
    fn values_stand_in_a_simple_statement_where_their_numbers_stood() {
        let fill = |statement: &str, json: &[&str]| {
            let params: Vec<_> =
                json.iter().map(|json| Param::Scalar(Scalar::parse(json.as_bytes()).unwrap())).collect();
            Pieces::new(statement).unwrap().fill(&params)
        };
        assert_eq!(
            fill("UPDATE t SET a = a -$1 WHERE b = $2", &["-5", r#""it's""#]),
            "UPDATE t SET a = a - -5 WHERE b = 'it''s'"
        );
        assert_eq!(fill("SELECT $2, $1, $2", &["1", "null"]), "SELECT NULL,  1, NULL");
        assert_eq!(
            fill("SELECT '$1', \"$1\", $$ $1 $$, $t$ $1 $t$ -- $1\n, $1 /* $1 */", &["7"]),
            "SELECT '$1', \"$1\", $$ $1 $$, $t$ $1 $t$ -- $1\n,  7 /* $1 */"
        );
        assert_eq!(fill("SELECT a$b, $1, c$d, é$1", &["7"]), "SELECT a$b,  7, c$d, é$1");
        assert_eq!(fill("SELECT $t$ a $ $1 $u$ $t$, $1", &["7"]), "SELECT $t$ a $ $1 $u$ $t$,  7");
        assert_eq!(
            fill(r"SELECT E'\'$1\\', e'\é''\'$1', E'a', $1, typE'\', $1", &["7"]),
            r"SELECT E'\'$1\\', e'\é''\'$1', E'a',  7, typE'\',  7"
        );
        assert_eq!(
            fill("SELECT /*/ $1 */ $1 /* a /* b */ $1 **/, $1 /* $1 /* */", &["7"]),
            "SELECT /*/ $1 */  7 /* a /* b */ $1 **/,  7 /* $1 /* */"
        );
        assert_eq!(Pieces::new("SELECT $3").unwrap().values(), 3);
        assert!(Pieces::new("SELECT $0").is_err());
    }
}
