//! A Python with the official SDK, peers written in it, and sessions to offer them.

use cellblock_env::{Cancel, EnvironmentStatus, Environments, Requirements, Search};
use cellblock_mcp::with_tools_for_clients;
use cellblock_mcp::{Connected, Files, HttpOptions, RemoteServer, Server, Trust, connect};
use cellblock_protocol::{Locale, SessionOptions};
pub use cellblock_test_support::{eventually, wait};
use cellblock_test_support::{open_session, runtime, test_directory};
use cellblock_tools::{
    Approval, ApprovalMode, ApprovalPolicy, Call, Registry, SessionFuture, ToolRunner,
};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The interpreter of an environment with the SDK, made by the first test that needs it. None where there is no package index,
/// which is a failure on CI.
pub fn python() -> Option<&'static Path> {
    static PYTHON: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
        let words = |error: cellblock_env::Error| error.to_string();
        let interpreter = Search::from_process()
            .map_err(words)?
            .find()
            .map_err(words)?;
        let environments = Environments::from_process().map_err(words)?;
        let wanted = Requirements::new(["mcp==2.3.0"]).with_imports(["mcp"]);
        if let EnvironmentStatus::Ready(ready) = environments.status(&interpreter, &wanted) {
            return Ok(ready.python);
        }
        let made = environments.make(&interpreter, &wanted, &Cancel::new(), &mut |_| {});
        Ok(made.map_err(words)?.python)
    });
    match &*PYTHON {
        Ok(path) => Some(path),
        Err(error) if std::env::var_os("CI").is_some() => panic!("there is no SDK: {error}"),
        Err(error) => {
            eprintln!("skipped, since the SDK cannot be installed: {error}");
            None
        }
    }
}

/// The scripts of the peers, where any user can read them.
pub fn script(name: &str) -> String {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        for (name, text) in [
            ("shop.py", include_str!("peers/shop.py")),
            ("crooked.py", include_str!("peers/crooked.py")),
            ("visitor.py", include_str!("peers/visitor.py")),
        ] {
            fs::write(test_directory().join(name), text).unwrap();
        }
        test_directory().to_owned()
    });
    FOLDER.join(name).display().to_string()
}

/// The server made with the SDK, started by us.
pub fn shop() -> Option<RemoteServer> {
    let python = python()?.display().to_string();
    let mut server = RemoteServer::program("shop", python, [script("shop.py"), "stdio".to_owned()]);
    server.trust = Trust::Everything;
    Some(server)
}

/// The server that does something wrong. It needs no packages.
pub fn crooked(fault: &str) -> RemoteServer {
    let python = Search::from_process().unwrap().find().unwrap();
    let arguments = [script("crooked.py"), fault.to_owned()];
    let mut server = RemoteServer::program(
        "crooked",
        python.executable.display().to_string(),
        arguments,
    );
    server.trust = Trust::Everything;
    server
}

/// A tool runner with the tools of these servers, which must all be there.
pub fn runner_of(servers: impl IntoIterator<Item = RemoteServer>) -> (ToolRunner, Connected) {
    let connected = wait(connect(servers));
    assert_eq!(connected.problems, []);
    (runner(&connected), connected)
}

/// A tool runner with the tools of these servers.
pub fn runner(connected: &Connected) -> ToolRunner {
    let registry = Registry::builder()
        .built_in()
        .extend(connected.tools.iter().cloned());
    ToolRunner::builder(registry.build().unwrap())
        .open_sessions(sessions())
        .build()
}

/// What a model reads of a call.
pub fn text(runner: &ToolRunner, name: &str, arguments: Value) -> String {
    wait(runner.call(Call::by_user(name, arguments))).for_model(Locale::En, 20_000)
}

/// Makes sessions with the standard library.
pub fn sessions() -> impl Fn() -> SessionFuture + Send + Sync + 'static {
    || Box::pin(async { Ok(open_session(SessionOptions::default()).await?) })
}

/// A server of ours in this process.
pub struct Ours {
    pub server: Server,
    /// The tool runners of its clients.
    pub runners: Arc<Mutex<Vec<ToolRunner>>>,
}

impl Ours {
    pub fn new() -> Ours {
        let registry = with_tools_for_clients(Registry::builder().built_in());
        let registry = registry.build().unwrap();
        let runners = Arc::new(Mutex::new(Vec::new()));
        let made = Arc::clone(&runners);
        let server = Server::new(Files::None, move |_| {
            let policy = ApprovalPolicy::mode(ApprovalMode::Effects);
            let runner = ToolRunner::builder(registry.clone())
                .open_sessions(sessions())
                .approval(Approval::new(policy, None))
                .build();
            made.lock().unwrap().push(runner.clone());
            runner
        });
        Ours { server, runners }
    }

    /// Whether some client has a session.
    pub fn has_sessions(&self) -> bool {
        let runners = self.runners.lock().unwrap().clone();
        wait(async move {
            for runner in runners {
                if runner.current_session().await.is_some() {
                    return true;
                }
            }
            false
        })
    }
}

pub const TOKEN: &str = "a token that only tests know";

/// A server of ours that listens.
pub struct Listening {
    pub ours: Ours,
    pub address: SocketAddr,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Listening {
    pub fn new(change: impl FnOnce(&mut HttpOptions)) -> Listening {
        let ours = Ours::new();
        let mut options = HttpOptions::new(TOKEN);
        change(&mut options);
        let listener = wait(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let server = ours.server.clone();
        let serving = runtime().spawn(async move { server.serve_http(listener, options).await });
        Listening {
            ours,
            address,
            serving,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Starts a client made with the SDK.
    pub fn visit(&self, scene: &str) -> Option<Child> {
        let child = Command::new(python()?)
            .args([&script("visitor.py"), scene, &self.url(), TOKEN])
            .stdout(Stdio::piped())
            .spawn();
        Some(child.unwrap())
    }

    /// What a client made with the SDK saw.
    pub fn seen_in(&self, scene: &str) -> Option<Value> {
        let output = self.visit(scene)?.wait_with_output().unwrap();
        assert!(output.status.success(), "the scene {scene} failed");
        Some(serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Stops, and waits until nothing is left.
    pub fn stop(self) {
        self.ours.server.stop();
        wait(self.serving).unwrap().unwrap();
        assert!(!self.ours.has_sessions());
    }
}
