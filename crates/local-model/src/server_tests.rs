//! The server of a local model: it is shared, and ends when it is not used.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use super::*;

/// In place of llama.cpp: a server that listens and answers nothing.
const FAKE_LIBRARY: &str = r#"
import socket, sys, types
class Nothing:
    def __getattr__(self, name):
        value = Nothing(); setattr(self, name, value); return value
class Server:
    def __init__(self, parameters):
        if parameters.model.path.endswith("broken.gguf"):
            raise RuntimeError("tensor data is out of bounds")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listening_address = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
sys.modules["xllamacpp"] = types.SimpleNamespace(CommonParams=Nothing, Server=Server)
"#;

struct Fixture {
    _directory: tempfile::TempDir,
    models: LocalModels,
    script: String,
}

impl Fixture {
    fn new() -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        Fixture {
            models: LocalModels::new(directory.path()),
            _directory: directory,
            script: format!("{FAKE_LIBRARY}{SERVER_SCRIPT}"),
        }
    }

    async fn serve(&self, weights: &str, idle: Duration) -> Result<ServerUse, Error> {
        let model = StoredModel {
            name: "small".to_owned(),
            weights: weights.into(),
            bytes: 4,
            sha256: String::new(),
        };
        let python = Path::new("python3");
        self.models
            .serve_with(&model, python, &self.script, idle)
            .await
    }

    async fn is_gone(&self) -> bool {
        for _ in 0..200 {
            if self.models.running("small").is_none() {
                return true;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        false
    }
}

#[tokio::test]
async fn a_second_use_finds_the_server_of_the_first() {
    let fixture = Fixture::new();
    let first = fixture.serve("a.gguf", IDLE_TIMEOUT).await.unwrap();
    let second = fixture.serve("a.gguf", IDLE_TIMEOUT).await.unwrap();
    assert_eq!(first.status, second.status);
    fixture.models.stop("small").await.unwrap();
    assert_eq!(fixture.models.running("small"), None);
}

#[tokio::test]
async fn a_server_that_no_process_uses_ends() {
    let fixture = Fixture::new();
    let used = fixture.serve("a.gguf", Duration::from_secs(2)).await;
    drop(used.unwrap());
    assert!(fixture.is_gone().await);
}

#[tokio::test]
async fn weights_that_cannot_be_loaded_are_an_error_with_the_servers_words() {
    let fixture = Fixture::new();
    let error = fixture
        .serve("broken.gguf", IDLE_TIMEOUT)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("tensor data is out of bounds"),
        "{error}"
    );
}

#[tokio::test]
async fn the_servers_key_is_readable_by_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new();
    let used = fixture.serve("a.gguf", IDLE_TIMEOUT).await.unwrap();
    let mode = fs::metadata(&used.key_file).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, used.key().len()), (0o600, 48));
    fixture.models.stop("small").await.unwrap();
}

#[tokio::test]
async fn a_server_that_was_killed_is_not_taken_for_one_that_runs() {
    let fixture = Fixture::new();
    let used = fixture.serve("a.gguf", IDLE_TIMEOUT).await.unwrap();
    let first = used.status.clone();
    let pid = rustix::process::Pid::from_raw(first.pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert!(fixture.is_gone().await);
    let again = fixture.serve("a.gguf", IDLE_TIMEOUT).await.unwrap();
    assert_ne!(again.status.pid, first.pid);
    fixture.models.stop("small").await.unwrap();
}
