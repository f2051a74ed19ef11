//! The beginning of what a server says, for messages.

/// How many bytes of a body a message shows.
const EXCERPT: usize = 200;

/// The beginning of a body on one line.
pub fn excerpt(body: &[u8]) -> String {
    if body.is_empty() {
        return "an empty body".to_owned();
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(EXCERPT)]);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if body.len() > EXCERPT { line + " ..." } else { line }
}
