//! Mapping of the store's and its driver's errors to the engine's error classes.

use bson::{RawBsonRef, RawDocument};
use loadframe_engine::driver::{ErrorClass, Failure};

use super::bson::value;
use loadframe_engine::util::json::Unexpected;

/// Returns the failure for a value that cannot be encoded, of class Client.
pub fn unfit(_: Unexpected) -> Failure {
    Failure::new(
        ErrorClass::Client,
        "a value of the request is not JSON, or is extended JSON that stands for nothing, or a field's name has a zero byte",
    )
}

/// Returns whether a failure during the login means that the node answered and rejected the user: class Client.
pub fn is_refusal(failure: &Failure) -> bool {
    failure.class == ErrorClass::Client
}

/// Converts an error answer, or an error inside an answer, such as a write error, to a failure.
pub fn inside(error: &RawDocument) -> Failure {
    let code = value(error, "code").and_then(RawBsonRef::as_i32).unwrap_or_default();
    of_code(code, value(error, "errmsg").and_then(RawBsonRef::as_str).unwrap_or("no reason given"))
}

/// Returns the failure for an error number and its message, with the number's class; `Client` for an unknown number.
/// It is marked as denied if the error concerns the whole command, not its documents.
fn of_code(code: i32, message: &str) -> Failure {
    let failure = Failure::new(class(code), message);
    if DENIED.contains(&code) { failure.denied() } else { failure }
}

/// Errors of the whole command, not of its documents: Unauthorized, AuthenticationFailed, IllegalOperation,
/// NamespaceNotFound, CommandNotFound, InvalidOptions, InvalidNamespace, CommandNotSupported,
/// CommandNotSupportedOnView, ReauthenticationRequired, AtlasError.
const DENIED: [i32; 11] = [13, 18, 20, 26, 59, 72, 73, 115, 166, 391, 8000];

/// Returns whether the failure may mean that the request needs another node: class Connect, Timeout or Rejected.
pub fn is_displaced(failure: &Failure) -> bool {
    matches!(failure.class, ErrorClass::Connect | ErrorClass::Timeout | ErrorClass::Rejected)
}

/// Returns the class of an error number, `Client` for an unknown one. Names come from the server's list of errors.
fn class(code: i32) -> ErrorClass {
    match code {
        // MaxTimeMSExpired, WriteConcernFailed, NetworkTimeout, NetworkInterfaceExceededTimeLimit, ExceededTimeLimit.
        50 | 64 | 89 | 202 | 262 => ErrorClass::Timeout,
        // ShutdownInProgress, PrimarySteppedDown, NotWritablePrimary, InterruptedAtShutdown,
        // InterruptedDueToReplStateChange, NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary: the request needs another
        // node.
        91 | 189 | 10107 | 11600 | 11602 | 13435 | 13436 => ErrorClass::Rejected,
        // LockTimeout, WriteConflict, TemporarilyUnavailable, IngressRequestRateLimitExceeded: the node is overloaded.
        24 | 112 | 365 | 462 => ErrorClass::Rejected,
        // InternalError, HostUnreachable, HostNotFound, UnknownError, CursorNotFound, UnsatisfiableWriteConcern,
        // FailedToSatisfyReadPreference, CursorKilled, SocketException, StaleConfig, OutOfDiskSpace: internal problems
        // of the cluster.
        1 | 6 | 7 | 8 | 43 | 100 | 133 | 237 | 9001 | 13388 | 14031 => ErrorClass::Server,
        // ReadConcernMajorityNotAvailableYet, StaleEpoch, QueryPlanKilled, SnapshotUnavailable, StaleDbVersion,
        // Interrupted: a change of the cluster or of the collection ended the operation.
        134 | 150 | 175 | 246 | 249 | 11601 => ErrorClass::Server,
        _ => ErrorClass::Client,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_store_has_its_class() {
        for (code, class) in [
            (11000, ErrorClass::Client),
            (121, ErrorClass::Client),
            (59, ErrorClass::Client),
            (50, ErrorClass::Timeout),
            (10107, ErrorClass::Rejected),
            (112, ErrorClass::Rejected),
            (43, ErrorClass::Server),
            (134, ErrorClass::Server),
            (175, ErrorClass::Server),
            (11601, ErrorClass::Server),
        ] {
            let failure = inside(&bson::rawdoc! {"code": code, "errmsg": "its words"});
            assert_eq!((failure.class, failure.message.as_str()), (class, "its words"));
        }
    }

    #[test]
    fn only_errors_of_its_contents_are_blamed_on_a_document() {
        let of_contents = |code: i32| inside(&bson::rawdoc! {"code": code, "errmsg": "its words"}).is_of_contents();
        assert!([15, 121, 11000].into_iter().all(of_contents));
        assert!(![13, 18, 8000, 50, 112].into_iter().any(of_contents));
    }
}
