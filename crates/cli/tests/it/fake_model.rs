//! An endpoint that speaks the OpenAI protocol and says what it was told to say.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A server on loopback that lives as long as the test program.
pub struct FakeModel {
    pub url: String,
    asked: Arc<Mutex<Vec<Value>>>,
    keys: Arc<Mutex<Vec<String>>>,
}

/// What it does with a request.
#[derive(Clone)]
pub enum Said {
    /// Streams a text.
    Text(String),
    /// Streams a text as soon as this is true.
    #[allow(dead_code, reason = "only the tests of clusters need it")]
    When(Arc<dyn Fn() -> bool + Send + Sync>, String),
    /// Streams these chunks.
    Chunks(Vec<Value>),
    /// Answers with this status, kind and body.
    Http(u16, &'static str, Vec<u8>),
    /// Begins a stream with this, and then nothing more comes.
    Hangs(String),
}

impl FakeModel {
    /// Says these texts, one after the other; then the last one again and again.
    pub fn saying<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> FakeModel {
        FakeModel::doing(texts.into_iter().map(|text| Said::Text(text.into())))
    }

    /// Does these things, one after the other; then the last one again and again.
    pub fn doing(all: impl IntoIterator<Item = Said>) -> FakeModel {
        let all: Vec<Said> = all.into_iter().collect();
        let served = AtomicUsize::new(0);
        FakeModel::by(move |_| {
            let number = served.fetch_add(1, Ordering::SeqCst);
            all[number.min(all.len() - 1)].clone()
        })
    }

    /// Does with each request what this function says.
    pub fn by(choose: impl Fn(&Value) -> Said + Send + 'static) -> FakeModel {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&asked);
        let keys = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&keys);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Some((request, key)) = read(&stream) {
                    seen.lock().unwrap().push(key);
                    let said = choose(&request);
                    requests.lock().unwrap().push(request);
                    std::thread::spawn(move || answer(stream, said));
                }
            }
        });
        FakeModel { url, asked, keys }
    }

    /// The keys that they came with.
    pub fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<(Value, String)> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    let mut key = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let whole = line.trim().to_owned();
        if whole.starts_with("GET ") {
            let body = br#"{"data": [{"id": "fake"}]}"#.to_vec();
            let list = Said::Http(200, "application/json", body);
            answer(stream.try_clone().ok()?, list);
            return None;
        }
        let line = whole.to_ascii_lowercase();
        if line.starts_with("authorization:") {
            key = whole["authorization:".len()..].trim().to_owned();
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((serde_json::from_slice(&body).ok()?, key))
}

/// A chunk that says why the reply ends.
pub fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": {"prompt_tokens": 100, "completion_tokens": 10}})
}

/// A chunk with something of a reply.
pub fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn answer(mut stream: TcpStream, said: Said) {
    const STREAM: &str = "text/event-stream";
    let (status, kind, body) = match said {
        Said::When(is_time, text) => {
            while !is_time() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            return answer(stream, Said::Text(text));
        }
        // In pieces, as real endpoints do.
        Said::Text(text) => {
            let characters: Vec<char> = text.chars().collect();
            let size = 7.max(characters.len() / 1000);
            let pieces = characters.chunks(size).map(|piece| {
                let piece: String = piece.iter().collect();
                delta(json!({"content": piece}))
            });
            (200, STREAM, streamed(pieces.chain([finish("stop")])))
        }
        Said::Chunks(chunks) => (200, STREAM, streamed(chunks)),
        Said::Http(status, kind, body) => (status, kind, body),
        Said::Hangs(beginning) => {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {STREAM}\r\nContent-Length: 100000\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(beginning.as_bytes());
            std::thread::sleep(Duration::from_secs(60));
            return;
        }
    };
    let head = format!(
        "HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&body);
}

fn streamed(chunks: impl IntoIterator<Item = Value>) -> Vec<u8> {
    let chunks = chunks.into_iter();
    let body: String = chunks.map(|chunk| format!("data: {chunk}\n\n")).collect();
    format!("{body}data: [DONE]\n\n").into_bytes()
}
