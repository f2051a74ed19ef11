//! Real numbers from several distributions.

use std::f64::consts::TAU;

use serde_json::Value;

use super::form::Form;
use crate::plan::PlanError;
use crate::util::draw::Draw;
use crate::util::math;

/// A distribution.
#[derive(Clone, Debug)]
pub enum Real {
    Uniform { low: f64, width: f64 },
    Exponential { mean: f64 },
    Normal { mean: f64, deviation: f64 },
}

impl Real {
    /// Parses `{mean: m}`; refuses a mean that is not above 0.
    pub fn exponential(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("exponential", argument, &["mean"])?;
        Ok(Self::Exponential {
            mean: form.number("mean", None, |mean| mean > 0.0 && mean.is_finite(), "a number above 0")?,
        })
    }

    /// Parses `{mean: m, deviation: s}`; refuses a negative deviation.
    pub fn normal(form: &Form<'_>) -> Result<Self, PlanError> {
        Ok(Self::Normal {
            mean: form.number("mean", None, f64::is_finite, "a number")?,
            deviation: form.number("deviation", None, |s| s >= 0.0 && s.is_finite(), "a number of at least 0")?,
        })
    }

    /// Returns the number that request `draw` draws. `salt` separates it from the request's other draws.
    #[inline]
    pub fn number(&self, draw: &Draw, salt: u64) -> f64 {
        match self {
            Self::Uniform { low, width } => low + width * draw.unit(salt),
            Self::Exponential { mean } => -mean * math::ln_1p(-draw.unit(salt)),
            Self::Normal { mean, deviation } => {
                // Box and Muller 1958.
                let radius = (-2.0 * math::ln_1p(-draw.unit(salt))).sqrt();
                mean + deviation * radius * math::cos(TAU * draw.unit(salt.rotate_left(17)))
            }
        }
    }
}
