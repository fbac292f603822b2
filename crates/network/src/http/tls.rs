//! The records of TLS, as far as a guard needs them that can read none of what is encrypted: where the first message ends, whether the server
//! asks for another one (`HelloRetryRequest` of RFC 8446), and where that begins.

use std::io;
use std::ops::RangeInclusive;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The kind of a record that is a part of the handshake: the first byte of a TLS connection.
const HANDSHAKE: u8 = 22;
/// The kinds of all records: changes of ciphers, warnings, the handshake, data, heartbeats.
const KINDS: RangeInclusive<u8> = 20..=24;
/// Above the second byte of a record, in which the version stands: 3. Go's servers take all versions below this one.
const VERSIONS_END: u8 = 16;
/// The kinds of records that a client may send before its second message: a change of ciphers without meaning, a warning, data that it sent
/// too early. A server skips them.
const SKIPPED: [u8; 3] = [20, 21, 23];
/// The head of a record: its kind, the version, and the length of what follows.
const RECORD_HEAD_BYTES: usize = 5;
/// The head of a message: its kind, and the length of what follows.
const MESSAGE_HEAD_BYTES: usize = 4;
/// The longest record, encrypted.
const MAX_RECORD_BYTES: usize = (16 << 10) + 256;
/// What is read at most of a server's answer: the beginning of a message, with the heads of its records.
const MAX_ANSWER_BYTES: usize = 4096;

const SERVER_HELLO: u8 = 2;
/// Where the random number of a server's message lies: after the head and the version.
const RANDOM: std::ops::Range<usize> = 6..38;
/// The number that says that the message asks for another one: the SHA-256 of `HelloRetryRequest`.
const RETRY_RANDOM: [u8; 32] = [
    0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C, 0x02, 0x1E, 0x65, 0xB8, 0x91,
    0xC2, 0xA2, 0x11, 0x16, 0x7A, 0xBB, 0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C,
];

/// What the first bytes of a client are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// The first message of TLS.
    Handshake,
    /// Another record of TLS. Servers differ in what they do with one at the beginning: several skip a warning, and read the first message after it.
    OtherRecord,
    /// No TLS, or nothing.
    Other,
}

/// What these first bytes of a client are: two at least, where the first is the kind of a record.
pub(super) fn beginning(bytes: &[u8]) -> Beginning {
    match bytes {
        [HANDSHAKE, ..] => Beginning::Handshake,
        [kind, version, ..] if is_kind_of_record(*kind) && *version < VERSIONS_END => {
            Beginning::OtherRecord
        }
        _ => Beginning::Other,
    }
}

/// Whether a record of TLS can begin with this byte.
pub(super) fn is_kind_of_record(byte: u8) -> bool {
    KINDS.contains(&byte)
}

/// The length of the records that hold the first message and nothing else. `None` if it is not whole, or if another message begins in its
/// last record.
pub(super) fn length_of_message(bytes: &[u8]) -> Option<usize> {
    let (mut message, mut at) = (Vec::new(), 0);
    loop {
        let record = TlsRecord::at(bytes.get(at..)?)?;
        if record.kind != HANDSHAKE || record.body.len() < record.length {
            return None;
        }
        message.extend_from_slice(record.body);
        at += RECORD_HEAD_BYTES + record.length;
        if let Some([_, high, middle, low]) = message.first_chunk() {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            let whole = MESSAGE_HEAD_BYTES + length;
            if message.len() >= whole {
                return (message.len() == whole).then_some(at);
            }
        }
    }
}

/// Reads the answer of a server until it is known whether it asks again, or until it ends. It may be spread over many records.
pub(super) async fn first_answer(server: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    while read.len() < MAX_ANSWER_BYTES
        && handshake_in(&read).is_some_and(|message| message.len() < RANDOM.end)
    {
        if server.read_buf(&mut read).await? == 0 {
            break;
        }
    }
    Ok(read)
}

/// Whether these first bytes of a server ask for another first message.
pub(super) fn asks_again(answer: &[u8]) -> bool {
    let message = handshake_in(answer).unwrap_or_default();
    message.first() == Some(&SERVER_HELLO) && message.get(RANDOM) == Some(&RETRY_RANDOM)
}

/// The beginning of the handshake in these bytes, as far as it is there; `None` if they begin with something else.
fn handshake_in(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut message, mut at) = (Vec::new(), 0);
    if bytes.first().is_some_and(|kind| *kind != HANDSHAKE) {
        return None;
    }
    while let Some(record) = TlsRecord::at(bytes.get(at..).unwrap_or_default())
        && record.kind == HANDSHAKE
        && message.len() < RANDOM.end
    {
        message.extend_from_slice(record.body);
        at += RECORD_HEAD_BYTES + record.length;
    }
    Some(message)
}

/// Passes on the records of a client that come before its next message of the handshake, and returns the head of that message's first record.
/// `None` if the client ends before.
pub(super) async fn pass_until_handshake(
    client: &mut (impl AsyncRead + Unpin),
    server: &mut TcpStream,
) -> io::Result<Option<Vec<u8>>> {
    loop {
        let mut record = vec![0; RECORD_HEAD_BYTES];
        match client.read_exact(&mut record).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
        match record[0] {
            HANDSHAKE => return Ok(Some(record)),
            kind if SKIPPED.contains(&kind) && length <= MAX_RECORD_BYTES => {}
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        record.resize(RECORD_HEAD_BYTES + length, 0);
        client.read_exact(&mut record[RECORD_HEAD_BYTES..]).await?;
        server.write_all(&record).await?;
    }
}

/// A record, and as much of its body as is there.
struct TlsRecord<'a> {
    kind: u8,
    length: usize,
    body: &'a [u8],
}

impl TlsRecord<'_> {
    fn at(bytes: &[u8]) -> Option<TlsRecord<'_>> {
        let ([kind, _, _, high, low], rest) = bytes.split_first_chunk::<RECORD_HEAD_BYTES>()?;
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        Some(TlsRecord {
            kind: *kind,
            length,
            body: &rest[..length.min(rest.len())],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of a server with this random number.
    fn answer(random: [u8; 32]) -> Vec<u8> {
        let mut message = vec![SERVER_HELLO, 0, 0, 84, 3, 3];
        message.extend(random);
        message.extend([0; 50]);
        message
    }

    /// A message in records of this size.
    fn in_records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            let head = [HANDSHAKE, 3, 3, 0, part.len() as u8];
            [&head, part].concat()
        };
        message.chunks(size).flat_map(record).collect()
    }

    #[test]
    fn an_answer_asks_again_by_its_random_number_alone_however_it_is_cut() {
        for size in [1, 7, 38, 88] {
            assert!(asks_again(&in_records(&answer(RETRY_RANDOM), size)));
            assert!(!asks_again(&in_records(&answer([7; 32]), size)));
        }
        let others = [[21, 3, 3, 0, 2, 2, 40].as_slice(), b"HTTP/1.1 400", b""];
        assert!(others.iter().all(|answer| !asks_again(answer)));
    }

    #[test]
    fn more_is_read_only_while_the_answer_cannot_be_told() {
        let whole = in_records(&answer(RETRY_RANDOM), 10);
        for length in 0..whole.len() {
            let message = handshake_in(&whole[..length]).unwrap();
            assert_eq!(message, answer(RETRY_RANDOM)[..message.len()]);
        }
        assert_eq!(handshake_in(b"HTTP/1.1"), None);
    }

    #[test]
    fn a_message_ends_with_its_record() {
        for size in [1, 7, 88] {
            let records = in_records(&answer([7; 32]), size);
            let with_more = [records.as_slice(), &[23, 3, 3, 0, 1, 0]].concat();
            assert_eq!(length_of_message(&with_more), Some(records.len()));
            assert_eq!(length_of_message(&records[..records.len() - 1]), None);
        }
        let two = [answer([7; 32]), answer([7; 32])].concat();
        assert_eq!(length_of_message(&in_records(&two, 176)), None);
    }
}
