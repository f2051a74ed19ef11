//! Trace context of a sampled request, as in the HTTP header `traceparent` (W3C Trace Context, section 3.2).

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// Trace context of one attempt of a request. All attempts share the trace; each has its own span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Trace {
    /// Upper and lower half of the trace's id.
    id: (NonZeroU64, u64),
    span: NonZeroU64,
    /// Number of the attempt, from 0.
    pub attempt: u32,
}

impl Trace {
    /// Creates the context of an attempt from random ids of trace and span. Ids of zero are invalid, and replaced.
    pub fn new(trace: (u64, u64), span: u64, attempt: u32) -> Self {
        let valid = |bits| NonZeroU64::new(bits).unwrap_or(NonZeroU64::MAX);
        Self { id: (valid(trace.0), trace.1), span: valid(span), attempt }
    }

    /// Returns the trace's id, 32 hexadecimal digits.
    pub fn id(&self) -> String {
        format!("{:016x}{:016x}", self.id.0, self.id.1)
    }

    /// Returns the span's id, 16 hexadecimal digits.
    pub fn span(&self) -> String {
        format!("{:016x}", self.span)
    }

    /// Appends the header `traceparent` with its line end to `head`. The flag 01 asks the receiver to sample, too.
    pub fn append_header(&self, head: &mut Vec<u8>) {
        head.extend_from_slice(format!("traceparent: 00-{}-{}-01\r\n", self.id(), self.span()).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_version_ids_and_flag() {
        let mut head = Vec::new();
        Trace::new((0xab, 1), 0xc0ffee, 0).append_header(&mut head);
        let expected = "traceparent: 00-00000000000000ab0000000000000001-0000000000c0ffee-01\r\n";
        assert_eq!(String::from_utf8(head).unwrap(), expected);
    }
}
