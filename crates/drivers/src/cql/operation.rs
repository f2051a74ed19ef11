//! Operations: a neutral verb, or a native statement of the workload.

use std::sync::Arc;
use std::time::Duration;

use loadframe_engine::driver::Context;
use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;
use scylla::statement::Consistency;
use serde_json::Value;

use super::connection::StatementOptions;
use super::table::TableName;
use crate::assertion::Assertion;
use crate::capture::{Captures, Place};
use crate::crud::{Cell, Neutral, VERBS};
use crate::daily::generations::{Register, Style};
use crate::daily::{Buckets, DELETE_DAYS, deletion};
use crate::form;
use crate::form::Form;
use crate::ingest::{Ingest, TAKE_IN};
use crate::timeout;

/// Options of an operation besides its kind.
const OPTIONS: [&str; 4] = ["timeout", "consistency", "assert", "capture"];

/// The consistency levels, by their names in workloads.
const CONSISTENCIES: [(&str, Consistency); 11] = [
    ("any", Consistency::Any),
    ("one", Consistency::One),
    ("two", Consistency::Two),
    ("three", Consistency::Three),
    ("quorum", Consistency::Quorum),
    ("all", Consistency::All),
    ("local_quorum", Consistency::LocalQuorum),
    ("each_quorum", Consistency::EachQuorum),
    ("serial", Consistency::Serial),
    ("local_serial", Consistency::LocalSerial),
    ("local_one", Consistency::LocalOne),
];

/// A parsed operation, ready to execute.
#[derive(Debug)]
pub struct Operation {
    /// Index among the driver's operations, used to look up prepared statements.
    pub number: usize,
    /// The kind of operation.
    pub kind: Kind,
    /// Execution options.
    pub statement_options: StatementOptions,
    /// Assertion on the returned rows.
    pub assertion: Option<Assertion>,
    /// Values captured from the first row.
    pub captures: Captures<Place>,
}

/// The kind of an operation.
#[derive(Debug)]
pub enum Kind {
    /// A verb and its table.
    Neutral(Neutral, TableName),
    /// A native statement of the workload.
    Native(Native),
    /// Events of a source, their table, and its daily tables if events are partitioned by day.
    Ingest(Ingest, TableName, Option<Arc<Buckets>>),
    /// Deletion of a table's days: all days, or the days that ended more than this many milliseconds ago.
    DeleteDays(TableName, Arc<Buckets>, Option<i64>),
}

/// A statement with a value for each bind marker.
#[derive(Debug)]
pub struct Native {
    /// The statement, prepared once.
    pub statement: String,
    /// The bound values.
    pub values: Vec<Cell>,
}

impl Operation {
    /// Parses `{"read": {...}, "timeout": 5}` or `{"cql": {...}}`. `number` is the operation's index, `register` holds
    /// the daily tables of all operations, `timeout` is the default if the form has none. Refuses unknown keys, wrong
    /// types, and options that the kind ignores.
    pub fn map(
        form: &Value,
        number: usize,
        context: &Context,
        register: &Register<Buckets>,
        timeout: Duration,
    ) -> Result<Self, PlanError> {
        let kinds: Vec<_> = VERBS.into_iter().chain(["cql", TAKE_IN, DELETE_DAYS]).collect();
        let buckets = |of: &str, table: &TableName| register.of(of, || Buckets::new(&table.table, Style::Underscored));
        let (kind, argument) = form::kind(form, &kinds, &OPTIONS)?;
        let given = form.get("consistency").filter(|given| !given.is_null()).map(consistency).transpose()?;
        // With several replicas, a read sees the latest write. With one replica, it costs nothing extra.
        let consistency = given.unwrap_or(Consistency::LocalQuorum);
        let mut statement_options = StatementOptions { timeout: timeout::of_operation(form, timeout)?, consistency };
        let kind = if kind == "cql" {
            let (native, given) = Native::map(argument, context).map_err(|error| error.within(kind))?;
            statement_options.consistency = given.unwrap_or(statement_options.consistency);
            Kind::Native(native)
        } else if kind == TAKE_IN {
            let ingest = Ingest::map(argument).map_err(|error| error.within(kind))?;
            let table = TableName::parse(&ingest.collection).map_err(|error| error.within(kind))?;
            let days = ingest.daily.map(|_| buckets(&ingest.collection, &table));
            Kind::Ingest(ingest, table, days)
        } else if kind == DELETE_DAYS {
            let (of, keep) = deletion(argument).map_err(|error| error.within(kind))?;
            let table = TableName::parse(&of).map_err(|error| error.within(kind))?;
            let days = buckets(&of, &table);
            Kind::DeleteDays(table, days, keep)
        } else {
            let neutral = Neutral::map(kind, argument, context);
            let neutral =
                neutral.ok_or_else(|| PlanError::new(unknown("operation", kind, kinds.iter().copied())))??;
            let table = TableName::parse(neutral.collection()).map_err(|error| error.within(kind))?;
            Kind::Neutral(neutral, table)
        };
        let assertion = match form.get("assert").filter(|assert| !assert.is_null()) {
            Some(assert) => Some(kind.asserted(Assertion::map_without_recall(assert, &context.variables)?)?),
            None => None,
        };
        let reads = match &kind {
            Kind::Neutral(neutral, _) => neutral.reads(),
            Kind::Native(_) => true,
            Kind::Ingest(..) | Kind::DeleteDays(..) => false,
        };
        let captures = Captures::of_documents(form, reads, &context.variables)?;
        Ok(Self { number, kind, statement_options, assertion, captures })
    }
}

impl Kind {
    /// Returns the assertion, or an error if answers of this kind lack the rows or fields that it checks.
    fn asserted(&self, assertion: Assertion) -> Result<Assertion, PlanError> {
        let finds = matches!(self, Self::Native(_) | Self::Neutral(Neutral::Scan(_), _));
        let reads = finds || matches!(self, Self::Neutral(neutral, _) if neutral.reads());
        if assertion.counts() && !finds {
            return Err(PlanError::new("assert: only scans and statements have hits"));
        }
        if assertion.has_fields() && !reads {
            return Err(PlanError::new("assert: \"fields\" requires an operation that reads documents"));
        }
        Ok(assertion)
    }
}

impl Native {
    /// Parses `{"statement": "...", "values": [...], "consistency": "one"}` and returns the consistency level, if any,
    /// separately. Refuses unknown keys, wrong types, and a statement with `${...}`.
    fn map(argument: &Value, context: &Context) -> Result<(Self, Option<Consistency>), PlanError> {
        let form = Form::new(argument, &["statement", "values", "consistency"])?;
        let statement = form.text("statement")?.to_owned();
        if statement.contains("${") {
            let remedy = "write ? in the statement, and the variable among the values";
            return Err(PlanError::new(format!("a statement is prepared once and cannot contain ${{...}}; {remedy}")));
        }
        let values = match form.get("values") {
            None => Vec::new(),
            Some(values) => {
                let wrong = || PlanError::new(format!("\"values\" wants a list, not {values}"));
                let values = values.as_array().ok_or_else(wrong)?;
                values.iter().map(|value| Cell::new(value, &context.variables)).collect::<Result<_, _>>()?
            }
        };
        Ok((Self { statement, values }, form.get("consistency").map(consistency).transpose()?))
    }
}

/// Parses the name of a consistency level, such as "quorum". Refuses others.
fn consistency(value: &Value) -> Result<Consistency, PlanError> {
    let name = value.as_str().ok_or_else(|| PlanError::new(format!("\"consistency\" wants a name, not {value}")))?;
    let level = CONSISTENCIES.iter().find(|(known, _)| *known == name);
    let names = CONSISTENCIES.iter().map(|(known, _)| *known);
    level.map(|(_, consistency)| *consistency).ok_or_else(|| PlanError::new(unknown("consistency", name, names)))
}

#[cfg(test)]
mod tests {
    use loadframe_engine::workload::corpus::Corpora;
    use loadframe_engine::workload::variables::Variables;
    use serde_json::json;

    use super::*;

    /// Maps an operation with a default timeout of 9 s. Returns the error's message.
    fn map(form: Value) -> Result<Operation, String> {
        let context = Context { variables: Variables::default(), corpora: Corpora::default() };
        Operation::map(&form, 0, &context, &Register::default(), Duration::from_secs(9)).map_err(|error| error.message)
    }

    #[test]
    fn operations_override_the_targets_options() {
        let read = map(json!({"read": {"collection": "c", "id": "a"}})).unwrap();
        assert_eq!(read.statement_options.timeout, Duration::from_secs(9));
        assert_eq!(read.statement_options.consistency, Consistency::LocalQuorum);
        let short = map(json!({"read": {"collection": "c", "id": "a"}, "timeout": 0.5, "consistency": "one"})).unwrap();
        assert_eq!(
            (short.statement_options.timeout, short.statement_options.consistency),
            (Duration::from_millis(500), Consistency::One)
        );
        let native = map(json!({"cql": {"statement": "SELECT 1", "values": [1], "consistency": "all"}})).unwrap();
        assert_eq!(native.statement_options.consistency, Consistency::All);
    }

    #[test]
    fn a_bad_operation_is_refused_with_the_nearest_word() {
        let error = |form: Value| map(form).unwrap_err();
        assert_eq!(error(json!({"reed": {}})), "unknown operation \"reed\"; did you mean \"read\"?");
        assert!(error(json!({})).contains("cql"));
        assert_eq!(
            error(json!({"cql": {"statement": "SELECT", "consistency": "quorom"}})),
            "cql: unknown consistency \"quorom\"; did you mean \"quorum\"?"
        );
        assert!(error(json!({"cql": {"statement": "SELECT ${x}"}})).contains("cannot contain ${"));
        assert!(
            error(json!({"read": {"collection": "a b", "id": "1"}}))
                .starts_with("read: \"a b\" is not a valid table name")
        );
        assert!(error(json!({"read": {"collection": "a", "id": "1"}, "timeout": 0})).contains("timeout"));
    }

    #[test]
    fn events_are_taken_into_a_table_by_the_day_of_their_document() {
        let form = |daily: &str, table: &str| json!({"take_in": {"collection": table, "daily": daily}});
        let Kind::Ingest(ingest, table, Some(days)) = map(form("event", "logs.ads")).unwrap().kind else { panic!() };
        assert_eq!((table.keyspace.as_str(), table.table.as_str()), ("logs", "ads"));
        assert!(ingest.daily.is_some());
        assert_eq!(table.day(&days.generations.name(0)).quoted(), r#""logs"."ads_1970_01_01""#);
        let Kind::Ingest(_, _, None) = map(json!({"take_in": {"collection": "ads"}})).unwrap().kind else { panic!() };
        let deletion = json!({"delete_days": {"collection": "ads", "keep": 60}});
        let Kind::DeleteDays(_, _, Some(60_000)) = map(deletion).unwrap().kind else { panic!() };
        assert!(map(form("event", "a b")).unwrap_err().starts_with("take_in: \"a b\" is not a valid table name"));
        let mut capturing = form("event", "ads");
        capturing["capture"] = json!({"x": {"field": "a"}});
        assert!(map(capturing).is_err());
    }

    #[test]
    fn assertions_must_fit_the_kind_of_answer() {
        let key = json!({"collection": "c", "id": "a"});
        let scan = json!({"collection": "c", "from": "a", "count": 2});
        let write = json!({"collection": "c", "id": "a", "document": {"n": 1}});
        let (hits, fields) = (json!({"min_hits": 1}), json!({"fields": {"n": 1}}));
        for (form, right) in [
            (json!({"read": key, "assert": fields}), true),
            (json!({"read": key, "assert": hits}), false),
            (json!({"scan": scan, "assert": {"hits": 2, "fields": {"n": 1}}}), true),
            (json!({"read_modify_write": write, "assert": fields}), true),
            (json!({"insert": write, "assert": fields}), false),
            (json!({"delete": key, "assert": hits}), false),
            (json!({"cql": {"statement": "SELECT 1"}, "assert": hits}), true),
        ] {
            let mapped = map(form.clone());
            assert_eq!(mapped.is_ok(), right, "{form}");
            assert!(right || mapped.unwrap_err().starts_with("assert: "));
        }
    }
}
