//! Tests of answers split at any byte, and of malformed answers.

use super::*;

/// Feeds `text` in pieces of `step` bytes. Returns whether the answer is complete.
fn feed(answer: &mut Answer, text: &[u8], step: usize) -> Result<bool, Malformed> {
    let mut complete = false;
    for piece in text.chunks(step) {
        let mut piece = piece;
        while !piece.is_empty() {
            let space = answer.space()?;
            let count = space.len().min(piece.len());
            space[..count].copy_from_slice(&piece[..count]);
            complete = answer.advance(count)?;
            piece = &piece[count..];
        }
    }
    Ok(complete)
}

/// Feeds `text` to a new answer in pieces of `step` bytes. Returns whether it is complete, and the answer.
fn read(text: &[u8], step: usize) -> Result<(bool, Answer), Malformed> {
    let mut answer = Answer::new();
    answer.begin(Body::Read);
    feed(&mut answer, text, step).map(|complete| (complete, answer))
}

/// Returns the message that refuses an answer.
fn refused(text: &[u8]) -> String {
    read(text, 1000).map(|(complete, _)| complete).expect_err("the answer breaks the rules").to_string()
}

const STEPS: [usize; 5] = [1, 2, 3, 7, 1 << 20];

#[test]
fn a_body_with_a_length_ends_there_however_the_packets_fall() {
    for step in STEPS {
        let text = b"HTTP/1.1 200 OK\r\nServer: x\r\ncONTENT-lENGTH:  5 \r\n\r\nhello";
        let (complete, answer) = read(text, step).unwrap();
        assert!(complete && answer.reusable());
        assert_eq!((answer.status(), answer.body(), answer.received()), (200, &b"hello"[..], text.len() as u64));
        assert_eq!(answer.status_line(), b"HTTP/1.1 200 OK");
    }
}

#[test]
fn chunks_are_joined_however_the_packets_fall() {
    let long = "x".repeat(70_000);
    let text = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n \r\n{:X}\r\n{long}\r\n0\r\nA: b\r\n\r\n",
        long.len()
    );
    for step in STEPS {
        let (complete, answer) = read(text.as_bytes(), step).unwrap();
        assert!(complete && answer.reusable());
        assert_eq!(answer.body(), format!("hello {long}").as_bytes());
        assert_eq!(answer.received(), text.len() as u64);
    }
}

#[test]
fn answers_that_have_no_body_end_with_their_head() {
    for text in ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n"] {
        assert!(read(text.as_bytes(), 4).unwrap().1.reusable());
    }
    let mut answer = Answer::new();
    answer.begin(Body::None);
    assert!(feed(&mut answer, b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", 4).unwrap());
}

#[test]
fn interim_answers_are_passed_over() {
    let text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno";
    let (complete, answer) = read(text, 5).unwrap();
    assert_eq!((complete, answer.status(), answer.body()), (true, 413, &b"no"[..]));
}

#[test]
fn a_body_without_a_length_ends_with_the_connection() {
    let (complete, mut answer) = read(b"HTTP/1.1 200 OK\r\n\r\nhello", 3).unwrap();
    assert!(!complete);
    assert!(answer.end() && !answer.reusable());
    assert_eq!(answer.body(), b"hello");
}

#[test]
fn a_connection_that_ends_too_early_completes_nothing() {
    for text in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell"] {
        assert!(!read(text.as_bytes(), 100).unwrap().1.end());
    }
}

/// Checks which answers leave the connection reusable.
#[test]
fn a_connection_is_used_again_only_if_both_ends_know_where_they_are() {
    let reusable = |text: &str| read(text.as_bytes(), 1000).unwrap().1.reusable();
    assert!(reusable("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    assert!(reusable("HTTP/1.0 200 OK\r\nconnection: x, Keep-Alive\r\ncontent-length: 0\r\n\r\n"));
    assert!(!reusable("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"));
    assert!(!reusable("HTTP/1.1 200 OK\r\nConnection: Close\r\ncontent-length: 0\r\n\r\n"));
    assert!(!reusable("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1"));
}

/// Checks that `begin` discards the last answer's body.
#[test]
fn the_next_answer_takes_the_place_of_the_last() {
    let mut answer = Answer::new();
    for body in ["first, longer", "second"] {
        answer.begin(Body::Read);
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        assert!(feed(&mut answer, text.as_bytes(), 9).unwrap());
        assert_eq!(answer.body(), body.as_bytes());
    }
}

#[test]
fn protocol_violations_are_refused() {
    for (field, reason) in [
        ("content-length: -5", "\"-5\" is not a length"),
        ("content-length: +5", "\"+5\" is not a length"),
        ("content-length:", "\"\" is not a length"),
        ("content-length: 99999999999999999999999", "\"99999999999999999999999\" is not a length"),
        ("content-length: 18446744073709551615", "a body of 18446744073709551615 bytes is longer than"),
        ("content-length: 268435457", "a body of 268435457 bytes is longer than"),
        ("content-length: 5\r\ncontent-length: 6", "it has two lengths"),
        ("transfer-encoding: gzip", "unknown transfer encoding \"gzip\""),
        ("no colon", "\"no colon\" is not a field"),
    ] {
        let message = refused(format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n").as_bytes());
        assert!(message.starts_with(&format!("malformed HTTP answer: {reason}")), "{message}");
    }
    for start in ["SSH-2.0-OpenSSH\r\n", "HTTP/2 200\r\n", "HTTP/1.1 20\r\n", "HTTP/1.1 2000 OK\r\n", "\r\n"] {
        assert!(refused(start.as_bytes()).contains("it begins with"), "{start:?}");
    }
    for size in ["", "x", "-1", "fffffffffffffffff", "7fffffffffffffff", "10000001", " ;a"] {
        let message = refused(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{size}\r\n").as_bytes());
        assert!(message.contains("is not a chunk size"), "{message}");
    }
    let long = refused(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n");
    assert!(long.contains("has no end") || long.contains("longer than its size"), "{long}");
}

#[test]
fn endless_parts_of_an_answer_are_bounded() {
    let head = "HTTP/1.1 200 OK\r\n";
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    for (start, more) in [
        ("", "x"),
        (head, "a: b\r\n"),
        (head, "x"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        (&chunked, "1"),
        (&format!("{chunked}0\r\n"), "a: b\r\n"),
    ] {
        let mut answer = Answer::new();
        answer.begin(Body::Read);
        feed(&mut answer, start.as_bytes(), 1000).unwrap();
        let more = more.repeat(1000);
        let refused = (0..1000).find_map(|_| feed(&mut answer, more.as_bytes(), 1000).err());
        assert!(refused.is_some(), "{start:?} and endless {:?}", &more[..1]);
        assert!(answer.bytes.len() <= 1 << 20);
    }
}

#[test]
fn the_rest_of_an_unread_body_is_counted_and_dropped() {
    let piece = "y".repeat(100_000);
    let chunk = format!("{:X}\r\n{piece}\r\n", piece.len());
    let head = "HTTP/1.1 200 OK\r\n";
    for (fields, piece, end) in [
        ("content-length: 30000000\r\n\r\n", &piece, ""),
        ("transfer-encoding: chunked\r\n\r\n", &chunk, "0\r\n\r\n"),
        ("\r\n", &piece, ""),
    ] {
        let mut answer = Answer::new();
        answer.begin(Body::Counted);
        let mut complete = feed(&mut answer, format!("{head}{fields}").as_bytes(), 100).unwrap();
        for _ in 0..300 {
            assert!(!complete, "{fields:?}");
            complete = feed(&mut answer, piece.as_bytes(), 33_333).unwrap();
        }
        complete |= feed(&mut answer, end.as_bytes(), 2).unwrap();
        assert!(complete || answer.end(), "{fields:?}");
        assert_eq!(answer.received() as usize, head.len() + fields.len() + 300 * piece.len() + end.len());
        assert_eq!((answer.body().len(), answer.dropped()), (KEPT, 30_000_000 - KEPT as u64));
        assert!(answer.body().iter().all(|byte| *byte == b'y'));
        assert!(answer.bytes.room() <= 4 * KEPT, "{} bytes of room", answer.bytes.room());
    }
}

#[test]
fn a_body_that_is_read_has_a_limit_however_it_comes() {
    let chunk = format!("100000\r\n{}\r\n", "z".repeat(1 << 20));
    for (fields, piece) in [("transfer-encoding: chunked\r\n\r\n", &chunk), ("\r\n", &"z".repeat(1 << 20))] {
        let mut answer = Answer::new();
        answer.begin(Body::Read);
        feed(&mut answer, format!("HTTP/1.1 200 OK\r\n{fields}").as_bytes(), 100).unwrap();
        let refused =
            (0..=LIMIT >> 20).find_map(|n| feed(&mut answer, piece.as_bytes(), 1 << 20).err().map(|why| (n, why)));
        let (n, why) = refused.expect("it has no end");
        assert_eq!(
            (n, why.to_string()),
            (64, "malformed HTTP answer: its body is longer than 67108864 bytes".to_owned())
        );
        assert!(answer.bytes.room() <= 2 * LIMIT);
        answer.begin(Body::Read);
        answer.begin(Body::Read);
        assert_eq!(answer.bytes.room(), 1 << 20, "the room is given back");
    }
}

/// Checks the delay of Retry-After by status and value.
#[test]
fn refused_clients_wait_for_as_many_seconds_as_the_answer_says() {
    for (status, value, wanted) in [
        (429, "2", Some(2)),
        (503, " 1 ", Some(1)),
        (200, "2", None),
        (429, "Wed, 21 Oct 2015 07:28:00 GMT", None),
        (429, "-1", None),
        (429, "99999999999999999999", None),
    ] {
        let text = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\nRetry-After: {value}\r\n\r\n");
        let (complete, answer) = read(text.as_bytes(), 1000).unwrap();
        assert!(complete);
        assert_eq!(answer.retry_after().map(|pause| pause.as_secs()), wanted, "{status} {value}");
    }
}

#[test]
fn fields_are_found_by_name_in_the_final_answer_alone() {
    let text = b"HTTP/1.1 103 Early Hints\r\nlink: early\r\nx-early: 1\r\n\r\nHTTP/1.1 201 Created\r\n\
        Location:  /items/7 \r\nLINK: a\r\nlink: b\r\nx-empty:\r\ncontent-length: 8\r\n\r\nx-b: no\r\n";
    for step in [1, 1000] {
        let (complete, answer) = read(text, step).unwrap();
        assert!(complete || step == 1);
        assert_eq!(answer.status_line(), b"HTTP/1.1 201 Created");
        assert_eq!(answer.field("location"), Some(&b"/items/7"[..]));
        assert_eq!(answer.field("Link"), Some(&b"a"[..]));
        assert_eq!(answer.field("x-empty"), Some(&b""[..]));
        assert_eq!((answer.field("x-early"), answer.field("x-b"), answer.field("http/1.1")), (None, None, None));
    }
}
