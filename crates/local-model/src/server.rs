//! llama.cpp's server for a stored model: started when it is needed, ended when no process uses it.
//!
//! One server serves all processes of the user. Each of them touches the file `used` while it lives; the server ends when the
//! file is gone or was not touched for a while. So no process has to be the last one, and none is killed by its number.

use crate::error::Error;
use crate::store::{LocalModels, StoredModel, create, lock_file};
use cellblock_env::{Cancel, Environments, InstallProgress, Interpreter, Requirements};
use cellblock_model::{CapabilityOverrides, ModelChoice};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// The package with llama.cpp's server. Its attributes change between releases, so the version is fixed.
const SERVER_PACKAGE: &str = "xllamacpp==2026.10.11549";
const SERVER_SCRIPT: &str = include_str!("server.py");
/// The tokens of a request and its reply together.
const CONTEXT_TOKENS: u64 = 16_384;
/// A server that was not used for this long ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How often a process says that it uses the server.
const TOUCH_INTERVAL: Duration = Duration::from_secs(20);
/// The longest time that the loading of weights may take.
const START_TIME_LIMIT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The end of the log that an error shows.
const MAX_LOG_BYTES: usize = 1500;

/// A running server, as its state file tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The base URL, on loopback.
    pub url: String,
    /// The process id of the server.
    pub pid: u32,
    /// The tokens of a request and its reply together.
    pub context: u64,
}

/// The use of a server. While it lives, the server does not end.
#[derive(Debug)]
pub struct ServerUse {
    /// The server.
    pub status: ServerStatus,
    model: StoredModel,
    key_file: PathBuf,
    touching: tokio::task::JoinHandle<()>,
}

impl LocalModels {
    /// The environment with the server program; it is made if it does not exist. Blocks.
    pub fn prepare_server(
        environments: &Environments,
        python: &Interpreter,
        cancel: &Cancel,
        on_progress: &mut dyn FnMut(InstallProgress),
    ) -> Result<PathBuf, Error> {
        let requirements = Requirements::parse([SERVER_PACKAGE])?;
        let environment = environments.make(python, &requirements, cancel, on_progress)?;
        Ok(environment.python)
    }

    /// Starts the server of a model, or finds the one that runs. `python` is that of [`prepare_server`](Self::prepare_server).
    pub async fn serve(&self, model: &StoredModel, python: &Path) -> Result<ServerUse, Error> {
        self.serve_with(model, python, SERVER_SCRIPT, IDLE_TIMEOUT)
            .await
    }

    /// The server of a model, if it runs.
    pub fn running(&self, name: &str) -> Option<ServerStatus> {
        let files = ServerFiles::new(&self.directory_of(name).ok()?);
        files.running()
    }

    /// Ends the server of a model, if it runs, and waits for its end.
    pub async fn stop(&self, name: &str) -> Result<(), Error> {
        let files = ServerFiles::new(&self.directory_of(name)?);
        let _ = fs::remove_file(&files.used);
        let begun = Instant::now();
        while files.running().is_some() && begun.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    async fn serve_with(
        &self,
        model: &StoredModel,
        python: &Path,
        script: &str,
        idle: Duration,
    ) -> Result<ServerUse, Error> {
        let directory = self.directory_of(&model.name)?;
        create(&directory)?;
        let files = ServerFiles::new(&directory);
        // Two processes that need the server start it once.
        let _lock = lock_file(directory.join("serve.lock")).await?;
        files.touch()?;
        let status = match files.running() {
            Some(status) => status,
            None => files.start(model, python, script, idle).await?,
        };
        let touched = files.clone();
        let touching = tokio::spawn(async move {
            loop {
                tokio::time::sleep(TOUCH_INTERVAL).await;
                // A server that another process ended stays ended.
                if !touched.used.exists() || touched.touch().is_err() {
                    break;
                }
            }
        });
        Ok(ServerUse {
            status,
            model: model.clone(),
            key_file: files.key,
            touching,
        })
    }
}

impl ServerUse {
    /// The choice of this model, for a client. Fields of `choice` that the user set stay.
    pub fn choice(&self, choice: ModelChoice) -> ModelChoice {
        let CapabilityOverrides {
            tools,
            json_schema,
            context_tokens,
            ..
        } = choice.capabilities;
        let source = match self.model.sha256.as_str() {
            "" => self.model.name.clone(),
            hash => format!("{} (weights {hash})", self.model.name),
        };
        ModelChoice {
            model: Some(self.model.name.clone()),
            base_url: Some(self.status.url.clone()),
            key_variable: None,
            key_file: Some(self.key_file.clone()),
            capabilities: CapabilityOverrides {
                // llama.cpp holds every reply to the schema, which a small model needs more than native calls.
                tools: tools.or(Some(false)),
                json_schema: json_schema.or(Some(true)),
                context_tokens: context_tokens.or(Some(self.status.context)),
                ..choice.capabilities
            },
            record_source: choice.record_source.or(Some(source)),
            ..choice
        }
    }

    /// The key of the server, for another client.
    pub fn key(&self) -> String {
        fs::read_to_string(&self.key_file).unwrap_or_default()
    }
}

impl Drop for ServerUse {
    fn drop(&mut self) {
        self.touching.abort();
    }
}

/// The files of a server, in the directory of its model.
#[derive(Clone, Debug)]
struct ServerFiles {
    state: PathBuf,
    used: PathBuf,
    key: PathBuf,
    log: PathBuf,
    lock: PathBuf,
}

impl ServerFiles {
    fn new(directory: &Path) -> ServerFiles {
        ServerFiles {
            state: directory.join("server.json"),
            used: directory.join("server.used"),
            key: directory.join("server.key"),
            log: directory.join("server.log"),
            lock: directory.join("server.lock"),
        }
    }

    /// Says that the server is used now.
    fn touch(&self) -> Result<(), Error> {
        let touched =
            fs::File::create(&self.used).and_then(|file| file.set_modified(SystemTime::now()));
        touched.map_err(Error::io("write", &self.used))
    }

    /// The server that the state file names, if its process lives: it holds the lock, which no other process takes.
    fn running(&self) -> Option<ServerStatus> {
        let text = fs::read(&self.state).ok()?;
        let status: ServerStatus = serde_json::from_slice(&text).ok()?;
        let lock = fs::File::open(&self.lock).ok()?;
        let is_held = matches!(lock.try_lock_shared(), Err(fs::TryLockError::WouldBlock));
        is_held.then_some(status)
    }

    async fn start(
        &self,
        model: &StoredModel,
        python: &Path,
        script: &str,
        idle: Duration,
    ) -> Result<ServerStatus, Error> {
        let _ = fs::remove_file(&self.state);
        let key = self.write_key()?;
        let mut child = self.spawn(python, script)?;
        let settings = json!({
            "weights": model.weights, "name": model.name, "key": key, "context": CONTEXT_TOKENS,
            "idle_seconds": idle.as_secs_f64(), "state": self.state, "used": self.used, "lock": self.lock,
        });
        if let Some(mut input) = child.stdin.take() {
            // A process that ended already says why in its log.
            let _ = input.write_all(settings.to_string().as_bytes());
        }
        let begun = Instant::now();
        loop {
            if let Some(status) = self.running() {
                return Ok(status);
            }
            let ended = child.try_wait().ok().flatten().is_some();
            if ended || begun.elapsed() > START_TIME_LIMIT {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Error::Server {
                    problem: self.log_end(),
                });
            }
            // The weights of a large model load for longer than a server waits for its use.
            self.touch()?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// A server with no variables of the user's, which may hold keys.
    fn spawn(&self, python: &Path, script: &str) -> Result<Child, Error> {
        let log = fs::File::create(&self.log).map_err(Error::io("write", &self.log))?;
        let errors = log.try_clone().map_err(Error::io("write", &self.log))?;
        let started = Command::new(python)
            .args(["-I", "-c", script])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(errors)
            .spawn();
        started.map_err(Error::io("start", python))
    }

    /// Makes a new key, in a file that only its owner can read.
    fn write_key(&self) -> Result<String, Error> {
        let mut random = [0; 24];
        getrandom::fill(&mut random)
            .map_err(std::io::Error::other)
            .map_err(Error::io("make a key for", &self.key))?;
        let key: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let written = options
            .open(&self.key)
            .and_then(|mut file| file.write_all(key.as_bytes()));
        written.map_err(Error::io("write", &self.key))?;
        Ok(key)
    }

    fn log_end(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let end = &text[text.len().saturating_sub(MAX_LOG_BYTES)..];
        let end = String::from_utf8_lossy(end);
        match end.trim() {
            "" => "it said nothing".to_owned(),
            end => end.to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
