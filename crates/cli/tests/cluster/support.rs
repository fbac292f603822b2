//! Three processes of the engine and any number of nodes, on this machine.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a node lives without a heartbeat in these tests.
pub(crate) const LEASE: Duration = Duration::from_secs(6);

/// The program of the engine: of PATH, or where `tests/cluster` of the repository puts it. `None` where there is none, and a message says
/// so; in CI that is an error.
pub(crate) fn engine_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nats-server/bin");
    let found = std::env::split_paths(&path)
        .chain([in_target])
        .map(|directory| directory.join("nats-server"))
        .find(|program| program.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "nats-server is missing");
        eprintln!("skipped: there is no nats-server; `tests/cluster` brings it");
    }
    found
}

/// Three processes of the engine that know each other.
pub(crate) struct Engine {
    pub(crate) servers: Vec<Child>,
    directory: TempDir,
    ports: Vec<u16>,
    program: PathBuf,
}

impl Engine {
    /// Starts three servers. `None` where the program is missing.
    pub(crate) fn start() -> Option<Engine> {
        let program = engine_program()?;
        let free: Vec<TcpListener> = (0..6)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let ports = free.iter().map(|one| one.local_addr().unwrap().port());
        let ports: Vec<u16> = ports.collect();
        drop(free);
        let mut engine = Engine {
            servers: Vec::new(),
            directory: tempfile::tempdir().unwrap(),
            ports,
            program,
        };
        for number in 0..3 {
            let server = engine.start_server(number);
            engine.servers.push(server);
        }
        Some(engine)
    }

    /// Starts one server, again with the files that it had.
    pub(crate) fn start_server(&self, number: usize) -> Child {
        let place = self.directory.path();
        let routes = self.ports[3..].iter();
        let routes: Vec<String> = routes
            .map(|port| format!("nats-route://127.0.0.1:{port}"))
            .collect();
        let config = format!(
            "server_name: server{number}\nlisten: 127.0.0.1:{}\njetstream {{ store_dir: {:?}, sync_interval: always }}\n\
             cluster {{ name: cellblock, listen: 127.0.0.1:{}, routes: [{}] }}\n",
            self.ports[number],
            place.join(number.to_string()),
            self.ports[number + 3],
            routes.join(","),
        );
        let file = place.join(format!("{number}.conf"));
        std::fs::write(&file, config).unwrap();
        Command::new(&self.program)
            .arg("-c")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// The addresses of the servers, as `--cluster` takes them.
    pub(crate) fn urls(&self) -> String {
        let urls = self.ports[..3].iter();
        let urls: Vec<String> = urls
            .map(|port| format!("nats://127.0.0.1:{port}"))
            .collect();
        urls.join(",")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// A node: a `cellblock serve` of a cluster.
pub(crate) struct Node {
    process: Child,
    pub(crate) url: String,
    pub(crate) id: String,
    pub(crate) cluster: String,
    _data: TempDir,
}

impl Node {
    /// Starts a node of the cluster with this name, a lease of so many seconds and more arguments, and waits until it serves.
    pub(crate) fn start_with(
        engine: &Engine,
        cluster: &str,
        name: &str,
        lease: u64,
        more: &[&str],
    ) -> Node {
        let data = tempfile::tempdir().unwrap();
        let deadline = Instant::now() + Duration::from_secs(40);
        loop {
            let mut process = cellblock()
                .args(["serve", "--no-auth", "--stdlib", "--listen", "127.0.0.1:0"])
                .arg("--data")
                .arg(data.path())
                .args(["--cluster", &engine.urls(), "--cluster-name", cluster])
                .args(["--cluster-lease", &lease.to_string()])
                .args(["--node-name", name])
                .args(["--quota", "memory=128GiB", "--quota", "sessions=100"])
                .args(more)
                .env("CELLBLOCK_API_KEY", "of-a-test")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
            let mut said = Vec::new();
            let (mut url, mut id) = (None, None);
            while let (None, Some(Ok(line))) = (&id, lines.next()) {
                if let Some(found) = line.strip_prefix("serving at ") {
                    url = Some(found.to_owned());
                }
                if let Some(found) = line.strip_prefix("node ") {
                    id = found.split(' ').next().map(str::to_owned);
                }
                said.push(line);
            }
            if let (Some(url), Some(id)) = (url, id) {
                // The rest is read so that the node never waits for a reader.
                std::thread::spawn(move || lines.for_each(drop));
                return Node {
                    process,
                    url,
                    id,
                    cluster: cluster.to_owned(),
                    _data: data,
                };
            }
            let _ = process.wait();
            // The servers of the engine may still be looking for their leader.
            assert!(Instant::now() < deadline, "{said:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Sends a signal to the node.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Sends a request and returns its status and its answer.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        key: Option<&str>,
    ) -> Result<(u16, Value), reqwest::Error> {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = client()
            .request(method, format!("{}{path}", self.url))
            .header("x-cellblock", "1");
        if let Some(body) = body {
            request = request.json(&body);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await?;
        Ok((
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        ))
    }

    /// The same, and the answer must be good.
    pub(crate) async fn good(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.send(method, path, body, None).await.unwrap();
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    /// Opens a session and returns its id.
    pub(crate) async fn open(&self) -> String {
        let session = self.good("POST", "/v1/sessions", Some(json!({}))).await;
        session["id"].as_str().unwrap().to_owned()
    }

    /// Runs a cell and returns the text of its value.
    pub(crate) async fn run(&self, session: &str, code: &str) -> String {
        let path = format!("/v1/sessions/{session}/cells?wait=1");
        let result = self.good("POST", &path, Some(json!({"code": code}))).await;
        assert_eq!(result["status"], "success", "{result}");
        result["value"]["repr"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The status of a request with these headers.
    pub(crate) async fn status_with(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = client().get(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status().as_u16()
    }

    /// Runs a cell and returns its events, as they were sent.
    pub(crate) async fn events(&self, session: &str, code: &str) -> String {
        let request = client()
            .post(format!("{}/v1/sessions/{session}/cells", self.url))
            .header("x-cellblock", "1")
            .header("accept", "text/event-stream")
            .json(&json!({ "code": code }));
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        response.text().await.unwrap()
    }

    /// Opens a WebSocket and reads until this text comes. Returns all that came.
    pub(crate) fn attach(&self, path: &str, text: &str) -> String {
        let host = self.url.strip_prefix("http://").unwrap();
        let mut socket = TcpStream::connect(host).unwrap();
        let limit = Some(Duration::from_secs(20));
        socket.set_read_timeout(limit).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Cellblock: 1\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).unwrap();
        let mut heard = Vec::new();
        let mut bytes = [0; 4096];
        loop {
            let read = socket.read(&mut bytes).unwrap();
            heard.extend_from_slice(&bytes[..read]);
            let came = String::from_utf8_lossy(&heard).into_owned();
            if came.contains(text) {
                return came;
            }
            assert!(read > 0, "the socket ended: {came}");
        }
    }

    /// The node that has a session, as this node lists it.
    pub(crate) async fn node_of(&self, session: &str) -> String {
        let list = self.good("GET", "/v1/sessions", None).await;
        let all = list["sessions"].as_array().unwrap();
        let found = all.iter().find(|one| one["id"] == session);
        let found = found.unwrap_or_else(|| panic!("{session} is not in {list}"));
        found["node"].as_str().unwrap().to_owned()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Three nodes of a cluster of their own, with these arguments.
pub(crate) fn three_nodes(engine: &Engine, more: &[&str]) -> Vec<Node> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let cluster = format!("c{}", NEXT.fetch_add(1, Ordering::Relaxed));
    // The first makes the streams.
    let start = |name| Node::start_with(engine, &cluster, name, LEASE.as_secs(), more);
    let first = start("a");
    let others = std::thread::scope(|scope| {
        let start = &start;
        let others = ["b", "c"].map(|name| scope.spawn(move || start(name)));
        others.map(|other| other.join().unwrap())
    });
    [first].into_iter().chain(others).collect()
}

/// The program under test, with the state of no user.
pub(crate) fn cellblock() -> Command {
    static PLACE: OnceLock<TempDir> = OnceLock::new();
    let place = PLACE.get_or_init(|| tempfile::tempdir().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellblock"));
    command
        .env("XDG_STATE_HOME", place.path())
        .env("XDG_CONFIG_HOME", place.path());
    command
}

fn client() -> &'static reqwest::Client {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Without a proxy, and without connections that outlive a node.
        let builder = reqwest::Client::builder()
            .no_proxy()
            .pool_max_idle_per_host(0);
        builder.timeout(Duration::from_secs(60)).build().unwrap()
    })
}
