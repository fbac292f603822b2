//! One request or tunnel, and what comes of it.

use super::support::{Notes, ask, call, guard, hear, server, tunnel};
use cellblock_network::{Credential, Guard, Proxies};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

#[tokio::test]
async fn a_client_hears_that_the_connection_ends_although_the_server_did_not_say_so() {
    let (address, _) = server().await;
    let (guard, _) = guard(&["near.example private"], address);
    let answer = ask(&guard, "GET http://near.example/ HTTP/1.1\r\n\r\n").await;
    assert_eq!(
        answer,
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
    );
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
async fn a_proxy_of_the_host_is_asked_for_what_rules_allow() {
    let (address, heard) = server().await;
    let proxy = format!("http://me:secret@{address}");
    let proxies = Proxies::new(Some(&proxy), Some(&proxy), "").unwrap();
    let (guard, notes) = guard(&["far.example"], "192.0.2.1:1".parse().unwrap());
    let guard = guard.proxies(Arc::new(proxies));
    let refused = ask(&guard, "GET http://other.example/ HTTP/1.1\r\n\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    let answer = ask(&guard, "GET http://far.example/a HTTP/1.1\r\n\r\n").await;
    assert!(answer.ends_with("ok"), "{answer}");
    let heard = heard.await.unwrap();
    assert!(
        heard.starts_with("GET http://far.example:80/a HTTP/1.1\r\nHost: far.example\r\n"),
        "{heard}"
    );
    assert!(
        heard.ends_with("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n"),
        "{heard}"
    );
    assert_eq!(notes.lock().unwrap()[1], "GET far.example:80 allowed");
}

#[tokio::test]
async fn tunnels_go_through_a_proxy_of_the_host_too_and_its_refusal_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let mut heard = Vec::new();
        for answer in ["200 fine\r\n\r\nhello", "407 who are you\r\n\r\n"] {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 4096];
            let read = client.read(&mut bytes).await.unwrap();
            heard.push(String::from_utf8_lossy(&bytes[..read]).into_owned());
            let answer = format!("HTTP/1.1 {answer}");
            client.write_all(answer.as_bytes()).await.unwrap();
        }
        heard
    });
    let (guard, _) = guard(&["far.example"], "192.0.2.1:1".parse().unwrap());
    let guard = guard.proxies(Arc::new(Proxies::new(None, Some(&proxy), "").unwrap()));
    let connect = "CONNECT far.example:443 HTTP/1.1\r\n\r\n";
    let answer = tunnel(&guard, connect).await;
    assert!(answer.ends_with("established\r\n\r\nhello"), "{answer}");
    let answer = tunnel(&guard, connect).await;
    assert!(
        answer.contains("says: HTTP/1.1 407 who are you"),
        "{answer}"
    );
    let heard = serving.await.unwrap();
    assert_eq!(
        heard[0],
        "CONNECT far.example:443 HTTP/1.1\r\nHost: far.example:443\r\n\r\n"
    );
}

#[tokio::test]
async fn credentials_are_put_on_outside_and_only_for_their_host_and_port() {
    let secret = |target: &str| {
        let rule = format!("http://{target} Authorization: Bearer env:UNUSED");
        Credential::new(rule.parse().unwrap(), "5ecret").unwrap()
    };
    assert!(!format!("{:?}", secret("a.example")).contains("5ecret"));
    let request = "GET http://a.example/ HTTP/1.1\r\nauthorization: forged\r\n\r\n";
    for (target, there) in [
        ("a.example", true),
        ("b.example", false),
        ("a.example:81", false),
    ] {
        let (address, heard) = server().await;
        let (guard, _) = guard(&["a.example private"], address);
        ask(&guard.credentials(&[secret(target)]), request).await;
        let heard = heard.await.unwrap();
        assert_eq!(
            heard.contains("Authorization: Bearer 5ecret\r\n"),
            there,
            "{heard}"
        );
        assert_eq!(heard.contains("forged"), !there, "{heard}");
    }
}

#[test]
fn a_secret_comes_from_a_file_and_a_bad_one_is_told_without_being_shown() {
    let directory = tempfile::tempdir().unwrap();
    let read = |contents: &[u8]| {
        let path = directory.path().join("key");
        std::fs::write(&path, contents).unwrap();
        let rule = format!("a.example X-Key: file:{}", path.display());
        Credential::read(&rule.parse().unwrap())
    };
    assert!(read(b"5ecret\n").is_ok());
    for bad in [&b"5ecret\r\nHost: b"[..], b"  \n", &[b'5'; 20_000]] {
        let message = read(bad).unwrap_err().to_string();
        assert!(message.contains("cannot be used"), "{message}");
        let own = directory.path().display().to_string();
        assert!(!message.replace(&own, "").contains('5'), "{message}");
    }
    let missing = "a.example X-Key: env:CELLBLOCK_NO_SUCH_VARIABLE";
    let message = Credential::read(&missing.parse().unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with(
            "the credential for a.example cannot be read from env:CELLBLOCK_NO_SUCH_VARIABLE"
        ),
        "{message}"
    );
}

#[tokio::test]
async fn with_a_credential_the_guard_speaks_tls_and_the_code_need_not() {
    let (guard, notes, heard) = guard_of_tls_server(Trusted::Yes).await;
    let answer = ask(&guard, "GET http://own.example/path HTTP/1.1\r\n\r\n").await;
    assert!(answer.ends_with("ok"), "{answer}");
    let heard = heard.await.unwrap();
    assert_eq!(
        heard,
        "GET /path HTTP/1.1\r\nHost: own.example\r\nConnection: close\r\nX-Key: 5ecret\r\n\r\n"
    );
    assert_eq!(*notes.lock().unwrap(), ["GET own.example:80 allowed"]);
}

#[tokio::test]
async fn a_server_that_is_not_who_it_says_gets_no_credential() {
    let (guard, notes, heard) = guard_of_tls_server(Trusted::No).await;
    let answer = ask(&guard, "GET http://own.example/ HTTP/1.1\r\n\r\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 502 https://own.example:443 cannot be reached"),
        "{answer}"
    );
    assert!(answer.contains("certificate"), "{answer}");
    assert_eq!(heard.await.unwrap(), "");
    assert!(notes.lock().unwrap()[0].contains("refused"));
}

/// A request to port 80 arrives at port 443, where a credential needs TLS: the rules of that port decide.
#[tokio::test]
async fn the_rules_are_asked_about_the_port_where_a_request_arrives() {
    for rules in [
        &[
            "DELETE own.example:80 private",
            "GET own.example:443 private",
        ][..],
        &["own.example:80 private"],
    ] {
        let (guard, notes, heard) = guard_of_tls_server_with(Trusted::Yes, rules).await;
        let answer = ask(&guard, "DELETE http://own.example/all HTTP/1.1\r\n\r\n").await;
        let refused = "HTTP/1.1 403 this session may not reach own.example:443";
        assert!(answer.starts_with(refused), "{rules:?}: {answer}");
        assert!(notes.lock().unwrap()[0].contains("refused"), "{rules:?}");
        assert!(!heard.is_finished(), "{rules:?}");
    }
    let rules = ["GET own.example:443 private"];
    let (guard, _, heard) = guard_of_tls_server_with(Trusted::Yes, &rules).await;
    let answer = ask(&guard, "GET http://own.example/ HTTP/1.1\r\n\r\n").await;
    assert!(answer.ends_with("ok"), "{answer}");
    assert!(heard.await.unwrap().contains("X-Key: 5ecret"));
}

#[derive(PartialEq)]
enum Trusted {
    Yes,
    No,
}

/// A guard with a credential for `own.example`, and a server of that name behind TLS.
async fn guard_of_tls_server(trusted: Trusted) -> (Guard, Notes, tokio::task::JoinHandle<String>) {
    guard_of_tls_server_with(trusted, &["own.example private"]).await
}

/// The same with these rules.
async fn guard_of_tls_server_with(
    trusted: Trusted,
    rules: &[&str],
) -> (Guard, Notes, tokio::task::JoinHandle<String>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate =
        CertificateDer::from_pem_slice(include_bytes!("../fixtures/cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../fixtures/key.pem")).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heard = tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let Ok(mut client) = acceptor.accept(client).await else {
            return String::new();
        };
        let mut bytes = vec![0; 65536];
        let read = client.read(&mut bytes).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        client.write_all(answer).await.unwrap();
        client.shutdown().await.unwrap();
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    });
    let mut roots = rustls::RootCertStore::empty();
    if trusted == Trusted::Yes {
        roots.add(certificate).unwrap();
    } else {
        // Somebody else, so that there is anybody to believe.
        let other = include_bytes!("../fixtures/other.pem");
        roots
            .add(CertificateDer::from_pem_slice(other).unwrap())
            .unwrap();
    }
    let trust = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (guard, notes) = guard(rules, address);
    let rule = "own.example X-Key: env:UNUSED".parse().unwrap();
    let credential = Credential::new(rule, "5ecret").unwrap();
    let guard = guard.credentials(&[credential]).trust(Arc::new(trust));
    (guard, notes, heard)
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

#[tokio::test]
async fn a_session_with_too_many_connections_is_told_at_once_and_holds_no_more() {
    let (guard, notes) = guard(&["far.example"], "192.0.2.1:1".parse().unwrap());
    let mut silent = Vec::new();
    for _ in 0..128 {
        silent.push(call(&guard, "").await);
    }
    // Every one of them is served before the next comes.
    while notes.lock().unwrap().is_empty() {
        let (client, serving) = call(&guard, "").await;
        let limit = std::time::Duration::from_secs(10);
        let answer = tokio::time::timeout(limit, hear(client, serving)).await;
        let answer = answer.expect("it waits for what a client says for which it has no place");
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    drop(silent);
}

#[tokio::test]
async fn a_raw_connection_to_a_name_with_a_private_address_is_refused_unless_that_was_meant() {
    let (address, heard) = server().await;
    for (rule, expected) in [
        (
            "tcp://own.example:5432",
            "TCP own.example:5432 refused: own.example has the private address 127.0.0.1",
        ),
        (
            "tcp://own.example:5432 private",
            "TCP own.example:5432 allowed",
        ),
    ] {
        let (guard, notes) = guard(&[rule], address);
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = tokio::net::TcpStream::connect(door.local_addr().unwrap())
            .await
            .unwrap();
        client.write_all(b"hello").await.unwrap();
        client.shutdown().await.unwrap();
        let (inside, _) = door.accept().await.unwrap();
        guard.serve_tcp(inside, &rule.parse().unwrap()).await;
        let note = notes.lock().unwrap().pop().unwrap();
        assert!(note.starts_with(expected), "{note}");
    }
    assert_eq!(heard.await.unwrap(), "hello");
}
