//! Listed values: from the workload, a file, or the documents of a corpus.

use std::fs;

use serde_json::Value;

use super::encoded::Encoded;
use super::form::Form;
use super::whole::below;
use crate::plan::PlanError;
use crate::util::draw::Draw;
use crate::workload::corpus::{Corpora, Corpus};

/// Maximum size of a file held in memory, bytes; use a corpus for a longer one.
const MOST_BYTES: u64 = 256 << 20;
/// Maximum number of documents read from a corpus, evenly spaced.
const MOST_DOCUMENTS: u64 = 10_000;

/// A list, and the selection of one value.
#[derive(Clone, Debug)]
pub struct Listed {
    values: Vec<Encoded>,
    order: Selection,
}

#[derive(Clone, Debug)]
enum Selection {
    Uniform,
    Weighted(Vec<f64>),
    Sequential,
}

impl Listed {
    /// Returns the value that request `draw` selects: random, or value k of the list. `salt` separates it from other
    /// draws.
    #[inline]
    pub fn value(&self, draw: &Draw, salt: u64) -> &Encoded {
        let index = match &self.order {
            Selection::Uniform => below(self.values.len() as u64 - 1, draw, salt) as usize,
            Selection::Weighted(cumulative) => {
                let point = draw.unit(salt) * cumulative[cumulative.len() - 1];
                cumulative.partition_point(|&weight| weight <= point)
            }
            Selection::Sequential => (draw.k % self.values.len() as u64) as usize,
        };
        &self.values[index]
    }

    /// Returns the list with `make` applied to each value, and the same selection; or the first error.
    pub fn map(&self, make: impl Fn(&Value) -> Result<Value, String>) -> Result<Self, String> {
        let values = self.values.iter().map(|value| Ok(Encoded::new(&make(&value.value())?)));
        Ok(Self { values: values.collect::<Result<_, String>>()?, order: self.order.clone() })
    }

    /// Returns whether request k takes value k.
    pub fn is_sequential(&self) -> bool {
        matches!(self.order, Selection::Sequential)
    }

    /// Parses `[...]`, `{values: [...], weights: [...]}` or `{values: [...], order: random | sequential}`. Refuses an
    /// empty list, and weights that do not fit the list or a sequential order.
    pub fn choice(argument: &Value) -> Result<Self, PlanError> {
        let wrong = |what: &str| PlanError::new(format!("choice {what}: {argument}"));
        let (values, weights, order) = match argument {
            Value::Array(values) => (values, None, Selection::Uniform),
            Value::Object(mapping) => {
                let form = Form::new("choice", argument, &["values", "weights", "order"])?;
                let order = order(&form)?;
                let values = mapping.get("values").and_then(Value::as_array);
                (values.ok_or_else(|| wrong("wants a list of values"))?, mapping.get("weights"), order)
            }
            _ => return Err(wrong("wants a list of values, or {values: [...], weights: [...]}")),
        };
        if values.is_empty() {
            return Err(wrong("needs at least one value"));
        }
        let values: Vec<Encoded> = values.iter().map(Encoded::new).collect();
        let Some(weights) = weights else { return Ok(Self { values, order }) };
        if matches!(order, Selection::Sequential) {
            return Err(wrong("cannot have weights in a sequential order"));
        }
        let weights = weights.as_array().ok_or_else(|| wrong("wants a list of weights"))?;
        if weights.len() != values.len() {
            return Err(wrong("needs one weight for each value"));
        }
        let mut sum = 0.0;
        let mut cumulative = Vec::with_capacity(weights.len());
        for weight in weights {
            let weight = weight.as_f64().filter(|weight| *weight >= 0.0);
            sum += weight.ok_or_else(|| wrong("wants weights that are numbers and not negative"))?;
            cumulative.push(sum);
        }
        let fits = sum > 0.0 && sum.is_finite();
        if fits {
            Ok(Self { values, order: Selection::Weighted(cumulative) })
        } else {
            Err(wrong("needs a weight above zero"))
        }
    }

    /// Parses `{file: path, order: random | sequential}` and reads the file: each non-empty line is a value. Refuses a
    /// file above 256 MiB, without lines, or not in UTF-8.
    pub fn lines(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("lines", argument, &["file", "order"])?;
        let path = form.text("file")?;
        let wrong = |error: &dyn std::fmt::Display| PlanError::new(format!("{path}: {error}"));
        if fs::metadata(path).map_err(|error| wrong(&error))?.len() > MOST_BYTES {
            return Err(wrong(&"the file is larger than 256 MiB; make it a corpus, and take a field of that"));
        }
        let bytes = fs::read(path).map_err(|error| wrong(&error))?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            PlanError::new(format!("{path}:{line}: the line is not UTF-8"))
        })?;
        let lines = text.lines().filter(|line| !line.is_empty());
        let values: Vec<Encoded> = lines.map(|line| Encoded::new(&Value::from(line))).collect();
        if values.is_empty() {
            return Err(wrong(&"all lines of the file are empty"));
        }
        Ok(Self { values, order: order(&form)? })
    }

    /// Parses `{corpus: name, field: a.b, order: random | sequential}` and reads the field's values from up to 10,000
    /// documents of the corpus. Refuses a field that all of them lack.
    pub fn field(argument: &Value, corpora: &Corpora) -> Result<Self, PlanError> {
        let form = Form::new("field", argument, &["corpus", "field", "order"])?;
        let (name, field) = (form.text("corpus")?, form.text("field")?);
        let values = sample(&*corpora.get(name)?, field)?;
        if values.is_empty() {
            return Err(PlanError::new(format!("no document of the corpus {name:?} has the field {field:?}")));
        }
        Ok(Self { values, order: order(&form)? })
    }
}

/// Parses the key `order`: random, the default, or sequential. Refuses other values.
fn order(form: &Form<'_>) -> Result<Selection, PlanError> {
    Ok(if form.word("order", &["random", "sequential"])? == "random" {
        Selection::Uniform
    } else {
        Selection::Sequential
    })
}

/// Returns the values of a field in up to [`MOST_DOCUMENTS`] documents, evenly spaced; skips missing and null ones.
/// Refuses a document that is not JSON.
fn sample(corpus: &Corpus, field: &str) -> Result<Vec<Encoded>, PlanError> {
    let documents = corpus.documents();
    let taken = documents.min(MOST_DOCUMENTS);
    let mut values = Vec::new();
    let mut text = Vec::new();
    for i in 0..taken {
        let number = (u128::from(i) * u128::from(documents) / u128::from(taken)) as u64;
        text.clear();
        corpus.append(number, 1, b"", &mut text);
        let document: Value = serde_json::from_slice(&text)
            .map_err(|error| PlanError::new(format!("document {number} of the corpus is not JSON: {error}")))?;
        let value = field.split('.').try_fold(&document, |value, name| value.get(name));
        values.extend(value.filter(|value| !value.is_null()).map(Encoded::new));
    }
    Ok(values)
}
