//! Numbers as text, appended to a buffer without allocation; integers bypass `fmt`.

use std::io::Write;

const PAIRS: &[u8; 200] = b"\
    0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
    5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/// Appends `number` in decimal.
#[inline]
pub fn push_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends `number` in decimal, with its sign if it is negative.
#[inline]
pub fn push_i64(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends the shortest text that parses to `number`, with a point or an exponent: `5.0`, `0.1`, `1e300`.
pub fn push_f64(out: &mut Vec<u8>, number: f64) {
    write!(out, "{number:?}").expect("a vector takes all that is written to it");
}

/// Appends an amount of hundredths as the shortest decimal with at least one decimal place: `6.3`, `12.0`,
/// `0.88`.
#[inline]
pub fn push_hundredths(out: &mut Vec<u8>, amount: u64) {
    push_u64(out, amount / 100);
    let cents = pair(amount % 100);
    out.push(b'.');
    out.extend_from_slice(if cents[1] == b'0' { &cents[..1] } else { cents });
}

/// Returns the two decimal digits of a number; panics at 100 or more.
#[inline]
pub fn pair(number: u64) -> &'static [u8] {
    let at = number as usize * 2;
    &PAIRS[at..at + 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text that `push` appends.
    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_read_as_the_standard_library_writes_them() {
        let edges = (0..=19).flat_map(|power| [10u64.pow(power) - 1, 10u64.pow(power)]);
        for number in edges.chain([0, 7, 42, u64::MAX]) {
            assert_eq!(text(|out| push_u64(out, number)), number.to_string());
        }
        for number in [i64::MIN, -100, -1, 0, 1, i64::MAX] {
            assert_eq!(text(|out| push_i64(out, number)), number.to_string());
        }
    }

    #[test]
    fn floats_are_json_numbers_that_read_back_exactly() {
        for number in [5.0, 0.1, -2.5, 1e300, 1e-7, 123_456_789.123] {
            let written = text(|out| push_f64(out, number));
            assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), serde_json::json!(number));
        }
    }

    #[test]
    fn hundredths_keep_one_decimal_place_at_least() {
        for (amount, written) in
            [(630, "6.3"), (1200, "12.0"), (88, "0.88"), (5, "0.05"), (0, "0.0"), (12345, "123.45")]
        {
            assert_eq!(text(|out| push_hundredths(out, amount)), written);
        }
    }
}
