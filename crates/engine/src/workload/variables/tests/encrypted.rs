//! Tests of the values that encrypted variables draw, and of refused forms.

use serde_json::json;

use super::*;
use crate::workload::cipher::{Bound, Field};

const KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// Returns the variables of a plain value and its encrypted form.
fn of(plain: &Value, how: &Value, bound: &str) -> Result<Variables, PlanError> {
    let encrypted = json!({"of": "plain", "key": KEY, "field": "f", "as": how, "bound": bound});
    Variables::parse(json!({"v": {"encrypted": encrypted}, "plain": plain}).as_object().unwrap())
}

/// Returns the unencrypted value in request `k`.
fn plain(variables: &Variables, k: u64) -> Value {
    let mut out = Vec::new();
    let draw = Draw::new(42, 1, k);
    let values = Values { variables, draw: &draw, captured: &Captured::NONE };
    values.write(variables.find("plain").unwrap(), Encoding::Json, &mut out);
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn an_encrypted_value_is_that_of_the_plain_one_in_the_same_request() {
    let day = json!({"instant": {"format": "%Y-%m-%d", "span": 86_400_000}});
    let number = json!({"number": {"unit": 100}});
    for (source, how) in [
        (json!({"constant": "Head"}), json!("text")),
        (json!({"choice": ["Head", "Heart", "Knee"]}), json!("text")),
        (json!({"choice": {"values": ["Head", "Knee"], "order": "sequential"}}), json!("text")),
        (json!({"choice": ["Head", "Heart", "Knee"], "per": "user"}), json!("text")),
        (json!({"text": {"length": [1, 40]}}), json!("text")),
        (json!({"uniform": [1, 9]}), json!("text")),
        (json!({"uniform": [-99, 99]}), number.clone()),
        (json!({"choice": [1.25, 2, 3.5]}), number),
        (json!({"date": {"from": "2015-01-01", "to": "2016-01-01", "format": "%Y-%m-%d"}}), day),
    ] {
        let variables = of(&source, &how, "none").unwrap();
        let field = Field::new(KEY, "f", &how).unwrap();
        for k in 0..100 {
            let value = field.value(&plain(&variables, k)).unwrap();
            assert_eq!(written(&variables, k, Encoding::Json), value.to_string(), "{source}");
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(written(&variables, k, Encoding::JsonText), text, "{source}");
        }
    }
}

#[test]
fn an_end_of_a_range_is_drawn_like_the_plain_one() {
    let how = json!({"number": {"unit": 100}});
    let field = Field::new(KEY, "f", &how).unwrap();
    for source in [json!({"uniform": [15, 85]}), json!({"uniform": [0.0, 1.0]}), json!({"constant": 2.5})] {
        for (word, bound) in [("low", Bound::Low), ("high", Bound::High)] {
            let variables = of(&source, &how, word).unwrap();
            for k in 0..100 {
                let expected = field.bound(&plain(&variables, k), bound).unwrap();
                assert_eq!(written(&variables, k, Encoding::Json), expected.to_string(), "{source}");
            }
        }
    }
}

#[test]
fn values_that_cannot_be_encrypted_are_refused_before_drawing() {
    let number = json!({"number": {"unit": 1}});
    let day = json!({"instant": {"format": "%Y-%m-%d", "span": 86_400_000}});
    for (source, how, bound, reason) in [
        (json!({"text": {"length": 3}}), &number, "none", "the field is one of numbers"),
        (json!({"uniform": [0.0, 1.0]}), &number, "none", "draw whole numbers or a choice"),
        (json!({"choice": [1, 1.5]}), &number, "none", "at most 0 decimals"),
        (json!({"choice": ["a"]}), &json!("text"), "low", "cannot be compared by order"),
        (json!({"text": {"length": 3}}), &json!("text"), "low", "cannot be compared by order"),
        (json!({"constant": "now-1d"}), &day, "low", "wants a date like"),
        (json!({"uniform": [1, 2]}), &day, "low", "wants a date like"),
        (json!({"captured": {}}), &json!("text"), "none", "come from answers"),
        (json!({"constant": 1}), &json!("word"), "none", "does not say how"),
    ] {
        let error = of(&source, how, bound).unwrap_err().message;
        assert!(error.starts_with("variable \"v\": ") && error.contains(reason), "{error}");
    }
}
