//! What the guard lets through, seen by servers that people use: each sees exactly the one request that the rules were asked about.
//!
//! Requests come from the generator of the fuzz targets. What the guard makes of each is sent to every server, with `keep-alive` in place
//! of `close`, and a request of ours right behind it: a server that reads something else into the first one would not see the second
//! as it is.
//!
//! Python's own server and, with the package index, six others are brought along. Node, nginx, Apache and lighttpd take part where they are on
//! `PATH`. Short unless `CELLBLOCK_LONG` is set.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod answers;
mod programs;

use answers::{Seen, exchange};
use cellblock_fuzz::{Choices, Outcome, guard, request, run};
use cellblock_network::Rewritten;
use programs::Server;

/// Requests that every server gets in a short run.
const SHORT_RUN: usize = 150;
/// Behind each request stands this one.
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: next.example\r\nConnection: close\r\n\r\n";

#[test]
fn every_server_sees_exactly_the_request_that_was_judged() {
    let servers = programs::start();
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    println!("servers: {}", names.join(", "));
    assert!(!servers.is_empty());
    let mut counts = vec![(0, 0); servers.len()];
    run("servers", SHORT_RUN, |bytes| {
        let request = request(&mut Choices::new(bytes));
        let Ok(Some(rewritten)) = guard().rewrite(&request) else {
            return Outcome::Refused;
        };
        // An answer to HEAD has no body to tell anything in, and a tunnel is no request.
        if rewritten.path.is_none() || rewritten.method == "HEAD" {
            return Outcome::Refused;
        }
        for (server, (seen, refused)) in servers.iter().zip(&mut counts) {
            match check(server, &rewritten) {
                Outcome::Accepted => *seen += 1,
                Outcome::Refused => *refused += 1,
            }
        }
        Outcome::Accepted
    });
    for (server, (seen, refused)) in servers.iter().zip(&counts) {
        println!("{}: {seen} seen, {refused} refused", server.name);
        assert!(seen > refused, "{} takes hardly anything", server.name);
    }
}

fn check(server: &Server, rewritten: &Rewritten) -> Outcome {
    let text = String::from_utf8_lossy(&rewritten.bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let kept = head.replacen("Connection: close", "Connection: keep-alive", 1);
    let sent = format!("{kept}\r\n\r\n{body}{NEXT}");
    let answers = exchange(server.port, sent.as_bytes());
    let context = || format!("{} got {sent:?} and answered {answers:?}", server.name);
    assert!(answers.len() <= 2, "too many requests: {}", context());
    let Some(first) = answers.first() else {
        panic!("no answer: {}", context());
    };
    let is_chunked = head.contains("\r\nTransfer-Encoding: chunked");
    let next = answers.get(1);
    let has_next = next.is_some_and(|next| match &next.seen {
        Some(seen) => seen.method == "GET" && seen.is_target("/next") && seen.credentials() == 0,
        None => false,
    });
    if first.status >= 400 {
        // A request that the server does not want at all. What is behind it is seen as it is, or not at all.
        assert!(next.is_none() || has_next, "{}", context());
        return Outcome::Refused;
    }
    let Some(seen) = &first.seen else {
        panic!("it does not tell what it saw: {}", context());
    };
    assert_eq!(seen.method, rewritten.method, "{}", context());
    let path = rewritten.path.as_deref().unwrap();
    assert!(seen.is_target(path), "another path: {}", context());
    check_headers(seen, head, &context);
    if server.reads_no_chunks() && is_chunked {
        // It leaves the chunks lying, takes them for a request, and refuses that.
        assert!(next.is_none_or(|next| next.status >= 400), "{}", context());
        return Outcome::Accepted;
    }
    if let Some(came) = &seen.body {
        let expected = if is_chunked {
            joined(body)
        } else {
            body.to_owned()
        };
        assert_eq!(came, &expected, "{}", context());
    }
    assert!(has_next, "what came next was not seen: {}", context());
    Outcome::Accepted
}

/// No header comes into being on the way, and the credential is there once where it belongs.
fn check_headers(seen: &Seen, head: &str, context: &dyn Fn() -> String) {
    let plain = |name: &str| {
        name.to_ascii_lowercase()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "-")
    };
    let lines = head.lines().skip(1);
    let sent: Vec<String> = lines
        .map(|line| plain(line.split(':').next().unwrap_or_default()))
        .collect();
    for (name, value) in &seen.headers {
        assert!(
            sent.contains(&plain(name)),
            "the header {name:?}: {}",
            context()
        );
        if plain(name) == "host" {
            let expected = head.lines().find_map(|line| line.strip_prefix("Host: "));
            assert_eq!(Some(value.as_str()), expected, "{}", context());
        }
    }
    let is_credential = |name: &&String| name.as_str() == "x-key";
    let expected = sent.iter().filter(is_credential).count();
    assert_eq!(seen.credentials(), expected, "{}", context());
}

/// The body that chunks make up.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        body.push_str(&rest[..size]);
        chunks = &rest[size + 2..];
    }
    body
}

#[test]
fn the_oracle_sees_a_smuggled_request() {
    // What the guard must never let through, straight to the servers: at least one of them reads two requests, so it is worth looking.
    let rewritten = Rewritten {
        method: "GET".to_owned(),
        authority: cellblock_network::Authority {
            host: "allowed.example".to_owned(),
            port: 80,
        },
        path: Some("/a\tHTTP/1.1\nHost:x\n\nDELETE\t/all".to_owned()),
        bytes: b"GET /a\tHTTP/1.1\nHost:x\n\nDELETE\t/all HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n"
            .to_vec(),
    };
    let servers = programs::start();
    let is_deceived = |server: &Server| {
        let check = std::panic::AssertUnwindSafe(|| check(server, &rewritten));
        std::panic::catch_unwind(check).is_err()
    };
    let deceived: Vec<&str> = servers
        .iter()
        .filter(|server| is_deceived(server))
        .map(|server| server.name.as_str())
        .collect();
    println!("deceived: {deceived:?}");
    assert!(!deceived.is_empty());
}
