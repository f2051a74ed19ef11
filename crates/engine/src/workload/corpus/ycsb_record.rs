//! Records of the Yahoo! Cloud Serving Benchmark: a key and fields of random characters. By default, `field0`
//! to `field9` with 100 characters each.

use serde_json::{Map, Value};

use super::Generate;
use crate::plan::PlanError;
use crate::util::digits::push_u64;
use crate::util::draw::{Draw, hash_name};
use crate::util::suggestions::unknown;
use crate::workload::text::{fnv, push_letters};

/// Maximum size of a record, bytes.
const LARGEST: u64 = 64 << 20;

/// Generator of records.
#[derive(Debug)]
pub struct YcsbRecord {
    seed: u64,
    stream: u64,
    fields: u64,
    length: usize,
}

impl YcsbRecord {
    /// Creates a generator with the options `{field_count: 10, field_length: 100}`; `seed` determines its documents.
    /// Refuses other options, numbers below 1, and records above 64 MiB.
    pub fn new(seed: u64, with: &Map<String, Value>) -> Result<Self, PlanError> {
        const KEYS: [&str; 2] = ["field_count", "field_length"];
        if let Some(key) = with.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(PlanError::new(unknown("option", key, KEYS)));
        }
        let number = |key: &str, default: u64| {
            let value = with.get(key).map_or(Some(default), Value::as_u64);
            let wrong = || PlanError::new(format!("{key} wants a number above 0, and records of at most 64 MiB"));
            value.filter(|number| (1..=LARGEST).contains(number)).ok_or_else(wrong)
        };
        let (fields, length) = (number("field_count", 10)?, number("field_length", 100)?);
        if fields * length > LARGEST {
            return Err(PlanError::new("field_count and field_length exceed 64 MiB per record: reduce them"));
        }
        Ok(Self { seed, stream: hash_name("ycsb_record"), fields, length: length as usize })
    }
}

impl Generate for YcsbRecord {
    /// Appends record `number`, a JSON object with its key, its number and its fields.
    fn append(&self, number: u64, out: &mut Vec<u8>) {
        let draw = Draw::new(self.seed, self.stream, number);
        out.extend_from_slice(b"{\"key\":\"user");
        push_u64(out, fnv(number));
        out.extend_from_slice(b"\",\"number\":");
        push_u64(out, number);
        for field in 0..self.fields {
            out.extend_from_slice(b",\"field");
            push_u64(out, field);
            out.extend_from_slice(b"\":\"");
            push_letters(&draw, field, self.length, out);
            out.push(b'"');
        }
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns record `number` of a generator with these options.
    fn record(with: Value, number: u64) -> Value {
        let mut out = Vec::new();
        YcsbRecord::new(1, with.as_object().unwrap()).unwrap().append(number, &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_record_has_its_key_and_its_fields() {
        let first = record(json!({}), 0);
        assert_eq!(first["key"], "user6284781860667377211");
        let fields: Vec<&str> = (0..10).map(|i| first[format!("field{i}")].as_str().unwrap()).collect();
        assert!(fields.iter().all(|field| field.len() == 100));
        assert_ne!(fields[0], fields[1]);
        assert_ne!(first["field0"], record(json!({}), 1)["field0"]);
        let small = record(json!({"field_count": 2, "field_length": 7}), 3);
        assert_eq!((small.as_object().unwrap().len(), small["field1"].as_str().unwrap().len()), (4, 7));
    }

    #[test]
    fn records_that_cannot_be_are_refused() {
        for with in [
            json!({"field_count": 0}),
            json!({"fieldcount": 1}),
            json!({"field_count": 1000, "field_length": 1_000_000}),
        ] {
            assert!(YcsbRecord::new(1, with.as_object().unwrap()).is_err(), "{with}");
        }
    }
}
