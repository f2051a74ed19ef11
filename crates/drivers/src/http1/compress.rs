//! Gzip compression of bodies. A compressor needs 256 KiB, so each thread has one, not each client.

use std::cell::RefCell;

use flate2::{Compress, Compression, FlushCompress, Status};

/// Minimum size of a compressed body. Smaller bodies fit into one packet anyway.
pub const LEAST: usize = 1 << 10;

/// Window size of 15 bits, the format's maximum.
const WINDOW: u8 = 15;

thread_local! {
    static GZIP: RefCell<Compress> = RefCell::new(Compress::new_gzip(Compression::fast(), WINDOW));
}

/// Replaces the content of `out` with `bytes`, compressed by gzip. Allocates nothing in the steady state.
pub fn gzip(bytes: &[u8], out: &mut Vec<u8>) {
    GZIP.with_borrow_mut(|gzip| {
        gzip.reset();
        out.clear();
        // Incompressible bytes grow slightly.
        out.reserve(bytes.len() / 4 + 128);
        loop {
            let taken = gzip.total_in() as usize;
            match gzip.compress_vec(&bytes[taken..], out, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => return,
                Ok(Status::Ok | Status::BufError) => out.reserve(bytes.len() / 4 + 128),
                Err(error) => unreachable!("compression accepts all bytes: {error}"),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use loadframe_engine::util::draw::Draw;

    use super::*;

    #[test]
    fn compressed_bytes_decompress_to_the_original() {
        let random = |length: u64| (0..length).map(|k| Draw::new(1, 2, k).bits(3) as u8).collect::<Vec<_>>();
        let mut out = Vec::new();
        for bytes in [Vec::new(), b"x".to_vec(), b"{\"a\": 1}\n".repeat(100_000), random(1_000_000), random(10)] {
            gzip(&bytes, &mut out);
            let mut read = Vec::new();
            GzDecoder::new(out.as_slice()).read_to_end(&mut read).unwrap();
            assert!(read == bytes, "{} bytes changed", bytes.len());
        }
    }
}
