//! The name that a TLS client asks for inside a tunnel: a host that no rule allows is not reached through the address of one that a rule
//! allows.

use super::support::{call, guard};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// The message that ends a connection because of its name.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// The first message of a client that asks for this name.
fn hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// The same message, with one byte of the handshake in each record.
fn in_small_records(bytes: &[u8]) -> Vec<u8> {
    let records = bytes[5..].iter();
    let records = records.flat_map(|byte| [bytes[0], bytes[1], bytes[2], 0, 1, *byte]);
    records.collect()
}

/// What came of bytes in a tunnel: what the server heard, and what the client was told after the tunnel stood.
struct Passed {
    heard: Vec<u8>,
    told: Vec<u8>,
    note: String,
}

/// Sends each piece into a tunnel to a host that these rules allow. The server answers `ok` to what it hears.
async fn send(rules: &[&str], host: &str, pieces: &[&[u8]]) -> Passed {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (guard, notes) = guard(rules, listener.local_addr().unwrap());
    let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
    let serving = tokio::spawn(async move {
        let (mut server, _) = listener.accept().await.unwrap();
        let mut heard = vec![0; wanted];
        match server.read_exact(&mut heard).await {
            Ok(_) => server.write_all(b"ok").await.unwrap(),
            Err(_) => heard.clear(),
        }
        heard
    });
    let connect = format!("CONNECT {host} HTTP/1.1\r\n\r\n");
    let (mut client, guarding) = call(&guard, connect).await;
    for piece in pieces {
        // Refused before all of it was sent.
        if client.write_all(piece).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut told = Vec::new();
    let reading = client.read_to_end(&mut told);
    let _ = tokio::time::timeout(Duration::from_secs(60), reading).await;
    drop(client);
    guarding.await.unwrap();
    let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
    let told = told.strip_prefix(established.as_slice()).unwrap().to_vec();
    let note = notes.lock().unwrap()[0].clone();
    Passed {
        heard: serving.await.unwrap(),
        told,
        note,
    }
}

const RULES: [&str; 2] = ["near.example private", "*.wild.example private"];

#[tokio::test]
async fn a_host_that_no_rule_allows_is_not_reached_inside_a_tunnel() {
    let other = hello("other.example");
    let small = in_small_records(&other);
    let bytes: Vec<&[u8]> = other.chunks(1).collect();
    for pieces in [vec![other.as_slice()], vec![small.as_slice()], bytes] {
        let passed = send(&RULES, "near.example:443", &pieces).await;
        assert_eq!(passed.heard, b"", "the server hears nothing");
        assert_eq!(passed.told, ALERT);
        let reason = "refused: this session may not reach other.example:443; it may reach";
        let note = format!("CONNECT near.example:443 {reason}");
        assert!(passed.note.starts_with(&note), "{}", passed.note);
    }
}

#[tokio::test]
async fn records_that_servers_skip_before_the_first_message_hide_no_name() {
    let other = hello("other.example");
    let skipped: [&[u8]; 5] = [
        // A warning: BoringSSL and Go's servers read on after it.
        &[21, 3, 1, 0, 2, 1, 41],
        &[21, 0, 0, 0, 2, 1, 90],
        &[20, 3, 3, 0, 1, 1],
        &[23, 3, 3, 0, 0],
        // OpenSSL reads on after an empty record.
        &[22, 3, 1, 0, 0],
    ];
    for record in skipped {
        let passed = send(&RULES, "near.example:443", &[record, &other]).await;
        assert_eq!(passed.heard, b"", "{record:?}");
        let byte_by_byte: Vec<&[u8]> = record.chunks(1).chain([other.as_slice()]).collect();
        let passed = send(&RULES, "near.example:443", &byte_by_byte).await;
        assert_eq!(passed.heard, b"", "{record:?}");
    }
}

#[tokio::test]
async fn a_host_that_a_rule_allows_is_reached_and_so_is_an_address() {
    for (rules, host, name) in [
        (RULES, "near.example:443", "near.example"),
        (RULES, "near.example:443", "NEAR.example"),
        (RULES, "near.example:443", "a.wild.example"),
        (RULES, "a.wild.example:443", "b.wild.example"),
        (["127.0.0.1 private"; 2], "127.0.0.1:443", "any.example"),
    ] {
        let hello = hello(name);
        let passed = send(&rules, host, &[&hello]).await;
        assert_eq!(passed.heard, hello, "{host} {name}");
        assert_eq!(passed.told, b"ok", "{host} {name}");
    }
}

#[tokio::test]
async fn what_looks_like_tls_and_cannot_be_read_is_refused_and_other_protocols_pass() {
    let mut broken = hello("near.example");
    broken[5] = 99;
    let passed = send(&RULES, "near.example:443", &[&broken]).await;
    assert_eq!(passed.heard, b"");
    assert!(passed.note.contains("cannot be read"), "{}", passed.note);
    let passed = send(&RULES, "near.example:443", &[b"SSH-2.0-x\r\n"]).await;
    assert_eq!(passed.told, b"ok");
}

/// The answer of a server that asks for the first message once more: nothing but what says so.
fn retry_request() -> Vec<u8> {
    let random = [
        0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C, 0x02, 0x1E, 0x65, 0xB8,
        0x91, 0xC2, 0xA2, 0x11, 0x16, 0x7A, 0xBB, 0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8,
        0x33, 0x9C,
    ];
    let head = [22, 3, 3, 0, 42, 2, 0, 0, 38, 3, 3];
    [head.as_slice(), &random, &[0, 0x13, 0x01, 0]].concat()
}

/// What a server hears that asks for the first message once more, and what the client is told after that. The client sends `first`, and `then`
/// when the server has asked.
async fn send_again(first: &[u8], then: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (guard, _) = guard(&RULES, listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut server, _) = listener.accept().await.unwrap();
        let (mut heard, mut chunk) = (Vec::new(), [0; 4096]);
        let read = server.read(&mut chunk).await.unwrap();
        heard.extend_from_slice(&chunk[..read]);
        server.write_all(&retry_request()).await.unwrap();
        server.read_to_end(&mut heard).await.unwrap();
        heard
    });
    let (mut client, guarding) = call(
        &guard,
        "CONNECT near.example:443 HTTP/1.1\r\n\r\n".to_owned(),
    )
    .await;
    client.write_all(first).await.unwrap();
    let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
    let mut told = vec![0; established.len() + retry_request().len()];
    client.read_exact(&mut told).await.unwrap();
    assert!(told.ends_with(&retry_request()));
    client.write_all(then).await.unwrap();
    client.shutdown().await.unwrap();
    told.clear();
    client.read_to_end(&mut told).await.unwrap();
    guarding.await.unwrap();
    (serving.await.unwrap(), told)
}

#[tokio::test]
async fn the_second_first_message_names_no_other_host_either() {
    let [near, other] = [hello("near.example"), hello("other.example")];
    let change_of_ciphers = [20, 3, 3, 0, 1, 1];
    let early_data = [23, 3, 3, 0, 2, 7, 7];
    let small = in_small_records(&other);
    for before in [&[][..], &change_of_ciphers, &early_data] {
        for second in [&other, &small] {
            let second = [before, second].concat();
            let refused = ([near.as_slice(), before].concat(), ALERT.to_vec());
            assert_eq!(send_again(&near, &second).await, refused);
            // Sent before the server has asked for it.
            let both = [near.as_slice(), &second].concat();
            assert_eq!(send_again(&both, b"").await, refused);
        }
        let second = [before, &near, b"more"].concat();
        let both = [near.as_slice(), &second].concat();
        let passed = (both.clone(), Vec::new());
        assert_eq!(send_again(&near, &second).await, passed);
        assert_eq!(send_again(&both, b"").await, passed);
    }
}
