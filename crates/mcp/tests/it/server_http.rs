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
    let mut answer = [0; 12];
    let mut stream = greet(listening, path, headers);
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[9..]).parse().unwrap()
}

/// A connection on which a greeting was sent.
fn greet(listening: &Listening, path: &str, headers: &[(&str, &str)]) -> TcpStream {
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
    stream
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

#[test]
fn a_request_that_names_two_hosts_is_refused() {
    let bearer = format!("Bearer {TOKEN}");
    let token = ("Authorization", bearer.as_str());
    let local = ("Host", "localhost");
    let foreign = ("Host", "evil.example");
    let checked = Listening::new(|_| {});
    let unchecked = Listening::new(|options| options.hosts.clear());
    for listening in [&checked, &unchecked] {
        assert_eq!(status(listening, &[token, local, foreign]), 400);
        assert_eq!(status(listening, &[token, foreign, local]), 400);
        assert_eq!(status(listening, &[token, local, local]), 400);
        for target in [
            "http://evil.example/mcp",
            "http://localhost@evil.example/mcp",
        ] {
            assert_eq!(
                status_at(listening, target, &[token, local]),
                400,
                "{target}"
            );
        }
        // A whole address that agrees with the header is what clients send to a proxy.
        let whole = "http://localhost/mcp";
        assert_eq!(status_at(listening, whole, &[token, local]), 200);
        assert_eq!(status_at(listening, whole, &[token]), 400);
    }
    // Where both agree on a foreign host, the list of hosts decides.
    let target = "http://evil.example/mcp";
    assert_eq!(status_at(&checked, target, &[token, foreign]), 403);
    assert_eq!(status_at(&unchecked, target, &[token, foreign]), 200);
    checked.stop();
    unchecked.stop();
}

/// Clients that connect and then say only this.
fn mute(listening: &Listening, count: usize, said: &str) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(listening.address).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        stream
    };
    (0..count).map(connect).collect()
}

/// Whether the server closed a connection, after waiting for that so long.
fn is_closed(stream: &mut TcpStream, limit: Duration) -> bool {
    stream.set_read_timeout(Some(limit)).unwrap();
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn clients_without_the_token_take_no_place_from_one_that_has_it() {
    let listening = Listening::new(|_| {});
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Host", "localhost"), ("Authorization", bearer.as_str())];
    for said in [
        "",
        "POST /mcp HTTP/1.1\r\nHost: loc",
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer guessed\r\nContent-Length: 1000\r\n\r\n",
    ] {
        let mut strangers = mute(&listening, 400, said);
        // It would wait for ten seconds at most.
        assert_eq!(status(&listening, &headers), 200, "{said:?}");
        // They have a share of their own, and the oldest go first: with the next connection, once they had time for a request.
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(status(&listening, &headers), 200, "{said:?}");
        strangers.retain_mut(|stream| !is_closed(stream, Duration::from_millis(1)));
        let kept = strangers.len();
        assert!(kept <= 64, "{kept} strangers are still there: {said:?}");
    }
    listening.stop();
}

#[test]
fn a_client_that_drips_its_head_is_let_go() {
    let listening = Listening::new(|_| {});
    let mut dripping = mute(&listening, 4, "POST /mcp HTTP/1.1\r\n");
    for _ in 0..60 {
        for stream in &mut dripping {
            // A connection that is closed already takes no more.
            let _ = stream.write_all(b"X: y\r\n");
        }
        dripping.retain_mut(|stream| !is_closed(stream, Duration::from_millis(50)));
        if dripping.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(dripping.is_empty(), "{} are still there", dripping.len());
    listening.stop();
}

#[test]
fn a_head_without_end_is_not_kept() {
    let listening = Listening::new(|_| {});
    let mut stream = TcpStream::connect(listening.address).unwrap();
    let line = format!("X: {}\r\n", "y".repeat(1000));
    let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\n");
    let mut written = 0;
    // The kernel takes some more than the server does.
    while written < 64 << 20 && stream.write_all(line.as_bytes()).is_ok() {
        written += line.len();
    }
    assert!(written < 64 << 20);
    listening.stop();
}

#[test]
fn a_client_with_the_token_keeps_its_connection_whoever_comes() {
    let listening = Listening::new(|_| {});
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{GREETING}",
        GREETING.len()
    );
    let mut stream = TcpStream::connect(listening.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut answer = [0; 4096];
    for _ in 0..3 {
        stream.write_all(request.as_bytes()).unwrap();
        let read = stream.read(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        // The rest of the answer: it ends with an empty chunk.
        let mut rest = text;
        while !rest.ends_with("0\r\n\r\n") {
            let read = stream.read(&mut answer).unwrap();
            assert!(read > 0, "the connection was closed: {rest}");
            rest.push_str(&String::from_utf8_lossy(&answer[..read]));
        }
        drop(mute(&listening, 300, ""));
    }
    listening.stop();
}

#[test]
fn a_client_that_there_is_no_place_for_is_told_to_try_again() {
    let listening = Listening::new(|_| {});
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Host", "localhost"), ("Authorization", bearer.as_str())];
    for client in 0..64 {
        assert_eq!(status(&listening, &headers), 200, "client {client}");
    }
    let mut refused = greet(&listening, "/mcp", &headers);
    let mut answer = String::new();
    refused.read_to_string(&mut answer).unwrap();
    let answer = answer.to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\nretry-after: 5\r\n"), "{answer}");
    let reason = "\r\n\r\n64 clients are being served, and no more are possible\n";
    assert!(answer.ends_with(reason), "{answer}");
    listening.stop();
}
