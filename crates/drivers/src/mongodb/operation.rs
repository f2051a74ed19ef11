//! Operations: a neutral verb, a query, or a native command of the workload.

use std::sync::Arc;
use std::time::Duration;

use loadframe_engine::driver::Context;
use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;
use loadframe_engine::workload::variables::Variables;
use loadframe_engine::workload::variables::template::Template;
use serde_json::{Map, Value, json};

use super::bson;
use crate::assertion::Assertion;
use crate::capture::{Captures, Place};
use crate::crud::{Neutral, VERBS};
use crate::daily::generations::{Register, Style};
use crate::daily::{Buckets, DELETE_DAYS, deletion};
use crate::form;
use crate::form::Form;
use crate::ingest::{Ingest, TAKE_IN};
use crate::timeout;

/// Default database of all collections.
pub const DATABASE: &str = "loadframe";

/// Options of an operation besides its kind.
const OPTIONS: [&str; 6] = ["timeout", "assert", "capture", "write_concern", "read_preference", "database"];

/// A parsed operation, ready to execute.
#[derive(Debug)]
pub struct Operation {
    /// The kind of operation.
    pub kind: Kind,
    /// Time limit for an answer.
    pub timeout: Duration,
    /// Write concern. `None` uses the store's default.
    pub concern: Option<Concern>,
    /// Read preference. For events of a source, it applies to the visibility queries.
    pub prefer: Prefer,
    /// The database of the request. Defaults to the collections' database; only a command may name another.
    pub database: String,
    /// Assertion on the answer.
    pub assertion: Option<Assertion>,
    /// Values captured from the answer: from its first document, or from the answer to a command.
    pub captures: Captures<Place>,
}

/// The kind of an operation.
#[derive(Debug)]
pub enum Kind {
    /// A verb.
    Neutral(Neutral),
    /// A command that returns a cursor, which the driver reads to its end: `find`, `aggregate`.
    Query(Template),
    /// A native command of the workload.
    Command(Template),
    /// Events of a source, and their daily collections if events are partitioned by day.
    Ingest(Ingest, Option<Arc<Buckets>>),
    /// Deletion of days: all days, or the days that ended more than this many milliseconds ago.
    DeleteDays(Arc<Buckets>, Option<i64>),
}

/// Write concern: the condition for acknowledging a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// No acknowledgement.
    Unacknowledged,
    /// The primary has applied the write.
    Acknowledged,
    /// The write is in the primary's journal.
    Journaled,
    /// A majority of members has applied the write.
    Majority,
}

/// Read preference: the members of a replica set that serve reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefer {
    /// The primary.
    Primary,
    /// The primary, or a secondary while the primary is missing.
    PrimaryPreferred,
    /// A secondary.
    Secondary,
    /// A secondary, or the primary while all secondaries are missing.
    SecondaryPreferred,
    /// All members equally.
    Nearest,
}

/// The write concerns, by their names in workloads.
const CONCERNS: [(&str, Concern); 4] = [
    ("unacknowledged", Concern::Unacknowledged),
    ("acknowledged", Concern::Acknowledged),
    ("journaled", Concern::Journaled),
    ("majority", Concern::Majority),
];

/// The read preferences, by their names in workloads.
const PREFERENCES: [(&str, Prefer); 5] = [
    ("primary", Prefer::Primary),
    ("primary_preferred", Prefer::PrimaryPreferred),
    ("secondary", Prefer::Secondary),
    ("secondary_preferred", Prefer::SecondaryPreferred),
    ("nearest", Prefer::Nearest),
];

impl Prefer {
    /// Returns the mode's name in a command; `None` for the primary.
    pub fn mode(self) -> Option<&'static str> {
        match self {
            Self::Primary => None,
            Self::PrimaryPreferred => Some("primaryPreferred"),
            Self::Secondary => Some("secondary"),
            Self::SecondaryPreferred => Some("secondaryPreferred"),
            Self::Nearest => Some("nearest"),
        }
    }
}

impl Operation {
    /// Parses `{"read": {...}, "timeout": 5}` or `{"find": {...}}`. `register` holds the daily collections of all
    /// operations, `timeout` is the default if the form has none. Refuses unknown keys, wrong types, and options that
    /// the kind ignores.
    pub fn map(
        form: &Value,
        context: &Context,
        register: &Register<Buckets>,
        timeout: Duration,
    ) -> Result<Self, PlanError> {
        let kinds: Vec<_> = VERBS.into_iter().chain(["find", "aggregate", "command", TAKE_IN, DELETE_DAYS]).collect();
        let buckets = |of: &str| register.of(of, || Buckets::new(of, Style::Dotted));
        let (name, argument) = form::kind(form, &kinds, &OPTIONS)?;
        let variables = &context.variables;
        bson::verify(argument).map_err(|error| error.within(name))?;
        let kind = match name {
            "find" => find(argument, variables).map(Kind::Query).map_err(|error| error.within(name))?,
            "aggregate" => aggregate(argument, variables).map(Kind::Query).map_err(|error| error.within(name))?,
            "command" => command(argument, variables).map(Kind::Command).map_err(|error| error.within(name))?,
            TAKE_IN => {
                let ingest = Ingest::map(argument).map_err(|error| error.within(name))?;
                let days = ingest.daily.map(|_| buckets(&ingest.collection));
                Kind::Ingest(ingest, days)
            }
            DELETE_DAYS => {
                let (of, keep) = deletion(argument).map_err(|error| error.within(name))?;
                Kind::DeleteDays(buckets(&of), keep)
            }
            _ => {
                let neutral = Neutral::map(name, argument, context);
                let other = || PlanError::new(unknown("operation", name, kinds.iter().copied()));
                Kind::Neutral(neutral.ok_or_else(other)??)
            }
        };
        let concern = word(form, "write_concern", &CONCERNS)?;
        let prefer = word(form, "read_preference", &PREFERENCES)?;
        kind.check(name, concern, prefer)?;
        let database = match form.get("database").filter(|database| !database.is_null()) {
            None => DATABASE,
            Some(database) if matches!(kind, Kind::Command(_)) => {
                database.as_str().ok_or_else(|| PlanError::new(format!("\"database\" wants a name, not {database}")))?
            }
            Some(_) => {
                return Err(PlanError::new(format!("only a command may say \"database\", and this is {name}")));
            }
        };
        let assertion = match form.get("assert").filter(|assert| !assert.is_null()) {
            Some(assert) => Some(kind.asserted(Assertion::map_without_recall(assert, variables)?)?),
            None => None,
        };
        let reads = match &kind {
            Kind::Neutral(neutral) => neutral.reads(),
            Kind::Query(_) | Kind::Command(_) => true,
            Kind::Ingest(..) | Kind::DeleteDays(..) => false,
        };
        let captures = Captures::of_documents(form, reads, variables)?;
        let timeout = timeout::of_operation(form, timeout)?;
        let prefer = prefer.unwrap_or(Prefer::Primary);
        Ok(Self { kind, timeout, concern, prefer, database: database.to_owned(), assertion, captures })
    }
}

impl Kind {
    /// Refuses a write concern or read preference that this kind of request ignores. `name` names the kind in the
    /// error.
    fn check(&self, name: &str, concern: Option<Concern>, prefer: Option<Prefer>) -> Result<(), PlanError> {
        let reads = match self {
            Self::Neutral(neutral) => matches!(neutral, Neutral::Read(_) | Neutral::Scan(_)),
            Self::Query(_) | Self::Command(_) => true,
            Self::Ingest(..) | Self::DeleteDays(..) => false,
        };
        let writes = !reads && !matches!(self, Self::DeleteDays(..));
        // Events are written to the primary; the read preference applies to visibility queries.
        let is_looked_for = matches!(self, Self::Ingest(..));
        if concern.is_some() && !writes {
            let remedy = if matches!(self, Self::Command(_)) { "say writeConcern inside it" } else { "leave it out" };
            return Err(PlanError::new(format!("{name} has no \"write_concern\" here; {remedy}")));
        }
        if prefer.is_some_and(|prefer| prefer != Prefer::Primary) && !reads && !is_looked_for {
            return Err(PlanError::new(format!(
                "{name} goes to the primary and has no \"read_preference\"; leave it out"
            )));
        }
        Ok(())
    }

    /// Returns the assertion, or an error if answers of this kind lack the documents or fields that it checks.
    fn asserted(&self, assertion: Assertion) -> Result<Assertion, PlanError> {
        let finds = matches!(self, Self::Query(_) | Self::Neutral(Neutral::Scan(_)));
        let reads = finds || matches!(self, Self::Neutral(neutral) if neutral.reads());
        if assertion.counts() && !finds {
            return Err(PlanError::new("assert: only scans and queries have hits"));
        }
        if assertion.has_fields() && !reads {
            return Err(PlanError::new("assert: \"fields\" requires an operation that reads documents"));
        }
        Ok(assertion)
    }
}

/// Returns the value of option `key` by its name in `words`; `None` without the option. Refuses other names.
fn word<T: Copy>(form: &Value, key: &str, words: &[(&str, T)]) -> Result<Option<T>, PlanError> {
    let Some(value) = form.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    let name = value.as_str().ok_or_else(|| PlanError::new(format!("\"{key}\" wants a name, not {value}")))?;
    match words.iter().find(|(known, _)| *known == name) {
        Some((_, value)) => Ok(Some(*value)),
        None => Err(PlanError::new(unknown(key, name, words.iter().map(|(known, _)| *known)))),
    }
}

/// Returns the template of a `find` command from its form. Its batch size is its limit, unless 0, so that one answer
/// holds all documents. Refuses unknown keys, wrong types, and a `skip` or `limit` that is neither whole nor text.
fn find(argument: &Value, variables: &Variables) -> Result<Template, PlanError> {
    let form = Form::new(argument, &["collection", "filter", "projection", "sort", "skip", "limit"])?;
    let mut command = Map::new();
    command.insert("find".to_owned(), form.text("collection")?.into());
    for key in ["filter", "projection", "sort"] {
        if form.get(key).is_some() {
            command.insert(key.to_owned(), form.mapping(key)?.clone());
        }
    }
    for key in ["skip", "limit"] {
        match form.get(key) {
            Some(value) if value.is_string() || value.as_u64().is_some() => {
                command.insert(key.to_owned(), value.clone());
            }
            Some(other) => return Err(PlanError::new(format!("\"{key}\" wants a whole number, not {other}"))),
            None => {}
        }
    }
    // Request all documents in one answer, up to the size limit of an answer.
    if let Some(limit) = command.get("limit").cloned().filter(|limit| *limit != json!(0)) {
        command.insert("batchSize".to_owned(), limit);
    }
    Template::json(&Value::Object(command), variables)
}

/// Returns the template of an `aggregate` command, from a collection and a list of stages. Refuses unknown keys, and a
/// list of other values than mappings.
fn aggregate(argument: &Value, variables: &Variables) -> Result<Template, PlanError> {
    let form = Form::new(argument, &["collection", "pipeline"])?;
    let pipeline = form.require("pipeline")?;
    if !pipeline.as_array().is_some_and(|stages| stages.iter().all(Value::is_object)) {
        return Err(PlanError::new(format!("\"pipeline\" wants a list of stages, not {pipeline}")));
    }
    let command = json!({"aggregate": form.text("collection")?, "pipeline": pipeline, "cursor": {}});
    Template::json(&command, variables)
}

/// Returns the template of a native command, such as `{"ping": 1}`. Refuses an empty or other form.
fn command(argument: &Value, variables: &Variables) -> Result<Template, PlanError> {
    match argument.as_object() {
        Some(command) if !command.is_empty() => Template::json(argument, variables),
        _ => Err(PlanError::new(format!("wants a command such as {{ping: 1}}, not {argument}"))),
    }
}

#[cfg(test)]
mod tests {
    use loadframe_engine::workload::corpus::Corpora;

    use super::*;

    /// Maps an operation with a default timeout of 9 s. Returns the error's message.
    fn map(form: Value) -> Result<Operation, String> {
        let context = Context { variables: Variables::default(), corpora: Corpora::default() };
        Operation::map(&form, &context, &Register::default(), Duration::from_secs(9)).map_err(|error| error.message)
    }

    #[test]
    fn an_operation_says_how_sure_a_write_is_and_who_is_read() {
        let (key, write) =
            (json!({"collection": "c", "id": "a"}), json!({"collection": "c", "id": "a", "document": {"n": 1}}));
        let plain = map(json!({"insert": write})).unwrap();
        assert_eq!((plain.concern, plain.prefer, plain.timeout), (None, Prefer::Primary, Duration::from_secs(9)));
        let sure = map(json!({"insert": write, "write_concern": "majority", "timeout": 0.5})).unwrap();
        assert_eq!((sure.concern, sure.timeout), (Some(Concern::Majority), Duration::from_millis(500)));
        assert_eq!(map(json!({"read": key, "read_preference": "nearest"})).unwrap().prefer, Prefer::Nearest);
        for (form, message) in [
            (json!({"read": key, "write_concern": "majority"}), "read has no \"write_concern\" here; leave it out"),
            (json!({"command": {"ping": 1}, "write_concern": "majority"}), "command has no \"write_concern\" here"),
            (json!({"delete": key, "read_preference": "secondary"}), "delete goes to the primary"),
            (json!({"read_modify_write": write, "read_preference": "secondary"}), "read_modify_write goes to"),
            (json!({"insert": write, "write_concern": "mojority"}), "unknown write_concern \"mojority\"; did you"),
            (json!({"read": key, "read_preference": "secundary"}), "unknown read_preference \"secundary\"; did you"),
        ] {
            let error = map(form).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn a_query_is_the_command_that_it_stands_for() {
        let text = |form: Value| match map(form).unwrap().kind {
            Kind::Query(template) => serde_json::from_slice::<Value>(template.fixed().unwrap()).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            text(json!({"find": {"collection": "c", "filter": {"a": 1}, "sort": {"a": -1}, "limit": 5}})),
            json!({"find": "c", "filter": {"a": 1}, "sort": {"a": -1}, "limit": 5, "batchSize": 5})
        );
        assert_eq!(
            text(json!({"aggregate": {"collection": "c", "pipeline": [{"$count": "n"}]}})),
            json!({"aggregate": "c", "pipeline": [{"$count": "n"}], "cursor": {}})
        );
        for bad in [
            json!({"find": {"collection": "c", "filtr": {}}}),
            json!({"find": {"collection": "c", "limit": 0.5}}),
            json!({"aggregate": {"collection": "c", "pipeline": {}}}),
            json!({"command": {}}),
            json!({"fnd": {}}),
        ] {
            assert!(map(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_command_may_be_for_another_database_than_that_of_the_collections() {
        let database = |form: Value| map(form).map(|operation| operation.database);
        assert_eq!(database(json!({"command": {"ping": 1}})), Ok("loadframe".to_owned()));
        assert_eq!(database(json!({"command": {"ping": 1}, "database": "admin"})), Ok("admin".to_owned()));
        let error = database(json!({"find": {"collection": "c"}, "database": "admin"})).unwrap_err();
        assert_eq!(error, "only a command may say \"database\", and this is find");
        assert!(database(json!({"command": {"ping": 1}, "database": 1})).is_err());
    }

    #[test]
    fn operations_on_the_days_of_a_collection_share_them() {
        let context = Context { variables: Variables::default(), corpora: Corpora::default() };
        let register = Register::default();
        let map = |form: Value| Operation::map(&form, &context, &register, Duration::from_secs(9));
        let ingest = |daily: &str| json!({"take_in": {"collection": "ads", "daily": daily}});
        let Kind::Ingest(_, Some(taken)) = map(ingest("arrival")).unwrap().kind else { panic!() };
        let Kind::DeleteDays(deleted, keep) =
            map(json!({"delete_days": {"collection": "ads", "keep": 60}})).unwrap().kind
        else {
            panic!()
        };
        assert!(Arc::ptr_eq(&taken, &deleted));
        assert_eq!(keep, Some(60_000));
        let Kind::Ingest(_, None) = map(json!({"take_in": {"collection": "ads"}})).unwrap().kind else { panic!() };
        for (form, message) in [
            (json!({"delete_days": {"collection": "ads", "kept": 60}}), "delete_days: unknown key \"kept\""),
            (json!({"delete_days": {"collection": "ads"}, "write_concern": "majority"}), "delete_days has no \"write"),
            (json!({"delete_days": {"collection": "ads"}, "read_preference": "nearest"}), "delete_days goes to the"),
        ] {
            let error = map(form).unwrap_err().message;
            assert!(error.starts_with(message), "{error}");
        }
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
            (json!({"find": {"collection": "c"}, "assert": hits}), true),
            (json!({"read_modify_write": write, "assert": fields}), true),
            (json!({"insert": write, "assert": fields}), false),
            (json!({"command": {"ping": 1}, "assert": hits}), false),
        ] {
            assert_eq!(map(form.clone()).is_ok(), right, "{form}");
        }
    }
}
