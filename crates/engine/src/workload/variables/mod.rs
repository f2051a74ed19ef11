//! Variables: values drawn by requests. A value is a pure function of a [`Draw`] and the variable's name.
//!
//! A variable used twice in a request has the same value twice, and a new variable does not change the
//! others. Constant values are encoded in advance: drawing a choice is a copy without escaping.

mod captured;
mod counted;
mod counter;
mod derived;
mod document;
mod encoded;
mod encrypted;
mod form;
mod listed;
mod needs;
mod real;
pub mod template;
mod text;
mod whole;
mod zipf;

use serde_json::{Map, Value};

use crate::plan::PlanError;
use crate::util::digits::{push_f64, push_i64};
use crate::util::draw::{Draw, LOOPS, hash_name};
use crate::util::suggestions::unknown;
use crate::workload::corpus::Corpora;
pub use captured::Captured;
pub use counted::Counted;
pub use counter::Origin;
use counter::{Counter, Records};
use derived::Derived;
use document::Documents;
use encoded::Encoded;
use encrypted::UnboundEncrypted;
use form::Form;
use listed::Listed;
use real::Real;
use text::{Dates, Format, RandomLetters};
use whole::Whole;

const KINDS: [&str; 24] = [
    "uniform",
    "constant",
    "choice",
    "sequential",
    "counter",
    "zipfian",
    "latest",
    "hotspot",
    "exponential",
    "normal",
    "text",
    "date",
    "instant",
    "loop",
    "lines",
    "field",
    "document",
    "derived",
    "linear",
    "hash",
    "several",
    "part",
    "encrypted",
    "captured",
];

/// A workload's variables, by name.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    entries: Vec<Variable>,
    /// Name of the driver, if its clients cannot capture values. Captured variables are refused then.
    keeps_nothing: Option<String>,
}

/// Index of a variable in its [`Variables`]; meaningless in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableId(usize);

/// Encoding of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON value with its type.
    Json,
    /// Text inside a JSON string.
    JsonText,
    /// Text inside a path or a query string.
    Percent,
    /// Plain text.
    Text,
    /// Text inside a header field.
    Field,
}

/// Sources of a request's values.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// The variables.
    pub variables: &'a Variables,
    /// The request's key.
    pub draw: &'a Draw,
    /// The client's captured values.
    pub captured: &'a Captured,
}

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    /// Separates this variable's draws from those of the request's other variables.
    salt: u64,
    per: Per,
    kind: Kind,
}

/// Scope of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Per {
    Request,
    Iteration,
    User,
}

#[derive(Clone, Debug)]
enum Kind {
    Whole(Whole),
    Real(Real),
    Constant(Encoded),
    Listed(Listed),
    Letters(RandomLetters),
    Dates(Dates),
    /// The user's simulated time.
    Instant(Format),
    /// The number of passes through the loop at this index in [`Draw::passes`], plus the second number.
    Loop(usize, i64),
    Documents(Documents),
    Derived(Derived),
    /// A captured value, in this slot of [`Captured`].
    Captured(usize),
}

/// A number that other numbers can be derived from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Whole(i64),
    Real(f64),
}

impl Variables {
    /// Parses `{"low": {"uniform": [5, 10]}, "who": {"sequential": {}, "per": "user"}, ...}`, without corpora. The
    /// error names the variable.
    pub fn parse(forms: &Map<String, Value>) -> Result<Self, PlanError> {
        Self::with_corpora(forms, &Corpora::default())
    }

    /// Parses variables in the form of [`Self::parse`], which may draw from `corpora`. `{"captured": null}` declares a
    /// captured variable. Also refuses cyclic derivations, and more than four loop variables.
    pub fn with_corpora(forms: &Map<String, Value>, corpora: &Corpora) -> Result<Self, PlanError> {
        let within = |name: &str, error: PlanError| error.within(format_args!("variable \"{name}\""));
        let (mut slots, mut loops) = (0, 0);
        let parse = |(name, form): (&String, &Value)| {
            let (per, kind) = Kind::parse(form, corpora).map_err(|error| within(name, error))?;
            let kind = match kind {
                Kind::Captured(_) => {
                    slots += 1;
                    Kind::Captured(slots - 1)
                }
                Kind::Loop(_, from) => {
                    loops += 1;
                    Kind::Loop(loops - 1, from)
                }
                other => other,
            };
            Ok(Variable { name: name.clone(), salt: hash_name(name), per, kind })
        };
        let entries = forms.iter().map(parse).collect::<Result<_, _>>()?;
        if loops > LOOPS {
            return Err(PlanError::new(format!("{loops} variables count loops: {LOOPS} are possible")));
        }
        let mut variables = Self { entries, keeps_nothing: None };
        // Bind derived variables after all names are known.
        for index in 0..variables.entries.len() {
            if let Kind::Derived(derived) = &variables.entries[index].kind {
                let name = variables.entries[index].name.clone();
                let bound = derived.bind(&variables).map_err(|error| within(&name, error))?;
                variables.entries[index].kind = Kind::Derived(bound);
            }
        }
        derived::refuse_circles(&variables)?;
        variables.bind_counters()?;
        for entry in &variables.entries {
            if let Kind::Derived(derived) = &entry.kind {
                derived.refuse_unfit(&variables).map_err(|error| within(&entry.name, error))?;
            }
        }
        // Encrypt constant values in advance.
        for index in 0..variables.entries.len() {
            let Variable { name, kind, .. } = &variables.entries[index];
            if let Kind::Derived(Derived::Encrypted(encrypted)) = kind
                && let Some(known) = encrypted.beforehand(&variables, name).map_err(|error| within(name, error))?
            {
                variables.entries[index] = known;
            }
        }
        Ok(variables)
    }

    /// Makes [`Self::find`] refuse captured variables and variables derived from them. Clients of this driver
    /// capture nothing and would send empty values.
    pub fn refuse_captured(&mut self, driver: &str) {
        self.keeps_nothing = Some(driver.to_owned());
    }

    /// Returns the variable with a name. The error suggests the nearest name, or says that its values are
    /// unavailable.
    pub fn find(&self, name: &str) -> Result<VariableId, PlanError> {
        let position = self.entries.iter().position(|entry| entry.name == name);
        let names = self.entries.iter().map(|entry| entry.name.as_str());
        let id = position.map(VariableId).ok_or_else(|| PlanError::new(unknown("variable", name, names)))?;
        match &self.keeps_nothing {
            Some(driver) if self.rests_on_answers(id) => Err(PlanError::new(format!(
                "variable \"{name}\" is captured from answers, which the driver {driver:?} does not support: use a drawn variable"
            ))),
            _ => Ok(id),
        }
    }

    /// Returns whether a variable is captured, or derived from a captured one.
    fn rests_on_answers(&self, id: VariableId) -> bool {
        match &self.entries[id.0].kind {
            Kind::Captured(_) => true,
            Kind::Derived(derived) => derived.of().into_iter().any(|other| self.rests_on_answers(other)),
            _ => false,
        }
    }

    /// Returns the variable's name.
    pub fn name(&self, id: VariableId) -> &str {
        &self.entries[id.0].name
    }

    /// Returns the number of captured variables, which each have a slot in [`Captured`].
    pub fn slots(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.kind, Kind::Captured(_))).count()
    }

    /// Returns the slot of a captured variable; `None` for other variables.
    pub fn slot(&self, id: VariableId) -> Option<usize> {
        match self.entries[id.0].kind {
            Kind::Captured(slot) => Some(slot),
            _ => None,
        }
    }

    /// Returns the variable's number for `draw`; `None` if it is not a number.
    fn number(&self, id: VariableId, draw: &Draw) -> Option<Number> {
        let Variable { salt, per, kind, .. } = &self.entries[id.0];
        match kind {
            Kind::Whole(whole) => Some(Number::Whole(whole.number(&per.draw(draw), *salt))),
            Kind::Loop(place, from) => Some(Number::Whole(from + i64::from(draw.passes[*place]))),
            Kind::Instant(Format::Millis) => Some(Number::Whole(draw.instant)),
            Kind::Instant(Format::Seconds) => Some(Number::Whole(draw.instant.div_euclid(1000))),
            Kind::Real(real) => Some(Number::Real(real.number(&per.draw(draw), *salt))),
            Kind::Derived(derived) => derived.number(self, draw),
            _ => None,
        }
    }
}

impl Values<'_> {
    /// Appends the value of a variable in an encoding; nothing for a captured value that is missing. Allocates only to
    /// grow `out`.
    pub fn write(&self, id: VariableId, encoding: Encoding, out: &mut Vec<u8>) {
        let Variable { salt, per, kind, .. } = &self.variables.entries[id.0];
        let draw = &per.draw(self.draw);
        match kind {
            Kind::Whole(whole) => push_i64(out, whole.number(draw, *salt)),
            Kind::Real(real) => push_f64(out, real.number(draw, *salt)),
            Kind::Constant(value) => out.extend_from_slice(value.encoded(encoding)),
            Kind::Listed(listed) => out.extend_from_slice(listed.value(draw, *salt).encoded(encoding)),
            Kind::Letters(letters) => {
                let quote: &[u8] = if encoding == Encoding::Json { b"\"" } else { b"" };
                out.extend_from_slice(quote);
                letters.write(draw, *salt, out);
                out.extend_from_slice(quote);
            }
            Kind::Dates(dates) => dates.write(draw, *salt, encoding, out),
            Kind::Instant(format) => format.write(self.draw.instant, encoding, out),
            Kind::Loop(place, from) => push_i64(out, from + i64::from(self.draw.passes[*place])),
            Kind::Documents(documents) => documents.write(draw, *salt, encoding, out),
            Kind::Derived(derived) => derived.write(self, encoding, out),
            Kind::Captured(slot) => self.captured.write(*slot, encoding, out),
        }
    }
}

impl Per {
    /// Returns the key of the draw for the value's scope: the request's, the iteration's or the user's.
    #[inline]
    fn draw(self, draw: &Draw) -> Draw {
        match self {
            Self::Request => *draw,
            Self::Iteration => Draw { k: draw.iteration, ..*draw },
            Self::User => Draw { k: draw.user, ..*draw },
        }
    }

    /// Parses `request`, `iteration` or `user`; refuses other values.
    fn parse(value: &Value) -> Result<Self, PlanError> {
        match value.as_str() {
            Some("request") => Ok(Self::Request),
            Some("iteration") => Ok(Self::Iteration),
            Some("user") => Ok(Self::User),
            _ => Err(PlanError::new(format!("per wants one of request, iteration, user, not {value}"))),
        }
    }
}

impl Kind {
    /// Parses a variable's definition `{KIND: ..., per: ...}`. Returns its scope, a request by default, and its kind;
    /// slots and loop indices are 0. Refuses other forms.
    fn parse(form: &Value, corpora: &Corpora) -> Result<(Per, Self), PlanError> {
        let wrong = || {
            PlanError::new(format!("{form} is not a variable; write {{KIND: ...}} with one of {}", KINDS.join(", ")))
        };
        let mapping = form.as_object().ok_or_else(wrong)?;
        let per = mapping.get("per").map_or(Ok(Per::Request), Per::parse)?;
        let mut kinds = mapping.iter().filter(|(key, _)| *key != "per");
        let (Some((kind, argument)), None) = (kinds.next(), kinds.next()) else { return Err(wrong()) };
        let kind = match kind.as_str() {
            "uniform" => Self::uniform(argument)?,
            "constant" => Self::Constant(Encoded::new(argument)),
            "choice" => Self::Listed(Listed::choice(argument)?),
            "sequential" => Self::Whole(Whole::sequential(argument)?),
            "counter" => Self::Whole(Whole::Counter(Counter::new(argument)?)),
            "zipfian" => Self::Whole(Whole::zipfian(argument)?),
            "latest" => Self::Whole(Whole::latest(argument)?),
            "hotspot" => Self::Whole(Whole::hotspot(argument)?),
            "exponential" if argument.get("items").is_some() => Self::Whole(Whole::exponential(argument)?),
            "exponential" => Self::Real(Real::exponential(argument)?),
            "normal" => Self::Real(Real::normal(&Form::new("normal", argument, &["mean", "deviation"])?)?),
            "text" => Self::Letters(RandomLetters::new(argument)?),
            "date" => Self::Dates(Dates::new(argument)?),
            "instant" => Self::Instant(Format::new(&Form::new("instant", argument, &["format"])?)?),
            "loop" => {
                let form = Form::new("loop", argument, &["from"])?;
                Self::Loop(0, form.whole("from", 0)?)
            }
            "lines" => Self::Listed(Listed::lines(argument)?),
            "field" => Self::Listed(Listed::field(argument, corpora)?),
            "document" => Self::Documents(Documents::new(argument, corpora)?),
            "derived" => Self::Derived(Derived::text(argument)?),
            "linear" => Self::Derived(Derived::linear(argument)?),
            "hash" => Self::Derived(Derived::hash(argument)?),
            "several" => Self::Derived(Derived::several(argument)?),
            "part" => Self::Derived(Derived::part(argument)?),
            "encrypted" => Self::Derived(Derived::UnboundEncrypted(UnboundEncrypted::new(argument)?)),
            "captured" => Self::Captured(0),
            _ => return Err(PlanError::new(unknown("kind of variable", kind, KINDS))),
        };
        if per != Per::Request
            && let Self::Whole(whole) = &kind
            && (matches!(whole, Whole::Counter(_)) || whole.records().is_some_and(Records::grow))
        {
            let cause = "counters, and draws from records that they number, have one value per request";
            return Err(PlanError::new(format!("{cause}: leave \"per\" out")));
        }
        Ok((per, kind))
    }

    /// Parses `[low, high]`: integers if both are, otherwise real numbers. Refuses low above high.
    fn uniform(argument: &Value) -> Result<Self, PlanError> {
        let wrong = || PlanError::new(format!("uniform wants [low, high] with low <= high, not {argument}"));
        let [low, high] = argument.as_array().ok_or_else(wrong)?.as_slice() else { return Err(wrong()) };
        if let (Some(low), Some(high)) = (low.as_i64(), high.as_i64()) {
            let span = if low <= high { high.abs_diff(low) } else { return Err(wrong()) };
            return Ok(Self::Whole(Whole::Uniform { low, span }));
        }
        let (low, high) = (low.as_f64().ok_or_else(wrong)?, high.as_f64().ok_or_else(wrong)?);
        let width = high - low;
        let fits = width >= 0.0 && width.is_finite();
        if fits { Ok(Self::Real(Real::Uniform { low, width })) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests;
