//! Uploads that come compressed with gzip: what becomes of them is bounded by what was sent, not by what they say.

use axum::extract::Request;
use axum::http::Method;
use flate2::read::MultiGzDecoder;
use std::io::{self, Read};

/// What every upload may become, however little was sent.
const FREE_BYTES: u64 = 8 << 20;
/// How many bytes each byte that was sent may become beyond that. Text and tables become 3 to 30; gzip allows 1032.
const MAX_GROWTH: u64 = 100;

/// Whether a request is for the route that decompresses bodies: uploads of files into a sandbox.
pub(crate) fn decompresses_body(request: &Request) -> bool {
    request.method() == Method::POST && request.uri().path() == "/files"
}

/// Decompresses gzip. Reading fails when much more comes out than was sent.
pub(super) struct Decompressed<R> {
    decoder: MultiGzDecoder<CountedReader<R>>,
    bytes: u64,
}

impl<R: Read> Decompressed<R> {
    pub(super) fn new(compressed: R) -> Decompressed<R> {
        Decompressed {
            decoder: MultiGzDecoder::new(CountedReader {
                reader: compressed,
                bytes: 0,
            }),
            bytes: 0,
        }
    }
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.decoder.read(into)?;
        self.bytes += length as u64;
        let sent = self.decoder.get_ref().bytes;
        if self.bytes > FREE_BYTES.saturating_add(sent.saturating_mul(MAX_GROWTH)) {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!(
                    "a compressed upload may become {} MB, and beyond that {MAX_GROWTH} times what was sent; send the file as it is",
                    FREE_BYTES >> 20
                ),
            ));
        }
        Ok(length)
    }
}

/// Counts what is read.
struct CountedReader<R> {
    reader: R,
    bytes: u64,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(into)?;
        self.bytes += length as u64;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn compressed(contents: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(contents).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_becomes_a_hundred_times_its_size_is_given_up_and_a_table_is_not() {
        let bomb = compressed(&vec![0; 64 << 20]);
        let mut decompressed = Vec::new();
        let error = Decompressed::new(&bomb[..]).read_to_end(&mut decompressed);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(decompressed.len() < 20 << 20, "{}", decompressed.len());
        let lines = (0..600_000u32).map(|row| format!("{row},{},north\n", row.wrapping_mul(77)));
        let table = lines.collect::<String>().into_bytes();
        let sent = compressed(&table);
        assert!(table.len() as u64 > FREE_BYTES);
        let mut decompressed = Vec::new();
        Decompressed::new(&sent[..])
            .read_to_end(&mut decompressed)
            .unwrap();
        assert!(decompressed == table);
    }
}
