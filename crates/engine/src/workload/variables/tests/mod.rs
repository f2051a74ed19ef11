//! Tests of the values that variables draw, and of refused forms.

mod counted;
mod encrypted;

use serde_json::json;

use super::*;

const N: u64 = 100_000;

/// Creates the variable `v` with this definition.
fn variables(form: Value) -> Variables {
    Variables::parse(json!({ "v": form }).as_object().unwrap()).unwrap()
}

/// Returns the message with which a variable's definition is refused.
fn error(form: Value) -> String {
    Variables::parse(json!({ "v": form }).as_object().unwrap()).unwrap_err().message
}

/// Returns the value of the variable `v` in request `k`, in an encoding.
fn written(variables: &Variables, k: u64, encoding: Encoding) -> String {
    let mut out = Vec::new();
    let draw = Draw::new(42, 1, k);
    let values = Values { variables, draw: &draw, captured: &Captured::NONE };
    values.write(variables.find("v").unwrap(), encoding, &mut out);
    String::from_utf8(out).unwrap()
}

/// Returns the chi-squared statistic of `counts` against `shares` of [`N`].
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
fn choices_come_in_their_order_and_may_be_of_any_kind() {
    let variables = variables(json!({"choice": {"values": [{"a": [1]}, "x", 2], "order": "sequential"}}));
    let drawn: Vec<_> = (0..4).map(|k| written(&variables, k, Encoding::Json)).collect();
    assert_eq!(drawn, [r#"{"a":[1]}"#, r#""x""#, "2", r#"{"a":[1]}"#]);
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
        let values = Values { variables: &variables, draw: &draw, captured: &Captured::NONE };
        values.write(variables.find("v").unwrap(), Encoding::Json, &mut v);
        values.write(variables.find("w").unwrap(), Encoding::Json, &mut w);
        equal += f64::from(u8::from(v == w));
    }
    let chi2 = chi_squared(&[equal, N as f64 - equal], &[0.1, 0.9]);
    assert!(chi2 < 10.83, "chi-squared {chi2} with 1 degree of freedom exceeds its 99.9 % quantile");
}

/// A constant is escaped as each encoding requires.
#[test]
fn a_value_is_written_as_its_place_wants_it() {
    let variables = variables(json!({"constant": "a \"b\"/c"}));
    assert_eq!(written(&variables, 0, Encoding::Json), r#""a \"b\"/c""#);
    assert_eq!(written(&variables, 0, Encoding::JsonText), r#"a \"b\"/c"#);
    assert_eq!(written(&variables, 0, Encoding::Percent), "a%20%22b%22%2Fc");
    assert_eq!(written(&variables, 0, Encoding::Text), "a \"b\"/c");
}

#[test]
fn a_structure_inside_a_text_is_its_json() {
    let variables = variables(json!({"constant": {"a": [1, "x"]}}));
    assert_eq!(written(&variables, 0, Encoding::Json), r#"{"a":[1,"x"]}"#);
    assert_eq!(written(&variables, 0, Encoding::JsonText), r#"{\"a\":[1,\"x\"]}"#);
}

#[test]
fn invalid_variables_are_refused_with_the_name_and_the_reason() {
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
        json!({"choice": {"values": [1], "order": "backwards"}}),
        json!({"choice": {"values": [1], "weights": [1], "order": "sequential"}}),
        json!({"sequential": {"form": 1}}),
        json!({"sequential": 4}),
        json!(7),
        json!({}),
    ] {
        assert!(error(form.clone()).starts_with("variable \"v\": "), "{form} is not a variable");
    }
}

#[test]
fn an_unknown_variable_gets_its_nearest_neighbour() {
    let forms = json!({"low": {"constant": 1}, "high": {"constant": 2}});
    let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
    assert_eq!(variables.find("lo").unwrap_err().message, "unknown variable \"lo\"; did you mean \"low\"?");
}

/// Returns the text of the variable `v` for a draw.
fn drawn(forms: Value, draw: &Draw) -> String {
    let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
    let mut out = Vec::new();
    let values = Values { variables: &variables, draw, captured: &Captured::NONE };
    values.write(variables.find("v").unwrap(), Encoding::Json, &mut out);
    String::from_utf8(out).unwrap()
}

/// Returns the numbers that many requests draw from a variable.
fn numbers(form: Value) -> Vec<f64> {
    let variables = variables(form);
    (0..N).map(|k| written(&variables, k, Encoding::Json).parse().unwrap()).collect()
}

/// Returns the Kolmogorov-Smirnov statistic of numbers against a distribution function.
fn kolmogorov(mut drawn: Vec<f64>, distribution: impl Fn(f64) -> f64) -> f64 {
    drawn.sort_by(f64::total_cmp);
    let n = drawn.len() as f64;
    let gap = |(i, x): (usize, &f64)| {
        let share = distribution(*x);
        (share - i as f64 / n).abs().max((share - (i + 1) as f64 / n).abs())
    };
    drawn.iter().enumerate().map(gap).fold(0.0, f64::max) * n.sqrt()
}

/// Returns the counts of `items` items numbered from `from`.
fn counts(form: Value, from: f64, items: usize) -> Vec<f64> {
    let mut counts = vec![0.0; items];
    for number in numbers(form) {
        counts[(number - from) as usize] += 1.0;
    }
    counts
}

#[test]
fn an_exponential_number_has_its_mean() {
    let ks = kolmogorov(numbers(json!({"exponential": {"mean": 2.5}})), |x| -(-x / 2.5).exp_m1());
    assert!(ks < 1.95, "Kolmogorov-Smirnov statistic {ks} exceeds its 99.9 % quantile");
}

#[test]
fn an_exponential_choice_of_items_is_cut_off_behind_the_last() {
    let counts = counts(json!({"exponential": {"mean": 4, "items": 10, "from": -2}}), -2.0, 10);
    let weight = |i: usize| (-(i as f64) / 4.0).exp();
    let all: f64 = (0..10).map(weight).sum();
    let chi2 = chi_squared(&counts, &(0..10).map(|i| weight(i) / all).collect::<Vec<_>>());
    assert!(chi2 < 27.88, "chi-squared {chi2} with 9 degrees of freedom exceeds its 99.9 % quantile");
}

#[test]
fn normal_numbers_have_mean_deviation_and_symmetry() {
    // The normal distribution function at (x - 100) / 15, at half deviations (tables).
    let numbers = numbers(json!({"normal": {"mean": 100, "deviation": 15}}));
    let ends = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0];
    let mut counts = [0.0; 8];
    for number in numbers {
        counts[ends.iter().filter(|end| number > 100.0 + 15.0 * **end).count()] += 1.0;
    }
    let half = [0.022_750, 0.135_905, 0.149_882, 0.191_462];
    let shares = [half[0], half[1], half[2], half[3], half[3], half[2], half[1], half[0]];
    let chi2 = chi_squared(&counts, &shares);
    assert!(chi2 < 24.32, "chi-squared {chi2} with 7 degrees of freedom exceeds its 99.9 % quantile");
}

#[test]
fn a_hot_spot_gets_its_share_and_is_even_within() {
    let counts = counts(json!({"hotspot": {"items": 10, "hot_items": 0.2, "hot_share": 0.7, "from": 5}}), 5.0, 10);
    let shares: Vec<f64> = [0.35; 2].into_iter().chain([0.3 / 8.0; 8]).collect();
    let chi2 = chi_squared(&counts, &shares);
    assert!(chi2 < 27.88, "chi-squared {chi2} with 9 degrees of freedom exceeds its 99.9 % quantile");
    for (hot_items, only) in [(0.0, 1), (1.0, 1)] {
        let hotspot = json!({"hotspot": {"items": only, "hot_items": hot_items, "hot_share": 0.5}});
        assert_eq!(written(&variables(hotspot), 3, Encoding::Json), "0");
    }
}

#[test]
fn the_latest_item_is_the_likeliest_and_items_are_added() {
    let counts = counts(json!({"latest": {"items": 4, "exponent": 1.0}}), 0.0, 4);
    let all = 1.0 + 0.5 + 1.0 / 3.0 + 0.25;
    let chi2 = chi_squared(&counts, &[0.25 / all, 1.0 / 3.0 / all, 0.5 / all, 1.0 / all]);
    assert!(chi2 < 16.27, "chi-squared {chi2} with 3 degrees of freedom exceeds its 99.9 % quantile");
    for form in ["exact", "ycsb"] {
        let numbers = numbers(json!({"latest": {"items": 1000, "growth": 0.05, "form": form}}));
        for (k, number) in numbers.iter().enumerate() {
            assert!(*number < 1000.0 + (0.05 * k as f64).floor());
        }
        let newest = numbers.iter().enumerate().filter(|(k, x)| **x == 999.0 + (0.05 * *k as f64).floor()).count();
        assert!((10_000..15_000).contains(&newest), "{newest} of 100,000 were the newest: 1 / zeta is .11 to .13");
    }
}

#[test]
fn scrambled_keys_are_spread_as_ycsb_spreads_them() {
    let counts = counts(json!({"zipfian": {"items": 1000, "form": "ycsb", "scrambled": true}}), 0.0, 1000);
    // Item 0 of 10^10 has probability 1 / 26.469, item 1 has .5^.99 / 26.469; they hash to ...377211 and
    // ...966620.
    let share = counts[211] / N as f64;
    assert!((share - 1.0 / 26.469).abs() < 0.005, "{share}");
    assert!(counts[620] > 0.017 * N as f64);
    assert_eq!(counts.iter().filter(|count| **count > 0.0).count(), 1000, "the tail reaches all keys");
}

#[test]
fn a_key_is_user_and_the_hash_of_its_number() {
    let forms = json!({
        "n": {"sequential": {}}, "h": {"hash": {"of": "n"}}, "v": {"derived": "user${h}"},
    });
    assert_eq!(drawn(forms, &Draw::new(1, 2, 0)), r#""user6284781860667377211""#);
}

#[test]
fn derived_values_follow_their_variables() {
    let forms = |v: Value| json!({"low": {"sequential": {"from": 5}}, "x": {"constant": "a\"b"}, "v": v});
    let draw = Draw::new(1, 2, 3);
    assert_eq!(drawn(forms(json!({"linear": {"of": "low", "times": 2, "plus": 10}})), &draw), "26");
    assert_eq!(drawn(forms(json!({"linear": {"of": "low", "plus": 0.5}})), &draw), "8.5");
    assert_eq!(drawn(forms(json!({"derived": "${low}"})), &draw), "8", "a text that is one hole has its type");
    assert_eq!(drawn(forms(json!({"derived": "<${low}|${x}>"})), &draw), r#""<8|a\"b>""#);
}

/// A value with `per` is the same in all requests of the user or iteration.
#[test]
fn a_value_per_user_or_iteration_is_theirs_in_all_their_requests() {
    let of = |per: &str, draw: Draw| drawn(json!({"v": {"uniform": [0, 1_000_000], "per": per}}), &draw);
    let draw = Draw { user: 7, iteration: 2, ..Draw::new(42, 1, 9) };
    let later = Draw { k: 10, ..draw };
    assert_eq!(of("user", draw), of("user", Draw { iteration: 3, ..later }));
    assert_ne!(of("user", draw), of("user", Draw { user: 8, ..draw }));
    assert_eq!(of("iteration", draw), of("iteration", Draw { user: 8, ..later }));
    assert_ne!(of("iteration", draw), of("iteration", Draw { iteration: 3, ..draw }));
    assert_ne!(of("request", draw), of("request", later));
    assert_eq!(drawn(json!({"v": {"sequential": {}, "per": "user"}}), &draw), "7");
}

#[test]
fn a_text_has_its_length_and_needs_no_escape() {
    let fixed = variables(json!({"text": {"length": 25}}));
    let one = written(&fixed, 1, Encoding::JsonText);
    assert_eq!((one.len(), written(&fixed, 1, Encoding::Percent)), (25, one.clone()));
    assert_eq!(written(&fixed, 1, Encoding::Json), format!("\"{one}\""));
    assert_ne!(written(&fixed, 2, Encoding::JsonText), one);
    let ranged = variables(json!({"text": {"length": [0, 4]}}));
    let mut counts = [0.0; 5];
    for k in 0..N {
        counts[written(&ranged, k, Encoding::JsonText).len()] += 1.0;
    }
    let chi2 = chi_squared(&counts, &[0.2; 5]);
    assert!(chi2 < 18.47, "chi-squared {chi2} with 4 degrees of freedom exceeds its 99.9 % quantile");
}

#[test]
fn a_date_lies_between_its_ends_in_its_format() {
    let date = |form: Value, encoding| written(&variables(json!({ "date": form })), 3, encoding);
    let second = json!({"from": "2015-01-21 08:30:00", "to": "2015-01-21T08:30:01", "format": "%d.%m.%Y %H:%M:%S%%"});
    assert_eq!(date(second.clone(), Encoding::Json), r#""21.01.2015 08:30:00%""#);
    assert_eq!(date(second, Encoding::Percent), "21.01.2015%2008:30:00%25");
    let epoch = json!({"from": "2015-01-01", "to": "2016-01-01", "format": "epoch_millis"});
    let from = 1_420_070_400_000.0;
    let ks = kolmogorov(numbers(json!({ "date": epoch })), |x| (x - from) / (365.0 * 86_400_000.0));
    assert!(ks < 1.95, "Kolmogorov-Smirnov statistic {ks} exceeds its 99.9 % quantile");
    let standard = date(json!({"from": "2015-01-01", "to": "2015-01-02"}), Encoding::JsonText);
    assert!(standard.starts_with("2015-01-01T") && standard.ends_with('Z') && standard.len() == 24, "{standard}");
}

#[test]
fn values_come_from_the_lines_of_a_file_and_the_fields_of_a_corpus() {
    let path = std::env::temp_dir().join(format!("loadframe-lines-{}", std::process::id()));
    std::fs::write(&path, "Ann\n\nBob \"B\"\nCy\n").unwrap();
    let lines = variables(json!({"lines": {"file": path, "order": "sequential"}}));
    std::fs::write(&path, b"ok\n\xff\n").unwrap();
    let broken = error(json!({"lines": {"file": path}}));
    std::fs::remove_file(&path).unwrap();
    let three: Vec<_> = (0..4).map(|k| written(&lines, k, Encoding::Json)).collect();
    assert_eq!(three, [r#""Ann""#, r#""Bob \"B\"""#, r#""Cy""#, r#""Ann""#]);
    assert!(broken.ends_with(":2: the line is not UTF-8"), "{broken}");

    let corpora = [("trips".to_owned(), json!({"generate": "nyc_taxi_trip", "documents": 50}))].into();
    let corpora = Corpora::open(&corpora, 1).unwrap();
    let parse = |field: &str| {
        let forms = json!({"v": {"field": {"corpus": "trips", "field": field, "order": "sequential"}}});
        Variables::with_corpora(forms.as_object().unwrap(), &corpora)
    };
    let mut first = Vec::new();
    corpora.get("trips").unwrap().append(7, 1, b"", &mut first);
    let first: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(written(&parse("total_amount").unwrap(), 57, Encoding::Json), first["total_amount"].to_string());
    let missing = parse("total_amuont").unwrap_err().message;
    assert_eq!(missing, "variable \"v\": no document of the corpus \"trips\" has the field \"total_amuont\"");
}

#[test]
fn cyclic_variables_are_refused() {
    let refused = |forms: Value| Variables::parse(forms.as_object().unwrap()).unwrap_err().message;
    assert_eq!(
        refused(json!({"a": {"derived": "${b}"}, "b": {"derived": "x${c}"}, "c": {"linear": {"of": "b"}}})),
        "cyclic variables: b -> c -> b"
    );
    assert_eq!(refused(json!({"v": {"derived": "${v}"}})), "cyclic variables: v -> v");
    assert_eq!(
        refused(json!({"a": {"text": {"length": 2}}, "v": {"hash": {"of": "a"}}})),
        "variable \"v\": it is derived from the variable \"a\", which is not a number"
    );
    assert_eq!(
        refused(json!({"low": {"constant": 2}, "v": {"derived": "${lov}"}})),
        "variable \"v\": unknown variable \"lov\"; did you mean \"low\"?"
    );
}

/// Invalid definitions are refused, and the error names the variable.
#[test]
fn a_law_that_cannot_be_is_refused() {
    for form in [
        json!({"zipfian": {"items": 0}}),
        json!({"zipfian": {"exponent": 1}}),
        json!({"zipfian": {"items": 10, "exponent": 1.0, "form": "ycsb"}}),
        json!({"zipfian": {"items": 10, "exponent": 0}}),
        json!({"zipfian": {"items": 10, "form": "gray"}}),
        json!({"zipfian": {"items": 10, "scrambled": 1}}),
        json!({"zipfian": {"item": 10}}),
        json!({"latest": {"items": 10, "growth": -1}}),
        json!({"hotspot": {"items": 10, "hot_items": 1.5}}),
        json!({"exponential": {"mean": 0}}),
        json!({"exponential": 5}),
        json!({"normal": {"mean": 5}}),
        json!({"normal": {"mean": 5, "deviation": -1}}),
        json!({"text": {"length": -1}}),
        json!({"text": {"length": [5, 1]}}),
        json!({"text": {"length": 10_000_000}}),
        json!({"date": {"from": "2015-01-01", "to": "2015-01-01"}}),
        json!({"date": {"from": "2015-02-30", "to": "2016-01-01"}}),
        json!({"date": {"from": "2015-02-03", "to": "2016-01-01", "format": "%q"}}),
        json!({"lines": {"file": "/nowhere/at/all"}}),
        json!({"field": {"corpus": "nothing", "field": "a"}}),
        json!({"uniform": [1, 2], "per": "session"}),
        json!({"uniform": [1, 2], "constant": 1}),
        json!({"per": "user"}),
    ] {
        assert!(error(form.clone()).starts_with("variable \"v\": "), "{form} is not a variable");
    }
}

#[test]
fn several_values_are_a_list_and_the_next_request_has_the_next() {
    let forms = json!({"v": {"several": {"of": "id", "count": 3}}, "id": {"sequential": {"from": 10}}});
    let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
    assert_eq!(written(&variables, 0, Encoding::Json), "[10,11,12]");
    assert_eq!(written(&variables, 5, Encoding::Json), "[25,26,27]");
    assert_eq!(written(&variables, 5, Encoding::Percent), "25,26,27");
    let texts = json!({"v": {"several": {"of": "word", "count": 100}}, "word": {"text": {"length": 8}}});
    let variables = Variables::parse(texts.as_object().unwrap()).unwrap();
    let words: Vec<String> = serde_json::from_str(&written(&variables, 7, Encoding::Json)).unwrap();
    let different: std::collections::BTreeSet<_> = words.iter().collect();
    assert_eq!(different.len(), 100);
    let itself = json!({"v": {"several": {"of": "v", "count": 2}}});
    assert!(Variables::parse(itself.as_object().unwrap()).unwrap_err().message.contains("cyclic variables: v -> v"));
    assert!(error(json!({"several": {"of": "v", "count": 0}})).contains("a whole number above 0"));
}

#[test]
fn captured_variables_are_refused_without_driver_support() {
    let forms = json!({
        "token": {"captured": {}}, "k": {"sequential": {}},
        "header": {"derived": "Bearer ${token}"}, "other": {"derived": "n${k}"},
    });
    let mut variables = Variables::parse(forms.as_object().unwrap()).unwrap();
    assert!(variables.find("header").is_ok());
    variables.refuse_captured("null");
    for name in ["token", "header"] {
        let error = variables.find(name).unwrap_err().message;
        assert!(error.contains(name) && error.contains("captured from answers") && error.contains("null"), "{error}");
    }
    assert!(variables.find("k").is_ok() && variables.find("other").is_ok());
}
