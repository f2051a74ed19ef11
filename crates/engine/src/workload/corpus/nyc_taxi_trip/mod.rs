//! Taxi trips with the fields, formats and marginal distributions of New York's public records of 2015.
//!
//! The tables are quantiles and shares of 1,000 real trips, all of one night. Pickups are spread evenly over
//! the year instead. Distance and fare are drawn from one rank, so that long trips cost more and take longer.
//! The total is the sum of its parts.

use std::f64::consts::TAU;

use super::Generate;
use super::quantiles::{Quantiles, folded, pick};
use crate::util::digits::{pair, push_hundredths, push_u64};
use crate::util::draw::{Draw, hash_name};
use crate::util::math;

/// (share of trips, miles)
const TRIP_DISTANCE: [(f64, f64); 19] = [
    (0.0, 0.0),
    (0.011, 0.0),
    (0.05, 0.46),
    (0.1, 0.7),
    (0.15, 0.85),
    (0.2, 1.02),
    (0.25, 1.14),
    (0.3, 1.35),
    (0.4, 1.7),
    (0.5, 2.27),
    (0.6, 2.91),
    (0.7, 3.75),
    (0.75, 4.27),
    (0.8, 5.07),
    (0.85, 5.8),
    (0.9, 6.9),
    (0.95, 9.1),
    (0.99, 14.01),
    (1.0, 24.5),
];

/// (share of trips, dollars)
const FARE: [(f64, f64); 17] = [
    (0.0, 2.5),
    (0.05, 4.0),
    (0.1, 5.0),
    (0.15, 5.5),
    (0.2, 6.0),
    (0.25, 6.5),
    (0.3, 7.0),
    (0.4, 8.5),
    (0.5, 10.5),
    (0.6, 12.5),
    (0.7, 15.0),
    (0.75, 17.0),
    (0.8, 19.0),
    (0.9, 24.0),
    (0.95, 30.5),
    (0.99, 48.0),
    (1.0, 71.0),
];

/// (share of trips paid by card, tip divided by the total without tip)
const TIP: [(f64, f64); 10] = [
    (0.0, 0.0),
    (0.118, 0.0),
    (0.125, 0.1),
    (0.25, 0.164),
    (0.5, 0.192),
    (0.75, 0.236),
    (0.9, 0.283),
    (0.95, 0.297),
    (0.99, 0.469),
    (1.0, 1.0),
];

/// (share of trips, seconds per dollar of the fare)
const DURATION: [(f64, f64); 8] =
    [(0.0, 15.0), (0.01, 23.9), (0.05, 37.3), (0.25, 50.2), (0.5, 60.5), (0.75, 68.6), (0.95, 80.8), (1.0, 100.0)];

/// (share of trips, degrees)
const PICKUP_LONGITUDE: [(f64, f64); 11] = [
    (0.0, -74.031),
    (0.1, -73.981),
    (0.2, -73.963),
    (0.3, -73.956),
    (0.4, -73.952),
    (0.5, -73.945),
    (0.6, -73.937),
    (0.7, -73.921),
    (0.8, -73.907),
    (0.9, -73.883),
    (1.0, -73.807),
];

/// (share of trips, degrees)
const PICKUP_LATITUDE: [(f64, f64); 11] = [
    (0.0, 40.577),
    (0.1, 40.678),
    (0.2, 40.691),
    (0.3, 40.708),
    (0.4, 40.719),
    (0.5, 40.744),
    (0.6, 40.755),
    (0.7, 40.771),
    (0.8, 40.805),
    (0.9, 40.826),
    (1.0, 40.895),
];

/// Bounds of drop-offs, degrees.
const LONGITUDES: (f64, f64) = (-74.034, -73.627);
const LATITUDES: (f64, f64) = (40.577, 40.907);

/// Miles per degree in New York.
const MILES_EAST: f64 = 52.5;
const MILES_NORTH: f64 = 69.0;

/// Surcharges, by rate: (share of trips, parts).
const RATES: [(f64, Rate); 6] = [
    (0.898, Rate { extra: 50, mta_tax: 50, improvement: 30, rate_code: b'1', trip_type: b'1' }),
    (0.082, Rate { extra: 50, mta_tax: 50, improvement: 0, rate_code: b'1', trip_type: b'1' }),
    (0.013, Rate { extra: 0, mta_tax: 0, improvement: 0, rate_code: b'5', trip_type: b'2' }),
    (0.004, Rate { extra: 0, mta_tax: 50, improvement: 30, rate_code: b'2', trip_type: b'1' }),
    (0.001, Rate { extra: 100, mta_tax: 50, improvement: 30, rate_code: b'1', trip_type: b'1' }),
    (0.002, Rate { extra: 50, mta_tax: 0, improvement: 30, rate_code: b'3', trip_type: b'1' }),
];

/// Amounts in cents.
#[derive(Clone, Copy)]
struct Rate {
    extra: u64,
    mta_tax: u64,
    improvement: u64,
    rate_code: u8,
    trip_type: u8,
}

const TOLLS: [(f64, u64); 3] = [(0.991, 0), (0.008, 533), (0.001, 244)];
const PAYMENT: [(f64, u8); 3] = [(0.621, b'2'), (0.372, b'1'), (0.007, b'4')];
const BY_CARD: u8 = b'1';
const PASSENGERS: [(f64, u8); 6] =
    [(0.817, b'1'), (0.088, b'2'), (0.021, b'3'), (0.012, b'4'), (0.043, b'5'), (0.019, b'6')];
const STORED: [(f64, u8); 2] = [(0.997, b'N'), (0.003, b'Y')];
const VENDOR: [(f64, u8); 2] = [(0.829, b'2'), (0.171, b'1')];

const DAY: u64 = 24 * 60 * 60;
/// Days of 2015, and the first of 2016, on which trips may end.
const DAYS: usize = 366;

/// Generator of trips; its tables are built once.
#[derive(Debug)]
pub struct NycTaxiTrip {
    seed: u64,
    stream: u64,
    distance: Quantiles,
    fare: Quantiles,
    tip: Quantiles,
    duration: Quantiles,
    longitude: Quantiles,
    latitude: Quantiles,
    dates: Box<[[u8; 10]]>,
}

impl NycTaxiTrip {
    /// Creates a generator; `seed` determines its documents.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            stream: hash_name("nyc_taxi_trip"),
            distance: Quantiles::new(&TRIP_DISTANCE),
            fare: Quantiles::new(&FARE),
            tip: Quantiles::new(&TIP),
            duration: Quantiles::new(&DURATION),
            longitude: Quantiles::new(&PICKUP_LONGITUDE),
            latitude: Quantiles::new(&PICKUP_LATITUDE),
            dates: dates(),
        }
    }

    /// Appends a time, given in seconds since the start of 2015, as `2015-01-31 12:30:00`; panics after 2016-01-01.
    fn push_time(&self, out: &mut Vec<u8>, second: u64) {
        let time = second % DAY;
        out.extend_from_slice(&self.dates[(second / DAY) as usize]);
        out.push(b' ');
        out.extend_from_slice(pair(time / 3600));
        out.push(b':');
        out.extend_from_slice(pair(time / 60 % 60));
        out.push(b':');
        out.extend_from_slice(pair(time % 60));
    }
}

impl Generate for NycTaxiTrip {
    /// Appends trip `number`, a JSON object with the fields of the public records.
    fn append(&self, number: u64, out: &mut Vec<u8>) {
        let draw = Draw::new(self.seed, self.stream, number);
        let mut salt = 0;
        let mut unit = || {
            salt += 1;
            draw.unit(salt)
        };

        let rank = unit();
        let miles = self.distance.at(rank);
        let distance = (miles * 100.0).round() as u64;
        // The meter steps in half dollars; noise of 6 % of the ranks yields the correlation of .91 of real
        // trips.
        let dollars = (self.fare.at(folded(rank, 0.06 * (2.0 * unit() - 1.0))) * 2.0).round() / 2.0;
        let fare = (dollars * 100.0) as u64;
        let rate = pick(&RATES, unit());
        let tolls = pick(&TOLLS, unit());
        let payment = pick(&PAYMENT, unit());
        let before_tip = fare + rate.extra + rate.mta_tax + rate.improvement + tolls;
        let tip_share = self.tip.at(unit());
        let tip = if payment == BY_CARD { (before_tip as f64 * tip_share).round() as u64 } else { 0 };
        let pickup = (unit() * (365 * DAY) as f64) as u64;
        let dropoff = pickup + ((dollars * self.duration.at(unit())) as u64).max(1);

        let place = unit();
        let longitude = self.longitude.at(place);
        // The city extends from south-west to north-east; its coordinates correlate by .37.
        let latitude = self.latitude.at(folded(place, 0.7 * (2.0 * unit() - 1.0)));
        // The straight-line distance is about three quarters of the trip's length, in any direction.
        let crow = miles * (0.45 + 0.285 * (unit() + unit()));
        let direction = unit() * TAU;
        let (north, east) = (math::sin(direction), math::cos(direction));

        out.reserve(600);
        out.extend_from_slice(b"{\"total_amount\": ");
        push_hundredths(out, before_tip + tip);
        out.extend_from_slice(b", \"improvement_surcharge\": ");
        push_hundredths(out, rate.improvement);
        out.extend_from_slice(b", \"pickup_location\": ");
        push_location(out, longitude, latitude);
        out.extend_from_slice(b", \"pickup_datetime\": \"");
        self.push_time(out, pickup);
        out.extend_from_slice(b"\", \"trip_type\": \"");
        out.push(rate.trip_type);
        out.extend_from_slice(b"\", \"dropoff_datetime\": \"");
        self.push_time(out, dropoff);
        out.extend_from_slice(b"\", \"rate_code_id\": \"");
        out.push(rate.rate_code);
        out.extend_from_slice(b"\", \"tolls_amount\": ");
        push_hundredths(out, tolls);
        out.extend_from_slice(b", \"dropoff_location\": ");
        let longitude = within(LONGITUDES, longitude + crow * east / MILES_EAST);
        let latitude = within(LATITUDES, latitude + crow * north / MILES_NORTH);
        push_location(out, longitude, latitude);
        out.extend_from_slice(b", \"passenger_count\": ");
        out.push(pick(&PASSENGERS, unit()));
        out.extend_from_slice(b", \"fare_amount\": ");
        push_hundredths(out, fare);
        out.extend_from_slice(b", \"extra\": ");
        push_hundredths(out, rate.extra);
        out.extend_from_slice(b", \"trip_distance\": ");
        push_hundredths(out, distance);
        out.extend_from_slice(b", \"tip_amount\": ");
        push_hundredths(out, tip);
        out.extend_from_slice(b", \"store_and_fwd_flag\": \"");
        out.push(pick(&STORED, unit()));
        out.extend_from_slice(b"\", \"payment_type\": \"");
        out.push(payment);
        out.extend_from_slice(b"\", \"mta_tax\": ");
        push_hundredths(out, rate.mta_tax);
        out.extend_from_slice(b", \"vendor_id\": \"");
        out.push(pick(&VENDOR, unit()));
        out.extend_from_slice(b"\"}");
    }
}

/// Reflects a coordinate outside the bounds back inside. One that is still outside becomes the nearest bound.
fn within((low, high): (f64, f64), coordinate: f64) -> f64 {
    let folded = if coordinate < low { 2.0 * low - coordinate } else { coordinate };
    let folded = if folded > high { 2.0 * high - folded } else { folded };
    folded.clamp(low, high)
}

/// Appends a location in the western hemisphere as `[longitude, latitude]`, degrees.
fn push_location(out: &mut Vec<u8>, longitude: f64, latitude: f64) {
    out.extend_from_slice(b"[-");
    push_degrees(out, -longitude);
    out.extend_from_slice(b", ");
    push_degrees(out, latitude);
    out.push(b']');
}

/// Appends a positive number of degrees. The records contain single-precision coordinates printed in double precision:
/// multiples of 2^-18 (about 0.4 m) with up to 14 decimal places.
fn push_degrees(out: &mut Vec<u8>, degrees: f64) {
    let steps = (degrees * f64::from(1 << 18)) as u64;
    push_u64(out, steps >> 18);
    // 10^14 / 2^18 = 5^14 / 2^4; the product stays below 2^51.
    let mut decimals = ((steps & ((1 << 18) - 1)) * 5u64.pow(14)) >> 4;
    let mut places = [0u8; 14];
    for place in (0..7).rev() {
        places[place * 2..place * 2 + 2].copy_from_slice(pair(decimals % 100));
        decimals /= 100;
    }
    let length = places.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
    out.push(b'.');
    out.extend_from_slice(&places[..length]);
}

/// Returns the dates on which trips may start and end, in order, as `2015-01-31`.
fn dates() -> Box<[[u8; 10]]> {
    let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days = lengths.iter().zip(1..).flat_map(|(&length, month)| (1..=length).map(move |day| (2015, month, day)));
    let text = |(year, month, day): (u32, u32, u32)| format!("{year}-{month:02}-{day:02}");
    let dates: Box<[[u8; 10]]> = days
        .chain([(2016, 1, 1)])
        .map(|date| text(date).into_bytes().try_into().expect("a date has ten characters"))
        .collect();
    debug_assert_eq!(dates.len(), DAYS);
    dates
}

#[cfg(test)]
mod tests;
