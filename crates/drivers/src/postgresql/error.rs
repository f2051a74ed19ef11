//! Maps errors of the server and of its library to the engine's error classes.

use loadframe_engine::driver::{ErrorClass, Failure};
use tokio_postgres::Error;

/// Returns the failure of a request that got an error, with the class of its SQLSTATE; Connect if it got no answer.
pub fn request(error: &Error) -> Failure {
    let Some(told) = error.as_db_error() else {
        let cause =
            std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
        return Failure::new(ErrorClass::Connect, cause);
    };
    let code = told.code().code();
    let detail = told.detail().map_or_else(String::new, |detail| format!(" ({detail})"));
    Failure::new(class(code), format!("{} [{code}]{detail}", told.message()))
}

/// Returns whether a failed login has class Client: the server refuses this user or lacks the database.
pub fn is_refusal(failure: &Failure) -> bool {
    failure.class == ErrorClass::Client
}

/// Returns the class of an SQLSTATE, `Client` for an unknown one; see "PostgreSQL Error Codes" in the server's
/// documentation.
pub fn class(code: &str) -> ErrorClass {
    match code {
        // query_canceled, by statement_timeout or an administrator.
        "57014" => ErrorClass::Timeout,
        // lock_not_available, by lock_timeout or NOWAIT; read_only_sql_transaction: another server may have become the
        // primary.
        "55P03" | "25006" => ErrorClass::Rejected,
        // idle_in_transaction_session_timeout, idle_session_timeout; both close the connection.
        "25P03" | "57P05" => ErrorClass::Connect,
        _ => match code.get(..2).unwrap_or(code) {
            // connection_exception; operator_intervention: shut down, crashed, or starting.
            "08" | "57" => ErrorClass::Connect,
            // transaction_rollback: serialization failures and deadlocks; insufficient_resources: too many connections,
            // out of memory.
            "40" | "53" => ErrorClass::Rejected,
            // system_error, configuration_file_error, internal_error, and errors of foreign data.
            "58" | "F0" | "XX" | "HV" => ErrorClass::Server,
            _ => ErrorClass::Client,
        },
    }
}

/// Returns whether a failure suggests that another server has become the primary.
/// True for class Connect and for SQLSTATE 25006, which is found in the message.
pub fn is_displaced(failure: &Failure) -> bool {
    failure.class == ErrorClass::Connect || failure.message.contains("[25006]")
}

/// Returns whether one document may cause the error, so that each must be tried by itself: wrong values, violated
/// constraints, errors raised by a trigger. Class 42 (syntax, missing columns, missing rights) affects all documents.
pub fn is_of_data(error: &Error) -> bool {
    error.code().is_some_and(|code| class(code.code()) == ErrorClass::Client && !code.code().starts_with("42"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sqlstate_has_its_class() {
        for (code, expected) in [
            ("08006", ErrorClass::Connect),
            ("57P01", ErrorClass::Connect),
            ("57P03", ErrorClass::Connect),
            ("57014", ErrorClass::Timeout),
            ("40001", ErrorClass::Rejected),
            ("40P01", ErrorClass::Rejected),
            ("53300", ErrorClass::Rejected),
            ("55P03", ErrorClass::Rejected),
            ("25006", ErrorClass::Rejected),
            ("22P02", ErrorClass::Client),
            ("23505", ErrorClass::Client),
            ("42P01", ErrorClass::Client),
            ("28P01", ErrorClass::Client),
            ("58030", ErrorClass::Server),
            ("XX000", ErrorClass::Server),
        ] {
            assert_eq!(class(code), expected, "{code}");
        }
    }
}
