//! The sandbox of installers, and of code that packages bring: a session with every wall of this machine.

use super::unreached_hosts::UnreachedHosts;
use cellblock_env::{
    Cancel, CommandFailure, Dirs, InstallerSandbox, OpenSandbox, ProgramEnd, SandboxCommand,
    SandboxError, SandboxOptions, SandboxStrength,
};
use cellblock_protocol::{
    Cell, CellResult, Event, Isolation, Limits, NetworkRule, Rung, SessionOptions, Status, Strategy,
};
use cellblock_session::{BadProxy, Error, Preload, Proxies, Python, Running, Runtime, Session};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the cancellation of a command is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// A longer line without an end is dropped.
const MAX_LINE_BYTES: usize = 1 << 16;

/// The Python code in the session that runs a command, with its output as it comes. `subprocess` refuses
/// installers in a session, because they cannot work in an ordinary one; here they can.
const SETUP: &str = "\
def launch(command, variables):
    import os
    environment = {name: os.environ[name] for name in os.environ if name.lower().endswith('_proxy')}
    home = os.environ.get('TMPDIR', '/tmp')
    environment.update(PATH='/usr/local/bin:/usr/bin:/bin', LANG='C.UTF-8', HOME=home, TMPDIR=home)
    environment.update(variables)
    child = os.posix_spawn(command[0], command, environment)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended:
        raise SystemExit(ended)
";

/// Opens sessions as sandboxes. Such a session sees an interpreter, the files that an installer needs, and
/// one directory; it reaches the package index. It sees no other file of the user.
#[derive(Debug)]
pub(crate) struct SessionSandbox {
    dirs: Dirs,
}

impl SessionSandbox {
    pub(crate) fn new(dirs: Dirs) -> SessionSandbox {
        SessionSandbox { dirs }
    }

    async fn open_session(&self, wanted: &SandboxOptions) -> Result<Session, SandboxError> {
        let proxies =
            proxies(wanted).map_err(|error| SandboxError::Unavailable(error.to_string()))?;
        let mut prefixes = wanted.interpreter.directories();
        prefixes.extend(wanted.readable.iter().cloned());
        let python = Python {
            executable: wanted.interpreter.executable.clone(),
            prefixes,
            packages: false,
            font_cache: None,
        };
        let isolation = Isolation {
            rung: (wanted.strength == SandboxStrength::Full).then_some(Rung::Full),
            ..Isolation::default()
        };
        let options = SessionOptions {
            workspace: Some(wanted.directory.clone()),
            strategy: Strategy::Direct,
            isolation: isolation.clone(),
            network: network_rules(&wanted.hosts).map_err(SandboxError::Failed)?,
            limits: Limits {
                wall: wanted.time_limit,
                disk: 32 << 30,
                memory: 4 << 30,
                processes: 256,
                ..Limits::default()
            },
            setup: Some(SETUP.to_owned()),
            ..SessionOptions::default()
        };
        let runtime = Runtime::builder(python, &self.dirs.state, &self.dirs.cache)
            .isolation(isolation)
            .preload(Preload::None)
            .proxies(proxies)
            .start()
            .await
            .map_err(sandbox_error)?;
        runtime.open(options).await.map_err(sandbox_error)
    }
}

impl InstallerSandbox for SessionSandbox {
    fn open(&self, options: &SandboxOptions) -> Result<Box<dyn OpenSandbox>, SandboxError> {
        // Environments are made on a thread of their own, which may block.
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| SandboxError::Failed(error.to_string()))?;
        let session = tokio.block_on(self.open_session(options))?;
        let directory = session.workspace_at().to_owned();
        Ok(Box::new(OpenSessionSandbox {
            session,
            directory,
            time_limit: options.time_limit,
            tokio,
        }))
    }
}

/// A session that runs one command after the other.
struct OpenSessionSandbox {
    session: Session,
    directory: PathBuf,
    time_limit: Duration,
    tokio: tokio::runtime::Runtime,
}

impl OpenSandbox for OpenSessionSandbox {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn run(
        &mut self,
        command: &SandboxCommand,
        cancel: &Cancel,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), CommandFailure> {
        let text = |word: &OsStr| word.to_string_lossy().into_owned();
        let arguments: Vec<String> = command.arguments.iter().map(|word| text(word)).collect();
        let variables: serde_json::Map<String, Value> = command
            .variables
            .iter()
            .map(|(name, value)| (text(name), json!(text(value))))
            .collect();
        // JSON of texts in lists and objects is Python as well.
        let code = format!("launch({}, {})", json!(arguments), json!(variables));
        let mut unreached = UnreachedHosts::of(&self.session);
        let ran = self.tokio.block_on(async {
            let running = self.session.start(Cell::new(code));
            let running = running.map_err(|error| ProgramEnd::Other(error.to_string()))?;
            let result = drive(&self.session, running, cancel, &mut unreached, on_line).await;
            let result = result.map_err(ProgramEnd::Other)?;
            program_end(&result, self.time_limit).map_or(Ok(()), Err)
        });
        ran.map_err(|end| CommandFailure {
            end,
            unreached: unreached.collect(),
        })
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let file = self.tokio.block_on(self.session.get_file(name));
        file.map_err(|error| error.to_string())
    }
}

impl Drop for OpenSessionSandbox {
    fn drop(&mut self) {
        self.tokio.block_on(self.session.close());
    }
}

fn sandbox_error(error: Error) -> SandboxError {
    if error.is_lack_of_walls() {
        SandboxError::Unavailable(error.to_string())
    } else {
        SandboxError::Failed(error.to_string())
    }
}

/// The proxies to the hosts. Without hosts no proxy is needed, and a proxy that cannot be used is no error.
fn proxies(options: &SandboxOptions) -> Result<Proxies, BadProxy> {
    if options.hosts.is_empty() {
        return Ok(Proxies::default());
    }
    let settings = &options.proxies;
    let (http, https) = (settings.http.as_deref(), settings.https.as_deref());
    Proxies::new(http, https, &settings.bypass)
}

/// A rule for each host. `private` lets the index be in the user's own network: the user named it.
fn network_rules(hosts: &[String]) -> Result<Vec<NetworkRule>, String> {
    let rule = |host: &String| format!("{host} private").parse::<NetworkRule>();
    hosts
        .iter()
        .map(|host| rule(host).map_err(|error| format!("the package index {host}: {error}")))
        .collect()
}

/// Reads the events of a running command until it has ended.
async fn drive(
    session: &Session,
    mut running: Running,
    cancel: &Cancel,
    unreached: &mut UnreachedHosts,
    on_line: &mut dyn FnMut(&str),
) -> Result<Box<CellResult>, String> {
    let mut pending = String::new();
    loop {
        // A cancelled wait for an event loses none.
        let event = tokio::time::timeout(POLL_INTERVAL, running.next()).await;
        if cancel.is_cancelled() {
            session.interrupt();
            return Err("it was cancelled".to_owned());
        }
        unreached.listen();
        match event {
            Ok(Some(Event::Stdout { text } | Event::Stderr { text })) => {
                pending.push_str(&text);
                while let Some(end) = pending.find('\n') {
                    on_line(pending[..end].trim_end());
                    pending.drain(..=end);
                }
                if pending.len() > MAX_LINE_BYTES {
                    pending.clear();
                }
            }
            Ok(Some(Event::Result { result })) => {
                if !pending.is_empty() {
                    on_line(pending.trim_end());
                }
                return Ok(result);
            }
            Ok(Some(Event::Error { message, .. })) => return Err(message),
            Ok(None) => return Err("the end of the program was not seen".to_owned()),
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

/// How the command of a cell ended; `None` where it succeeded. [`SETUP`] raises `SystemExit` with the exit
/// code, or with the negative number of the signal.
fn program_end(result: &CellResult, time_limit: Duration) -> Option<ProgramEnd> {
    let message = result.error.as_ref().map(|error| error.value.as_str());
    match result.status {
        Status::Success => None,
        Status::Failure => Some(match message.unwrap_or("1").parse::<i32>() {
            Ok(code) if code < 0 => ProgramEnd::Signal(-code),
            Ok(code) => ProgramEnd::Exit(code),
            Err(_) => ProgramEnd::Other(message.unwrap_or_default().to_owned()),
        }),
        Status::Timeout => Some(ProgramEnd::TimedOut(time_limit)),
        Status::Crashed | Status::Interrupted => Some(ProgramEnd::Other(
            message.unwrap_or("its process ended").to_owned(),
        )),
    }
}
