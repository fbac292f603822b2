//! An endpoint that speaks the OpenAI protocol and says what it was told to say.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// A server on loopback that lives as long as the test program.
pub struct FakeModel {
    pub url: String,
}

impl FakeModel {
    /// Says these texts, one after the other; then the last one again and again.
    pub fn saying<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> FakeModel {
        let texts: Vec<String> = texts.into_iter().map(Into::into).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let mut served = 0;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if read(&stream).is_some() {
                    answer(stream, &texts[served.min(texts.len() - 1)]);
                    served += 1;
                }
            }
        });
        FakeModel { url }
    }
}

fn read(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// In pieces, as real endpoints do.
fn answer(mut stream: TcpStream, text: &str) {
    let characters: Vec<char> = text.chars().collect();
    let mut body = String::new();
    for piece in characters.chunks(7) {
        let piece: String = piece.iter().collect();
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": piece}}]});
        body.push_str(&format!("data: {chunk}\n\n"));
    }
    let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 100, "completion_tokens": 10}});
    body.push_str(&format!("data: {last}\n\ndata: [DONE]\n\n"));
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body.as_bytes());
}
