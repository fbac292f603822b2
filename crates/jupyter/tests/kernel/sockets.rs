//! A kernel behind its sockets: forged and large messages, two clients, a client that does not read, the end of the parent.

use crate::client::{Client, Opener, about, host};
use bytes::Bytes;
use cellblock_jupyter::{ConnectionFile, Message, Wire, serve};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zeromq::{DealerSocket, Socket, SocketRecv, SocketSend, SubSocket, ZmqMessage};

const KEY: &str = "a key of this test";
const REPLY_TIMEOUT: Duration = Duration::from_secs(300);

/// A kernel on five ports, which ends with the value.
struct Served {
    connection: ConnectionFile,
    interrupts: mpsc::Sender<()>,
    serving: JoinHandle<()>,
    _directory: TempDir,
}

impl Served {
    fn start() -> Served {
        let directory = tempfile::tempdir().unwrap();
        let listeners: Vec<TcpListener> = (0..5)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let port = |index: usize| listeners[index].local_addr().unwrap().port();
        let file = json!({
            "transport": "tcp", "ip": "127.0.0.1", "key": KEY, "signature_scheme": "hmac-sha256",
            "shell_port": port(0), "control_port": port(1), "stdin_port": port(2),
            "iopub_port": port(3), "hb_port": port(4),
        });
        let path = directory.path().join("connection.json");
        std::fs::write(&path, file.to_string()).unwrap();
        let connection = ConnectionFile::read(&path).unwrap();
        drop(listeners);
        let (interrupts, received) = mpsc::channel(1);
        let own = connection.clone();
        let serving = tokio::spawn(async move {
            let opener = Arc::new(Opener(host()));
            serve(&own, opener, about(), received).await.unwrap();
        });
        Served {
            connection,
            interrupts,
            serving,
            _directory: directory,
        }
    }

    /// A client that signs with this key.
    async fn client(&self, key: &str) -> SocketClient {
        let mut shell = DealerSocket::new();
        let endpoint = self.connection.endpoint(self.connection.ports.shell_port);
        // The kernel may not listen yet.
        while shell.connect(&endpoint).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        SocketClient {
            shell,
            wire: Wire::new(key),
        }
    }

    /// A reader of output that has subscribed, but takes nothing until it is asked to.
    async fn reader(&self) -> SubSocket {
        let mut iopub = SubSocket::new();
        let endpoint = self.connection.endpoint(self.connection.ports.iopub_port);
        while iopub.connect(&endpoint).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        iopub.subscribe("").await.unwrap();
        iopub
    }
}

struct SocketClient {
    shell: DealerSocket,
    wire: Wire,
}

impl SocketClient {
    async fn send(&mut self, kind: &str, content: Value) -> Value {
        let mut message = Client::message(kind, content);
        message.identities = Vec::new();
        let id = message.header["msg_id"].clone();
        let frames = ZmqMessage::try_from(self.wire.encode(&message)).unwrap();
        self.shell.send(frames).await.unwrap();
        id
    }

    async fn reply(&mut self, id: &Value) -> Value {
        loop {
            let message = self.received().await;
            if message.parent_header.get("msg_id") == Some(id) {
                return message.content;
            }
        }
    }

    async fn received(&mut self) -> Message {
        let frames = tokio::time::timeout(REPLY_TIMEOUT, self.shell.recv()).await;
        self.wire
            .decode(frames.unwrap().unwrap().into_vec())
            .unwrap()
    }

    async fn run(&mut self, code: &str) -> Value {
        let id = self.send("execute_request", json!({"code": code})).await;
        self.reply(&id).await
    }

    /// The text of an expression's value.
    async fn value(&mut self, expression: &str) -> Value {
        let content = json!({"code": "", "user_expressions": {"value": expression}});
        let id = self.send("execute_request", content).await;
        self.reply(&id).await["user_expressions"]["value"]["data"]["text/plain"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_forged_or_no_message_is_not_heard() {
    let served = Served::start();
    let mut client = served.client(KEY).await;
    assert_eq!(client.run("x = 1").await["status"], "ok");
    let mut forger = served.client("another key").await;
    forger
        .send("execute_request", json!({"code": "x = 2"}))
        .await;
    let garbage = ["", "<IDS|MSG>", "{}", "\u{0}"].map(Bytes::from);
    let garbage = ZmqMessage::try_from(garbage.to_vec()).unwrap();
    forger.shell.send(garbage).await.unwrap();
    // A request of the forger's socket that is signed well comes after the others, and is answered.
    forger.wire = Wire::new(KEY);
    assert_eq!(forger.value("x").await, "1");
    assert_eq!(client.value("x").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_thirty_megabytes_is_answered() {
    let served = Served::start();
    let mut client = served.client(KEY).await;
    let request = json!({"code": "x = 1", "ignored": "b".repeat(30_000_000)});
    let id = client.send("execute_request", request).await;
    assert_eq!(client.reply(&id).await["status"], "ok");
    assert_eq!(client.value("x").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_share_the_variables_and_have_replies_of_their_own() {
    let served = Served::start();
    let (mut one, mut other) = (served.client(KEY).await, served.client(KEY).await);
    assert_eq!(one.run("x = 5").await["status"], "ok");
    assert_eq!(other.value("x + 1").await, "6");
    let slow = one
        .send(
            "execute_request",
            json!({"code": "import time; time.sleep(1); x = 7"}),
        )
        .await;
    let quick = other
        .send("execute_request", json!({"code": "x += 1"}))
        .await;
    assert_eq!(one.reply(&slow).await["status"], "ok");
    assert_eq!(other.reply(&quick).await["status"], "ok");
    // Which of two sockets is read first is not said; that cells do not mix is.
    assert!(["8", "7"].contains(&one.value("x").await.as_str().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_holds_no_cell_up_for_ever() {
    let served = Served::start();
    let mut client = served.client(KEY).await;
    let stuck = served.reader().await;
    assert_eq!(client.run("x = 1").await["status"], "ok");
    // Far more than all buffers on the way to the reader hold.
    let code = "for _ in range(400): print('a' * 50_000)";
    assert_eq!(client.run(code).await["status"], "ok");
    assert_eq!(client.value("x").await, "1");
    drop(stuck);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_ends_when_its_owner_does() {
    let served = Served::start();
    let mut client = served.client(KEY).await;
    client
        .send("execute_request", json!({"code": "while True: pass"}))
        .await;
    drop(served.interrupts);
    let ended = tokio::time::timeout(REPLY_TIMEOUT, served.serving).await;
    ended.unwrap().unwrap();
}
