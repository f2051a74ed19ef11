//! Values that a request draws: a variable is a pure function of a [`Draw`] and of its own name.
//!
//! So a request that names a variable twice gets the same value twice, and a variable that is added to a workload
//! changes no other. What can be encoded beforehand is: drawing a choice costs a copy, not an escape.

use serde_json::{Map, Value};

use crate::digits::{push_f64, push_i64};
use crate::draw::{Draw, hash_name};
use crate::encode;
use crate::nearest::unknown;
use crate::plan::PlanError;

const KINDS: [&str; 4] = ["uniform", "constant", "choice", "sequential"];

/// A workload's variables, by name.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    entries: Vec<Variable>,
}

/// One of the variables of a [`Variables`]; meaningless to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableId(usize);

/// How a value is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As a JSON value of its own type.
    Json,
    /// As text inside a JSON string.
    JsonText,
    /// As text inside a path or a query string.
    Percent,
}

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    /// Tells this variable's bits from those of the others that the request draws.
    salt: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    UniformInteger { low: i64, span: u64 },
    UniformFloat { low: f64, width: f64 },
    Constant(Encoded),
    Choice(Vec<Encoded>),
    Weighted { values: Vec<Encoded>, cumulative: Vec<f64> },
    Sequential { from: i64 },
}

/// A value in each of the encodings.
#[derive(Clone, Debug)]
struct Encoded {
    json: Box<[u8]>,
    json_text: Box<[u8]>,
    percent: Box<[u8]>,
}

impl Variables {
    /// Reads `{"low": {"uniform": [5, 10]}, ...}`.
    pub fn parse(forms: &Map<String, Value>) -> Result<Self, PlanError> {
        let parse = |(name, form): (&String, &Value)| {
            let kind = Kind::parse(form).map_err(|error| error.within(format_args!("variable \"{name}\"")))?;
            Ok(Variable { name: name.clone(), salt: hash_name(name), kind })
        };
        Ok(Self { entries: forms.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// The variable of that name; the error tells the nearest.
    pub fn find(&self, name: &str) -> Result<VariableId, PlanError> {
        let position = self.entries.iter().position(|entry| entry.name == name);
        let names = self.entries.iter().map(|entry| entry.name.as_str());
        position.map(VariableId).ok_or_else(|| PlanError(unknown("variable", name, names)))
    }

    /// Appends the value that `draw` gives the variable. Allocates nothing but room in `out`.
    pub fn write(&self, id: VariableId, draw: &Draw, encoding: Encoding, out: &mut Vec<u8>) {
        let Variable { salt, kind, .. } = &self.entries[id.0];
        match kind {
            Kind::UniformInteger { low, span } => push_i64(out, low.wrapping_add_unsigned(below(*span, draw, *salt))),
            Kind::UniformFloat { low, width } => push_f64(out, low + width * draw.unit(*salt)),
            Kind::Constant(value) => out.extend_from_slice(value.encoded(encoding)),
            Kind::Choice(values) => {
                let index = below(values.len() as u64 - 1, draw, *salt) as usize;
                out.extend_from_slice(values[index].encoded(encoding));
            }
            Kind::Weighted { values, cumulative } => {
                let point = draw.unit(*salt) * cumulative[cumulative.len() - 1];
                let index = cumulative.partition_point(|&weight| weight <= point);
                out.extend_from_slice(values[index].encoded(encoding));
            }
            Kind::Sequential { from } => push_i64(out, from.wrapping_add_unsigned(draw.k)),
        }
    }
}

/// A uniform integer in [0, last], by the high half of a product (Lemire 2019); its bias is below 2^-40 for every
/// range of fewer than 2^24 values.
fn below(last: u64, draw: &Draw, salt: u64) -> u64 {
    ((u128::from(draw.bits(salt)) * (u128::from(last) + 1)) >> 64) as u64
}

impl Kind {
    fn parse(form: &Value) -> Result<Self, PlanError> {
        let wrong =
            || PlanError(format!("{form} is no variable; write {{KIND: ...}} with one of {}", KINDS.join(", ")));
        let mapping = form.as_object().filter(|mapping| mapping.len() == 1).ok_or_else(wrong)?;
        let (kind, argument) = mapping.iter().next().ok_or_else(wrong)?;
        match kind.as_str() {
            "uniform" => Self::uniform(argument),
            "constant" => Ok(Self::Constant(Encoded::new(argument))),
            "choice" => Self::choice(argument),
            "sequential" => Self::sequential(argument),
            _ => Err(PlanError(unknown("kind of variable", kind, KINDS))),
        }
    }

    fn uniform(argument: &Value) -> Result<Self, PlanError> {
        let wrong = || PlanError(format!("uniform wants [low, high] with low <= high, not {argument}"));
        let [low, high] = argument.as_array().ok_or_else(wrong)?.as_slice() else { return Err(wrong()) };
        if let (Some(low), Some(high)) = (low.as_i64(), high.as_i64()) {
            let span = if low <= high { high.abs_diff(low) } else { return Err(wrong()) };
            return Ok(Self::UniformInteger { low, span });
        }
        let (low, high) = (low.as_f64().ok_or_else(wrong)?, high.as_f64().ok_or_else(wrong)?);
        let width = high - low;
        if width >= 0.0 && width.is_finite() { Ok(Self::UniformFloat { low, width }) } else { Err(wrong()) }
    }

    fn choice(argument: &Value) -> Result<Self, PlanError> {
        let wrong = |what: &str| PlanError(format!("choice {what}: {argument}"));
        let (values, weights) = match argument {
            Value::Array(values) => (values, None),
            Value::Object(mapping) => {
                if let Some(key) = mapping.keys().find(|key| !["values", "weights"].contains(&key.as_str())) {
                    return Err(PlanError(unknown("key of choice", key, ["values", "weights"])));
                }
                let values = mapping.get("values").and_then(Value::as_array);
                (values.ok_or_else(|| wrong("wants a list of values"))?, mapping.get("weights"))
            }
            _ => return Err(wrong("wants a list of values, or {values: [...], weights: [...]}")),
        };
        if values.is_empty() {
            return Err(wrong("has nothing to choose from"));
        }
        let values: Vec<Encoded> = values.iter().map(Encoded::new).collect();
        let Some(weights) = weights else { return Ok(Self::Choice(values)) };
        let weights = weights.as_array().ok_or_else(|| wrong("wants a list of weights"))?;
        if weights.len() != values.len() {
            return Err(wrong("has not as many weights as values"));
        }
        let mut sum = 0.0;
        let mut cumulative = Vec::with_capacity(weights.len());
        for weight in weights {
            let weight = weight.as_f64().filter(|weight| *weight >= 0.0);
            sum += weight.ok_or_else(|| wrong("wants weights that are numbers and not negative"))?;
            cumulative.push(sum);
        }
        let fits = sum > 0.0 && sum.is_finite();
        if fits { Ok(Self::Weighted { values, cumulative }) } else { Err(wrong("has no weight above zero")) }
    }

    fn sequential(argument: &Value) -> Result<Self, PlanError> {
        let wrong = || PlanError(format!("sequential wants {{from: INTEGER}}, not {argument}"));
        let mapping = argument.as_object().filter(|mapping| mapping.len() == 1).ok_or_else(wrong)?;
        let from = mapping.get("from").and_then(Value::as_i64).ok_or_else(wrong)?;
        Ok(Self::Sequential { from })
    }
}

impl Encoded {
    fn new(value: &Value) -> Self {
        let json = value.to_string();
        let text = value.as_str().unwrap_or(&json);
        let mut json_text = Vec::new();
        encode::push_json_text(&mut json_text, text);
        let mut percent = Vec::new();
        encode::push_percent(&mut percent, text);
        Self { json: json.into_bytes().into(), json_text: json_text.into(), percent: percent.into() }
    }

    fn encoded(&self, encoding: Encoding) -> &[u8] {
        match encoding {
            Encoding::Json => &self.json,
            Encoding::JsonText => &self.json_text,
            Encoding::Percent => &self.percent,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const N: u64 = 100_000;

    fn variables(form: Value) -> Variables {
        Variables::parse(json!({ "v": form }).as_object().unwrap()).unwrap()
    }

    fn error(form: Value) -> String {
        Variables::parse(json!({ "v": form }).as_object().unwrap()).unwrap_err().0
    }

    fn written(variables: &Variables, k: u64, encoding: Encoding) -> String {
        let mut out = Vec::new();
        let draw = Draw::new(42, 1, k);
        variables.write(variables.find("v").unwrap(), &draw, encoding, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// The statistic of a chi-squared test of `counts` against `shares` of [`N`].
    fn chi_squared(counts: &[f64], shares: &[f64]) -> f64 {
        counts.iter().zip(shares).map(|(count, share)| (count - share * N as f64).powi(2) / (share * N as f64)).sum()
    }

    #[test]
    fn two_integers_give_uniform_integers_with_both_ends() {
        let variables = variables(json!({"uniform": [-3, 6]}));
        let mut counts = [0.0; 10];
        for k in 0..N {
            let value: i64 = written(&variables, k, Encoding::Json).parse().unwrap();
            counts[usize::try_from(value + 3).unwrap()] += 1.0;
        }
        let chi2 = chi_squared(&counts, &[0.1; 10]);
        assert!(chi2 < 27.88, "chi-squared {chi2} with 9 degrees of freedom exceeds its 99.9 % quantile");
    }

    #[test]
    fn the_widest_range_of_integers_does_not_overflow() {
        let variables = variables(json!({"uniform": [i64::MIN, i64::MAX]}));
        for k in 0..1000 {
            written(&variables, k, Encoding::Json).parse::<i64>().unwrap();
        }
    }

    #[test]
    fn a_float_among_the_ends_gives_uniform_floats() {
        let variables = variables(json!({"uniform": [2, 4.5]}));
        let mut drawn: Vec<f64> =
            (0..N).map(|k| (written(&variables, k, Encoding::Json).parse::<f64>().unwrap() - 2.0) / 2.5).collect();
        drawn.sort_by(f64::total_cmp);
        assert!(drawn[0] >= 0.0 && drawn[drawn.len() - 1] < 1.0);
        let n = N as f64;
        let gap = |(i, u): (usize, &f64)| (u - i as f64 / n).abs().max((u - (i + 1) as f64 / n).abs());
        let ks = drawn.iter().enumerate().map(gap).fold(0.0, f64::max) * n.sqrt();
        assert!(ks < 1.95, "Kolmogorov-Smirnov statistic {ks} exceeds its 99.9 % quantile");
    }

    #[test]
    fn choices_come_by_their_weights() {
        let variables = variables(json!({"choice": {"values": ["a", "b", "c", "d"], "weights": [1, 0, 3, 6.0]}}));
        let mut counts = [0.0; 4];
        for k in 0..N {
            counts[usize::from(written(&variables, k, Encoding::JsonText).as_bytes()[0] - b'a')] += 1.0;
        }
        assert_eq!(counts[1], 0.0);
        let chi2 = chi_squared(&[counts[0], counts[2], counts[3]], &[0.1, 0.3, 0.6]);
        assert!(chi2 < 13.82, "chi-squared {chi2} with 2 degrees of freedom exceeds its 99.9 % quantile");
    }

    #[test]
    fn choices_without_weights_are_uniform() {
        let variables = variables(json!({"choice": [0, 1, 2, 3, 4]}));
        let mut counts = [0.0; 5];
        for k in 0..N {
            counts[written(&variables, k, Encoding::Json).parse::<usize>().unwrap()] += 1.0;
        }
        let chi2 = chi_squared(&counts, &[0.2; 5]);
        assert!(chi2 < 18.47, "chi-squared {chi2} with 4 degrees of freedom exceeds its 99.9 % quantile");
    }

    #[test]
    fn a_sequence_counts_requests() {
        let variables = variables(json!({"sequential": {"from": 100}}));
        assert_eq!(written(&variables, 0, Encoding::Json), "100");
        assert_eq!(written(&variables, 23, Encoding::Json), "123");
    }

    #[test]
    fn two_variables_of_one_request_are_independent() {
        let forms = json!({"v": {"uniform": [0, 9]}, "w": {"uniform": [0, 9]}});
        let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
        let mut equal = 0.0;
        for k in 0..N {
            let draw = Draw::new(42, 1, k);
            let [mut v, mut w] = [Vec::new(), Vec::new()];
            variables.write(variables.find("v").unwrap(), &draw, Encoding::Json, &mut v);
            variables.write(variables.find("w").unwrap(), &draw, Encoding::Json, &mut w);
            equal += f64::from(u8::from(v == w));
        }
        let chi2 = chi_squared(&[equal, N as f64 - equal], &[0.1, 0.9]);
        assert!(chi2 < 10.83, "chi-squared {chi2} with 1 degree of freedom exceeds its 99.9 % quantile");
    }

    #[test]
    fn a_value_is_written_as_its_place_wants_it() {
        let variables = variables(json!({"constant": "a \"b\"/c"}));
        assert_eq!(written(&variables, 0, Encoding::Json), r#""a \"b\"/c""#);
        assert_eq!(written(&variables, 0, Encoding::JsonText), r#"a \"b\"/c"#);
        assert_eq!(written(&variables, 0, Encoding::Percent), "a%20%22b%22%2Fc");
    }

    #[test]
    fn a_structure_inside_a_text_is_its_json() {
        let variables = variables(json!({"constant": {"a": [1, "x"]}}));
        assert_eq!(written(&variables, 0, Encoding::Json), r#"{"a":[1,"x"]}"#);
        assert_eq!(written(&variables, 0, Encoding::JsonText), r#"{\"a\":[1,\"x\"]}"#);
    }

    #[test]
    fn what_cannot_be_drawn_is_refused_with_the_variable_and_the_reason() {
        assert_eq!(
            error(json!({"unifrom": [1, 2]})),
            "variable \"v\": unknown kind of variable \"unifrom\"; did you mean \"uniform\"?"
        );
        let low_above_high = error(json!({"uniform": [10, 5]}));
        assert_eq!(low_above_high, "variable \"v\": uniform wants [low, high] with low <= high, not [10,5]");
        for form in [
            json!({"uniform": ["a", 5]}),
            json!({"uniform": [1]}),
            json!({"uniform": 5}),
            json!({"choice": []}),
            json!({"choice": {"values": [1, 2], "weights": [1]}}),
            json!({"choice": {"values": [1], "weights": [-1]}}),
            json!({"choice": {"values": [1], "weights": [0]}}),
            json!({"choice": {"values": [1], "weight": [1]}}),
            json!({"sequential": {"form": 1}}),
            json!({"sequential": 4}),
            json!(7),
            json!({}),
        ] {
            assert!(error(form.clone()).starts_with("variable \"v\": "), "{form} is no variable");
        }
    }

    #[test]
    fn an_unknown_variable_gets_its_nearest_neighbour() {
        let forms = json!({"low": {"constant": 1}, "high": {"constant": 2}});
        let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
        assert_eq!(variables.find("lo").unwrap_err().0, "unknown variable \"lo\"; did you mean \"low\"?");
    }
}
