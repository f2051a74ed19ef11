//! Client-side encryption of values: AES-CBC for text, an order-preserving function for numbers and times.
//!
//! The result is a pure function of the key, the field and the value, so that a search for a value finds it.
//! As a consequence, equal values of a field stay equal, and numbers and times keep their order.

use std::fmt;

use aes::Aes128;
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockCipherEncrypt, BlockModeEncrypt, InnerIvInit, KeyInit};
use serde_json::Value;

use crate::plan::PlanError;
use crate::util::calendar;

const BLOCK: usize = 16;
type Block = [u8; BLOCK];

/// Bits of a mapped number below the number's own. They depend on the key and the number.
const NOISE: u32 = 16;
/// Bound of the absolute value of numbers in units, so that mapped numbers fit into 64 bits.
const MOST: i128 = 1 << (63 - NOISE);

/// Encryption of one field.
#[derive(Clone)]
pub struct Field {
    name: String,
    aes: Aes128,
    /// Secret initialization block of the field.
    begin: Block,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Text,
    /// Integer multiples of 1 / `unit`; others are rounded if `rounded` is set, otherwise refused.
    Number {
        unit: i64,
        rounded: bool,
    },
    Instant(Format),
}

/// Format of times as text, such as `%Y-%m-%d`. Each text stands for `span` milliseconds.
#[derive(Clone, Debug)]
struct Format {
    text: String,
    span: i64,
}

/// Side of a range that a number bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Lower limit, for `>=` and `<`: the smallest mapped number of values that are not less.
    Low,
    /// Upper limit, for `<=` and `>`: the largest mapped number of values that are not greater.
    High,
}

impl Field {
    /// Creates the encryption of field `name` from the `key` (32 hexadecimal digits) and its type: `"text"`,
    /// `{"number": {"unit": 100, "rounded": false}}` or `{"instant": {"format": "%Y-%m-%d", "span": 86400000}}`.
    /// Refuses other keys and types.
    pub fn new(key: &str, name: &str, form: &Value) -> Result<Self, PlanError> {
        let wrong = || PlanError::new(format!("{form} does not say how the field {name:?} is encrypted"));
        let key = key_of(key).ok_or_else(|| PlanError::new("a key for encryption has 32 hexadecimal digits"))?;
        let positive = |value: Option<&Value>| value.and_then(Value::as_i64).filter(|number| *number > 0);
        let kind = match (form.as_str(), form.get("number"), form.get("instant")) {
            (Some("text"), _, _) => Kind::Text,
            (_, Some(number), _) => Kind::Number {
                unit: positive(number.get("unit")).ok_or_else(wrong)?,
                rounded: number.get("rounded") == Some(&Value::Bool(true)),
            },
            (_, _, Some(instant)) => Kind::Instant(Format {
                text: instant.get("format").and_then(Value::as_str).ok_or_else(wrong)?.to_owned(),
                span: positive(instant.get("span")).ok_or_else(wrong)?,
            }),
            _ => return Err(wrong()),
        };
        let aes = Aes128::new(&key.into());
        let chain = chained(&aes, [0; BLOCK], name.as_bytes());
        let begin = chain[chain.len() - BLOCK..].try_into().expect("padding makes at least one block");
        Ok(Self { name: name.to_owned(), aes, begin, kind })
    }

    /// Returns whether its values are numbers.
    pub fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Number { .. })
    }

    /// Returns whether its values are text.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Text)
    }

    /// Encrypts a value: text as hexadecimal digits, a number or time as an integer. Other JSON in a text field is
    /// encrypted as its text. The error says why a value cannot be encrypted.
    pub fn value(&self, plain: &Value) -> Result<Value, String> {
        match &self.kind {
            Kind::Text => {
                let written;
                let text = match plain.as_str() {
                    Some(text) => text,
                    None => {
                        written = plain.to_string();
                        &written
                    }
                };
                let mut hex = Vec::new();
                self.push_text(text.as_bytes(), &mut hex);
                Ok(Value::from(String::from_utf8(hex).expect("hexadecimal digits")))
            }
            Kind::Number { unit, rounded } => {
                let (below, above) = match (*rounded, self.number(plain)?) {
                    // Round half up, as the stores do.
                    (true, number) if !number.is_i64() => {
                        let nearest = (real(&number) * *unit as f64 + 0.5).floor() as i128;
                        (nearest, nearest)
                    }
                    (_, number) => units(&number, *unit),
                };
                if below != above {
                    let digits = unit.ilog10();
                    return Err(self.wrong(plain, format_args!("a number with at most {digits} decimals")));
                }
                self.mapped(below).map(Value::from).ok_or_else(|| self.too_large(plain, *unit))
            }
            Kind::Instant(format) => {
                let instant = self.instant(plain, format)?;
                self.mapped(instant.into()).map(Value::from).ok_or_else(|| self.too_large(plain, 1))
            }
        }
    }

    /// Encrypts the lower or upper bound (`bound`) of a range of numbers or times, limited to 64 bits.
    /// Fails for a text field, which has no order, and for a value of another type.
    pub fn bound(&self, plain: &Value, bound: Bound) -> Result<i64, String> {
        let (below, above) = match &self.kind {
            Kind::Text => return Err(format!("encrypted text of {:?} cannot be compared by order", self.name)),
            Kind::Number { unit, .. } => units(&self.number(plain)?, *unit),
            Kind::Instant(format) => {
                let first = i128::from(self.instant(plain, format)?);
                (first + i128::from(format.span) - 1, first)
            }
        };
        let number = match bound {
            Bound::Low => above << NOISE,
            Bound::High => ((below + 1) << NOISE) - 1,
        };
        Ok(number.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// Appends encrypted text in hexadecimal digits.
    pub fn push_text(&self, plain: &[u8], out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let encrypted = chained(&self.aes, self.begin, plain);
        out.extend(encrypted.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| DIGITS[usize::from(digit)]));
    }

    /// Maps a number in units to an encrypted integer in the same order; its low bits are unpredictable without the
    /// key. `None` outside `-MOST..MOST`.
    fn mapped(&self, number: i128) -> Option<i64> {
        let number = Some(number).filter(|number| (-MOST..MOST).contains(number))? as i64;
        let mut block = self.begin;
        for (byte, other) in block.iter_mut().zip(number.to_be_bytes()) {
            *byte ^= other;
        }
        let mut block = block.into();
        self.aes.encrypt_block(&mut block);
        Some((number << NOISE) | i64::from(u16::from_be_bytes([block[0], block[1]])))
    }

    /// Returns a JSON number, or the number in a JSON string; other values are errors.
    fn number(&self, plain: &Value) -> Result<serde_json::Number, String> {
        let number = match plain {
            Value::Number(number) => Some(number.clone()),
            Value::String(text) => serde_json::from_str(text).ok(),
            _ => None,
        };
        number.ok_or_else(|| self.wrong(plain, format_args!("a number")))
    }

    /// Converts a JSON string in a format to milliseconds since 1970; other values are errors.
    fn instant(&self, plain: &Value, format: &Format) -> Result<i64, String> {
        let instant = plain.as_str().and_then(|text| format.read(text));
        instant.ok_or_else(|| self.wrong(plain, format_args!("a date like {}", format.text)))
    }

    /// Returns the message that the field needs `wanted` instead of `plain`.
    fn wrong(&self, plain: &Value, wanted: fmt::Arguments<'_>) -> String {
        format!("the field {:?} wants {wanted}, not {plain}", self.name)
    }

    /// Returns the message that a number is too large for encryption in units of 1 / `unit`.
    fn too_large(&self, plain: &Value, unit: i64) -> String {
        self.wrong(plain, format_args!("a number below {}", MOST / i128::from(unit)))
    }
}

impl fmt::Debug for Field {
    /// Shows the field's name and type, without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Field").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Format {
    /// Parses a text that is exactly in this format as milliseconds since 1970; `None` for other texts.
    fn read(&self, text: &str) -> Option<i64> {
        let (mut year, mut month, mut day) = ("1970", "01", "01");
        let (mut hour, mut minute, mut second, mut millis) = ("00", "00", "00", "000");
        let (mut rest, mut format) = (text, self.text.chars());
        while let Some(letter) = format.next() {
            if letter != '%' {
                rest = rest.strip_prefix(letter)?;
                continue;
            }
            let piece = format.next()?;
            let (digits, behind) = rest.split_at_checked(match piece {
                'Y' => 4,
                'L' => 3,
                _ => 2,
            })?;
            rest = behind;
            *match piece {
                'Y' => &mut year,
                'm' => &mut month,
                'd' => &mut day,
                'H' => &mut hour,
                'M' => &mut minute,
                'S' => &mut second,
                'L' => &mut millis,
                _ => return None,
            } = digits;
        }
        let iso = format!("{year}-{month}-{day}T{hour}:{minute}:{second}.{millis}");
        calendar::milliseconds(&iso).filter(|_| rest.is_empty())
    }
}

/// Encrypts with AES-CBC and PKCS #7 padding (RFC 5652, section 6.3). `begin`: initialization block.
fn chained(aes: &Aes128, begin: Block, plain: &[u8]) -> Vec<u8> {
    cbc::Encryptor::inner_iv_init(aes.clone(), &begin.into()).encrypt_padded_vec::<Pkcs7>(plain)
}

/// Parses a key of 32 hexadecimal digits; `None` for other texts.
fn key_of(text: &str) -> Option<Block> {
    let digits = text.len() == 2 * BLOCK && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u128::from_str_radix(text, 16).ok())?.map(u128::to_be_bytes)
}

/// Returns the largest multiple of 1 / `unit` not above a number, and the smallest not below it, in units.
fn units(number: &serde_json::Number, unit: i64) -> (i128, i128) {
    if let Some(whole) = number.as_i64() {
        let exact = i128::from(whole) * i128::from(unit);
        return (exact, exact);
    }
    let number = real(number);
    // Far above the range of the mapping, and far within 128 bits.
    let nearest = (number * unit as f64).round().clamp(-1e18, 1e18);
    let whole = nearest as i128;
    // A decimal number and the equal quotient of integers have the same nearest floating-point number.
    match number.total_cmp(&(nearest / unit as f64)) {
        std::cmp::Ordering::Less => (whole - 1, whole),
        std::cmp::Ordering::Equal => (whole, whole),
        std::cmp::Ordering::Greater => (whole, whole + 1),
    }
}

/// Returns a JSON number as a floating-point number; infinity if it has none.
fn real(number: &serde_json::Number) -> f64 {
    number.as_f64().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &str = "2b7e151628aed2a6abf7158809cf4f3c";

    /// Creates the encryption of a field of this type.
    fn field(form: Value) -> Field {
        Field::new(KEY, "f", &form).unwrap()
    }

    /// Creates the encryption of a field of numbers in units of 1 / `unit`.
    fn number(unit: i64) -> Field {
        field(json!({"number": {"unit": unit}}))
    }

    #[test]
    fn texts_are_chained_as_the_standard_says() {
        // NIST SP 800-38A, F.2.1.
        let aes = Aes128::new(&key_of(KEY).unwrap().into());
        let begin = std::array::from_fn(|i| i as u8);
        let plain = key_of("6bc1bee22e409f96e93d7e117393172a").unwrap();
        assert_eq!(chained(&aes, begin, &plain)[..BLOCK], key_of("7649abac8119b246cee98e9b12e9197d").unwrap());
    }

    #[test]
    fn a_text_is_the_same_in_one_field_and_another_in_others_and_with_other_keys() {
        let text =
            |key: &str, name: &str| Field::new(key, name, &json!("text")).unwrap().value(&json!("Head")).unwrap();
        let head = text(KEY, "part");
        assert_eq!(head, text(KEY, "part"));
        assert_ne!(head, text(KEY, "other"));
        assert_ne!(head, text("00000000000000000000000000000000", "part"));
        assert_eq!(head.as_str().unwrap().len(), 32);
        assert_eq!(field(json!("text")).value(&json!("sixteen letters!")).unwrap().as_str().unwrap().len(), 64);
        assert_eq!(field(json!("text")).value(&json!(7)), field(json!("text")).value(&json!("7")));
    }

    #[test]
    fn mapped_numbers_keep_their_order_and_their_equality() {
        let field = number(100);
        let mapped = |value: f64| field.value(&json!(value)).unwrap().as_i64().unwrap();
        let numbers: Vec<f64> = (-500..500).map(|cents| f64::from(cents) / 100.0).collect();
        assert!(numbers.windows(2).all(|pair| mapped(pair[0]) < mapped(pair[1])));
        assert_eq!(field.value(&json!(7)), field.value(&json!(7.0)));
        assert_eq!(field.value(&json!("7.5")), field.value(&json!(7.5)));
        // The distances between mapped numbers do not reveal the original distances.
        let distances: Vec<i64> = numbers.windows(2).map(|pair| mapped(pair[1]) - mapped(pair[0])).collect();
        assert!(distances.windows(2).any(|pair| pair[0] != pair[1]));
    }

    /// Encrypted bounds separate encrypted numbers like the plain bounds separate the plain numbers.
    #[test]
    fn bounds_part_mapped_numbers_where_they_part_the_numbers() {
        let field = number(100);
        for cents in -300..300 {
            let number = f64::from(cents) / 100.0;
            let mapped = field.value(&json!(number)).unwrap().as_i64().unwrap();
            for bound in [json!(-1), json!(0), json!(0.07), json!(1.005), json!(1.11), json!(2), json!(1e300)] {
                let (low, high) = (field.bound(&bound, Bound::Low).unwrap(), field.bound(&bound, Bound::High).unwrap());
                let plain = bound.as_f64().unwrap();
                assert_eq!((mapped >= low, mapped < low), (number >= plain, number < plain), "{number} and {bound}");
                assert_eq!((mapped <= high, mapped > high), (number <= plain, number > plain), "{number} and {bound}");
            }
        }
    }

    /// The bounds of a date cover the whole period that its text stands for.
    #[test]
    fn an_instant_bounds_as_much_time_as_its_text_stands_for() {
        let written = field(json!({"instant": {"format": "%Y-%m-%d %H:%M:%S", "span": 1000}}));
        let asked = field(json!({"instant": {"format": "%Y-%m-%d", "span": 86_400_000}}));
        let mapped = |text: &str| written.value(&json!(text)).unwrap().as_i64().unwrap();
        let day = json!("2015-01-31");
        let (low, high) = (asked.bound(&day, Bound::Low).unwrap(), asked.bound(&day, Bound::High).unwrap());
        assert!(mapped("2015-01-30 23:59:59") < low && low <= mapped("2015-01-31 00:00:00"));
        assert!(mapped("2015-01-31 23:59:59") <= high && high < mapped("2015-02-01 00:00:00"));
    }

    #[test]
    fn values_that_encryption_would_change_are_refused() {
        let error = |field: &Field, value: Value| field.value(&value).unwrap_err();
        assert_eq!(error(&number(1), json!(1.5)), "the field \"f\" wants a number with at most 0 decimals, not 1.5");
        assert_eq!(
            error(&number(1), json!(200_000_000_000_000u64)),
            "the field \"f\" wants a number below 140737488355328, not 200000000000000"
        );
        assert_eq!(error(&number(1), json!("x")), "the field \"f\" wants a number, not \"x\"");
        let day = field(json!({"instant": {"format": "%Y-%m-%d", "span": 86_400_000}}));
        for text in ["2015-02-30", "2015-01-31 00:00:00", "2015-1-31", "now"] {
            assert!(error(&day, json!(text)).contains("wants a date like %Y-%m-%d"), "{text}");
        }
        assert!(
            field(json!("text")).bound(&json!("a"), Bound::Low).unwrap_err().contains("cannot be compared by order")
        );
        let rounded = field(json!({"number": {"unit": 100, "rounded": true}}));
        assert_eq!(rounded.value(&json!(17.160000000000004)), rounded.value(&json!(17.16)));
        assert!(Field::new("12", "f", &json!("text")).unwrap_err().message.contains("32 hexadecimal digits"));
    }
}
