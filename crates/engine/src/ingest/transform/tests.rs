use serde_json::{Value, from_value, json};

use super::*;

fn transform(steps: Value) -> Transform {
    let events = json!({"type": "/type", "transform": steps, "kinds": {"bid": {"id": "/id", "time": "/time"}}});
    Transform::new(&from_value(events).unwrap(), 1 << 20).unwrap().unwrap()
}

/// Applies steps to a line; returns its text or the words of its dead letter.
fn applied(steps: Value, line: &str) -> Result<String, String> {
    let changed =
        apply(&transform(steps).all, line.as_bytes()).map(|line| String::from_utf8(line.into_owned()).unwrap());
    changed.map_err(|refusal| {
        let name = refusal.reason.name();
        if refusal.words.is_empty() { name.to_owned() } else { refusal.words }
    })
}

fn converted(json: &str, to: &str) -> Result<String, String> {
    let changed =
        applied(json!([{"step": "convert", "field": "/a/b", "to": to}]), &format!(r#"{{"a":{{"b":{json}}}}}"#))?;
    Ok(changed.strip_prefix(r#"{"a":{"b":"#).unwrap().strip_suffix("}}").unwrap().to_owned())
}

fn derived(value: Value, line: &str) -> Result<String, String> {
    let changed = applied(json!([{"step": "derive", "field": "/new", "value": value}]), line)?;
    Ok(changed[changed.find("\"new\":").unwrap() + 6..changed.len() - 1].to_owned())
}

#[test]
fn fields_are_renamed_dropped_and_added_and_others_keep_their_bytes() {
    let line = r#" { "old" : {"x": [1,  2]}, "n":12345678901234567890123.10e5, "\u0061b\"": "\ud83d\ude00\/", "é":{"d": 1, "k" :2} } "#;
    let steps = json!([
        {"step": "rename", "field": "/old", "to": "/in/new"},
        {"step": "rename", "field": "/none", "to": "/n"},
        {"step": "drop", "field": "/é/d"},
        {"step": "drop", "field": "/é/none/x"},
        {"step": "add", "field": "/in/c", "value": "\"\u{1}"},
        {"step": "add", "field": "/z", "value": null},
        {"step": "add", "field": "/z", "value": 1.5},
    ]);
    let expected = r#"{"n":12345678901234567890123.10e5,"ab\"":"\ud83d\ude00\/","é":{"k":2},"in":{"new":{"x": [1,  2]},"c":"\"\u0001"},"z":1.5}"#;
    assert_eq!(applied(steps, line).unwrap(), expected);
    // Half a surrogate pair in a name stays.
    let steps = json!([{"step": "drop", "field": "/x"}]);
    assert_eq!(applied(steps, r#"{"\ud800":"\ud800","x":1}"#).unwrap(), r#"{"\ud800":"\ud800"}"#);
}

#[test]
fn steps_run_in_order() {
    let steps = json!([
        {"step": "rename", "field": "/a", "to": "/t"},
        {"step": "rename", "field": "/b", "to": "/a"},
        {"step": "rename", "field": "/t", "to": "/b"},
        {"step": "rename", "field": "/a", "to": "/a/b"},
    ]);
    assert_eq!(applied(steps, r#"{"a":1,"b":{"a":2}}"#).unwrap(), r#"{"b":1,"a":{"b":{"a":2}}}"#);
}

#[test]
fn values_are_converted_or_named_in_a_dead_letter() {
    for (to, from, result) in [
        ("integer", "\"42\"", Some("42")),
        ("integer", "-7", Some("-7")),
        ("integer", "5.0", Some("5")),
        ("integer", "\"1e3\"", Some("1000")),
        ("integer", "18446744073709551615", Some("18446744073709551615")),
        ("integer", "18446744073709551616", None),
        ("integer", "123456789012345678901234567890", None),
        ("integer", "1e400", None),
        ("integer", "5.5", None),
        ("integer", "\"NaN\"", None),
        ("integer", "\"\"", None),
        ("integer", "\"0x10\"", None),
        ("integer", "true", None),
        ("integer", "null", None),
        ("integer", "[1]", None),
        ("float", "5", Some("5.0")),
        ("float", "\"-1.5e3\"", Some("-1500.0")),
        ("float", "\"NaN\"", None),
        ("float", "\"infinity\"", None),
        ("float", "1e400", None),
        ("float", "{\"c\":1}", None),
        ("boolean", "\"true\"", Some("true")),
        ("boolean", "0", Some("false")),
        ("boolean", "\"yes\"", None),
        ("text", "1.50", Some("\"1.50\"")),
        ("text", "false", Some("\"false\"")),
        ("text", "\"\\u00e9\"", Some("\"é\"")),
        ("text", "\"\\ud800\"", None),
        ("text", "null", None),
        ("time", "1488369600000", Some("\"2017-03-01T12:00:00.000Z\"")),
        ("time", "\"2017-03-01T13:00:00.5+01:00\"", Some("\"2017-03-01T12:00:00.500Z\"")),
        ("time", "1488369600", None),
        ("time", "-1", Some("\"1969-12-31T23:59:59.999Z\"")),
        ("time", "9e18", None),
        ("time", "\"noon\"", None),
        ("time", "{}", None),
    ] {
        let changed = converted(from, to);
        match result {
            Some(result) => assert_eq!(changed.as_deref(), Ok(result), "{from} to {to}"),
            None => {
                let words = changed.unwrap_err();
                assert!(
                    words.starts_with("convert a.b: ") && words.contains(" is not ") | words.contains("outside"),
                    "{from} to {to}: {words}"
                );
            }
        }
    }
    let missing = applied(json!([{"step": "convert", "field": "/a/b/c", "to": "text"}]), r#"{"a":{"b":1}}"#);
    assert_eq!(missing, Err("convert a.b.c: the field is missing".to_owned()));
}

#[test]
fn values_are_derived_from_other_fields() {
    let line = r#"{"t":"2017-03-01T23:59:59.999Z","ms":1488369600000,"url":"https://example.org/a?b","n":3,"f":1.5,
        "big":9223372036854775807,"huge":123456789012345678901,"s":"7","o":{"p":2}}"#;
    for (value, result) in [
        (
            json!({"date": {"of": "/t", "format": "%Y.%m.%d %H:%M:%S %j %G-%V %%"}}),
            Ok("\"2017.03.01 23:59:59 060 2017-09 %\""),
        ),
        (json!({"date": {"of": "/ms", "format": "é"}}), Ok("\"é\"")),
        (json!({"date": {"of": "/url", "format": "%Y"}}), Err("derive new: \"https://example.org/a?b\" is not a time")),
        (json!({"part": {"of": "/url", "split": "/", "at": 2}}), Ok("\"example.org\"")),
        (json!({"part": {"of": "/url", "split": "/", "at": 1}}), Ok("\"\"")),
        (
            json!({"part": {"of": "/url", "split": "/", "at": 4}}),
            Err("derive new: https://example.org/a?b has no part 4"),
        ),
        (
            json!({"part": {"of": "/o", "split": "/", "at": 0}}),
            Err("derive new: the field o is not a text, a number, true or false: {\"p\":2}"),
        ),
        (json!({"join": {"of": ["/s", "/n", "/f", "/o/p"], "with": "-"}}), Ok("\"7-3-1.5-2\"")),
        (json!({"sum": ["/n", "/o/p"]}), Ok("5")),
        (json!({"sum": ["/n", "/f"]}), Ok("4.5")),
        (json!({"product": ["/n", "/o/p", "/n"]}), Ok("18")),
        (json!({"product": ["/big", "/n"]}), Err("derive new: the result is too large")),
        (json!({"sum": ["/huge", "/f"]}), Err("derive new: the field huge is too large: 123456789012345678901")),
        (json!({"sum": ["/n", "/s"]}), Err("derive new: the field s is not a number: \"7\"")),
        (json!({"sum": ["/n", "/none"]}), Err("derive new: the field none is missing")),
    ] {
        assert_eq!(derived(value.clone(), line).as_deref().map_err(String::as_str), result, "{value}");
    }
    assert_eq!(
        derived(json!({"product": ["/a", "/a"]}), r#"{"a":1e200}"#),
        Err("derive new: the result is too large".to_owned())
    );
}

#[test]
fn ambiguous_and_invalid_lines_are_refused() {
    let steps = || json!([{"step": "rename", "field": "/a", "to": "/b/c"}]);
    for (line, words) in [
        (r#"{"a":1,"b":2}"#, "rename a: b is not an object"),
        (r#"{"a":1,"b":{"c":null}}"#, "rename a: the field b.c exists already"),
        (r#"{"x":1,"\u0078":2}"#, "the field x appears twice"),
        (r#"{"a":1,"b":{"x":1,"x":2}}"#, "rename a: the field x appears twice"),
        ("[1]", "not a JSON object"),
        ("", "not a JSON object"),
        (r#"{"a":1}{}"#, "not a JSON object"),
        (r#"{"a":NaN}"#, "not a JSON object"),
    ] {
        assert_eq!(applied(steps(), line), Err(words.to_owned()), "{line}");
    }
    for depth in [257, 100_000] {
        let nested = format!("{{\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(applied(steps(), &nested), Err("nested too deep".to_owned()));
    }
    let not_utf8 = apply(&transform(steps()).all, b"{\"a\":\"\xff\"}");
    assert_eq!(not_utf8, Err(Reason::NoObject.into()));
    // A long value is cut in the reason.
    let words = converted(&format!("\"{}\"", "é".repeat(5_000)), "float").unwrap_err();
    assert!(words.len() < 200 && words.contains("é..."), "{words}");
}

#[test]
fn random_lines_become_objects_or_dead_letters() {
    use crate::util::draw::Draw;
    let steps = transform(json!([
        {"step": "rename", "field": "/a", "to": "/b/c"},
        {"step": "convert", "field": "/n", "to": "integer"},
        {"step": "derive", "field": "/d/e", "value": {"part": {"of": "/s", "split": ",", "at": 1}}},
        {"step": "drop", "field": "/b/x"},
    ]));
    let line = r#"{"a":{"q":[1,"]"]},"b":{"x":null,"y":"\\\"é"},"n":"12","s":"u,v","z":-1.5e-3}"#;
    let mut kept = 0;
    for k in 0..20_000 {
        let draw = Draw::new(3, 4, k);
        let mut bytes = line.as_bytes().to_vec();
        for change in 0..draw.bits(0) % 3 {
            let at = draw.bits(10 + change) as usize % bytes.len();
            match draw.bits(20 + change) % 3 {
                0 => bytes[at] = (draw.bits(30 + change) % 256) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"{}[]\",:0"[(draw.bits(40 + change) % 8) as usize]),
            }
        }
        if let Ok(changed) = apply(&steps.all, &bytes) {
            kept += 1;
            let value: Value = serde_json::from_slice(&changed).unwrap();
            assert!(value["n"].is_i64() && value["d"]["e"].is_string(), "{value}");
        }
    }
    assert!((6_000..20_000).contains(&kept), "{kept}");
}

#[test]
fn a_plan_with_unusable_steps_is_refused() {
    for (steps, words) in [
        (json!([{"step": "drop", "field": ""}]), "a step needs a field"),
        (json!([{"step": "drop", "field": "a"}]), "not a JSON pointer"),
        (json!([{"step": "derive", "field": "/a", "value": {"sum": ["b"]}}]), "not a JSON pointer"),
        (json!([{"step": "derive", "field": "/a", "value": {"date": {"of": "/b", "format": "%!"}}}]), "format"),
        (json!([{"step": "derive", "field": "/a", "value": {"part": {"of": "/b", "split": "", "at": 0}}}]), "split"),
    ] {
        let events = json!({"type": "/type", "transform": steps, "kinds": {"x": {"id": "/id", "time": "/t"}}});
        let error = Transform::new(&from_value(events).unwrap(), 1).unwrap_err();
        assert!(error.message.contains(words), "{error:?}");
    }
    let events = json!({"type": "/type", "kinds": {"x": {"id": "/id", "time": "/t"}}});
    assert!(Transform::new(&from_value(events).unwrap(), 1).unwrap().is_none());
}
