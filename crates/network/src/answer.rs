//! The answer of a server on its way to the client, who is told that the connection ends with it.
//!
//! A server that was asked to close need not say that it does. A client that does not know would send its next request just when we close,
//! and take that for a failure.

use std::io;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_buf,
};

/// A longer head is handed on as it is.
const LONGEST_HEAD: u64 = 256 << 10;

/// Hands on everything that comes. Returns how many bytes came.
pub(crate) async fn pass(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<u64> {
    let mut received = 0;
    loop {
        let head = head(from).await?;
        received += head.len() as u64;
        if is_before_the_answer(&head) {
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
    let mut from = from.take(LONGEST_HEAD);
    loop {
        let begin = head.len();
        from.read_until(b'\n', &mut head).await?;
        if matches!(&head[begin..], b"" | b"\n" | b"\r\n") {
            return Ok(head);
        }
    }
}

/// `HTTP/1.1 100 Continue` and its kin: the answer itself comes after them.
fn is_before_the_answer(head: &[u8]) -> bool {
    let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    head.starts_with(b"HTTP/1.") && head.ends_with(b"\n") && matches!(status, [b'1', _, _])
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
        let received = pass(&mut answer.as_bytes(), &mut to).await.unwrap();
        assert_eq!(received, answer.len() as u64);
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
}
