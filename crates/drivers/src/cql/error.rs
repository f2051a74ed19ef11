//! Mapping of the protocol's errors to the engine's error classes.

use loadframe_engine::driver::{ErrorClass, Failure};
use scylla::errors::{DbError, ExecutionError, NewSessionError, PrepareError, RequestAttemptError};

use super::value::Mismatch;

/// Returns the failure for a value that does not fit the column named `column`, of class Client.
pub fn unfit(column: &str, mismatch: &Mismatch) -> Failure {
    Failure::new(ErrorClass::Client, format!("column \"{column}\": {}", mismatch.0))
}

/// Returns the failure for an execution error, or for an error answer, with its class.
/// An error before any attempt has class Client if the statement is invalid, otherwise Connect.
pub fn execution(error: &ExecutionError) -> Failure {
    match error {
        ExecutionError::LastAttemptError(error) => attempt(error),
        ExecutionError::PrepareError(error) => preparation(error),
        ExecutionError::BadQuery(error) => Failure::new(ErrorClass::Client, error.to_string()),
        error => Failure::new(ErrorClass::Connect, error.to_string()),
    }
}

/// Returns the failure for a statement that could not be prepared: with the class of the first attempt, or Connect.
pub fn preparation(error: &PrepareError) -> Failure {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => attempt(first_attempt),
        error => Failure::new(ErrorClass::Connect, error.to_string()),
    }
}

/// Returns the failure for a session that could not be opened, of class Connect.
pub fn session(error: &NewSessionError) -> Failure {
    Failure::new(ErrorClass::Connect, error.to_string())
}

/// Returns the failure for an error of one attempt, with its class.
/// It is marked as denied if the store answered with an error that the statement's contents did not cause.
fn attempt(error: &RequestAttemptError) -> Failure {
    match error {
        RequestAttemptError::DbError(error, message) => {
            let told = if message.is_empty() { error.to_string() } else { message.clone() };
            let failure = Failure::new(class(error), told);
            let of_contents =
                matches!(error, DbError::Invalid | DbError::SyntaxError | DbError::FunctionFailure { .. });
            if of_contents { failure } else { failure.denied() }
        }
        RequestAttemptError::BrokenConnectionError(_) => Failure::new(ErrorClass::Connect, error.to_string()),
        RequestAttemptError::UnableToAllocStreamId => {
            Failure::new(ErrorClass::Rejected, "as many requests are in flight as one connection can carry")
        }
        RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => {
            Failure::new(ErrorClass::Client, error.to_string())
        }
        error => Failure::new(ErrorClass::Server, error.to_string()),
    }
}

/// Returns the class of an error answer of the store; `Server` for errors that may pass, and for unknown ones.
fn class(error: &DbError) -> ErrorClass {
    match error {
        DbError::Overloaded | DbError::RateLimitReached { .. } => ErrorClass::Rejected,
        DbError::ReadTimeout { .. } | DbError::WriteTimeout { .. } => ErrorClass::Timeout,
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::FunctionFailure { .. }
        | DbError::AuthenticationError
        | DbError::Unauthorized
        | DbError::ConfigError => ErrorClass::Client,
        // Too few live replicas, a starting node or a failed replica: a possibly transient cluster problem.
        _ => ErrorClass::Server,
    }
}

#[cfg(test)]
mod tests {
    use scylla::errors::WriteType;
    use scylla::statement::Consistency;

    use super::*;

    #[test]
    fn each_error_of_the_store_has_its_class() {
        let consistency = Consistency::Quorum;
        let write_type = WriteType::Simple;
        let timeout = DbError::WriteTimeout { consistency, received: 1, required: 2, write_type };
        for (error, class) in [
            (DbError::Overloaded, ErrorClass::Rejected),
            (timeout, ErrorClass::Timeout),
            (DbError::Unavailable { consistency, required: 2, alive: 1 }, ErrorClass::Server),
            (DbError::IsBootstrapping, ErrorClass::Server),
            (DbError::SyntaxError, ErrorClass::Client),
            (DbError::Invalid, ErrorClass::Client),
            (DbError::Unauthorized, ErrorClass::Client),
            (DbError::ServerError, ErrorClass::Server),
        ] {
            let error = ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, "its words".into()));
            let failure = execution(&error);
            assert_eq!((failure.class, failure.message.as_str()), (class, "its words"));
        }
    }

    #[test]
    fn silence_is_a_timeout_and_an_empty_cluster_no_connection() {
        let silent = crate::net::deadline::Limit::starting_now(std::time::Duration::from_millis(1500)).missed();
        assert_eq!((silent.class, silent.message.as_str()), (ErrorClass::Timeout, "no answer within 1.5 s"));
        assert_eq!(execution(&ExecutionError::EmptyPlan).class, ErrorClass::Connect);
    }
}
