//! Values derived from other variables: templates, linear functions, hashes, lists and encrypted values.

use serde_json::Value;

use super::document::DocumentPart;
use super::encrypted::{Encrypted, UnboundEncrypted};
use super::form::Form;
use super::{Encoding, Kind, Number, Values, Variable, VariableId, Variables};
use crate::plan::PlanError;
use crate::util::digits::{push_f64, push_i64};
use crate::util::draw::Draw;
use crate::workload::text::fnv;
use crate::workload::variables::template::Template;

/// Kind of derivation. It is bound once all variables are known.
#[derive(Clone, Debug)]
pub enum Derived {
    UnboundText(String),
    UnboundLinear { of: String, times: Value, plus: Value },
    UnboundHash { of: String },
    UnboundSeveral { of: String, count: u64 },
    UnboundPart { of: String, part: DocumentPart },
    UnboundEncrypted(UnboundEncrypted),
    Text(Box<Texts>),
    Linear { of: VariableId, times: Number, plus: Number },
    Hash { of: VariableId },
    Several { of: VariableId, count: u64 },
    Part { of: VariableId, part: DocumentPart },
    Encrypted(Encrypted),
}

/// A template, compiled for each encoding.
#[derive(Clone, Debug)]
pub struct Texts {
    json: Template,
    json_text: Template,
    percent: Template,
    text: Template,
    field: Template,
}

impl Texts {
    /// Compiles a template for each encoding. Refuses unknown variables.
    fn new(text: &str, variables: &Variables) -> Result<Self, PlanError> {
        let [mut percent, mut verbatim, mut field] = [(); 3].map(|()| Template::default());
        percent.push_segment(text, variables)?;
        verbatim.push_verbatim(text, variables)?;
        field.push_field(text, variables)?;
        Ok(Self {
            json: Template::json(&Value::from(text), variables)?,
            json_text: Template::json_text(text, variables)?,
            percent,
            text: verbatim,
            field,
        })
    }
}

impl Derived {
    /// Parses the text of a template; refuses other values. A template that is exactly one hole has the type of its
    /// variable.
    pub fn text(argument: &Value) -> Result<Self, PlanError> {
        let text = argument.as_str().ok_or_else(|| PlanError::new(format!("derived wants a text, not {argument}")))?;
        Ok(Self::UnboundText(text.to_owned()))
    }

    /// Parses `{of: name, times: 1, plus: 0}`; refuses other keys and values. The result is an integer if all three
    /// numbers are.
    pub fn linear(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("linear", argument, &["of", "times", "plus"])?;
        let number = |key, default: i64| match form.get(key) {
            None => Ok(Value::from(default)),
            Some(value) if value.is_number() => Ok(value.clone()),
            Some(_) => Err(form.wrong(key, "a number")),
        };
        Ok(Self::UnboundLinear {
            of: form.text("of")?.to_owned(),
            times: number("times", 1)?,
            plus: number("plus", 0)?,
        })
    }

    /// Parses `{of: name}`: YCSB's hash of an integer. Refuses other keys and values.
    pub fn hash(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("hash", argument, &["of"])?;
        Ok(Self::UnboundHash { of: form.text("of")?.to_owned() })
    }

    /// Parses `{of: name, count: 100}`: a list of values of variable `of` that `count` successive requests would draw.
    /// Refuses other keys and values.
    pub fn several(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("several", argument, &["of", "count"])?;
        Ok(Self::UnboundSeveral { of: form.text("of")?.to_owned(), count: form.items("count")? })
    }

    /// Parses `{of: name, field: a.b, otherwise: 0}`: a value inside a document. Refuses other keys and values.
    pub fn part(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("part", argument, &["of", "field", "otherwise"])?;
        Ok(Self::UnboundPart { of: form.text("of")?.to_owned(), part: DocumentPart::new(&form)? })
    }

    /// Returns the derivation with its variables resolved by name. Refuses unknown variables.
    pub fn bind(&self, variables: &Variables) -> Result<Self, PlanError> {
        Ok(match self {
            Self::UnboundText(text) => Self::Text(Box::new(Texts::new(text, variables)?)),
            Self::UnboundLinear { of, times, plus } => {
                Self::Linear { of: variables.find(of)?, times: Number::new(times), plus: Number::new(plus) }
            }
            Self::UnboundHash { of } => Self::Hash { of: variables.find(of)? },
            Self::UnboundSeveral { of, count } => Self::Several { of: variables.find(of)?, count: *count },
            Self::UnboundPart { of, part } => Self::Part { of: variables.find(of)?, part: part.clone() },
            Self::UnboundEncrypted(unbound) => Self::Encrypted(unbound.bind(variables)?),
            bound => bound.clone(),
        })
    }

    /// Returns the variables that a bound derivation depends on directly; empty for an unbound one.
    pub fn of(&self) -> Vec<VariableId> {
        match self {
            Self::Text(texts) => texts.json.variables().collect(),
            Self::Linear { of, .. } | Self::Hash { of } | Self::Several { of, .. } | Self::Part { of, .. } => vec![*of],
            Self::Encrypted(encrypted) => vec![encrypted.of],
            _ => Vec::new(),
        }
    }

    /// Returns the variable of a `several` list; `None` for other derivations.
    pub fn repeats(&self) -> Option<VariableId> {
        if let Self::Several { of, .. } = self { Some(*of) } else { None }
    }

    /// Refuses a derived variable whose source does not fit.
    /// Calculations need a number, hashes a whole number, parts a document. Encryption needs values that can be
    /// encrypted.
    pub fn refuse_unfit(&self, variables: &Variables) -> Result<(), PlanError> {
        if let Self::Part { of, part } = self {
            let Variable { name, kind, .. } = &variables.entries[of.0];
            return match kind {
                Kind::Documents(documents) => part.check(documents),
                _ => Err(PlanError::new(format!("part wants a variable that is a document, and {name:?} is not"))),
            };
        }
        if let Self::Encrypted(encrypted) = self {
            return encrypted.refuse_unfit(variables);
        }
        let (Self::Linear { of, .. } | Self::Hash { of }) = self else { return Ok(()) };
        let name = &variables.entries[of.0].name;
        match variables.number(*of, &Draw::new(0, 0, 0)) {
            None => Err(PlanError::new(format!("it is derived from the variable {name:?}, which is not a number"))),
            Some(Number::Real(_)) if matches!(self, Self::Hash { .. }) => {
                Err(PlanError::new(format!("hash wants a whole number, which the variable {name:?} is not")))
            }
            Some(_) => Ok(()),
        }
    }

    /// Returns the number derived for `draw`; `None` unless it is a linear function of a number or the hash of an
    /// integer.
    pub fn number(&self, variables: &Variables, draw: &Draw) -> Option<Number> {
        match self {
            Self::Linear { of, times, plus } => Some(variables.number(*of, draw)?.linear(*times, *plus)),
            Self::Hash { of } => match variables.number(*of, draw)? {
                Number::Whole(number) => Some(Number::Whole(fnv(number as u64) as i64)),
                Number::Real(_) => None,
            },
            _ => None,
        }
    }

    /// Appends the derived value in an encoding; nothing if it is unbound or not a number where one is needed.
    pub fn write(&self, values: &Values<'_>, encoding: Encoding, out: &mut Vec<u8>) {
        if let Self::Text(texts) = self {
            let template = match encoding {
                Encoding::Json => &texts.json,
                Encoding::JsonText => &texts.json_text,
                Encoding::Percent => &texts.percent,
                Encoding::Text => &texts.text,
                Encoding::Field => &texts.field,
            };
            template.render(values, out);
        }
        if let Self::Several { of, count } = self {
            return list(values, *of, *count, encoding, out);
        }
        if let Self::Part { of, part } = self {
            let Variable { salt, per, kind, .. } = &values.variables.entries[of.0];
            if let Kind::Documents(documents) = kind {
                part.write(documents, &per.draw(values.draw), *salt, encoding, out);
            }
            return;
        }
        if let Self::Encrypted(encrypted) = self {
            return encrypted.write(values, encoding, out);
        }
        match self.number(values.variables, values.draw) {
            Some(Number::Whole(number)) => push_i64(out, number),
            Some(Number::Real(number)) => push_f64(out, number),
            None => {}
        }
    }
}

/// Appends `count` values of variable `of`: as an array in JSON, else separated by commas.
/// Request k lists the values that requests `k * count` to `(k + 1) * count - 1` would draw.
fn list(values: &Values<'_>, of: VariableId, count: u64, encoding: Encoding, out: &mut Vec<u8>) {
    let json = encoding == Encoding::Json;
    out.extend_from_slice(if json { b"[" } else { b"" });
    for i in 0..count {
        if i > 0 {
            out.push(b',');
        }
        let draw = Draw { k: values.draw.k.wrapping_mul(count).wrapping_add(i), ..*values.draw };
        Values { draw: &draw, ..*values }.write(of, encoding, out);
    }
    out.extend_from_slice(if json { b"]" } else { b"" });
}

impl Number {
    /// Converts a JSON number: to an integer if it is one of 64 bits, otherwise to a floating-point number.
    fn new(value: &Value) -> Self {
        value.as_i64().map_or_else(|| Self::Real(value.as_f64().unwrap_or_default()), Self::Whole)
    }

    /// Returns `self * times + plus`: an integer, with wrap-around, if all three numbers are integers.
    fn linear(self, times: Self, plus: Self) -> Self {
        if let (Self::Whole(of), Self::Whole(times), Self::Whole(plus)) = (self, times, plus) {
            return Self::Whole(of.wrapping_mul(times).wrapping_add(plus));
        }
        Self::Real(self.real() * times.real() + plus.real())
    }

    /// Returns the number as a floating-point number.
    fn real(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }
}

/// Refuses cyclic derivations.
pub fn refuse_circles(variables: &Variables) -> Result<(), PlanError> {
    // 0: not seen, 1: on the current path, 2: free of cycles.
    let mut seen = vec![0u8; variables.entries.len()];
    let mut way = Vec::new();
    (0..variables.entries.len()).try_for_each(|index| visit(variables, index, &mut seen, &mut way))
}

/// Follows the derivations of the variable with index `index`; refuses a cycle. `seen`: 0 for a variable not seen yet,
/// 1 on the current path, 2 free of cycles. `way`: the current path.
fn visit(variables: &Variables, index: usize, seen: &mut [u8], way: &mut Vec<usize>) -> Result<(), PlanError> {
    match seen[index] {
        2 => return Ok(()),
        1 => {
            let begin = way.iter().position(|other| *other == index).unwrap_or_default();
            let names: Vec<_> =
                way[begin..].iter().chain([&index]).map(|i| variables.entries[*i].name.as_str()).collect();
            return Err(PlanError::new(format!("cyclic variables: {}", names.join(" -> "))));
        }
        _ => {}
    }
    seen[index] = 1;
    way.push(index);
    if let Kind::Derived(derived) = &variables.entries[index].kind {
        for other in derived.of() {
            visit(variables, other.0, seen, way)?;
        }
    }
    way.pop();
    seen[index] = 2;
    Ok(())
}
