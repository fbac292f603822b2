//! An endpoint that answers at once: so many times with code, then with an answer.

use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// A server on loopback that ends with this value.
pub(super) struct Endpoint {
    pub(super) url: String,
    asked: UnboundedReceiver<Instant>,
    left: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Endpoint {
    /// Gives code for this many steps.
    pub(super) async fn open(steps: usize) -> anyhow::Result<Endpoint> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let (sender, asked) = unbounded_channel();
        // The answer is one more.
        let left = Arc::new(AtomicUsize::new(steps + 1));
        let serving = tokio::spawn(serve(listener, sender, Arc::clone(&left)));
        Ok(Endpoint {
            url,
            asked,
            left,
            serving,
        })
    }

    /// When the next request came.
    pub(super) async fn asked(&mut self) -> Option<Instant> {
        self.asked.recv().await
    }

    /// Whether the answer was given.
    pub(super) fn is_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, asked: UnboundedSender<Instant>, left: Arc<AtomicUsize>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (asked, left) = (asked.clone(), Arc::clone(&left));
        tokio::spawn(async move {
            // Whoever hangs up is told nothing.
            let _ = answer(stream, &asked, &left).await;
        });
    }
}

async fn answer(
    stream: TcpStream,
    asked: &UnboundedSender<Instant>,
    left: &AtomicUsize,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? <= 2 {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let came = Instant::now();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        Some(left.saturating_sub(1))
    });
    // Nobody may listen any more.
    let _ = asked.send(came);
    let text = match before {
        Ok(2..) => "Next.\n```python\nx = 1\n```",
        _ => "done",
    };
    let chunk =
        json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]});
    let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n";
    let whole = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(whole.as_bytes()).await?;
    stream.flush().await
}
