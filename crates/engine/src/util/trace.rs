//! Trace context of a sampled request, as in the HTTP header `traceparent` (W3C Trace Context, section 3.2).

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::util::draw::{Draw, mix};

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
    /// Creates the context of an attempt of request `draw`. `run` separates runs with the same seed. `salt` and the next
    /// two salts separate the ids from other draws.
    pub fn new(draw: &Draw, salt: u64, run: u64, attempt: u32) -> Self {
        let bits = |part: u64| mix(draw.bits(salt + part) ^ run);
        let id = |bits| NonZeroU64::new(bits).unwrap_or(NonZeroU64::MAX);
        Self { id: (id(bits(0)), bits(1)), span: id(mix(bits(2).wrapping_add(attempt.into()))), attempt }
    }

    /// Returns the trace's id, 32 hexadecimal digits.
    pub fn id(&self) -> String {
        format!("{:016x}{:016x}", self.id.0, self.id.1)
    }

    /// Returns the span's id, 16 hexadecimal digits.
    pub fn span(&self) -> String {
        format!("{:016x}", self.span)
    }

    /// Appends the header with its line end. The flag 01 asks the receiver to sample, too.
    pub fn append_header(&self, head: &mut Vec<u8>) {
        head.extend_from_slice(format!("traceparent: 00-{}-{}-01\r\n", self.id(), self.span()).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_header_has_version_ids_and_flag() {
        let mut head = Vec::new();
        let trace =
            Trace { id: (NonZeroU64::new(0xab).unwrap(), 1), span: NonZeroU64::new(0xc0ffee).unwrap(), attempt: 0 };
        trace.append_header(&mut head);
        let expected = "traceparent: 00-00000000000000ab0000000000000001-0000000000c0ffee-01\r\n";
        assert_eq!(String::from_utf8(head).unwrap(), expected);
    }

    #[test]
    fn ids_depend_on_request_and_run_and_attempts_share_the_trace() {
        let (draw, next) = (Draw::new(1, 2, 3), Draw::new(1, 2, 4));
        let first = Trace::new(&draw, 9, 7, 0);
        assert_eq!(first, Trace::new(&draw, 9, 7, 0));
        let again = Trace::new(&draw, 9, 7, 1);
        assert_eq!(again.id(), first.id());
        assert_ne!(again.span(), first.span());
        for other in [Trace::new(&next, 9, 7, 0), Trace::new(&draw, 9, 8, 0)] {
            assert_ne!(other.id(), first.id());
            assert_ne!(other.span(), first.span());
        }
        let of = |k| Trace::new(&Draw::new(1, 2, k), 9, 7, 0);
        let (traces, spans): (HashSet<_>, HashSet<_>) = (0..10_000).map(|k| (of(k).id(), of(k).span())).unzip();
        assert_eq!((traces.len(), spans.len()), (10_000, 10_000));
    }
}
