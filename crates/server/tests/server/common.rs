//! A server in a directory of its own, asked through its router.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use cellblock_host::{Host, PythonChoice};
use cellblock_server::{Server, ServerError, ServerOptions, StoreError};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt as _;

/// How long the body of an answer may take. Only a stream of events that nothing ends takes longer.
const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(90);

/// A server that ends with the test.
pub struct TestServer {
    pub server: Server,
    pub router: Router,
    pub data: TempDir,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("not JSON: {:?}", String::from_utf8_lossy(&self.body)))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap_or(""))
    }
}

pub fn host(data: &std::path::Path) -> Host {
    Host::builder()
        .python(PythonChoice::StandardLibrary)
        .dirs(cellblock_env::Dirs {
            state: data.join("state"),
            ..cellblock_env::Dirs::from_process().expect("directories")
        })
        .build()
        .expect("a Python")
}

impl TestServer {
    /// With users and passwords.
    pub async fn new() -> TestServer {
        TestServer::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        let data = tempfile::tempdir().expect("a directory");
        TestServer::over(data, change).await
    }

    /// Over a data directory that a server used before.
    pub async fn over(data: TempDir, change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        let mut options = ServerOptions::new(data.path().join("data"));
        change(&mut options);
        for _ in 0..100 {
            let opened = Server::open(host(data.path()), options.clone()).await;
            // Tasks of the server before may need a moment to end.
            if let Err(ServerError::Store(StoreError::InUse { .. })) = &opened {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
            let server = opened.expect("a server");
            return TestServer {
                router: server.router(),
                server,
                data,
            };
        }
        panic!("the store stays locked")
    }

    /// Ends the server as a stop does, and starts it again over the same data.
    pub async fn restarted(self, change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        let TestServer {
            server,
            router,
            data,
        } = self;
        server.stop_sessions().await;
        drop((server, router));
        TestServer::over(data, change).await
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self
            .router
            .clone()
            .oneshot(request)
            .await
            .expect("an answer");
        let (parts, body) = response.into_parts();
        // A stream that should have been refused would never end.
        let body = tokio::time::timeout(ANSWER_TIMEOUT, body.collect())
            .await
            .expect("the answer ends")
            .map(|body| body.to_bytes().to_vec())
            .unwrap_or_default();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    /// Makes the first administrator and returns a caller with that login.
    pub async fn admin(&self) -> Caller<'_> {
        let secret = self
            .server
            .first_start_secret()
            .await
            .expect("a store")
            .expect("no user yet");
        let body = json!({"secret": secret, "name": "ada", "password": "a long password"});
        let answer = self.anyone().post("/v1/setup", body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        Caller {
            server: self,
            headers: vec![cookie_of(&answer), ("x-cellblock".into(), "1".into())],
        }
    }

    /// Adds a user and returns a caller with that user's login.
    pub async fn user(&self, admin: &Caller<'_>, name: &str) -> Caller<'_> {
        let made = admin.post("/v1/users", json!({"name": name})).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
        let body = json!({"secret": made.json()["secret"], "password": "another long password"});
        let answer = self.anyone().post("/v1/setup", body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        Caller {
            server: self,
            headers: vec![cookie_of(&answer), ("x-cellblock".into(), "1".into())],
        }
    }

    pub fn anyone(&self) -> Caller<'_> {
        Caller {
            server: self,
            headers: Vec::new(),
        }
    }

    /// Serves on a socket until the value is dropped.
    pub async fn listen(&self) -> Listening {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let stop = CancellationToken::new();
        let (serving, token) = (self.server.clone(), stop.clone());
        tokio::spawn(async move { serving.serve(listener, token).await });
        Listening {
            address,
            _stop: stop.drop_guard(),
        }
    }
}

/// A WebSocket of a client.
pub type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// The socket on which a server serves.
pub struct Listening {
    pub address: String,
    _stop: DropGuard,
}

impl Listening {
    /// Opens a WebSocket, or tells why the server refused it.
    pub async fn try_connect(
        &self,
        path: &str,
        headers: &[(String, String)],
    ) -> Result<Socket, tungstenite::Error> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request()?;
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().expect("a name");
            let value = value.parse().expect("a value");
            request.headers_mut().insert(name, value);
        }
        Ok(tokio_tungstenite::connect_async(request).await?.0)
    }
}

fn cookie_of(answer: &Answer) -> (String, String) {
    let cookie = answer
        .header("set-cookie")
        .split(';')
        .next()
        .unwrap_or_default();
    ("cookie".into(), cookie.to_owned())
}

/// Sends requests with these headers.
#[derive(Clone)]
pub struct Caller<'a> {
    pub server: &'a TestServer,
    pub headers: Vec<(String, String)>,
}

impl<'a> Caller<'a> {
    pub fn with(mut self, name: &str, value: &str) -> Caller<'a> {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The caller with the login that an answer gave.
    pub fn logged_in_by(self, answer: &Answer) -> Caller<'a> {
        let (name, value) = cookie_of(answer);
        self.with(&name, &value).with("x-cellblock", "1")
    }

    pub fn request(&self, method: Method, path: &str, body: Body) -> Request<Body> {
        let mut request = Request::builder().method(method).uri(path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            request = request.header("host", "localhost");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(body).expect("a request")
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.server
            .send(self.request(Method::GET, path, Body::empty()))
            .await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.server
            .send(self.request(Method::DELETE, path, Body::empty()))
            .await
    }

    pub async fn send(&self, method: Method, path: &str, body: Value) -> Answer {
        let mut request = self.request(method, path, Body::from(body.to_string()));
        let json = "application/json".parse().expect("a header");
        request.headers_mut().insert("content-type", json);
        self.server.send(request).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, body).await
    }

    /// Reads a stream of events until the first one of this kind.
    pub async fn first_event(&self, path: &str, kind: &str) -> Value {
        let request = self.request(Method::GET, path, Body::empty());
        let response = self.server.router.clone().oneshot(request).await;
        let mut body = response.expect("an answer").into_body();
        let mut text = String::new();
        while let Some(Ok(frame)) = body.frame().await {
            text.push_str(&String::from_utf8_lossy(frame.data_ref().expect("data")));
            let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
            let data = whole.lines().filter_map(|line| line.strip_prefix("data: "));
            let mut events = data.map(|data| serde_json::from_str::<Value>(data).expect("JSON"));
            if let Some(event) = events.find(|event| event["event"] == kind) {
                return event;
            }
        }
        panic!("the stream ended without {kind}: {text}")
    }

    /// Opens a session and returns its id.
    pub async fn open(&self) -> String {
        let answer = self.post("/v1/sessions", json!({})).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
        answer.json()["id"].as_str().expect("an id").to_owned()
    }

    /// Runs a cell and returns its result.
    pub async fn run(&self, session: &str, code: &str) -> Value {
        let path = format!("/v1/sessions/{session}/cells?wait=1");
        let answer = self.post(&path, json!({"code": code})).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        answer.json()
    }
}

/// Waits until a run has ended, and returns it.
pub async fn ended(caller: &Caller<'_>, run: &str) -> Value {
    for _ in 0..600 {
        let told = caller.get(&format!("/v1/runs/{run}")).await.json();
        if told["status"] != "running" {
            return told;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the run does not end")
}
