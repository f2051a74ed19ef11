//! Excerpts of server responses for messages.

/// Largest number of bytes of a body in a message.
const EXCERPT: usize = 200;

/// Returns the first 200 bytes of a body as text on one line, with ` ...` if there are more; `an empty body` for none.
pub fn excerpt(body: &[u8]) -> String {
    if body.is_empty() {
        return "an empty body".to_owned();
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(EXCERPT)]);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if body.len() > EXCERPT { line + " ..." } else { line }
}
