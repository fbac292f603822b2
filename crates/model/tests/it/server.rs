//! An endpoint that speaks the protocol, with faults on demand. Plain sockets, because the faults are below HTTP.

use cellblock_model::openai::{EndpointSettings, OpenAiModel, RequestTimeouts, RetryPolicy};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A running endpoint. Each request gets the next answer; the last one is repeated.
pub(crate) struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Received>>>,
}

/// What a client sent.
#[derive(Clone)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// What the endpoint does with one request.
#[derive(Clone)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    steps: Vec<Step>,
    end: End,
}

#[derive(Clone)]
enum Step {
    Send(Vec<u8>),
    Wait(Duration),
}

#[derive(Clone, Copy)]
enum End {
    /// The body is complete.
    Whole,
    /// The connection is closed in the middle of the body.
    Broken,
    /// Nothing comes any more, and the connection stays.
    Hanging,
}

impl Server {
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::<Mutex<Vec<Received>>>::default();
        let answers = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (answers, seen) = (Arc::clone(&answers), Arc::clone(&seen));
                tokio::spawn(async move {
                    let _ = serve(connection, &answers, &seen).await;
                });
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.requests.lock().unwrap().clone()
    }

    /// EndpointSettings with short waits.
    pub(crate) fn settings(&self) -> EndpointSettings {
        EndpointSettings {
            timeouts: RequestTimeouts {
                connect: Duration::from_secs(5),
                first_byte: Duration::from_millis(400),
                next_part: Duration::from_millis(200),
                whole: Duration::from_secs(20),
            },
            retries: RetryPolicy {
                max_attempts: 3,
                first_wait: Duration::from_millis(5),
                max_wait: Duration::from_secs(2),
            },
            ..EndpointSettings::new(self.url(), "test-model")
        }
    }

    pub(crate) fn model(&self) -> OpenAiModel {
        OpenAiModel::new(self.settings()).unwrap()
    }
}

impl Answer {
    /// A stream of these chunks, marked as done.
    pub(crate) fn stream(chunks: impl IntoIterator<Item = Value>) -> Self {
        Self::unfinished(chunks).send("data: [DONE]\n\n")
    }

    /// A stream of these chunks, without the mark at the end.
    pub(crate) fn unfinished(chunks: impl IntoIterator<Item = Value>) -> Self {
        let answer = Self::bytes(200, "text/event-stream", "");
        chunks.into_iter().fold(answer, |answer, chunk| {
            answer.send(format!("data: {chunk}\n\n"))
        })
    }

    /// A stream with this text, one chunk for each.
    pub(crate) fn text<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let chunks = texts.into_iter().map(text_chunk);
        Self::stream(chunks.chain([finish_chunk("stop")]))
    }

    pub(crate) fn json(status: u16, body: Value) -> Self {
        Self::bytes(status, "application/json", body.to_string())
    }

    /// An error as OpenAI words it.
    pub(crate) fn error(status: u16, code: &str, message: &str) -> Self {
        Self::json(
            status,
            json!({"error": {"message": message, "type": "invalid_request_error", "code": code}}),
        )
    }

    pub(crate) fn bytes(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), kind.into())],
            steps: vec![Step::Send(body.into())],
            end: End::Whole,
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn send(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.steps.push(Step::Send(bytes.into()));
        self
    }

    pub(crate) fn wait(mut self, time: Duration) -> Self {
        self.steps.push(Step::Wait(time));
        self
    }

    pub(crate) fn then_breaks(mut self) -> Self {
        self.end = End::Broken;
        self
    }

    pub(crate) fn then_hangs(mut self) -> Self {
        self.end = End::Hanging;
        self
    }
}

pub(crate) fn text_chunk(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}}]})
}

pub(crate) fn call_chunk(calls: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
}

pub(crate) fn finish_chunk(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

async fn serve(
    connection: TcpStream,
    answers: &Mutex<VecDeque<Answer>>,
    seen: &Mutex<Vec<Received>>,
) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut connection = BufReader::new(connection);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if connection.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        let mut body = vec![0; length.unwrap_or(0)];
        connection.read_exact(&mut body).await?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        seen.lock().unwrap().push(Received { head, body });
        let answer = {
            let mut answers = answers.lock().unwrap();
            if answers.len() > 1 {
                answers.pop_front().unwrap()
            } else {
                answers.front().unwrap().clone()
            }
        };
        give(connection.get_mut(), answer).await?;
    }
}

async fn give(connection: &mut TcpStream, answer: Answer) -> std::io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {} x\r\ntransfer-encoding: chunked\r\n",
        answer.status
    );
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    // The head leaves with the first bytes of the body, so that a wait before them is a wait for everything.
    let mut pending = head.into_bytes();
    for step in answer.steps {
        match step {
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Send(bytes) if bytes.is_empty() => {}
            Step::Send(bytes) => {
                pending.extend(format!("{:x}\r\n", bytes.len()).into_bytes());
                pending.extend(bytes);
                pending.extend(b"\r\n");
                connection.write_all(&pending).await?;
                connection.flush().await?;
                pending.clear();
            }
        }
    }
    match answer.end {
        End::Whole => {
            pending.extend(b"0\r\n\r\n");
            connection.write_all(&pending).await
        }
        End::Broken => {
            connection.write_all(&pending).await?;
            connection.shutdown().await?;
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
        End::Hanging => {
            connection.write_all(&pending).await?;
            std::future::pending().await
        }
    }
}
