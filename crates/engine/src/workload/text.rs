//! Text shared by variables and generated documents: random letters, dates, and YCSB's hash of a number.

use crate::util::calendar;
use crate::util::calendar::DAY;
use crate::util::digits::pair;
use crate::util::draw::{Draw, mix};

/// Characters that need no escaping in JSON, paths and queries; each takes 6 bits.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends `length` random letters, digits, `-` and `_`. `salt` separates them from the request's other draws.
pub fn push_letters(draw: &Draw, salt: u64, mut length: usize, out: &mut Vec<u8>) {
    let mut state = draw.bits(salt);
    while length > 0 {
        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut bits = state;
        let some = length.min(10);
        out.extend((0..some).map(|_| {
            let letter = LETTERS[(bits & 63) as usize];
            bits >>= 6;
            letter
        }));
        length -= some;
    }
}

/// Appends a time in seconds since 1970 as `2015-01-31T12:30:00Z`; outside the years 0 to 9999, with the first day of
/// year 0.
pub fn push_second(out: &mut Vec<u8>, second: i64) {
    let date = calendar::at(second * 1000).unwrap_or_default().date();
    let (year, month, day) = (date.year() as u64, date.month() as u64, date.day() as u64);
    let time = second.rem_euclid(DAY / 1000) as u64;
    let parts = [(year / 100, ""), (year % 100, "-"), (month, "-"), (day, "T")];
    let clock = [(time / 3600, ":"), (time / 60 % 60, ":"), (time % 60, "Z")];
    for (number, end) in parts.into_iter().chain(clock) {
        out.extend_from_slice(pair(number));
        out.extend_from_slice(end.as_bytes());
    }
}

/// Returns the absolute value of FNV-1a over the eight bytes of a number, lowest first. YCSB builds keys from
/// it.
pub fn fnv(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_written_with_its_date() {
        let mut out = Vec::new();
        push_second(&mut out, 1_436_013_005);
        assert_eq!(out, b"2015-07-04T12:30:05Z");
    }
}
