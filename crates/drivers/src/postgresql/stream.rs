//! The byte stream between a client and a server: unencrypted, or TLS after an SSLRequest.

use std::io;

use loadframe_engine::driver::{ErrorClass, Failure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::net::deadline::Limit;
use crate::net::target_node::Host;
use crate::net::tls::{Tls, refusal};
use crate::net::wire::{Wire, dial};

/// SSLRequest: its length and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// The server's positive answer to it.
const WILLING: u8 = b'S';

/// Connects within `limit` to the first address of the host that accepts; performs the handshake if TLS is on. Fails
/// with class Connect, also after the limit.
pub async fn connect(host: &Host, tls: Option<&Tls>, limit: Limit) -> Result<Wire, Failure> {
    match limit.within(open(host, tls)).await {
        Some(Ok(wire)) => Ok(wire),
        Some(Err(error)) => {
            let words = refusal(&error).unwrap_or_else(|| error.to_string());
            Err(Failure::new(ErrorClass::Connect, format!("cannot connect: {words}")))
        }
        None => {
            Err(Failure::new(ErrorClass::Connect, format!("no connection within {} s", limit.timeout.as_secs_f64())))
        }
    }
}

/// Connects for `connect`, without a time limit. Fails if no address accepts, the server refuses TLS, or the
/// handshake fails.
async fn open(host: &Host, tls: Option<&Tls>) -> io::Result<Wire> {
    let mut stream = dial(host).await?;
    let Some(tls) = tls else { return Ok(Wire::Plain(stream)) };
    stream.write_all(&SSL_REQUEST).await?;
    if stream.read_u8().await? != WILLING {
        return Err(io::Error::other("the server does not speak TLS"));
    }
    Ok(Wire::Tls(Box::new(tls.handshake(&host.name, stream).await?)))
}
