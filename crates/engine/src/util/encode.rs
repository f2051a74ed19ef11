//! Escaping of text for JSON strings and for paths.

/// Appends `text`, escaped for the inside of a JSON string (RFC 8259, section 7).
pub fn push_json_text(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=0x1f => out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]),
            _ => out.push(byte),
        }
    }
}

/// Appends `text`, percent-encoded for a path or query string (RFC 3986, section 2.1). Unreserved characters
/// stay, and so do `,` `*` `:`, which occur in lists of collections.
pub fn push_percent(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' | b'*' | b':' => out.push(byte),
            _ => out.extend_from_slice(&[b'%', hex(byte >> 4), hex(byte & 15)]),
        }
    }
}

/// Returns the upper-case hexadecimal digit of a number; panics at 16 or more.
fn hex(nibble: u8) -> u8 {
    b"0123456789ABCDEF"[usize::from(nibble)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_text_reads_back_as_it_was() {
        let text: String = (0..0x250).filter_map(char::from_u32).chain(['\u{1f600}', '"', '\\']).collect();
        let mut json = vec![b'"'];
        push_json_text(&mut json, &text);
        json.push(b'"');
        assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
    }

    #[test]
    fn a_path_parameter_is_percent_encoded() {
        let mut out = Vec::new();
        push_percent(&mut out, "a b/c?d=1&e#é%\r\n+logs-*,x:y");
        assert_eq!(String::from_utf8(out).unwrap(), "a%20b%2Fc%3Fd%3D1%26e%23%C3%A9%25%0D%0A%2Blogs-*,x:y");
    }
}
