//! Who may come in over HTTP.

use crate::support::{Listening, TOKEN};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const GREETING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

/// The status that a greeting with these headers gets.
fn status(listening: &Listening, headers: &[(&str, &str)]) -> u16 {
    status_at(listening, "/mcp", headers)
}

fn status_at(listening: &Listening, path: &str, headers: &[(&str, &str)]) -> u16 {
    let mut request = format!("POST {path} HTTP/1.1\r\n");
    let usual = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Connection", "close"),
    ];
    for (name, value) in usual.iter().chain(headers) {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!(
        "Content-Length: {}\r\n\r\n{GREETING}",
        GREETING.len()
    ));
    let mut stream = TcpStream::connect(listening.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[9..]).parse().unwrap()
}

#[test]
fn only_who_has_the_token_comes_in() {
    let listening = Listening::new(|_| {});
    let host = ("Host", "localhost");
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(status(&listening, &[host, ("Authorization", &bearer)]), 200);
    assert_eq!(status(&listening, &[host]), 401);
    assert_eq!(
        status(&listening, &[host, ("Authorization", "Bearer guessed")]),
        401
    );
    assert_eq!(
        status_at(&listening, "/", &[host, ("Authorization", &bearer)]),
        404
    );
    listening.stop();
}

#[test]
fn names_and_pages_of_strangers_are_refused() {
    let bearer = format!("Bearer {TOKEN}");
    let token = ("Authorization", bearer.as_str());
    let closed = Listening::new(|_| {});
    // What a browser sends when a page's name was made to point here.
    assert_eq!(status(&closed, &[token, ("Host", "evil.example")]), 403);
    let page = ("Origin", "http://localhost:3000");
    assert_eq!(status(&closed, &[token, ("Host", "localhost"), page]), 403);
    closed.stop();

    let open = Listening::new(|options| options.origins = vec!["http://localhost:3000".to_owned()]);
    assert_eq!(status(&open, &[token, ("Host", "localhost"), page]), 200);
    open.stop();
}
