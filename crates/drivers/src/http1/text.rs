//! Requests and answers as text for display.

use serde_json::Value;

/// Maximum number of body bytes to show.
const LIMIT: usize = 4 << 10;

/// Formats a first line, and the body below it if there is one.
pub fn message(first_line: &[u8], body: &[u8]) -> String {
    let first_line = String::from_utf8_lossy(first_line);
    if body.is_empty() { first_line.into_owned() } else { format!("{first_line}\n\n{}", shown(body)) }
}

/// Formats JSON with one member per line, and other bodies unchanged. Truncates the text after 4 KiB.
fn shown(body: &[u8]) -> String {
    let pretty = serde_json::from_slice::<Value>(body).ok().and_then(|value| serde_json::to_string_pretty(&value).ok());
    let text = pretty.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    if text.len() <= LIMIT {
        return text;
    }
    let mut end = LIMIT;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}\n... (the body has {} bytes; its beginning is shown)", &text[..end], body.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_laid_out_and_other_text_is_left_alone() {
        assert_eq!(message(b"GET / HTTP/1.1", b"{\"a\":[1]}"), "GET / HTTP/1.1\n\n{\n  \"a\": [\n    1\n  ]\n}");
        assert_eq!(message(b"HTTP/1.1 200 OK", b"{}\n{}"), "HTTP/1.1 200 OK\n\n{}\n{}");
        assert_eq!(message(b"HTTP/1.1 204 No Content", b""), "HTTP/1.1 204 No Content");
    }

    #[test]
    fn a_long_body_is_cut_between_characters_and_says_so() {
        let body = "é".repeat(3000);
        let text = shown(body.as_bytes());
        let (beginning, note) = text.split_once('\n').unwrap();
        assert_eq!(beginning, "é".repeat(2048));
        assert_eq!(note, "... (the body has 6000 bytes; its beginning is shown)");
        let text = shown(format!("x{body}").as_bytes());
        assert_eq!(text.split_once('\n').unwrap().0.len(), 4095);
    }
}
