//! What was allowed is reached.

use super::common::{builder, open, run, test_directory, wait};
use super::servers::{Server, page_answer, prints, session};
use cellblock_protocol::Event;

const FETCH: &str = "from urllib.request import urlopen
def fetch(url, data=None): return urlopen(url, data, timeout=10).read().decode()
";

#[test]
fn a_page_is_fetched_from_a_host_that_was_allowed() {
    let server = Server::web("a page");
    let session = session(&[&format!("localhost:{}", server.port)]);
    let code = format!(
        "{FETCH}print(fetch('http://localhost:{}/path?q=1'))",
        server.port
    );
    assert_eq!(prints(&session, &code), "a page\n");
    let heard = server.heard();
    assert!(
        heard[0].starts_with("GET /path?q=1 HTTP/1.1\r\n"),
        "{heard:?}"
    );
    assert!(
        heard[0].contains(&format!("Host: localhost:{}\r\n", server.port)),
        "{heard:?}"
    );
    assert!(!heard[0].to_lowercase().contains("proxy"), "{heard:?}");
}

#[test]
fn bodies_go_out_and_large_answers_come_in() {
    let size = 30 << 20;
    let server = Server::new(move |_| {
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + size, b'x');
        answer
    });
    let session = session(&[&format!("localhost:{}", server.port)]);
    let code = format!(
        "{FETCH}print(len(fetch('http://localhost:{}/', b'question')))",
        server.port
    );
    assert_eq!(prints(&session, &code), format!("{size}\n"));
    assert!(server.heard()[0].starts_with("POST / HTTP/1.1"));
}

#[test]
fn a_tunnel_carries_anything() {
    let server = Server::new(|text| text.to_uppercase().into_bytes());
    let session = session(&[&format!("127.0.0.1:{}", server.port)]);
    let code = format!(
        "import http.client, os
proxy = os.environ['https_proxy'].rpartition('/')[2]
connection = http.client.HTTPConnection(proxy, timeout=10)
connection.set_tunnel('127.0.0.1', {})
connection.connect()
connection.sock.sendall(b'hello\\n')
print(connection.sock.recv(100))",
        server.port
    );
    assert_eq!(prints(&session, &code), "b'HELLO\\n'\n");
}

#[test]
fn a_rule_for_tcp_is_reached_by_its_name_without_a_proxy() {
    let server = Server::new(|text| text.to_uppercase().into_bytes());
    let session = session(&[&format!("tcp://localhost:{}", server.port)]);
    let code = format!(
        "import socket
with socket.create_connection(('localhost', {}), timeout=10) as connection:
    connection.sendall(b'hello\\n')
    print(connection.recv(100))",
        server.port
    );
    assert_eq!(prints(&session, &code), "b'HELLO\\n'\n");
}

#[test]
fn every_connection_is_told_to_those_who_listen() {
    let server = Server::web("a page");
    let session = session(&[&format!("localhost:{}", server.port)]);
    let mut logs = session.logs();
    let code = format!(
        "{FETCH}fetch('http://localhost:{}/')
try: fetch('http://example.com/')
except OSError: pass",
        server.port
    );
    run(&session, code.as_str());
    let mut lines = Vec::new();
    while lines.len() < 2 {
        if let Event::Log { text } = wait(logs.recv()).unwrap() {
            lines.push(text);
        }
    }
    // A connection is told of when it is over, and the page's may end after the other.
    lines.sort();
    let allowed = format!(
        "network: allowed GET localhost:{0} at 127.0.0.1:{0}: ",
        server.port
    );
    assert!(lines[0].starts_with(&allowed), "{lines:?}");
    assert!(
        lines[1].starts_with(
            "network: refused GET example.com:80: this session may not reach example.com:80"
        ),
        "{lines:?}"
    );
}

#[test]
fn a_fork_has_ways_of_its_own_and_a_crash_closes_none() {
    let server = Server::new(|_| page_answer("a page"));
    let session = session(&[&format!("localhost:{}", server.port)]);
    let fetch = format!("{FETCH}print(fetch('http://localhost:{}/'))", server.port);
    assert_eq!(prints(&session, &fetch), "a page\n");
    let fork = wait(session.fork()).unwrap();
    assert_eq!(prints(&fork, &fetch), "a page\n");
    run(&session, "import ctypes; ctypes.string_at(0)");
    assert_eq!(prints(&session, &fetch), "a page\n");
    wait(session.close());
    assert_eq!(prints(&fork, &fetch), "a page\n");
}

#[test]
fn a_credential_is_put_on_outside_and_the_session_never_holds_it() {
    let server = Server::web("a page");
    let key = test_directory().join("key");
    std::fs::write(&key, "5ecret\n").unwrap();
    let credential = format!(
        "http://localhost:{} X-Key: file:{}",
        server.port,
        key.display()
    );
    let session = open(
        builder()
            .allow_net(format!("localhost:{}", server.port).parse().unwrap())
            .credential(credential.parse().unwrap()),
    );
    let code = format!(
        "import os
{FETCH}print(fetch('http://localhost:{}/'), '5ecret' in str(os.environ), os.path.exists({:?}))",
        server.port,
        key.display().to_string()
    );
    assert_eq!(prints(&session, &code), "a page False False\n");
    assert!(server.heard()[0].contains("\r\nX-Key: 5ecret\r\n"));
    let fork = wait(session.fork()).unwrap();
    prints(&fork, &code);
    assert!(server.heard()[1].contains("\r\nX-Key: 5ecret\r\n"));
}

#[test]
fn a_credential_that_cannot_be_read_is_told_before_the_session_starts() {
    let started = builder()
        .allow_net("localhost:1".parse().unwrap())
        .credential("localhost:1 X-Key: file:/no/such/key".parse().unwrap());
    let message = wait(started.start()).unwrap_err().to_string();
    assert!(
        message.contains("the credential for localhost cannot be read from file:/no/such/key"),
        "{message}"
    );
}
