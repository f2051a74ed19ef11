//! Tests of counters, and of variables that draw from inserted records.

use super::*;

/// Returns the numbers drawn by successive requests with `settled` known inserts.
fn chosen(form: Value, settled: u64) -> Vec<i64> {
    let forms = json!({"new": {"counter": {"from": 100}}, "v": form});
    let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
    let mut out = Vec::new();
    let number = |k| {
        out.clear();
        let draw = Draw { settled, ..Draw::new(42, 1, k) };
        let values = Values { variables: &variables, draw: &draw, captured: &Captured::NONE };
        values.write(variables.find("v").unwrap(), Encoding::Json, &mut out);
        String::from_utf8_lossy(&out).parse().unwrap()
    };
    (0..20_000).map(number).collect()
}

#[test]
fn a_counter_gives_each_request_the_number_that_it_took() {
    let forms = json!({"new": {"counter": {"from": 100, "items": 3}}});
    let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
    let written = |variables: &Variables, number| {
        let draw = Draw { number, ..Draw::new(42, 1, 77) };
        let mut out = Vec::new();
        let values = Values { variables, draw: &draw, captured: &Captured::NONE };
        values.write(variables.find("new").unwrap(), Encoding::Text, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!([0, 1, 2, 3].map(|number| written(&variables, number)), ["100", "101", "102", "100"]);
}

#[test]
fn a_fresh_counter_begins_elsewhere_in_each_phase() {
    let forms = json!({"new": {"counter": {"from": 100, "fresh": true}}, "old": {"counter": {"from": 100}}});
    let mut variables = Variables::parse(forms.as_object().unwrap()).unwrap();
    let mut begin = |name: &str, seed, phase| {
        variables.count_from(Origin { seed, phase });
        variables.number(variables.find(name).unwrap(), &Draw::new(seed, 1, 0))
    };
    assert_eq!(begin("new", 1, 2), begin("new", 1, 2));
    assert_ne!(begin("new", 1, 2), begin("new", 1, 3));
    assert_ne!(begin("new", 1, 2), begin("new", 2, 2));
    assert_eq!(begin("old", 1, 2), Some(Number::Whole(100)));
}

/// Distributions draw only inserted records that are settled.
#[test]
fn laws_choose_from_inserted_records_as_far_as_they_are_settled() {
    let laws = [
        json!({"latest": {"items": 100, "form": "ycsb", "inserted": "new"}}),
        json!({"latest": {"items": 100, "inserted": "new"}}),
        json!({"exponential": {"items": 100, "mean": 30, "newest_first": true, "inserted": "new"}}),
        json!({"zipfian": {"items": 100, "expected": 51, "form": "ycsb", "scrambled": true, "inserted": "new"}}),
    ];
    for law in laws {
        for settled in [0, 1, 30] {
            let chosen = chosen(law.clone(), settled);
            let greatest = chosen.iter().max().unwrap();
            assert_eq!(*greatest, 99 + settled as i64, "{law}");
            assert!(chosen.iter().min() <= Some(&1), "{law}");
        }
    }
}

/// In `exponential` with `newest_first`, the newest item has its expected share.
#[test]
fn the_newest_item_is_the_most_likely_of_a_law_that_counts_from_it() {
    let law = json!({"exponential": {"items": 100, "mean": 5, "newest_first": true}});
    let chosen = chosen(law, 0);
    let newest = chosen.iter().filter(|number| **number == 99).count();
    assert!((3400..3900).contains(&newest), "{newest} of 20,000; 18.1 % are 3625");
}

#[test]
fn invalid_counters_are_refused() {
    let refused = |forms: Value| Variables::parse(forms.as_object().unwrap()).unwrap_err().message;
    let latest = json!({"latest": {"items": 10, "inserted": "other"}});
    assert!(refused(json!({"v": latest})).contains("unknown variable \"other\""));
    let not = refused(json!({"v": latest, "other": {"sequential": {}}}));
    assert_eq!(not, "variable \"v\": \"other\" does not number inserted records: it is not a counter");
    let several = refused(json!({"new": {"counter": {}}, "v": {"several": {"of": "new", "count": 2}}}));
    assert!(several.starts_with("variable \"v\": it lists values of a counter"), "{several}");
    assert!(refused(json!({"new": {"counter": {}, "per": "user"}})).contains("leave \"per\" out"));
    assert!(error(json!({"latest": {"items": 10, "growth": 1, "inserted": "v"}})).contains("not both"));
    assert!(error(json!({"zipfian": {"items": 10, "inserted": "v"}})).contains("expected"));
    assert!(error(json!({"exponential": {"items": 10, "mean": 1, "inserted": "v"}})).contains("newest_first"));
}

#[test]
fn operations_use_counters_in_texts_and_read_those_of_latest() {
    let forms = json!({
        "new": {"counter": {}}, "other": {"counter": {}}, "recent": {"latest": {"items": 9, "inserted": "new"}},
        "key": {"hash": {"of": "new"}}, "name": {"derived": "${recent}-${other}"},
    });
    let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
    let counted = |form: Value| variables.counted(&form);
    let find = |name: &str| Some(variables.find(name).unwrap());
    assert_eq!(counted(json!({"read": {"id": "x"}})), Ok(Counted::default()));
    assert_eq!(counted(json!({"insert": {"id": "u${key}"}})), Ok(Counted { uses: find("new"), reads: None }));
    let both = Counted { uses: find("other"), reads: find("new") };
    assert_eq!(counted(json!({"insert": {"document": [{"f${name}": 1}]}})), Ok(both));
    let error = counted(json!({"a": "${key}", "b": "${name}"})).unwrap_err().message;
    assert_eq!(error, "it depends on two counters, \"new\" and \"other\": one is possible");
}
