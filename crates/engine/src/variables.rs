//! Values that a request draws: a variable is a pure function of a [`crate::draw::Draw`].

use serde_json::{Map, Value};

use crate::nearest::unknown;
use crate::plan::PlanError;

/// A workload's variables, by name.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    entries: Vec<(String, Value)>,
}

impl Variables {
    /// Reads `{"low": {"uniform": [5, 10]}, ...}`.
    pub fn parse(forms: &Map<String, Value>) -> Result<Self, PlanError> {
        let mut entries = Vec::new();
        for (name, form) in forms {
            match form.as_object().and_then(|form| form.iter().next()) {
                Some((kind, _)) if kind == "constant" => entries.push((name.clone(), form.clone())),
                Some((kind, _)) => return Err(PlanError(unknown("kind of variable", kind, ["constant"]))),
                None => return Err(PlanError(format!("variable \"{name}\" is no mapping"))),
            }
        }
        Ok(Self { entries })
    }

    /// The names of all variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }
}
