//! Operations: a neutral verb, an SQL statement, or several statements in one transaction.

use std::sync::OnceLock;
use std::time::Duration;

use loadframe_engine::driver::Context;
use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;
use loadframe_engine::workload::variables::Variables;
use serde_json::Value;

use super::connection::ConnectOptions;
use super::control::{Control, TRANSACTION};
use super::read_from::{ReadFrom, word};
use super::request::Pieces;
use super::table::Table;
use crate::assertion::Assertion;
use crate::capture::{Captures, Place};
use crate::crud::{Cell, Neutral, VERBS};
use crate::form;
use crate::form::Form;
use crate::timeout;

/// Options next to the kind.
const OPTIONS: [&str; 4] = ["timeout", "assert", "capture", "read_from"];
/// The usual end of a transaction.
pub const COMMIT: &str = "COMMIT";
/// The parts of a transaction.
pub const PARTS: [&str; 3] = ["begin", "statement", "commit"];
/// The parts of a transaction that must roll back.
pub const ROLLED_BACK_PARTS: [&str; 3] = ["begin", "statement", "rollback"];

/// The isolation levels in workloads, each with its BEGIN statement.
const ISOLATIONS: [(&str, &str); 3] = [
    ("read_committed", "BEGIN ISOLATION LEVEL READ COMMITTED"),
    ("repeatable_read", "BEGIN ISOLATION LEVEL REPEATABLE READ"),
    ("serializable", "BEGIN ISOLATION LEVEL SERIALIZABLE"),
];

/// An operation, ready to execute.
#[derive(Debug)]
pub struct Operation {
    /// Its number among the driver's operations, used to find its prepared statements.
    pub number: usize,
    /// The table of its collection, once a client has queried it.
    pub table: OnceLock<Table>,
    /// The request.
    pub kind: Kind,
    /// Timeout of the operation.
    pub timeout: Duration,
    /// The servers that may receive it.
    pub from: ReadFrom,
    /// Assertion on the answer.
    pub assertion: Option<Assertion>,
    /// Values to capture from the first row, or from the document in it.
    pub captures: Captures<Place>,
}

/// Request of an operation.
#[derive(Debug)]
pub enum Kind {
    /// A neutral verb.
    Neutral(Neutral),
    /// One statement as its own transaction.
    Statement(Native),
    /// Several statements in one transaction.
    Transaction(Transaction),
}

/// A statement with its values.
#[derive(Debug)]
pub struct Native {
    /// Its text, with `$1`, `$2`, ... for the values.
    pub text: String,
    /// The values of the parameters.
    pub values: Vec<Cell>,
    /// The required number of rows returned or written, if given.
    pub rows: Option<u64>,
    /// The text for the simple protocol; `None` for a prepared statement.
    pub pieces: Option<Pieces>,
    /// Effect on its transaction.
    pub control: Control,
}

/// Several statements, each sent after the answer to the previous one.
#[derive(Debug)]
pub struct Transaction {
    /// The first statement.
    pub begin: String,
    /// The statements between begin and end.
    pub statements: Vec<Native>,
    /// The last statement: COMMIT or ROLLBACK.
    pub end: &'static str,
    /// Whether only a rollback counts as success.
    pub expects_rollback: bool,
}

impl Operation {
    /// Maps `{"read": {...}, "timeout": 5}` or `{"sql": {...}}`. `number` is the operation's index. `connect_options`
    /// has the defaults of `timeout` and `read_from`. Refuses unknown keys, wrong types, and options that the kind
    /// ignores.
    pub fn map(
        form: &Value,
        number: usize,
        context: &Context,
        connect_options: &ConnectOptions,
    ) -> Result<Self, PlanError> {
        let kinds: Vec<_> = VERBS.into_iter().chain(["sql"]).collect();
        let (name, argument) = form::kind(form, &kinds, &OPTIONS)?;
        let kind = if name == "sql" {
            Kind::native(argument, context).map_err(|error| error.within(name))?
        } else {
            let other = || PlanError::new(unknown("operation", name, kinds.iter().copied()));
            Kind::Neutral(Neutral::map(name, argument, context).ok_or_else(other)??)
        };
        let from = match form.get("read_from").filter(|from| !from.is_null()) {
            Some(value) => {
                let from = ReadFrom::parse(value)?;
                if from != ReadFrom::Primary && !kind.may_only_read() {
                    return Err(PlanError::new(format!(
                        "{name} goes to the primary and has no \"read_from\"; leave it out"
                    )));
                }
                from
            }
            // A statement may write, so the default applies only to neutral reads.
            None if matches!(&kind, Kind::Neutral(_)) && kind.may_only_read() => connect_options.read_from,
            None => ReadFrom::Primary,
        };
        let assertion = match form.get("assert").filter(|assert| !assert.is_null()) {
            Some(assert) => Some(kind.asserted(Assertion::map_without_recall(assert, &context.variables)?)?),
            None => None,
        };
        let captures = Captures::of_documents(form, kind.answers().1, &context.variables)?;
        Ok(Self {
            number,
            table: OnceLock::new(),
            kind,
            timeout: timeout::of_operation(form, connect_options.timeout)?,
            from,
            assertion,
            captures,
        })
    }
}

impl Kind {
    /// Maps the value of `sql`: one statement, or a list in `transaction`, which ends with COMMIT unless its last
    /// statement is ROLLBACK. Refuses an empty list, a ROLLBACK that is early or not expected, transaction control in a
    /// single statement, and keys at the wrong level.
    fn native(argument: &Value, context: &Context) -> Result<Self, PlanError> {
        let form =
            Form::new(argument, &["statement", "values", "rows", "transaction", "isolation", "protocol", "expect"])?;
        let simple = match form.get("protocol") {
            Some(value) => word("protocol", value, &[("prepared", false), ("simple", true)])?,
            None => false,
        };
        let Some(list) = form.get("transaction") else {
            if let Some(key) = ["isolation", "expect"].into_iter().find(|key| form.get(key).is_some()) {
                return Err(PlanError::new(format!("\"{key}\" belongs beside \"transaction\"")));
            }
            let statement = Native::map(&form, simple, &context.variables)?;
            return match statement.control {
                Control::None => Ok(Self::Statement(statement)),
                _ => Err(PlanError::new(format!("a single statement is already a transaction; {TRANSACTION}"))),
            };
        };
        if let Some(key) = ["statement", "values", "rows"].into_iter().find(|key| form.get(key).is_some()) {
            return Err(PlanError::new(format!("\"{key}\" belongs inside \"transaction\"")));
        }
        let list = list.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| PlanError::new("\"transaction\" wants a list of statements"))?;
        let statement = |value: &Value| {
            let form = Form::new(value, &["statement", "values", "rows"])?;
            Native::map(&form, simple, &context.variables)
        };
        let mut statements: Vec<Native> =
            list.iter().map(statement).collect::<Result<_, _>>().map_err(|error| error.within("transaction"))?;
        let expects_rollback = match form.get("expect") {
            Some(value) => word("expect", value, &[("commit", false), ("rollback", true)])?,
            None => false,
        };
        let end = match statements.last().map(|last| &last.control) {
            Some(Control::Rollback) if expects_rollback && statements.len() > 1 => {
                statements.pop();
                "ROLLBACK"
            }
            _ => COMMIT,
        };
        if statements.iter().any(|native| native.control == Control::Rollback) {
            let message =
                "transaction: ROLLBACK ends it; write it last, and \"expect\": \"rollback\" beside \"transaction\"";
            return Err(PlanError::new(message));
        }
        let begin = match form.get("isolation") {
            Some(value) => word("isolation", value, &ISOLATIONS)?,
            None => "BEGIN",
        };
        Ok(Self::Transaction(Transaction { begin: begin.to_owned(), statements, end, expects_rollback }))
    }

    /// Returns whether a server other than the primary may answer. Statements and transactions may, because their
    /// effect is not known.
    fn may_only_read(&self) -> bool {
        match self {
            Self::Neutral(neutral) => matches!(neutral, Neutral::Read(_) | Neutral::Scan(_)),
            Self::Statement(_) | Self::Transaction(_) => true,
        }
    }

    /// Returns whether answers contain rows to count, and whether they contain typed fields.
    fn answers(&self) -> (bool, bool) {
        match self {
            Self::Statement(native) => (true, native.pieces.is_none()),
            Self::Transaction(_) => (false, false),
            Self::Neutral(neutral) => (matches!(neutral, Neutral::Scan(_)), neutral.reads()),
        }
    }

    /// Returns the assertion, or an error if answers of this kind lack the rows or fields that it checks.
    fn asserted(&self, assertion: Assertion) -> Result<Assertion, PlanError> {
        let (counts, has_fields) = self.answers();
        if assertion.counts() && !counts {
            return Err(PlanError::new("assert: only scans and single statements have hits"));
        }
        if assertion.has_fields() && !has_fields {
            return Err(PlanError::new("assert: only reads and prepared statements have \"fields\""));
        }
        Ok(assertion)
    }
}

impl Native {
    /// Maps `{"statement": "...", "values": [...], "rows": 1}`. `simple`: use the simple protocol. Refuses a statement
    /// with `${...}`, a wrong number of values, and transaction control that the driver sends itself.
    fn map(form: &Form, simple: bool, variables: &Variables) -> Result<Self, PlanError> {
        let text = form.text("statement")?;
        if text.contains("${") {
            return Err(PlanError::new("a statement cannot contain ${...}: write $1, $2, ... and give the \"values\""));
        }
        let cell = |value: &Value| Cell::new(value, variables);
        let values: Vec<_> = match form.get("values") {
            None => Vec::new(),
            Some(Value::Array(values)) => values.iter().map(cell).collect::<Result<_, _>>()?,
            Some(other) => return Err(PlanError::new(format!("\"values\" wants a list, not {other}"))),
        };
        let pieces = Pieces::new(text)?;
        if pieces.values() != values.len() {
            let message = format!("the statement has {} values, and there are {}", pieces.values(), values.len());
            return Err(PlanError::new(message));
        }
        let whole = |value: &Value| {
            value.as_u64().ok_or_else(|| PlanError::new(format!("\"rows\" wants a whole number, not {value}")))
        };
        let rows = form.get("rows").map(whole).transpose()?;
        let control = Control::of(text)?;
        Ok(Self { text: text.to_owned(), values, rows, pieces: simple.then_some(pieces), control })
    }
}

#[cfg(test)]
mod tests {
    use loadframe_engine::workload::corpus::Corpora;
    use serde_json::json;

    use super::*;

    /// Maps an operation for a target whose default is `prefer_replica`. Returns the error's message.
    fn map(form: Value) -> Result<Operation, String> {
        let context = Context { variables: Variables::default(), corpora: Corpora::default() };
        Operation::map(&form, 0, &context, &ConnectOptions::plain(ReadFrom::PreferReplica))
            .map_err(|error| error.message)
    }

    #[test]
    fn statements_stand_alone_or_in_a_transaction() {
        let one =
            map(json!({"sql": {"statement": "SELECT $1", "values": [1], "rows": 1}, "read_from": "any"})).unwrap();
        assert_eq!(one.from, ReadFrom::Any);
        assert!(matches!(one.kind, Kind::Statement(Native { rows: Some(1), pieces: None, .. })));
        let list = json!([{"statement": "SELECT 1"}, {"statement": "SELECT 2"}]);
        let several =
            map(json!({"sql": {"transaction": list, "isolation": "serializable", "protocol": "simple"}})).unwrap();
        let Kind::Transaction(transaction) = several.kind else { panic!() };
        assert_eq!(transaction.begin, "BEGIN ISOLATION LEVEL SERIALIZABLE");
        assert!(transaction.statements.iter().all(|native| native.pieces.is_some()));
    }

    #[test]
    fn a_transaction_that_has_to_roll_back_may_say_how() {
        let insert = json!({"statement": "INSERT INTO t VALUES (1)"});
        let end = |last: &str| {
            let list = json!([insert, {"statement": last}]);
            let Kind::Transaction(transaction) =
                map(json!({"sql": {"transaction": list, "expect": "rollback"}})).unwrap().kind
            else {
                panic!()
            };
            assert!(transaction.expects_rollback);
            (transaction.statements.len(), transaction.end)
        };
        assert_eq!(end("-- no such item\nrollback work;"), (1, "ROLLBACK"));
        assert_eq!(end("UPDATE t SET a = 1"), (2, "COMMIT"));
        assert_eq!(end("ROLLBACK TO SAVEPOINT a"), (2, "COMMIT"));
    }

    #[test]
    fn reads_follow_the_targets_read_from_unless_overridden() {
        let key = json!({"collection": "c", "id": "a"});
        let from = |form: Value| map(form).unwrap().from;
        assert_eq!(from(json!({"read": key})), ReadFrom::PreferReplica);
        assert_eq!(from(json!({"read": key, "read_from": "primary"})), ReadFrom::Primary);
        assert_eq!(from(json!({"delete": key})), ReadFrom::Primary);
        assert_eq!(from(json!({"sql": {"statement": "SELECT 1"}})), ReadFrom::Primary);
    }

    #[test]
    fn messages_of_refused_operations_name_the_fault() {
        let key = json!({"collection": "c", "id": "a"});
        for (form, message) in [
            (
                json!({"sql": {"statement": "SELECT $2", "values": [1]}}),
                "sql: the statement has 2 values, and there are 1",
            ),
            (json!({"sql": {"statement": "SELECT ${x}"}}), "sql: a statement cannot contain"),
            (json!({"sql": {"statement": "SELECT 1", "expect": "rollback"}}), "sql: \"expect\" belongs beside"),
            (json!({"sql": {"statement": "SAVEPOINT a"}}), "sql: a single statement is already a transaction"),
            (json!({"sql": {"statement": "commit"}}), "sql: the driver sends COMMIT"),
            (
                json!({"sql": {"transaction": [{"statement": "SELECT 1"}, {"statement": "ROLLBACK"}]}}),
                "sql: transaction: ROLLBACK ends it; write it last",
            ),
            (
                json!({"sql": {"transaction": [{"statement": "SELECT 1"}], "expect": "rolback"}}),
                "sql: unknown expect \"rolback\"; did you",
            ),
            (
                json!({"sql": {"statement": "SELECT 1", "isolation": "serializable"}}),
                "sql: \"isolation\" belongs beside",
            ),
            (json!({"sql": {"transaction": []}}), "sql: \"transaction\" wants a list"),
            (
                json!({"sql": {"transaction": [{"statment": "x"}]}}),
                "sql: transaction: unknown key \"statment\"; did you",
            ),
            (json!({"sql": {"statement": "x", "protocol": "simpel"}}), "sql: unknown protocol \"simpel\"; did you"),
            (json!({"delete": key, "read_from": "replica"}), "delete goes to the primary"),
            (json!({"read": key, "read_from": "replika"}), "unknown read_from \"replika\"; did you"),
            (json!({"read": key, "assert": {"hits": 1}}), "assert: only scans and single"),
            (
                json!({"sql": {"statement": "x", "protocol": "simple"}, "assert": {"fields": {"a": 1}}}),
                "assert: only reads",
            ),
            (json!({"reed": key}), "unknown operation \"reed\"; did you"),
        ] {
            let error = map(form).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
