//! The response of a server, passed on to the client with the header `Connection: close`.
//!
//! A server that was asked to close need not say that it does. Without the header, a client could send its next request while the guard
//! closes the connection, and take that for a failure.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_buf,
};

/// A longer head is handed on as it is.
const MAX_RESPONSE_HEAD_BYTES: u64 = 256 << 10;

/// The status of a server that goes on with another protocol.
const SWITCHING_PROTOCOLS: u16 = 101;
/// The most answers such as `100 Continue` before the answer itself.
const MAX_INTERIM_ANSWERS: usize = 16;

/// Passes on everything that comes. Returns how many bytes came. `is_begun` is set before the client gets the first of them.
pub(crate) async fn pass(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    is_begun: &AtomicBool,
) -> io::Result<u64> {
    let mut received = 0;
    let mut interim_answers = 0;
    loop {
        let head = head(from).await?;
        received += head.len() as u64;
        let status = status(&head);
        if status == Some(SWITCHING_PROTOCOLS) {
            return Err(io::Error::other(
                "it switches to another protocol, which was not asked for",
            ));
        }
        is_begun.store(true, Ordering::Relaxed);
        if matches!(status, Some(100..200)) {
            interim_answers += 1;
            if interim_answers > MAX_INTERIM_ANSWERS {
                return Err(io::Error::other("it announces its answer without end"));
            }
            to.write_all(&head).await?;
            continue;
        }
        match closing(&head) {
            Some(told) => to.write_all(told.as_bytes()).await?,
            None => to.write_all(&head).await?,
        }
        break;
    }
    Ok(received + copy_buf(from, to).await?)
}

/// The lines up to the empty one, or what there is.
async fn head(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut from = from.take(MAX_RESPONSE_HEAD_BYTES);
    loop {
        let begin = head.len();
        from.read_until(b'\n', &mut head).await?;
        if matches!(&head[begin..], b"" | b"\n" | b"\r\n") {
            return Ok(head);
        }
    }
}

/// The status of a whole head of HTTP/1. Those from 100 to 199 are before the answer.
pub(crate) fn status(head: &[u8]) -> Option<u16> {
    let line = head.split_inclusive(|byte| *byte == b'\n').next()?;
    // The first line alone: what its headers look like is between the server and the client.
    let line = [line.trim_ascii_end(), b"\r\n\r\n"].concat();
    let mut answer = httparse::Response::new(&mut []);
    let parsed = answer.parse(&line);
    let is_whole = head.ends_with(b"\n") && matches!(parsed, Ok(httparse::Status::Complete(_)));
    answer.code.filter(|_| is_whole)
}

/// The same head with the word that the connection closes. None where it is no whole head of a kind that we know.
fn closing(head: &[u8]) -> Option<String> {
    const ABOUT_THE_CONNECTION: [&str; 3] = ["connection", "keep-alive", "proxy-connection"];
    let text = std::str::from_utf8(head).ok()?;
    let lines = text
        .strip_suffix("\r\n\r\n")
        .or_else(|| text.strip_suffix("\n\n"))?;
    if !lines.starts_with("HTTP/1.") {
        return None;
    }
    let mut told = String::with_capacity(head.len() + 20);
    let mut is_dropped = false;
    for line in lines.lines() {
        // A line that begins with a space belongs to the one before it.
        if !line.starts_with([' ', '\t']) {
            let name = line.split(':').next().unwrap_or_default().trim();
            is_dropped = ABOUT_THE_CONNECTION
                .iter()
                .any(|other| name.eq_ignore_ascii_case(other));
        }
        if !is_dropped {
            told.push_str(line);
            told.push_str("\r\n");
        }
    }
    told.push_str("Connection: close\r\n\r\n");
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passed(answer: &str) -> String {
        let mut to = Vec::new();
        let is_begun = AtomicBool::new(false);
        let received = pass(&mut answer.as_bytes(), &mut to, &is_begun).await;
        assert_eq!(received.unwrap(), answer.len() as u64);
        String::from_utf8(to).unwrap()
    }

    #[tokio::test]
    async fn a_client_hears_that_the_connection_closes() {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=5\r\nCONNECTION: keep-alive,\r\n more\r\nX: y\r\n\r\nok\r\n\r\n";
        let told =
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\nConnection: close\r\n\r\nok\r\n\r\n";
        assert_eq!(passed(answer).await, told);
    }

    #[tokio::test]
    async fn what_comes_before_the_answer_is_not_the_answer() {
        let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\r\n\r\ngone";
        let told =
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\r\nConnection: close\r\n\r\ngone";
        assert_eq!(passed(answer).await, told);
    }

    #[tokio::test]
    async fn what_is_no_answer_stays_as_it_is() {
        for odd in ["", "HTTP/1.1 200 OK\r\nX", "nonsense\r\n\r\nx", "\r\n"] {
            assert_eq!(passed(odd).await, odd);
        }
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\nbody", "y".repeat(300_000));
        assert_eq!(passed(&endless).await, endless);
    }

    #[tokio::test]
    async fn a_server_that_switches_protocols_or_never_answers_is_no_server() {
        let switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nbytes".to_owned();
        let endless = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(MAX_INTERIM_ANSWERS + 1);
        for answer in [switched, endless] {
            let mut to = Vec::new();
            let is_begun = AtomicBool::new(false);
            let passed = pass(&mut answer.as_bytes(), &mut to, &is_begun).await;
            assert!(passed.is_err(), "{answer}");
        }
    }
}
