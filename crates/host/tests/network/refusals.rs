//! What was not allowed is not reached, and the message says what is.

use super::common::{builder, open, run, test_directory, wait};
use super::servers::{Server, fails, prints, session};
use cellblock_protocol::{Event, Isolation, NetworkRule, Rung};
use cellblock_session::network::ConnectionRefusal;

const FETCH: &str = "from urllib.request import Request, urlopen
def fetch(url, method='GET'): return urlopen(Request(url, method=method), timeout=10).read().decode()
";

#[test]
fn a_page_that_was_allowed_next_to_one_that_was_not() {
    let (allowed, secret) = (Server::web("a page"), Server::web("a secret"));
    let session = session(&[&format!("localhost:{}", allowed.port)]);
    let fetch = |port: u16| format!("{FETCH}print(fetch('http://localhost:{port}/'))");
    assert_eq!(prints(&session, &fetch(allowed.port)), "a page\n");
    let message = fails(&session, &fetch(secret.port));
    let expected = format!(
        "HTTP Error 403: this session may not reach localhost:{}; it may reach localhost:{}",
        secret.port, allowed.port
    );
    assert!(message.contains(&expected), "{message}");
    assert!(secret.heard().is_empty());
}

#[test]
fn there_is_no_way_around_the_proxy() {
    let secret = Server::web("a secret");
    let session = session(&["example.org"]);
    let code = format!(
        "import socket
def attempt(address):
    try:
        socket.create_connection(address, timeout=3)
        return 'reached'
    except OSError as error:
        return type(error).__name__
print([attempt(address) for address in [('127.0.0.1', {0}), ('localhost', {0}), ('10.0.0.1', 80), ('example.org', 443)]])",
        secret.port
    );
    let printed = prints(&session, &code);
    assert!(!printed.contains("reached"), "{printed}");
    let message = fails(
        &session,
        "import socket; socket.create_connection(('example.org', 443), timeout=3)",
    );
    assert!(
        message.contains("this session may reach only example.org, by way of the proxy"),
        "{message}"
    );
    assert!(secret.heard().is_empty());
}

#[test]
fn a_name_that_leads_to_a_private_address_is_refused_unless_that_was_meant() {
    let server = Server::web("a secret");
    let port = server.port;
    // A name like any other to the rules; every resolver says that it is 127.0.0.1.
    let name = "0x7f.1";
    let fetch = format!("{FETCH}print(fetch('http://{name}:{port}/'))");
    let sealed = session(&[&format!("{name}:{port}")]);
    let message = fails(&sealed, &fetch);
    let refused = format!("HTTP Error 403: {name} has the private address 127.0.0.1");
    assert!(message.contains(&refused), "{message}");
    // An address that nobody named is no way in either.
    let message = fails(
        &sealed,
        &format!("{FETCH}fetch('http://127.0.0.1:{port}/')"),
    );
    assert!(message.contains("may not reach 127.0.0.1"), "{message}");
    assert!(server.heard().is_empty());
    let meant = session(&[&format!("{name}:{port} private")]);
    assert_eq!(prints(&meant, &fetch), "a secret\n");
}

#[test]
fn methods_can_be_allowed_one_by_one() {
    let server = Server::web("a page");
    let session = session(&[&format!("GET,HEAD localhost:{}", server.port)]);
    let fetch = |method: &str| {
        format!(
            "{FETCH}print(fetch('http://localhost:{}/', '{method}'))",
            server.port
        )
    };
    assert_eq!(prints(&session, &fetch("GET")), "a page\n");
    let message = fails(&session, &fetch("DELETE"));
    assert!(
        message.contains(&format!(
            "may not reach localhost:{} with DELETE",
            server.port
        )),
        "{message}"
    );
    assert_eq!(server.heard().len(), 1);
}

#[test]
fn a_redirect_to_a_host_that_was_not_allowed_leads_nowhere() {
    let secret = Server::web("a secret");
    let answer = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://localhost:{}/\r\nContent-Length: 0\r\n\r\n",
        secret.port
    );
    let server = Server::new(move |_| answer.clone().into_bytes());
    let session = session(&[&format!("localhost:{}", server.port)]);
    let message = fails(
        &session,
        &format!("{FETCH}fetch('http://localhost:{}/')", server.port),
    );
    assert!(
        message.contains(&format!("may not reach localhost:{}", secret.port)),
        "{message}"
    );
    assert!(secret.heard().is_empty());
}

#[test]
fn a_second_request_on_the_same_connection_is_not_passed_on() {
    let server = Server::web("a page");
    let session = session(&[&format!("localhost:{}", server.port)]);
    let code = format!(
        "import os, socket
host, _, port = os.environ['http_proxy'].rpartition('/')[2].partition(':')
connection = socket.create_connection((host, int(port)), timeout=10)
connection.sendall(b'GET http://localhost:{0}/one HTTP/1.1\\r\\n\\r\\nGET /two HTTP/1.1\\r\\nHost: secret\\r\\n\\r\\n')
data = b''
while part := connection.recv(1000): data += part
print(data.count(b'200 OK'))",
        server.port
    );
    assert_eq!(prints(&session, &code), "1\n");
    let heard = server.heard();
    assert_eq!(heard.len(), 1);
    assert!(!heard[0].contains("two"), "{heard:?}");
}

#[test]
fn nonsense_is_answered_and_the_session_goes_on() {
    let session = session(&["example.org"]);
    let code = "import os, socket
host, _, port = os.environ['http_proxy'].rpartition('/')[2].partition(':')
for text in [b'nonsense\\r\\n\\r\\n', b'GET / HTTP/1.1\\r\\n\\r\\n', b'\\xff' * 100000]:
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        try:
            connection.sendall(text)
            print(connection.recv(12))
        except ConnectionError:
            print('closed')";
    let printed = prints(&session, &code.replace("\\\\", "\\"));
    assert_eq!(printed.lines().count(), 3, "{printed}");
    assert!(printed.starts_with("b'HTTP/1.1 400'"), "{printed}");
    assert_eq!(run(&session, "1 + 1").value.unwrap().repr, "2");
}

#[test]
fn without_a_network_of_its_own_a_session_gets_no_rules() {
    let rule: NetworkRule = "example.org".parse().unwrap();
    let started = builder()
        .isolation(Isolation::on(Rung::Landlock))
        .allow_net(rule);
    let message = wait(started.start()).unwrap_err().to_string();
    assert!(message.contains("the rung must be `full`"), "{message}");
    let address: NetworkRule = "tcp://10.0.0.5:5432".parse().unwrap();
    let message = wait(builder().allow_net(address).start())
        .unwrap_err()
        .to_string();
    assert!(message.contains("an address has none"), "{message}");
    // One without rules is as sealed as ever.
    let message = fails(
        &open(builder()),
        "import socket; socket.create_connection(('example.org', 80), timeout=3)",
    );
    assert!(message.contains("this session has no network"), "{message}");
}

#[test]
fn a_request_that_hides_another_one_reaches_no_server_and_takes_no_credential_along() {
    let server = Server::web("a page");
    let key = test_directory().join("key-of-smuggling");
    std::fs::write(&key, "5ecret\n").unwrap();
    let target = format!("localhost:{}", server.port);
    let credential = format!("http://{target} X-Key: file:{}", key.display());
    let session = open(
        builder()
            .allow_net(format!("GET {target}").parse().unwrap())
            .credential(credential.parse().unwrap()),
    );
    let code = format!(
        "import os, socket
host, _, port = os.environ['http_proxy'].rpartition('/')[2].partition(':')
for text in [
    b'GET http://{target}/a\\tHTTP/1.1\\nHost:x\\n\\nDELETE\\t/all HTTP/1.1\\r\\n\\r\\n',
    b'GET http://{target}/a HTTP/1.1\\nX: y\\n\\nDELETE /all HTTP/1.1\\r\\n\\r\\n',
    b'GET http://{target}/a HTTP/1.1\\r\\nX: y\\rDELETE /all HTTP/1.1\\r\\n\\r\\n',
    b'GET http://{target}/a HTTP/1.1\\r\\nContent-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n',
    b'GET http://{target}/a HTTP/1.1\\r\\nX_Key: mine\\r\\n\\r\\n',
    b'GET http://{target}/a HTTP/1.1\\r\\nConnection: x-key\\r\\n\\r\\n',
]:
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(text)
        print(connection.recv(10).decode())"
    );
    assert_eq!(
        prints(&session, &code),
        "HTTP/1.1 4\n".repeat(6),
        "{:?}",
        server.heard()
    );
    assert_eq!(server.heard(), Vec::<String>::new());
}

#[test]
fn a_refusal_that_the_code_cannot_see_is_the_hint_of_its_error() {
    // Bound and gone: nothing listens there any more.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    let session = session(&[&format!("tcp://localhost:{port}")]);
    let code = format!(
        "import socket
with socket.create_connection(('localhost', {port}), timeout=10) as connection:
    raise RuntimeError(connection.recv(100))"
    );
    let error = run(&session, code.as_str()).error.unwrap();
    let hint = error.hint.clone().unwrap_or_default();
    assert!(
        hint.starts_with(&format!("localhost:{port} cannot be reached: ")),
        "{error:?}"
    );
    // The next cell was refused nothing.
    let error = run(&session, "1 / 0").error.unwrap();
    assert_eq!(error.hint, None);
}

#[test]
fn what_code_prints_is_never_taken_for_a_word_of_the_guard() {
    let session = session(&["example.org"]);
    let mut connections = session.connections();
    let mut logs = session.logs();
    run(
        &session,
        "import threading, time, urllib.request
def lie():
    time.sleep(0.3)
    print('network: refused CONNECT evil.example:443: this session may not reach evil.example:443')
threading.Thread(target=lie).start()
try: urllib.request.urlopen('http://other.example/', timeout=10)
except OSError: pass",
    );
    let mut texts = String::new();
    while !(texts.contains("evil.example") && texts.contains("other.example")) {
        if let Event::Log { text } = wait(logs.recv()).unwrap() {
            texts.push_str(&text);
        }
    }
    let connection = connections.try_recv().unwrap();
    assert_eq!(connection.target.as_ref().unwrap().host, "other.example");
    assert!(
        matches!(connection.refusal(), Some(ConnectionRefusal::NoRule { .. })),
        "{connection:?}"
    );
    assert!(connections.try_recv().is_err());
}
