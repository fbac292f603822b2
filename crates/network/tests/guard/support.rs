//! A guard between a client and a server on this machine, with names of its own.

use cellblock_network::{Connection, Guard, Lookup};
use cellblock_protocol::NetworkRule;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What was written down.
pub(crate) type Notes = Arc<Mutex<Vec<String>>>;

/// A guard with these rules, to whom every name is the server at `address`.
pub(crate) fn guard(rules: &[&str], address: SocketAddr) -> (Guard, Notes) {
    let lookup: Lookup = Arc::new(move |host, _| {
        Box::pin(async move {
            match host.as_str() {
                "nowhere.example" => Err(io::Error::other("no such name")),
                _ => Ok(vec![address]),
            }
        })
    });
    guard_with(rules, lookup)
}

/// A guard with these rules that finds names with this function.
pub(crate) fn guard_with(rules: &[&str], lookup: Lookup) -> (Guard, Notes) {
    let notes = Notes::default();
    let rules: Vec<NetworkRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let noted = Arc::clone(&notes);
    let log = move |connection: Connection| {
        let what = match connection.refusal() {
            None => "allowed".to_owned(),
            Some(refusal) => format!("refused: {refusal}"),
        };
        let Connection { kind, target, .. } = connection;
        let target = target.map_or("?".to_owned(), |target| target.to_string());
        let note = format!("{kind} {target} {what}");
        noted.lock().unwrap().push(note);
    };
    let guard = Guard::new(&rules, Arc::new(log)).lookup(lookup);
    (guard, notes)
}

/// A server that hands back what it was sent.
pub(crate) async fn server() -> (SocketAddr, JoinHandle<String>) {
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
pub(crate) async fn ask(guard: &Guard, request: impl AsRef<[u8]>) -> String {
    let (client, serving) = call(guard, request).await;
    hear(client, serving).await
}

/// The same for a client that has nothing more to say, and waits for the end of a tunnel.
pub(crate) async fn tunnel(guard: &Guard, request: impl AsRef<[u8]>) -> String {
    let (mut client, serving) = call(guard, request).await;
    client.shutdown().await.unwrap();
    let heard = hear(client, serving);
    let limit = std::time::Duration::from_secs(20);
    tokio::time::timeout(limit, heard).await.unwrap()
}

/// A client that has said this, and the guard that serves it.
pub(crate) async fn call(guard: &Guard, request: impl AsRef<[u8]>) -> (TcpStream, JoinHandle<()>) {
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(door.local_addr().unwrap())
        .await
        .unwrap();
    let (inside, _) = door.accept().await.unwrap();
    let guard = guard.clone();
    let serving = tokio::spawn(async move { guard.serve_http(inside).await });
    client.write_all(request.as_ref()).await.unwrap();
    (client, serving)
}

pub(crate) async fn hear(mut client: TcpStream, serving: JoinHandle<()>) -> String {
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    drop(client);
    serving.await.unwrap();
    answer
}
