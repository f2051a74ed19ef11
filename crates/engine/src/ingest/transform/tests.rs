use serde_json::{Value, from_value, json};

use super::*;

/// Returns the transformation by these steps of a source with one kind.
fn transform(steps: Value) -> Transform {
    let events = json!({"type": "/type", "transform": steps, "kinds": {"bid": {"id": "/id", "time": "/time"}}});
    Transform::new(&from_value(events).unwrap(), 1 << 20).unwrap().unwrap()
}

/// Applies steps to a line; returns its text or the words of its dead letter.
fn applied(steps: Value, line: &str) -> Result<String, String> {
    let changed = apply(&transform(steps).all, line.as_bytes())
        .map(|line| line.map_or("dropped".to_owned(), |line| String::from_utf8(line.into_owned()).unwrap()));
    changed.map_err(|refusal| {
        let name = refusal.reason.name();
        if refusal.words.is_empty() { name.to_owned() } else { refusal.words }
    })
}

/// Returns the JSON value `json` converted to type `to`, or the words of its dead letter.
fn converted(json: &str, to: &str) -> Result<String, String> {
    let changed =
        applied(json!([{"step": "convert", "field": "/a/b", "to": to}]), &format!(r#"{{"a":{{"b":{json}}}}}"#))?;
    Ok(changed.strip_prefix(r#"{"a":{"b":"#).unwrap().strip_suffix("}}").unwrap().to_owned())
}

/// Returns a line with the derived field added, or the words of its dead letter.
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
        ("integer", "1.5e1", Some("15")),
        ("integer", "-0.0", Some("0")),
        ("integer", "1200e-2", Some("12")),
        ("integer", "1e19", Some("10000000000000000000")),
        ("integer", "-1e19", None),
        ("integer", "9007199254740993.0", Some("9007199254740993")),
        ("integer", "4503599627370497.25", None),
        ("integer", "1.00000000000000000001", None),
        ("integer", "1e-400", None),
        ("integer", "\".\"", None),
        ("integer", "\"+-5.0\"", None),
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
        if let Ok(Some(changed)) = apply(&steps.all, &bytes) {
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

/// Returns the event of a text after a grok step, or the words of its dead letter.
fn grokked(patterns: Value, custom: Value, text: &str) -> Result<Value, String> {
    let steps = json!([
        {"step": "grok", "field": "/m", "patterns": patterns, "custom": custom}, {"step": "drop", "field": "/m"},
    ]);
    applied(steps, &json!({"m": text}).to_string()).map(|line| serde_json::from_str(&line).unwrap())
}

#[test]
fn patterns_take_typed_fields_out_of_texts() {
    let log = r#"203.0.113.9 - ann [10/Oct/2000:13:55:36 -0700] "GET /a.gif?x=\"1 HTTP/1.0" 200 2326 "http://e.org/" "M \"4\"""#;
    let wanted = json!({
        "clientip": "203.0.113.9", "ident": "-", "auth": "ann", "timestamp": "10/Oct/2000:13:55:36 -0700", "verb": "GET",
        "request": "/a.gif?x=\\\"1", "httpversion": "1.0", "response": "200", "bytes": "2326",
        "referrer": "\"http://e.org/\"", "agent": "\"M \\\"4\\\"\"",
    });
    let log = log.replace("\\\\", "\\");
    assert_eq!(grokked(json!(["^%{COMBINEDAPACHELOG}$"]), json!({}), &log), Ok(wanted));
    let missing = r#"2001:db8::7 - - [01/Jan/2024:00:00:00 +0000] "\x16\x03" - -"#;
    let taken = grokked(json!(["^%{COMMONAPACHELOG}$"]), json!({}), missing).unwrap();
    assert_eq!((&taken["clientip"], &taken["rawrequest"]), (&json!("2001:db8::7"), &json!("\\x16\\x03")));
    assert!(taken.get("bytes").is_none() && taken.get("verb").is_none(), "{taken}");
    for (patterns, custom, text, result) in [
        (json!(["%{NUMBER:a.n:int}/%{NUMBER:f:float}"]), json!({}), "-7/.5", json!({"a": {"n": -7}, "f": 0.5})),
        (json!(["^%{INT:x}$", "^%{WORD:w}$"]), json!({}), "é1", json!({"w": "é1"})),
        (
            json!(["%{ID:id}:(?<rest>.*)"]),
            json!({"ID": "%{X}-%{X}", "X": "[a-c]+"}),
            "ab-c:ü",
            json!({"id": "ab-c", "rest": "ü"}),
        ),
        (json!(["(?:%{IPV4:host}|%{WORD:host})!"]), json!({}), "b!", json!({"host": "b"})),
        // Empty parts set no field.
        (json!(["a%{DATA:d}b"]), json!({}), "ab", json!({})),
        (json!(["%{WORD:m}"]), json!({"WORD": "[xy]"}), "ay", json!({})),
        (
            json!(["^%{SYSLOGBASE} %{GREEDYDATA:text}$"]),
            json!({}),
            "Mar  1 12:00:00 db1 sshd[42]: no",
            json!({"timestamp": "Mar  1 12:00:00", "logsource": "db1", "program": "sshd", "pid": "42", "text": "no"}),
        ),
        (
            json!(["^%{TIMESTAMP_ISO8601:t} %{LOGLEVEL:l} %{UUID:u} %{URI:w}$"]),
            json!({}),
            "2024-01-01T00:00:00.5+01:00 WARN 123e4567-e89b-12d3-a456-426614174000 https://u:p@e.org:8/a?b=c",
            json!({"t": "2024-01-01T00:00:00.5+01:00", "l": "WARN", "u": "123e4567-e89b-12d3-a456-426614174000",
                "w": "https://u:p@e.org:8/a?b=c"}),
        ),
    ] {
        assert_eq!(grokked(patterns.clone(), custom, text), Ok(result), "{patterns} on {text}");
    }
}

#[test]
fn texts_that_do_not_fit_are_named_in_a_dead_letter() {
    for (pattern, text, words) in [
        ("^%{INT:n}$", "x", "grok m: no pattern fits"),
        ("%{NUMBER:n:int}", "1.5", "grok m: n: 1.5 is not an integer of 64 bits"),
        ("%{NUMBER:n:int}", "99999999999999999999", "grok m: n: 99999999999999999999 is not an integer of 64 bits"),
        ("%{WORD:w} %{WORD:w}", "a b", "grok m: the pattern captures the field w twice in a b"),
        ("%{WORD:m.x}", "a", "grok m: m is not an object"),
    ] {
        assert_eq!(grokked(json!([pattern]), json!({}), text), Err(words.to_owned()), "{pattern}");
    }
    let steps = || json!([{"step": "grok", "field": "/m", "patterns": ["%{WORD:w}"]}]);
    for (line, words) in [
        ("{}", "grok m: the field is missing"),
        (r#"{"m":{"a":1}}"#, "grok m: {\"a\":1} is not a text"),
        (r#"{"m":null}"#, "grok m: null is not a text"),
        (r#"{"m":"\ud800"}"#, "grok m: \"\\ud800\" is not a text"),
    ] {
        assert_eq!(applied(steps(), line), Err(words.to_owned()), "{line}");
    }
    let refusal = apply(&transform(json!([{"step": "grok", "field": "/m", "patterns": ["^x"]}])).all, b"{\"m\":\"y\"}");
    assert_eq!(refusal.unwrap_err().reason, Reason::NoMatch);
}

#[test]
fn unusable_patterns_are_refused() {
    let laughs = json!({"A": "%{B}%{B}%{B}%{B}", "B": "%{C}%{C}%{C}%{C}", "C": "%{D}%{D}%{D}%{D}",
        "D": "%{E}%{E}%{E}%{E}", "E": "%{F}%{F}%{F}%{F}", "F": "%{G}%{G}%{G}%{G}", "G": "%{H}%{H}%{H}%{H}", "H": "x"});
    for (patterns, custom, words) in [
        (json!([]), json!({}), "at least one pattern"),
        (json!(["%{NUMBR:n}"]), json!({}), "unknown pattern \"NUMBR\"; did you mean \"NUMBER\"?"),
        (json!(["%{NUMBER:n"]), json!({}), "%{NUMBER:n lacks its }"),
        (json!(["%{NUMBER:n:integer}"]), json!({}), "%{NUMBER:n:integer} is not a reference"),
        (json!(["%{NUMBER:n:int:x}"]), json!({}), "is not a reference"),
        (json!(["%{NUMBER:[a][b]}"]), json!({}), "\"[a][b]\" is not a field"),
        (json!(["%{NUMBER:a..b}"]), json!({}), "\"a..b\" is not a field"),
        (json!(["("]), json!({}), "unclosed group"),
        (json!(["(?<!a)b"]), json!({}), "look-around and backreferences are not supported"),
        (json!(["(a)\\1"]), json!({}), "look-around and backreferences are not supported"),
        (json!(["%{A}"]), json!({"A": "%{B}", "B": "%{A}"}), "refers to itself"),
        (json!(["%{A}"]), laughs, "longer than 65536 bytes"),
        (json!(["(?:a{1000}){1000}"]), json!({}), "too large"),
        (json!(["%{INT}"]), json!({"UNUSED": "%{NONE}"}), "unknown pattern \"NONE\""),
    ] {
        let steps = json!([{"step": "grok", "field": "/m", "patterns": patterns, "custom": custom}]);
        let events = json!({"type": "/type", "transform": steps, "kinds": {"x": {"id": "/id", "time": "/t"}}});
        let error = Transform::new(&from_value(events).unwrap(), 1).unwrap_err();
        assert!(error.message.contains(words), "{patterns}: {error:?}");
    }
    let names: Vec<&str> = patterns::BASE.iter().map(|(name, _)| *name).collect();
    assert!(names.is_sorted(), "they are searched by bisection");
    for name in names {
        grok::Grok::new(&[format!("%{{{name}:x}}")], &Default::default()).unwrap();
    }
}

/// Patterns take linear time on lines that are slow for backtracking engines.
#[test]
fn hostile_lines_cost_time_in_proportion_to_their_length() {
    // With backtracking, each of these would take longer than the age of the universe.
    let hostile = [
        ("^(?:a+)+$", format!("{}b", "a".repeat(100_000))),
        ("^(?:a|aa)*c", "a".repeat(100_000)),
        ("^%{EMAILADDRESS:mail}$", format!("{}@", "a.".repeat(50_000))),
        ("^%{URIPATHPARAM:path}$", format!("{}\u{1}", "/a".repeat(50_000))),
        ("%{QS:q}$", "\"\\".repeat(50_000)),
    ];
    for (pattern, text) in hostile {
        assert_eq!(grokked(json!([pattern]), json!({}), &text), Err("grok m: no pattern fits".to_owned()), "{pattern}");
    }
    let log = format!("{} - - [", "a".repeat(100_000));
    assert!(grokked(json!(["^%{COMBINEDAPACHELOG}"]), json!({}), &log).is_err());
}

#[test]
fn events_are_dropped_by_conditions() {
    let line = r#"{"l":"debug","n":5,"big":9007199254740993,"f":5.0,"t":"5","o":{"x":null},"b":true,"a":[1],"e":"\u0064ebug"}"#;
    let test = |field: &str, test: Value| json!({"field": {"field": field, "test": test}});
    for (condition, holds) in [
        (test("/l", json!({"equals": ["info", "debug"]})), true),
        (test("/e", json!({"equals": ["debug"]})), true),
        (test("/l", json!({"equals": ["Debug"]})), false),
        (test("/n", json!({"equals": [5.0]})), true),
        (test("/f", json!({"equals": [5]})), true),
        (test("/t", json!({"equals": [5]})), false),
        (test("/n", json!({"equals": ["5"]})), false),
        (test("/b", json!({"equals": [true]})), true),
        (test("/b", json!({"equals": [false]})), false),
        (test("/o/x", json!({"equals": [null]})), true),
        (test("/none", json!({"equals": [null]})), false),
        (test("/big", json!({"equals": [9_007_199_254_740_992_u64]})), false),
        (test("/big", json!({"above": 9_007_199_254_740_992_u64})), true),
        (test("/n", json!({"below": 5})), false),
        (test("/n", json!({"at_most": 5})), true),
        (test("/n", json!({"at_least": 5.5})), false),
        (test("/n", json!({"above": -1})), true),
        (test("/t", json!({"above": 1})), false),
        (test("/none", json!({"below": 1})), false),
        (test("/l", json!({"matches": "^de"})), true),
        (test("/n", json!({"matches": "^5$"})), true),
        (test("/a", json!({"matches": "1"})), false),
        (test("/o", json!("exists")), true),
        (test("/o/x", json!("exists")), true),
        (test("/o/y", json!("exists")), false),
        (test("/o/y", json!("missing")), true),
        (test("/l/y", json!("missing")), true),
        (json!({"not": test("/n", json!({"equals": [5]}))}), false),
        (json!({"not": test("/none", json!({"equals": [5]}))}), true),
        (json!({"all": [test("/n", json!({"above": 4})), test("/n", json!({"below": 5}))]}), false),
        (json!({"any": [test("/n", json!({"above": 4})), test("/n", json!({"below": 5}))]}), true),
    ] {
        let dropped = applied(json!([{"step": "drop_event", "condition": condition}]), line);
        assert_eq!(dropped.unwrap() == "dropped", holds, "{condition}");
    }
    // A dropped event cannot fail in a later step; an earlier failure is a dead letter.
    let steps = |order: [usize; 2]| {
        let steps = [
            json!({"step": "drop_event", "condition": test("/l", json!("exists"))}),
            json!({"step": "convert", "field": "/l", "to": "integer"}),
        ];
        json!(order.map(|place| steps[place].clone()))
    };
    assert_eq!(applied(steps([0, 1]), line), Ok("dropped".to_owned()));
    assert!(applied(steps([1, 0]), line).is_err());
    let twice =
        applied(json!([{"step": "drop_event", "condition": test("/o/x", json!("exists"))}]), r#"{"o":{"x":1,"x":2}}"#);
    assert_eq!(twice, Err("drop_event: the field x appears twice".to_owned()));
}

/// A grok pattern captures the same parts as the equal regular expression.
#[test]
fn random_texts_are_taken_apart_as_a_plain_expression_does() {
    use crate::util::draw::Draw;
    let steps = transform(json!([{
        "step": "grok", "field": "/m", "custom": {"KEY": "[a-z]+"},
        "patterns": ["%{KEY:k}=%{NONNEGINT:n}(?:;%{GREEDYDATA:rest})?"],
    }]));
    let plain = regex::Regex::new("([a-z]+)=([0-9]+)(?:;(.*))?").unwrap();
    let mut fitting = 0;
    for k in 0..20_000 {
        let draw = Draw::new(5, 6, k);
        let alphabet: Vec<char> = "ab=01;\"\\é\u{1}\n".chars().collect();
        let letters = (0..draw.bits(0) % 12).map(|at| alphabet[draw.bits(10 + at) as usize % alphabet.len()]);
        let text: String = letters.collect();
        let line = json!({"m": text}).to_string();
        let taken = apply(&steps.all, line.as_bytes())
            .map(|line| -> Value { serde_json::from_slice(&line.expect("no step drops it")).unwrap() });
        match plain.captures(&text).filter(|groups| {
            // NONNEGINT ends at a word boundary.
            !text[groups.get(2).unwrap().end()..].starts_with(|next: char| next.is_alphanumeric())
        }) {
            Some(groups) => {
                fitting += 1;
                let taken = taken.unwrap();
                assert_eq!((&taken["k"], &taken["n"]), (&json!(&groups[1]), &json!(&groups[2])), "{text:?}");
                let rest = groups.get(3).map(|rest| rest.as_str()).filter(|rest| !rest.is_empty());
                assert_eq!(taken.get("rest").and_then(Value::as_str), rest, "{text:?}");
            }
            None => drop(taken),
        }
    }
    assert!(fitting > 60, "{fitting}");
}

#[test]
fn times_in_other_formats_are_read() {
    let at = |from: &str, text: &str| {
        let value = json!({"date": {"of": "/t", "format": "%Y-%m-%dT%H:%M:%SZ", "from": from}});
        derived(value, &json!({"t": text}).to_string())
    };
    assert_eq!(at("%d/%b/%Y:%H:%M:%S %z", "10/Oct/2000:13:55:36 -0700").unwrap(), "\"2000-10-10T20:55:36Z\"");
    assert_eq!(at("%Y-%m-%d %H:%M:%S", "2024-02-29 01:02:03").unwrap(), "\"2024-02-29T01:02:03Z\"");
    assert_eq!(at("%s", "1488369600").unwrap(), "\"2017-03-01T12:00:00Z\"");
    assert_eq!(at("%F %H:%M %Q", "2024-07-14 21:14 UTC").unwrap(), "\"2024-07-14T21:14:00Z\"");
    // The offset of a named zone is unknown.
    let zone = "2024-07-14 21:14 America/New_York";
    assert_eq!(at("%F %H:%M %Q", zone), Err(format!("derive new: \"{zone}\" is not a time")));
    for (from, text) in [("%b %e %H:%M:%S", "Mar  1 12:00:00"), ("%Y-%m-%d", "2024-02-30"), ("%H:%M", "noon")] {
        assert_eq!(at(from, text), Err(format!("derive new: \"{text}\" is not a time")), "{from}");
    }
}
