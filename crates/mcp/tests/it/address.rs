//! A server with an address, written by hand.

use cellblock_mcp::{RemoteServer, Trust};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// The head of an answer that is a stream of events.
pub const EVENTS: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
/// The head of an answer that is JSON of any length.
pub const JSON: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";

/// A server with one tool, `work`. Its calls are answered by `call`, which is given the connection and the id.
pub fn address(call: impl Fn(TcpStream, &Value) + Send + Sync + 'static) -> RemoteServer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let call = Arc::new(call);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let call = Arc::clone(&call);
            std::thread::spawn(move || answer(stream.unwrap(), &*call));
        }
    });
    let mut server = RemoteServer::address("far", format!("http://{address}/mcp"));
    server.trust = Trust::Everything;
    server
}

fn answer(mut stream: TcpStream, call: &impl Fn(TcpStream, &Value)) {
    let Some(body) = body_of_request(&stream) else {
        return;
    };
    let asked: Value = serde_json::from_str(&body).unwrap_or_default();
    let result = match asked["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "far", "version": "1"},
        }),
        Some("tools/list") => {
            json!({"tools": [{"name": "work", "inputSchema": {"type": "object", "properties": {}}}]})
        }
        Some("tools/call") => return call(stream, &asked["id"]),
        _ => {
            let accepted =
                "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(accepted.as_bytes());
            return;
        }
    };
    let body = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
    let _ = write!(stream, "{JSON}{body}");
}

fn body_of_request(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    String::from_utf8(body).ok()
}
