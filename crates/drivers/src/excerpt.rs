//! The beginning of what a server says, for messages.

/// As much of a body as stands in a message when there is no better.
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
