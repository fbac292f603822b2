//! The guard, between a client and a server on this machine, with a telephone book of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests are tests"
)]

use cellblock_network::{Connection, Credential, Guard, Outcome};
use cellblock_protocol::{HostPattern, NetworkRule};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What was written down.
type Notes = Arc<Mutex<Vec<String>>>;

/// A guard with these rules, to whom every name is the server at `address`.
fn guard(rules: &[&str], address: SocketAddr) -> (Guard, Notes) {
    let notes = Notes::default();
    let rules: Vec<NetworkRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let noted = Arc::clone(&notes);
    let log = move |connection: &Connection| {
        let what = match &connection.outcome {
            Outcome::Allowed { .. } => "allowed".to_owned(),
            Outcome::Refused(reason) => format!("refused: {reason}"),
        };
        let Connection { kind, target, .. } = connection;
        noted
            .lock()
            .unwrap()
            .push(format!("{kind} {target} {what}"));
    };
    let guard = Guard::new(&rules, Arc::new(log)).lookup(Arc::new(move |host, _| {
        Box::pin(async move {
            match host.as_str() {
                "nowhere.example" => Err(io::Error::other("no such name")),
                _ => Ok(vec![address]),
            }
        })
    }));
    (guard, notes)
}

/// A server that hands back what it was sent.
async fn server() -> (SocketAddr, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heard = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 65536];
        let read = client.read(&mut bytes).await.unwrap();
        client
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .await
            .unwrap();
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    });
    (address, heard)
}

/// What a client gets back who sends this to the proxy.
async fn ask(guard: &Guard, request: &str) -> String {
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(door.local_addr().unwrap())
        .await
        .unwrap();
    let (inside, _) = door.accept().await.unwrap();
    let guard = guard.clone();
    let serving = tokio::spawn(async move { guard.serve_http(inside).await });
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    serving.await.unwrap();
    answer
}

#[tokio::test]
async fn a_public_name_with_a_private_address_is_refused() {
    let (address, _) = server().await;
    let (guard, notes) = guard(&["rebound.example"], address);
    let answer = ask(&guard, "GET http://rebound.example/ HTTP/1.1\r\n\r\n").await;
    let reason = "rebound.example has the private address 127.0.0.1, which no rule allows";
    assert!(
        answer.starts_with(&format!("HTTP/1.1 403 {reason}")),
        "{answer}"
    );
    assert!(
        notes.lock().unwrap()[0].starts_with(&format!("GET rebound.example:80 refused: {reason}"))
    );
}

#[tokio::test]
async fn unless_that_was_meant() {
    let (address, heard) = server().await;
    let (guard, notes) = guard(&["own.example private"], address);
    let answer = ask(&guard, "GET http://own.example/ HTTP/1.1\r\n\r\n").await;
    assert!(answer.ends_with("ok"), "{answer}");
    assert!(
        heard
            .await
            .unwrap()
            .starts_with("GET / HTTP/1.1\r\nHost: own.example\r\n")
    );
    assert_eq!(*notes.lock().unwrap(), ["GET own.example:80 allowed"]);
}

#[tokio::test]
async fn credentials_are_put_on_outside_and_only_for_their_host() {
    let secret = |host: &str| {
        let host = HostPattern::Name(host.to_owned());
        Credential::new(host, "Authorization", "Bearer secret").unwrap()
    };
    assert!(!format!("{:?}", secret("a.example")).contains("secret"));
    let request = "GET http://a.example/ HTTP/1.1\r\nauthorization: forged\r\n\r\n";
    for (host, there) in [("a.example", true), ("b.example", false)] {
        let (address, heard) = server().await;
        let (guard, _) = guard(&["a.example private"], address);
        ask(&guard.credentials(&[secret(host)]), request).await;
        let heard = heard.await.unwrap();
        assert_eq!(
            heard.contains("Authorization: Bearer secret\r\n"),
            there,
            "{heard}"
        );
        assert_eq!(heard.contains("forged"), !there, "{heard}");
    }
    let host = HostPattern::Name("a.example".to_owned());
    assert!(Credential::new(host, "X", "a\r\nHost: b").is_none());
}

#[tokio::test]
async fn what_cannot_be_found_or_reached_is_told() {
    // Nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let (guard, _) = guard(&["nowhere.example", "gone.example private"], gone);
    let answer = ask(&guard, "CONNECT nowhere.example:443 HTTP/1.1\r\n\r\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 502 the name nowhere.example cannot be found: no such name"),
        "{answer}"
    );
    let answer = ask(&guard, "CONNECT gone.example:443 HTTP/1.1\r\n\r\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 502 gone.example:443 cannot be reached"),
        "{answer}"
    );
}
