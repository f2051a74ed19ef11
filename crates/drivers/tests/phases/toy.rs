//! A driver declared outside the crate: plans, messages and the list of drivers find it.

use std::future::ready;

use loadframe_drivers::with_drivers;
use loadframe_engine::plan::Plan;
use loadframe_engine::run::{Checked, check_operations, validate};

use super::erased::Erased;
use super::*;

/// A driver that is declared in this module only. Each answer has the operation's number of documents.
pub struct Toy;

impl Driver for Toy {
    type Operation = u64;
    type Connection = ();

    fn new(_: &Target) -> Result<Self, PlanError> {
        Ok(Self)
    }
    fn map(&self, form: &Value, _: &Context) -> Result<u64, PlanError> {
        form["toy"].as_u64().ok_or_else(|| PlanError::new("\"toy\" wants a number"))
    }
    fn requests(&self, _: &u64) -> Option<u64> {
        None
    }
    fn connection(&self, _: u64) {}
    fn execute(
        &self,
        (): &mut (),
        operation: &u64,
        _: &Context,
        _: &Draw,
        _: Option<&[u32]>,
    ) -> impl Future<Output = Reply> {
        let now = Instant::now();
        ready(Reply { documents: *operation, ..Reply::new(now, now, Ok(())) })
    }
}

/// All drivers and the toy.
mod with_toy {
    super::with_drivers!(any_of []; Toy: super::Toy = "toy",);
}
use with_toy::{AnyDriver, DRIVERS};

fn of(driver: &str) -> Plan {
    let plan = json!({
        "seed": 1, "phase": "p", "target": {"driver": driver}, "operations": {"a": {"toy": 3}},
        "streams": [{"name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 2}}, "stop": {"requests": 10}}],
    });
    serde_json::from_value(plan).unwrap()
}

fn check(plan: Plan) -> Result<Vec<Checked>, PlanError> {
    erased::with::<AnyDriver, _>(|| check_operations::<Erased>(plan))
}

#[test]
fn a_driver_from_outside_is_listed_with_the_others() {
    assert!(DRIVERS.contains(&"toy") && DRIVERS.contains(&"redis") && DRIVERS.contains(&"several"), "{DRIVERS:?}");
    let unknown = check(of("tooy")).err().unwrap().message;
    assert_eq!(unknown, "target: unknown driver \"tooy\"; did you mean \"toy\"?");
    let listed = check(of("telnet")).err().unwrap().message;
    assert!(DRIVERS.iter().all(|driver| listed.contains(driver)), "{listed}");
}

#[test]
fn a_driver_from_outside_executes_plans() {
    let checked = check(of("toy")).unwrap();
    assert_eq!((checked.len(), checked[0].reply.documents), (1, 3));
    let mut plan = of("toy");
    plan.operations.insert("a".to_owned(), json!({"toy": "x"}));
    let refused = erased::with::<AnyDriver, _>(|| validate::<Erased>(plan, true)).err().unwrap();
    assert!(refused.message.contains("\"toy\" wants a number"), "{}", refused.message);
}

#[test]
fn a_target_of_several_is_of_one_protocol() {
    let mut plan = of("several");
    let inner = json!({"driver": "several", "targets": {"a": {"driver": "null"}, "b": {"driver": "null"}}});
    plan.target = serde_json::from_value(json!({
        "driver": "several", "targets": {"app": inner, "store": {"driver": "null"}}
    }))
    .unwrap();
    let refused = check(plan).err().unwrap();
    assert!(refused.message.contains("a target of several cannot be \"several\""), "{}", refused.message);
}
