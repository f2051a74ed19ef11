//! Integers from several distributions. Most draw one of `items` items, numbered from `from`.

use serde_json::Value;

use super::counter::{Counter, Records};
use super::form::Form;
use super::zipf::{Exact, YCSB_EXPONENT, Ycsb, Zipf};
use crate::plan::PlanError;
use crate::util::draw::{Draw, mix};
use crate::util::math;
use crate::workload::text::fnv;

/// Maximum number of redraws of an item that does not exist.
const REDRAWS: usize = 10_000;

/// A distribution.
#[derive(Clone, Debug)]
pub enum Whole {
    Uniform { low: i64, span: u64 },
    Sequential { from: i64 },
    Counter(Counter),
    Zipfian { records: Records, space: u64, zipf: Zipf, scrambled: bool },
    Latest { records: Records, growth: f64, zipf: Zipf },
    Hotspot { from: i64, items: u64, hot: u64, share: f64 },
    Exponential { records: Records, mean: f64, newest_first: bool },
}

impl Whole {
    /// Parses `{from: 0}`: the request's number, plus `from`. Refuses other keys and values.
    pub fn sequential(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("sequential", argument, &["from"])?;
        Ok(Self::Sequential { from: form.whole("from", 0)? })
    }

    /// Parses `{items: n, exponent: .99, form: exact | ycsb, scrambled: false, from: 0, expected: 0, inserted:
    /// COUNTER}`; refuses other keys and values, and `inserted` without `expected`. The distribution covers the items
    /// and the `expected` inserts; an item that does not exist is redrawn.
    pub fn zipfian(argument: &Value) -> Result<Self, PlanError> {
        let known = ["items", "exponent", "form", "scrambled", "from", "expected", "inserted"];
        let form = Form::new("zipfian", argument, &known)?;
        let (records, scrambled) = (Records::new(&form)?, form.flag("scrambled")?);
        let wanted = "a whole number of items, 0 or more";
        let expected = form.get("expected").map_or(Some(0), Value::as_u64);
        let expected = expected.filter(|e| *e <= 1 << 53).ok_or_else(|| form.wrong("expected", wanted))?;
        if records.grow() && expected == 0 {
            return Err(form.wrong("expected", "the number of items that may be inserted"));
        }
        let space = records.items() + expected;
        let zipf = match zipf(&form, space)? {
            Zipf::Ycsb(_) if scrambled => {
                form.number("exponent", Some(YCSB_EXPONENT), |e| e == YCSB_EXPONENT, "0.99 where YCSB scrambles")?;
                Zipf::Ycsb(Ycsb::before_scrambling())
            }
            other => other,
        };
        Ok(Self::Zipfian { records, space, zipf, scrambled })
    }

    /// Parses `{items: n, growth: 0, exponent: .99, form: exact | ycsb, from: 0, inserted: COUNTER}`; refuses other
    /// keys and values, and both `growth` and `inserted`. The newest item is the most likely. Each request adds
    /// `growth` items, or the inserted ones are added.
    pub fn latest(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("latest", argument, &["items", "growth", "exponent", "form", "from", "inserted"])?;
        let records = Records::new(&form)?;
        let growth = form.number("growth", Some(0.0), |g| (0.0..=1e6).contains(&g), "a number of items, 0 or more")?;
        if records.grow() && growth > 0.0 {
            return Err(PlanError::new("latest wants growth or inserted, not both"));
        }
        let zipf = zipf(&form, records.items())?;
        // YCSB's generator draws one item fewer, so that the oldest never occurs.
        let zipf = if matches!(zipf, Zipf::Ycsb(_)) { zipf.of(older(records.items())) } else { zipf };
        Ok(Self::Latest { records, growth, zipf })
    }

    /// Parses `{items: n, hot_items: .2, hot_share: .8, from: 0}`; refuses other keys and values. A share `hot_share`
    /// of the requests goes to the first `hot_items` (a share) of the items.
    pub fn hotspot(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("hotspot", argument, &["items", "hot_items", "hot_share", "from"])?;
        let items = form.items("items")?;
        let share = |key, default| form.number(key, Some(default), |s| (0.0..=1.0).contains(&s), "a share from 0 to 1");
        let hot = (items as f64 * share("hot_items", 0.2)?) as u64;
        let share = share("hot_share", 0.8)?;
        // If one of the sets is empty, all requests go to the other.
        let share = if hot == 0 {
            0.0
        } else if hot == items {
            1.0
        } else {
            share
        };
        Ok(Self::Hotspot { from: form.whole("from", 0)?, items, hot, share })
    }

    /// Parses `{mean: m, items: n, from: 0, newest_first: false, inserted: COUNTER}`; refuses other keys and values.
    /// Item i is drawn in proportion to exp(-i / mean), counted from the oldest or the newest. Inserted items are the
    /// newest.
    pub fn exponential(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("exponential", argument, &["mean", "items", "from", "newest_first", "inserted"])?;
        let mean = form.number("mean", None, |mean| mean > 0.0 && mean.is_finite(), "a number above 0")?;
        let (records, newest_first) = (Records::new(&form)?, form.flag("newest_first")?);
        if records.grow() && !newest_first {
            return Err(form.wrong("newest_first", "true where items are inserted"));
        }
        Ok(Self::Exponential { records, mean, newest_first })
    }

    /// Returns the records to draw from; `None` for distributions to which records cannot be added.
    pub fn records(&self) -> Option<&Records> {
        match self {
            Self::Zipfian { records, .. } | Self::Latest { records, .. } | Self::Exponential { records, .. } => {
                Some(records)
            }
            _ => None,
        }
    }

    /// Returns the records to draw from, mutable; `None` for distributions to which records cannot be added.
    pub fn records_mut(&mut self) -> Option<&mut Records> {
        match self {
            Self::Zipfian { records, .. } | Self::Latest { records, .. } | Self::Exponential { records, .. } => {
                Some(records)
            }
            _ => None,
        }
    }

    /// Returns the number that request `draw` draws. `salt` separates it from the request's other draws.
    #[inline]
    pub fn number(&self, draw: &Draw, salt: u64) -> i64 {
        match self {
            Self::Uniform { low, span } => low.wrapping_add_unsigned(below(*span, draw, salt)),
            Self::Sequential { from } => from.wrapping_add_unsigned(draw.k),
            Self::Counter(counter) => counter.number(draw.number),
            Self::Zipfian { records, space, zipf, scrambled } => zipfian(records, *space, zipf, *scrambled, draw, salt),
            Self::Latest { records, growth, zipf } => {
                let there = records.there(draw) + (growth * draw.k as f64) as u64;
                let back = if there == records.items() {
                    zipf.item(draw, salt)
                } else if matches!(zipf, Zipf::Ycsb(_)) {
                    zipf.of(older(there)).item(draw, salt)
                } else {
                    zipf.of(there).item(draw, salt)
                };
                records.number(there - 1 - back)
            }
            Self::Hotspot { from, items, hot, share } => {
                let place = salt.rotate_left(17);
                let is_hot = draw.unit(salt) < *share;
                let item = if is_hot { below(hot - 1, draw, place) } else { hot + below(items - hot - 1, draw, place) };
                from.wrapping_add_unsigned(item)
            }
            Self::Exponential { records, mean, newest_first } => {
                let there = records.there(draw);
                // Inverse distribution function of an exponential number truncated at `there`.
                let mass = -math::exp_m1(-(there as f64) / mean);
                let item = ((-math::ln_1p(-draw.unit(salt) * mass) * mean) as u64).min(there - 1);
                records.number(if *newest_first { there - 1 - item } else { item })
            }
        }
    }
}

/// Draws from a Zipf distribution over `space` items until the item is a record that exists. After 10,000 draws, falls
/// back to a record from the start. `scrambled`: a hash spreads the frequent items over the records. `salt` separates
/// the draw from the request's others.
fn zipfian(records: &Records, space: u64, zipf: &Zipf, scrambled: bool, draw: &Draw, salt: u64) -> i64 {
    let mut salt = salt;
    let mut item = 0;
    for _ in 0..REDRAWS {
        item = zipf.item(draw, salt);
        let place = if scrambled { fnv(item) % space } else { item };
        if let Some(number) = records.present(place, draw) {
            return number;
        }
        salt = mix(salt.wrapping_add(1));
    }
    records.number(fnv(item) % records.items())
}

/// Returns how many items YCSB's generator of the latest item draws from, given that `items` exist: one fewer, at
/// least 1.
fn older(items: u64) -> u64 {
    (items - 1).max(1)
}

/// Reads the keys `form` and `exponent` (default 0.99), and returns the distribution over `items` items. Refuses an
/// exponent above 20 in the exact form, and of 1 or more in the ycsb form.
fn zipf(form: &Form<'_>, items: u64) -> Result<Zipf, PlanError> {
    if form.word("form", &["exact", "ycsb"])? == "exact" {
        let exponent = form.number("exponent", Some(YCSB_EXPONENT), |e| e > 0.0 && e <= 20.0, "above 0, at most 20")?;
        return Ok(Zipf::Exact(Exact::new(items, exponent)));
    }
    let wanted = "above 0 and below 1 in the ycsb form";
    let exponent = form.number("exponent", Some(YCSB_EXPONENT), |e| e > 0.0 && e < 1.0, wanted)?;
    Ok(Zipf::Ycsb(Ycsb::new(items, exponent)))
}

/// Returns a uniform random integer in [0, last], from the high half of a product (Lemire 2019). `salt` separates the
/// draw from the request's others. Its bias is below 2^-40 for ranges of fewer than 2^24 values.
pub fn below(last: u64, draw: &Draw, salt: u64) -> u64 {
    ((u128::from(draw.bits(salt)) * (u128::from(last) + 1)) >> 64) as u64
}
