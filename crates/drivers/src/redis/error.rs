//! Maps errors of the server to the engine's error classes.

use loadframe_engine::driver::{ErrorClass, Failure};

/// Returns the failure for an error reply, with the class of its first word; Client for an unknown word.
/// An error of a script that ran out of memory has class Rejected.
pub fn refusal(words: &[u8]) -> Failure {
    let code = words.split(|byte| *byte == b' ').next().unwrap_or_default();
    let class = match code {
        b"OOM" | b"TRYAGAIN" | b"BUSY" | b"BUSYKEY" => ErrorClass::Rejected,
        b"LOADING" | b"CLUSTERDOWN" | b"MASTERDOWN" | b"MISCONF" | b"NOREPLICAS" | b"READONLY" | b"MOVED" | b"ASK" => {
            ErrorClass::Server
        }
        // The server then closes the connection.
        b"ERR" if words.starts_with(b"ERR max number of clients") => ErrorClass::Rejected,
        // A script that runs out of memory appends this error to its own message.
        _ if memchr::memmem::find(words, b"OOM command not allowed").is_some() => ErrorClass::Rejected,
        _ => ErrorClass::Client,
    };
    Failure::new(class, String::from_utf8_lossy(words).into_owned())
}

/// Returns a failure of class Client, caused by an invalid request.
pub fn client(message: &str) -> Failure {
    Failure::new(ErrorClass::Client, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_an_error_determines_its_class() {
        for (words, class) in [
            ("OOM command not allowed when used memory > 'maxmemory'.", ErrorClass::Rejected),
            ("ERR Error running script: OOM command not allowed when used memory", ErrorClass::Rejected),
            ("ERR max number of clients reached", ErrorClass::Rejected),
            ("ERR max number of clients + cluster connections reached", ErrorClass::Rejected),
            ("TRYAGAIN Multiple keys request during rehashing of slot", ErrorClass::Rejected),
            ("LOADING Redis is loading the dataset in memory", ErrorClass::Server),
            ("CLUSTERDOWN Hash slot not served", ErrorClass::Server),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", ErrorClass::Client),
            ("NOAUTH Authentication required.", ErrorClass::Client),
            ("ERR unknown command", ErrorClass::Client),
            ("", ErrorClass::Client),
        ] {
            let failure = refusal(words.as_bytes());
            assert_eq!((failure.class, failure.message.as_str()), (class, words));
        }
    }
}
