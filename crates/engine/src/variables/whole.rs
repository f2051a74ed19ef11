//! Whole numbers, by several laws: most pick one of `items` things, numbered from `from`.

use serde_json::Value;

use super::form::Form;
use super::zipf::{Exact, YCSB_EXPONENT, Ycsb, Zipf, fnv};
use crate::draw::Draw;
use crate::plan::PlanError;

/// A law.
#[derive(Clone, Debug)]
pub enum Whole {
    Uniform { low: i64, span: u64 },
    Sequential { from: i64 },
    Zipfian { from: i64, items: u64, zipf: Zipf, scrambled: bool },
    Latest { from: i64, items: u64, growth: f64, zipf: Zipf },
    Hotspot { from: i64, items: u64, hot: u64, share: f64 },
    Exponential { from: i64, items: u64, mean: f64 },
}

impl Whole {
    /// `{from: 0}`: the request's number, from there.
    pub fn sequential(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("sequential", argument, &["from"])?;
        Ok(Self::Sequential { from: form.whole("from", 0)? })
    }

    /// `{items: n, exponent: .99, form: exact | ycsb, scrambled: false, from: 0}`.
    pub fn zipfian(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("zipfian", argument, &["items", "exponent", "form", "scrambled", "from"])?;
        let (items, scrambled) = (form.items("items")?, form.flag("scrambled")?);
        let zipf = zipf(&form, items)?;
        let zipf = match zipf {
            Zipf::Ycsb(_) if scrambled => {
                form.number("exponent", Some(YCSB_EXPONENT), |e| e == YCSB_EXPONENT, "0.99 where YCSB scrambles")?;
                Zipf::Ycsb(Ycsb::before_scrambling())
            }
            other => other,
        };
        Ok(Self::Zipfian { from: form.whole("from", 0)?, items, zipf, scrambled })
    }

    /// `{items: n, growth: 0, exponent: .99, form: exact | ycsb, from: 0}`: the newest item is the likeliest; each request adds
    /// `growth` items.
    pub fn latest(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("latest", argument, &["items", "growth", "exponent", "form", "from"])?;
        let items = form.items("items")?;
        let growth = form.number("growth", Some(0.0), |g| (0.0..=1e6).contains(&g), "a number of items, 0 or more")?;
        Ok(Self::Latest { from: form.whole("from", 0)?, items, growth, zipf: zipf(&form, items)? })
    }

    /// `{items: n, hot_items: .2, hot_share: .8, from: 0}`: the share `hot_share` of requests goes to the first
    /// `hot_items` of the items, by their share.
    pub fn hotspot(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("hotspot", argument, &["items", "hot_items", "hot_share", "from"])?;
        let items = form.items("items")?;
        let share = |key, default| form.number(key, Some(default), |s| (0.0..=1.0).contains(&s), "a share from 0 to 1");
        let hot = (items as f64 * share("hot_items", 0.2)?) as u64;
        let share = share("hot_share", 0.8)?;
        // Where one of the sets is empty all requests go to the other.
        let share = if hot == 0 {
            0.0
        } else if hot == items {
            1.0
        } else {
            share
        };
        Ok(Self::Hotspot { from: form.whole("from", 0)?, items, hot, share })
    }

    /// `{mean: m, items: n, from: 0}`: item i in proportion to exp(-i / mean).
    pub fn exponential(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("exponential", argument, &["mean", "items", "from"])?;
        let mean = form.number("mean", None, |mean| mean > 0.0 && mean.is_finite(), "a number above 0")?;
        Ok(Self::Exponential { from: form.whole("from", 0)?, items: form.items("items")?, mean })
    }

    /// The number that `draw` gives.
    #[inline]
    pub fn number(&self, draw: &Draw, salt: u64) -> i64 {
        let (from, item) = match self {
            Self::Uniform { low, span } => (low, below(*span, draw, salt)),
            Self::Sequential { from } => (from, draw.k),
            Self::Zipfian { from, items, zipf, scrambled } => {
                let item = zipf.item(draw, salt);
                (from, if *scrambled { fnv(item) % items } else { item })
            }
            Self::Latest { from, items, growth, zipf } => {
                let added = (growth * draw.k as f64) as u64;
                let back = if added == 0 { zipf.item(draw, salt) } else { zipf.grown(items + added).item(draw, salt) };
                (from, items + added - 1 - back)
            }
            Self::Hotspot { from, items, hot, share } => {
                let place = salt.rotate_left(17);
                let is_hot = draw.unit(salt) < *share;
                let item = if is_hot { below(hot - 1, draw, place) } else { hot + below(items - hot - 1, draw, place) };
                (from, item)
            }
            Self::Exponential { from, items, mean } => {
                // The inverse of the distribution function of an exponential number that is below `items`.
                let mass = -(-(*items as f64) / mean).exp_m1();
                let item = -(-draw.unit(salt) * mass).ln_1p() * mean;
                (from, (item as u64).min(items - 1))
            }
        };
        from.wrapping_add_unsigned(item)
    }
}

fn zipf(form: &Form<'_>, items: u64) -> Result<Zipf, PlanError> {
    if form.word("form", &["exact", "ycsb"])? == "exact" {
        let exponent = form.number("exponent", Some(YCSB_EXPONENT), |e| e > 0.0 && e <= 20.0, "above 0, at most 20")?;
        return Ok(Zipf::Exact(Exact::new(items, exponent)));
    }
    let wanted = "above 0 and below 1 in the ycsb form";
    let exponent = form.number("exponent", Some(YCSB_EXPONENT), |e| e > 0.0 && e < 1.0, wanted)?;
    Ok(Zipf::Ycsb(Ycsb::new(items, exponent)))
}

/// A uniform integer in [0, last], by the high half of a product (Lemire 2019); its bias is below 2^-40 for every
/// range of fewer than 2^24 values.
pub fn below(last: u64, draw: &Draw, salt: u64) -> u64 {
    ((u128::from(draw.bits(salt)) * (u128::from(last) + 1)) >> 64) as u64
}
