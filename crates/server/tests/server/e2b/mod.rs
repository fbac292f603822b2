//! Sandboxes, asked as the official clients of the E2B API ask for them.

mod code;
mod envd;
mod javascript;
mod life;

use crate::common::{Answer, Caller, TestServer};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_server::Authentication;
use serde_json::{Value, json};

const ENVD: &str = "49983";
const CODE: &str = "49999";

/// A sandbox and how its services are asked.
struct Sandbox<'a> {
    server: &'a TestServer,
    id: String,
    token: String,
}

impl<'a> Sandbox<'a> {
    async fn create(caller: &Caller<'a>, body: Value) -> Sandbox<'a> {
        let answer = caller.post("/v2/sandboxes", body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
        Sandbox::of(caller.server, &answer.json())
    }

    fn of(server: &'a TestServer, told: &Value) -> Sandbox<'a> {
        let text = |name: &str| told[name].as_str().expect("a text").to_owned();
        Sandbox {
            server,
            id: text("sandboxID"),
            token: text("envdAccessToken"),
        }
    }

    fn service(&self, port: &str) -> Caller<'a> {
        self.server
            .anyone()
            .with("e2b-sandbox-id", &self.id)
            .with("e2b-sandbox-port", port)
            .with("x-access-token", &self.token)
    }

    /// Runs a cell and returns its lines.
    async fn run(&self, request: Value) -> Vec<Value> {
        let answer = self.service(CODE).post("/execute", request).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        let text = answer.text();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        lines.collect()
    }

    /// The text of the last value of a cell.
    async fn value(&self, code: &str) -> Value {
        let lines = self.run(json!({"code": code})).await;
        let result = lines.iter().find(|line| line["type"] == "result");
        result.map_or(json!(lines), |line| line["text"].clone())
    }

    async fn rpc(&self, method: &str, request: Value) -> Answer {
        self.service(ENVD)
            .post(&format!("/{method}"), request)
            .await
    }

    /// Calls a method that answers by a stream, and returns its messages and the last one.
    async fn stream(&self, method: &str, request: &[u8]) -> (Vec<Value>, Value) {
        let caller = self
            .service(ENVD)
            .with("content-type", "application/connect+json");
        let body = Body::from(request.to_vec());
        let request = caller.request(Method::POST, &format!("/{method}"), body);
        let answer = self.server.send(request).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        let (mut messages, mut last, mut rest) = (Vec::new(), Value::Null, &answer.body[..]);
        while let [flag, a, b, c, d, after @ ..] = rest {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let message = serde_json::from_slice(&after[..length]).expect("JSON");
            match flag {
                0 => messages.push(message),
                _ => last = message,
            }
            rest = &after[length..];
        }
        (messages, last)
    }

    /// Runs a line of the shell and returns its standard output and how it ended.
    async fn shell(&self, line: &str) -> (String, Value) {
        let request = json!({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", line]}});
        let (messages, last) = self
            .stream("process.Process/Start", &envelope(&request))
            .await;
        assert_eq!(last, json!({}), "{messages:?}");
        let output = messages
            .iter()
            .filter_map(|message| message["event"]["data"]["stdout"].as_str())
            .flat_map(|text| STANDARD.decode(text).expect("base64"))
            .collect();
        let end = messages
            .last()
            .map(|message| message["event"]["end"].clone());
        (
            String::from_utf8(output).expect("a text"),
            end.unwrap_or_default(),
        )
    }

    async fn upload(&self, path: &str, contents: &str) -> Answer {
        let caller = self
            .service(ENVD)
            .with("content-type", "application/octet-stream");
        let body = Body::from(contents.to_owned());
        let path = format!("/files?path={path}");
        self.server
            .send(caller.request(Method::POST, &path, body))
            .await
    }
}

fn envelope(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::try_from(text.len()).expect("short").to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

async fn open_server() -> TestServer {
    TestServer::with(|options| options.authentication = Authentication::Off).await
}

fn client(server: &TestServer) -> Caller<'_> {
    server.anyone().with("x-api-key", "any")
}
