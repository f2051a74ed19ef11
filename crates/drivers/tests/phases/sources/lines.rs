//! Irregular lines: with a byte order mark, without a final newline, nested too deep, or hostile.

use std::fs::File;
use std::io::Read;

use super::*;

/// Sends bytes to a port, ends the connection, and waits until `lines` lines have been processed.
fn sent(bytes: &[u8], lines: u64) -> Value {
    let folder = Folder::new();
    let (running, address) =
        listening::<Null>(&ingesting(json!({"listen": {"address": "127.0.0.1:0"}}), json!("exhausted")), &folder);
    TcpStream::connect(address).unwrap().write_all(bytes).unwrap();
    let outcome = settled(&running, lines);
    adds_up(&outcome);
    outcome
}

/// Reads the same bytes from a file.
fn read(bytes: &[u8]) -> Value {
    read_as(bytes, json!({}))
}

/// Replays the same bytes from a file, a million times as fast.
fn replayed(bytes: &[u8]) -> Value {
    read_as(bytes, json!({"replay": {"time": "/time", "speed": 1e6}}))
}

/// Reads bytes from a file with further keys of the source.
fn read_as(bytes: &[u8], mut source: Value) -> Value {
    let texts = Folder::new();
    source["files"] = json!([file(&texts, "log.ndjson", bytes)]);
    let (outcome, _folder) = run::<Null>(&ingesting(source, json!("exhausted")));
    adds_up(&outcome);
    outcome
}

/// Adds steps to a plan that make events of its source from lines of text. Their ids are their texts.
fn of_text(plan: &mut Value) {
    let events = &mut plan["sources"]["ads"]["events"];
    (events["format"], events["kinds"]["bid"]["id"]) = (json!("text"), json!("/message"));
    events["transform"] = json!([
        {"step": "add", "field": "/type", "value": "bid"}, {"step": "add", "field": "/time", "value": 1_488_369_600_000_u64},
    ]);
}

#[test]
fn the_last_line_needs_no_newline_and_the_first_may_have_a_byte_order_mark() {
    let text = [bid(0), bid(1)].concat();
    let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    for bytes in [text.trim_end().to_owned(), windows, format!("\u{feff}{}", text.trim_end())] {
        for outcome in [sent(bytes.as_bytes(), 2), read(bytes.as_bytes()), replayed(bytes.as_bytes())] {
            assert_eq!((count(&outcome, "lines"), count(&outcome, "indexed")), (2, 2), "{bytes:?} {outcome}");
        }
    }
    let cut = format!("{text}{}", &bid(2)[..20]);
    assert_eq!(sent(cut.as_bytes(), 3)["sources"]["ads"]["dead_letters"], json!({"cut off": 1}));
    for outcome in [read(cut.as_bytes()), replayed(cut.as_bytes())] {
        assert_eq!(outcome["sources"]["ads"]["dead_letters"], json!({"not a JSON object": 1}));
    }
}

#[test]
fn a_line_of_the_maximum_length_is_accepted_with_a_mark_and_any_line_end() {
    let line = bid(0);
    let longest = line.trim_end().len();
    for (text, too_long) in [
        (format!("\u{feff}{}\r\n", line.trim_end()), false),
        (format!("\u{feff}{}\r", line.trim_end()), false),
        (line.replace("bid", "bidd"), true),
        (format!("{}{}\n", line.trim_end(), " ".repeat(100_000)), true),
    ] {
        for source in [json!({}), json!({"replay": {"time": "/time", "speed": 1e6}})] {
            let mut source = source;
            source["longest_line"] = json!(longest);
            let outcome = read_as(text.as_bytes(), source);
            let dead_letters = if too_long { json!({"too long": 1}) } else { json!({}) };
            assert_eq!(outcome["sources"]["ads"]["dead_letters"], dead_letters, "{text:?}");
        }
    }
}

#[test]
fn white_space_of_a_text_is_kept() {
    let texts = Folder::new();
    let path = file(&texts, "log.txt", "first\r\n \t at x \r\n\r\n  \nlast");
    let letters = texts.0.join("letters.ndjson");
    let mut plan = ingesting(json!({"files": [path], "dead_letters": letters}), json!("exhausted"));
    of_text(&mut plan);
    plan["operations"]["take_in"] = json!({"refused": "message"});
    let (outcome, _folder) = run::<Fussy>(&plan);
    adds_up(&outcome);
    let kept = std::fs::read_to_string(&letters).unwrap();
    let message = |letter: &str| -> Value {
        let letter: Value = serde_json::from_str(letter).unwrap();
        serde_json::from_str::<Value>(letter["line"].as_str().unwrap()).unwrap()["message"].clone()
    };
    assert_eq!(kept.lines().map(message).collect::<Vec<_>>(), ["first", " \t at x ", "last"]);
}

#[test]
fn the_line_at_which_a_damaged_file_ends_is_cut_off() {
    let texts = Folder::new();
    let packed = texts.0.join("log.gz");
    let mut encoder = flate2::write::GzEncoder::new(File::create(&packed).unwrap(), flate2::Compression::none());
    encoder.write_all([bid(0), bid(1)].concat().as_bytes()).unwrap();
    encoder.finish().unwrap();
    let whole = std::fs::read(&packed).unwrap();
    let cut = memchr::memmem::rfind(&whole, b"Z\"}\n").expect("stored without compression");
    std::fs::write(&packed, &whole[..cut]).unwrap();
    for replays in [false, true] {
        for text in [false, true] {
            let mut plan = ingesting(json!({"files": [packed]}), json!("exhausted"));
            if text {
                of_text(&mut plan);
            }
            if replays {
                plan["sources"]["ads"]["replay"] = json!({"time": "/time", "speed": 1e6});
            }
            let (outcome, _folder) = run::<Null>(&plan);
            adds_up(&outcome);
            let source = &outcome["sources"]["ads"];
            assert_eq!((&source["indexed"], &source["dead_letters"]), (&json!(1), &json!({"cut off": 1})), "{source}");
            assert!(source["trouble"][0].as_str().unwrap().contains("cannot be read beyond line "), "{source}");
        }
    }
}

#[test]
fn an_endless_generator_ends_although_its_events_are_all_dropped() {
    let made = json!({"generate": {"generator": "adbids", "rate": 1000, "paced": false}});
    for (step, counted) in [
        (json!({"step": "drop_event", "condition": {"field": {"field": "/none", "test": "missing"}}}), "dropped"),
        (json!({"step": "convert", "field": "/none", "to": "text"}), "lines"),
    ] {
        let mut plan = ingesting(made.clone(), json!({"duration": 0.3}));
        plan["sources"]["ads"]["events"]["transform"] = json!([step]);
        let (outcome, _folder) = run::<Null>(&plan);
        adds_up(&outcome);
        assert!(count(&outcome, counted) > 0, "{outcome}");
    }
}

#[test]
fn ids_that_stores_would_merge_are_dead_letters_and_seconds_are_warned_of() {
    let odd = |id: &str, time: &str| format!("{{\"type\": \"bid\", \"id\": \"{id}\", \"time\": {time}}}\n");
    let text = [odd("\\ud800", "1795480000000"), odd("\\udc00", "1795480000000"), odd("\\ud83d\\ude00", "1795480000")];
    for outcome in [read(text.concat().as_bytes()), replayed(text.concat().as_bytes())] {
        assert_eq!(outcome["sources"]["ads"]["dead_letters"], json!({"unreadable id": 2}));
        let trouble = outcome["sources"]["ads"]["trouble"].as_array().unwrap();
        assert_eq!(trouble.len(), 1, "{outcome}");
        assert!(trouble[0].as_str().unwrap().contains("looks like seconds since 1970"), "{outcome}");
    }
}

#[test]
fn no_line_ends_the_process() {
    let mut text = Vec::new();
    let mut lines = 0;
    // Nested brackets of each kind and depth, closed and not.
    for depth in [100, 256, 257, 1_000, 5_000, 100_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            for closed in [depth, depth / 2, 0] {
                let value = format!("{}1{}", open.repeat(depth), close.repeat(closed));
                let line = format!("{{\"type\":\"bid\",\"id\":\"d\",\"time\":5,\"x\":{value}}}\n");
                text.extend_from_slice(line.as_bytes());
                lines += 1;
            }
        }
    }
    // A valid line with bytes changed, removed and inserted.
    for k in 0..3_000 {
        let draw = Draw::new(1, 2, k);
        let mut line = bid(k).into_bytes();
        line.pop();
        for change in 0..1 + draw.bits(0) % 4 {
            let at = draw.bits(10 + change) as usize % line.len();
            match draw.bits(20 + change) % 3 {
                0 => line[at] = (draw.bits(30 + change) % 256) as u8,
                1 => drop(line.remove(at)),
                _ => line.insert(at, (draw.bits(40 + change) % 256) as u8),
            }
        }
        line.retain(|byte| *byte != b'\n');
        line.push(b'\n');
        text.extend_from_slice(&line);
    }
    text.extend_from_slice(bid(7).as_bytes());
    let outcome = read(&text);
    assert!(count(&outcome, "lines") >= 3_000 + lines, "{outcome}");
    // Three kinds of brackets at four depths beyond the bound, closed and not: each is a dead letter.
    assert_eq!(outcome["sources"]["ads"]["dead_letters"]["nested too deep"], 4 * 2 * 3, "{outcome}");
}

#[test]
fn a_port_has_a_bound_of_connections() {
    let folder = Folder::new();
    let source = json!({"listen": {"address": "127.0.0.1:0", "connections": 1}});
    let (running, address) = listening::<Null>(&ingesting(source, json!("exhausted")), &folder);
    let mut first = TcpStream::connect(address).unwrap();
    first.write_all(bid(0).as_bytes()).unwrap();
    until_indexed(&running, 1);
    let mut second = TcpStream::connect(address).unwrap();
    second.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(second.read(&mut [0]).unwrap_or(0), 0, "it is closed at once");
    first.write_all(bid(1).as_bytes()).unwrap();
    drop(first);
    until_indexed(&running, 2);
    // There is room again once the first connection has closed.
    let begun = Instant::now();
    while running.progress().sources["ads"].indexed < 3 {
        let _ = TcpStream::connect(address).and_then(|mut third| third.write_all(bid(2).as_bytes()));
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(20));
    }
    running.stop();
    let outcome = ended(&running);
    assert!(outcome["sources"]["ads"]["trouble"][0].as_str().unwrap().contains("1 connections are open"), "{outcome}");
}

fn until_indexed(running: &Running, events: u64) {
    let begun = Instant::now();
    while running.progress().sources["ads"].indexed < events {
        assert!(begun.elapsed() < Duration::from_secs(60), "{events}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_sender_that_never_finishes_its_tls_handshake_is_cut_off() {
    let texts = Folder::new();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let listen = json!({
        "address": "127.0.0.1:0", "handshake": 0.1, "connections": 1,
        "certificate": file(&texts, "c.pem", certificate.pem()), "key": file(&texts, "k.pem", key.serialize_pem()),
    });
    let folder = Folder::new();
    let (running, address) = listening::<Null>(&ingesting(json!({"listen": listen}), json!("exhausted")), &folder);
    let mut silent = TcpStream::connect(address).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(silent.read(&mut [0]).unwrap(), 0, "it is closed");
    running.stop();
    let outcome = ended(&running);
    assert!(outcome["sources"]["ads"]["trouble"][0].as_str().unwrap().contains("TLS handshake"), "{outcome}");
}

#[test]
fn lines_are_transformed_before_they_are_sent() {
    // The store refuses one event by its transformed line; one line cannot be transformed.
    let lines: String = (0..3_000).map(bid).collect();
    let text = format!("{lines}{}\n", r#"{"type":"bid","id":"x","time":[]}"#);
    let texts = Folder::new();
    let path = file(&texts, "log.ndjson", &text);
    for source in [
        json!({"listen": {"address": "127.0.0.1:0"}, "acknowledge": true, "batch": 100, "buffer": 100_000}),
        json!({"files": [path], "batch": 100, "buffer": 100_000}),
        json!({"files": [path], "replay": {"time": "/at", "speed": 1e6}}),
    ] {
        let letters = texts.0.join("letters.ndjson");
        let mut plan = ingesting(source, json!("exhausted"));
        plan["operations"]["take_in"] = json!({"half_rejected": 3, "refused": "\"b77!\""});
        plan["sources"]["ads"]["dead_letters"] = json!(letters);
        plan["sources"]["ads"]["events"]["transform"] = json!([
            {"step": "convert", "field": "/time", "to": "time"}, {"step": "rename", "field": "/time", "to": "/at"},
        ]);
        plan["sources"]["ads"]["events"]["kinds"]["bid"] = json!({"id": "/key", "time": "/at", "transform": [
            {"step": "add", "field": "/mark", "value": "!"},
            {"step": "derive", "field": "/key", "value": {"join": {"of": ["/id", "/mark"], "with": ""}}},
        ]});
        let outcome = if plan["sources"]["ads"]["listen"].is_object() {
            let folder = Folder::new();
            let (running, address) = listening::<Fussy>(&plan, &folder);
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let told = BufReader::new(stream).lines().last().unwrap().unwrap();
            assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), json!({"acknowledged": 3_001}));
            settled(&running, 3_001)
        } else {
            run::<Fussy>(&plan).0
        };
        adds_up(&outcome);
        assert_eq!((count(&outcome, "indexed"), count(&outcome, "left_over")), (2_999, 0), "{outcome}");
        let dead_letters = json!({"transform failed": 1, "refused": 1});
        assert_eq!(outcome["sources"]["ads"]["dead_letters"], dead_letters, "{outcome}");
        let kept = std::fs::read_to_string(&letters).unwrap();
        let kept: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of =
            |reason: &str| kept.iter().find(|letter| letter["reason"].as_str().unwrap().starts_with(reason)).unwrap();
        let failed = of("transform failed");
        assert_eq!(failed["reason"], "transform failed: convert time: [] is not a time");
        assert_eq!(failed["line"], r#"{"type":"bid","id":"x","time":[]}"#, "the line as it came");
        let sent = r#"{"type":"bid","id":"b77","at":"2017-03-01T12:00:00.077Z","mark":"!","key":"b77!"}"#;
        assert_eq!(of("refused")["line"], sent);
        std::fs::remove_file(&letters).unwrap();
    }
}

#[test]
fn dropped_events_are_counted_apart_and_acknowledged() {
    let text: String = (0..3_000).map(bid).collect::<String>() + "no json\n";
    let texts = Folder::new();
    let path = file(&texts, "log.ndjson", &text);
    for (source, drops_all) in [
        (json!({"listen": {"address": "127.0.0.1:0"}, "acknowledge": true}), false),
        (json!({"listen": {"address": "127.0.0.1:0"}, "acknowledge": true}), true),
        (json!({"files": [path]}), false),
        (json!({"files": [path], "replay": {"time": "/time", "speed": 1e6}}), false),
    ] {
        let mut plan = ingesting(source, json!("exhausted"));
        let test = json!({"matches": if drops_all { "" } else { "7$" }});
        let dropping = json!([{"step": "drop_event", "condition": {"field": {"field": "/id", "test": test}}}]);
        plan["sources"]["ads"]["events"]["transform"] = dropping;
        let outcome = if plan["sources"]["ads"]["listen"].is_object() {
            let folder = Folder::new();
            let (running, address) = listening::<Null>(&plan, &folder);
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let told = BufReader::new(stream).lines().last().unwrap().unwrap();
            assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), json!({"acknowledged": 3_001}));
            running.close();
            ended(&running)
        } else {
            run::<Null>(&plan).0
        };
        let counts = ["lines", "dropped", "accepted", "indexed", "left_over"].map(|name| count(&outcome, name));
        let wanted = if drops_all { [3_001, 3_000, 0, 0, 0] } else { [3_001, 300, 2_700, 2_700, 0] };
        assert_eq!(counts, wanted, "{outcome}");
        assert_eq!(outcome["sources"]["ads"]["dead_letters"], json!({"not a JSON object": 1}));
    }
}
