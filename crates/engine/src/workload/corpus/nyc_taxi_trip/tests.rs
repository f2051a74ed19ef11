//! Compares generated trips with statistics of real ones.

use serde_json::Value;

use super::*;

/// A trip of the public records.
const REAL: &str = r#"{"total_amount": 6.3, "improvement_surcharge": 0.3, "pickup_location": [-73.92259216308594, 40.7545280456543], "pickup_datetime": "2015-01-01 00:34:42", "trip_type": "1", "dropoff_datetime": "2015-01-01 00:38:34", "rate_code_id": "1", "tolls_amount": 0.0, "dropoff_location": [-73.91363525390625, 40.76552200317383], "passenger_count": 1, "fare_amount": 5.0, "extra": 0.5, "trip_distance": 0.88, "tip_amount": 0.0, "store_and_fwd_flag": "N", "payment_type": "2", "mta_tax": 0.5, "vendor_id": "2"}"#;

const N: u64 = 20_000;

/// Returns trip `number`, as text.
fn line(generator: &NycTaxiTrip, number: u64) -> String {
    let mut out = Vec::new();
    generator.append(number, &mut out);
    String::from_utf8(out).unwrap()
}

/// Returns the first [`N`] trips of a generator.
fn trips() -> Vec<Value> {
    let generator = NycTaxiTrip::new(42);
    (0..N).map(|number| serde_json::from_str(&line(&generator, number)).unwrap()).collect()
}

/// Returns the values of a field, sorted.
fn numbers(trips: &[Value], field: &str) -> Vec<f64> {
    let mut numbers: Vec<f64> = trips.iter().map(|trip| trip[field].as_f64().unwrap()).collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// Returns the value below which a share of the sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[(share * sorted.len() as f64) as usize]
}

/// Returns the share of the trips for which `holds` is true.
fn share(trips: &[Value], holds: impl Fn(&Value) -> bool) -> f64 {
    trips.iter().filter(|trip| holds(trip)).count() as f64 / trips.len() as f64
}

/// Returns the format of a text, by unifying digits and letters.
fn format_of(line: &str) -> String {
    let mut shape: String = line.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    while shape.contains("00") {
        shape = shape.replace("00", "0");
    }
    shape
}

#[test]
fn a_trip_is_a_pure_function_of_the_seed_and_its_number() {
    assert_eq!(line(&NycTaxiTrip::new(1), 7), line(&NycTaxiTrip::new(1), 7));
    assert_ne!(line(&NycTaxiTrip::new(1), 7), line(&NycTaxiTrip::new(2), 7));
    assert_ne!(line(&NycTaxiTrip::new(1), 7), line(&NycTaxiTrip::new(1), 8));
}

#[test]
fn a_trip_looks_like_a_real_one() {
    let generator = NycTaxiTrip::new(42);
    let real = format_of(REAL);
    for number in 0..1000 {
        let line = line(&generator, number);
        assert_eq!(format_of(&line).replace("\"Y\"", "\"N\""), real, "{line}");
    }
}

#[test]
fn a_trip_is_as_long_as_a_real_one() {
    let generator = NycTaxiTrip::new(42);
    let mean = (0..N).map(|number| line(&generator, number).len() as f64 + 1.0).sum::<f64>() / N as f64;
    assert!((mean - 499.0).abs() < 2.0, "{mean} bytes a document");
}

#[test]
fn amounts_and_distances_have_the_quantiles_of_real_ones() {
    let trips = trips();
    for (field, figures) in [
        ("total_amount", [8.3, 12.3, 19.75, 34.8]),
        ("trip_distance", [1.14, 2.27, 4.27, 9.1]),
        ("fare_amount", [6.5, 10.5, 17.0, 30.5]),
    ] {
        let sorted = numbers(&trips, field);
        for (share, figure) in [0.25, 0.5, 0.75, 0.95].into_iter().zip(figures) {
            let value = quantile(&sorted, share);
            assert!((value - figure).abs() <= 0.04 * figure, "{field}: quantile {share} is {value}, not {figure}");
        }
    }
    let in_range = share(&trips, |trip| (5.0..15.0).contains(&trip["total_amount"].as_f64().unwrap()));
    assert!((in_range - 0.573).abs() < 0.015, "{in_range} of the trips cost from 5 to 15");
}

#[test]
fn payments_and_passengers_have_the_shares_of_real_ones() {
    let trips = trips();
    for (payment, figure) in [("2", 0.62), ("1", 0.37)] {
        let value = share(&trips, |trip| trip["payment_type"] == payment);
        assert!((value - figure).abs() < 0.01, "{value} of the trips are paid by {payment}");
    }
    let passengers = numbers(&trips, "passenger_count").iter().sum::<f64>() / N as f64;
    assert!((passengers - 1.43).abs() < 0.03, "{passengers} passengers a trip");
}

#[test]
fn the_total_is_the_sum_of_its_parts() {
    for trip in trips() {
        let cents = |field: &str| (trip[field].as_f64().unwrap() * 100.0).round() as i64;
        let parts = ["fare_amount", "extra", "mta_tax", "improvement_surcharge", "tip_amount", "tolls_amount"];
        assert_eq!(cents("total_amount"), parts.into_iter().map(cents).sum::<i64>(), "{trip}");
    }
}

#[test]
fn pickups_are_spread_over_the_year_and_trips_end_after_they_begin() {
    let trips = trips();
    let mut months = [0.0; 12];
    for trip in &trips {
        let [pickup, dropoff] = ["pickup_datetime", "dropoff_datetime"].map(|field| trip[field].as_str().unwrap());
        assert!(pickup.starts_with("2015-") && pickup < dropoff, "{trip}");
        months[pickup[5..7].parse::<usize>().unwrap() - 1] += 1.0;
    }
    let days = [31.0, 28.0, 31.0, 30.0, 31.0, 30.0, 31.0, 31.0, 30.0, 31.0, 30.0, 31.0];
    let expected = days.map(|days| days / 365.0 * N as f64);
    let chi2: f64 = months.iter().zip(expected).map(|(n, e)| (n - e).powi(2) / e).sum();
    assert!(chi2 < 31.26, "chi-squared {chi2} with 11 degrees of freedom exceeds its 99.9 % quantile");
}

#[test]
fn trips_begin_and_end_in_new_york() {
    let trips = trips();
    for field in ["pickup_location", "dropoff_location"] {
        let inside = |trip: &Value| {
            let [longitude, latitude] = [0, 1].map(|axis| trip[field][axis].as_f64().unwrap());
            (-74.035..-73.62).contains(&longitude) && (40.57..40.91).contains(&latitude)
        };
        assert_eq!(share(&trips, inside), 1.0, "{field}");
    }
}

#[test]
fn long_trips_cost_more() {
    let trips = trips();
    let pairs = trips.iter().map(|trip| ["trip_distance", "fare_amount"].map(|field| trip[field].as_f64().unwrap()));
    let (mut x, mut y, mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for [distance, fare] in pairs {
        (x, y) = (x + distance, y + fare);
        (xx, yy, xy) = (xx + distance * distance, yy + fare * fare, xy + distance * fare);
    }
    let n = N as f64;
    let correlation = (n * xy - x * y) / ((n * xx - x * x).sqrt() * (n * yy - y * y).sqrt());
    assert!((0.89..0.93).contains(&correlation), "distance and fare correlate by {correlation}");
}
