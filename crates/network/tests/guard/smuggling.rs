//! Heads that a server could read as another request than the one that the rules were asked about.

use super::support::{Notes, ask, guard};
use cellblock_network::{Credential, Guard};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A server that keeps everything that connections send to it, until they fall silent.
async fn recorder() -> (SocketAddr, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                let quiet = std::time::Duration::from_millis(100);
                while let Ok(Ok(1..)) =
                    tokio::time::timeout(quiet, client.read_buf(&mut bytes)).await
                {}
                let _ = sender.send(bytes);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                let _ = client.write_all(answer).await;
            });
        }
    });
    (address, received)
}

/// A guard that allows only GET to `allowed.example`, where every request gets a credential.
async fn guard_with_credential() -> (Guard, Notes, mpsc::UnboundedReceiver<Vec<u8>>) {
    let (address, received) = recorder().await;
    let (guard, notes) = guard(&["GET,POST allowed.example private"], address);
    let rule = "http://allowed.example X-Key: env:UNUSED".parse().unwrap();
    let credential = Credential::new(rule, "5ecret").unwrap();
    (guard.credentials(&[credential]), notes, received)
}

#[tokio::test]
async fn a_head_that_could_be_read_as_two_requests_reaches_no_server() {
    let (guard, notes, mut received) = guard_with_credential().await;
    let attacks: &[&[u8]] = &[
        b"GET http://allowed.example/a\tHTTP/1.1\nHost:x\n\nDELETE\t/all HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/a\nX:\ty HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/a\rDELETE\t/all HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/a\x0bHTTP/1.1 HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/a\x00 HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/a HTTP/1.1\nX: y\r\n\r\n",
        b"GET http://allowed.example/a HTTP/1.1\r\nX: y\n\nDELETE /all HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/a HTTP/1.1\r\nX: y\rDELETE /all HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/a HTTP/1.1\r\nX: y\tz\r\n\r\n",
        b"GET http://allowed.example/a HTTP/1.1\r\nX: y\r\n z\r\n\r\n",
        b"GET http://allowed.example/a HTTP/1.1\r\n X: y\r\n\r\n",
        b"GET http://allowed.example/a HTTP/1.1\r\nX : y\r\n\r\n",
        b"GET http://allowed.example/a HTTP/1.1\r\nX\r\n\r\n",
        b"GET http://allowed.example/a HTTP/1.1\r\n: y\r\n\r\n",
        b"GET http://allowed.example/a HTTP/1.1\r\nX: caf\xc3\xa9\r\n\r\n",
        b"GET http://allowed.example/caf\xc3\xa9 HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/\xc2\x85 HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/%zz HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/%4 HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/a\\b HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/a#b HTTP/1.1\r\n\r\n",
        b"GET http://me:word@allowed.example/ HTTP/1.1\r\n\r\n",
        b"GET http://other.example@allowed.example/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example:+80/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example:080/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example:/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example:81\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nHost: allowed.example\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nHost:\r\n\r\n",
        b"\r\nGET http://allowed.example/ HTTP/1.1\r\n\r\n",
        b" GET http://allowed.example/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1 \r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.2\r\n\r\n",
        b"GET http://allowed.example/\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST http://allowed.example/ HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
        b"POST http://allowed.example/ HTTP/1.1\r\nContent-Length: 0, 0\r\n\r\n",
        b"POST http://allowed.example/ HTTP/1.1\r\nContent-Length:\r\n\r\n",
        b"POST http://allowed.example/ HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST http://allowed.example/ HTTP/1.1\r\nContent_Length: 4\r\n\r\nGET ",
        b"POST http://allowed.example/ HTTP/1.1\r\nTransfer_Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST http://allowed.example/ HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        b"POST http://allowed.example/ HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n",
        b"POST http://allowed.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST http://allowed.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST http://allowed.example/ HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nUpgrade: h2c\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nExpect: 100-continue\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nConnection: X-Key\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nConnection: keep-alive, Content-Length\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nTE: trailers\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nTrailer: X-Key\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nX_Key: forged\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\r\nX-HTTP-Method-Override: DELETE\r\n\r\n",
    ];
    for attack in attacks {
        let shown = String::from_utf8_lossy(attack).into_owned();
        let answer = ask(&guard, attack).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{shown:?}: {answer:?}");
        assert!(
            answer.contains("\r\nX-Cellblock: refused\r\n"),
            "{shown:?}: {answer:?}"
        );
        let note = notes.lock().unwrap().pop().unwrap();
        assert!(note.contains("refused"), "{shown:?}: {note}");
        assert!(received.try_recv().is_err(), "{shown:?} reached the server");
    }
}

#[tokio::test]
async fn a_request_is_made_anew_from_its_parts() {
    let (guard, _, mut received) = guard_with_credential().await;
    let request = "POST http://Allowed.Example:80/a/%C3%A9?q=[1]&x={y|z} HTTP/1.1\r\nhost: ALLOWED.example\r\nAccept:*/*  \r\nConnection: Keep-Alive\r\nProxy-Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nProxy-Authorization: Basic eDp5\r\nProxy: http://other.example\r\nx-key: forged\r\nContent-Length: 003\r\n\r\nabcDELETE /all HTTP/1.1\r\n\r\n";
    let answer = ask(&guard, request).await;
    assert!(answer.ends_with("ok"), "{answer}");
    let heard = received.recv().await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&heard),
        "POST /a/%C3%A9?q=[1]&x={y|z} HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\nAccept: */*\r\nContent-Length: 3\r\nX-Key: 5ecret\r\n\r\nabc"
    );
}

#[tokio::test]
async fn a_chunked_body_is_framed_anew() {
    let (guard, _, mut received) = guard_with_credential().await;
    let request = "POST http://allowed.example/ HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n0003\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nDELETE /all HTTP/1.1\r\n\r\n";
    ask(&guard, request).await;
    let heard = received.recv().await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&heard),
        "POST / HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nX-Key: 5ecret\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n"
    );
}

#[tokio::test]
async fn a_body_whose_frames_are_broken_never_looks_complete_to_the_server() {
    for body in [
        "3;x=y\r\nabc\r\n0\r\n\r\n",
        "3 \r\nabc\r\n0\r\n\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabc0\r\n\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\r\n0\r\nX-Key: forged\r\n\r\n",
        "3\r\nabc\r\n0\r\n \r\n\r\n",
        "8000000000000000\r\nabc\r\n0\r\n\r\n",
        "00000000000000003\r\nabc\r\n0\r\n\r\n",
    ] {
        let (guard, notes, mut received) = guard_with_credential().await;
        let head = "POST http://allowed.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = ask(&guard, format!("{head}{body}")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{body:?}: {answer:?}");
        let note = notes.lock().unwrap().pop().unwrap();
        assert!(note.contains("refused"), "{body:?}: {note}");
        let heard = received.recv().await.unwrap();
        assert!(!heard.ends_with(b"0\r\n\r\n"), "{body:?}: {heard:?}");
    }
}

#[tokio::test]
async fn a_request_that_asks_to_be_sent_back_gets_no_credential() {
    let (address, mut received) = recorder().await;
    let (guard, _) = guard(&["allowed.example private"], address);
    let request = "TRACE http://allowed.example/ HTTP/1.1\r\n\r\n";
    let answer = ask(&guard, request).await;
    assert!(answer.ends_with("ok"), "{answer}");
    assert!(received.recv().await.is_some());
    let rule = "http://allowed.example X-Key: env:UNUSED".parse().unwrap();
    let credential = Credential::new(rule, "5ecret").unwrap();
    let answer = ask(&guard.credentials(&[credential]), request).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(received.try_recv().is_err());
}
