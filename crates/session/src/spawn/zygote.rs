//! The launcher and the zygote behind it, seen from the host.

use crate::wire::packets::Exchange;
use crate::wire::packets::Packets;
use crate::{Error, Preload, Python, PythonProblem, WorkspaceProblem};
use cellblock_protocol::{Shell, WorkspacePlace};
use cellblock_sandbox::{
    Exit, FromLauncher, GUEST_DIRECTORY, LaunchPlan, Launched, Packet, View, mount_request,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Importing pandas and matplotlib without byte code on a busy machine takes seconds; a minute means that it hangs.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The most bytes of standard error that are kept of the zygote.
const MAX_STDERR_BYTES: u64 = 64 << 10;

/// The variables of every process of a session. A workspace that is a home is also `HOME`, see [`home_variables`].
pub(crate) const VARIABLES: &[(&str, &str)] = &[
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("HOME", "/tmp"),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("TERM", "dumb"),
    ("MPLBACKEND", "Agg"),
    ("MPLCONFIGDIR", "/tmp/matplotlib"),
    // No background threads of memory allocators (polars, Arrow): they block every signal, so a checkpoint could not stop them.
    ("_RJEM_MALLOC_CONF", "background_thread:false"),
    ("JE_ARROW_MALLOC_CONF", "background_thread:false"),
    // Arrow's allocator reserves a gigabyte; without this it counts as used, against the memory limit.
    ("MIMALLOC_ARENA_EAGER_COMMIT", "0"),
    // One thread each: sessions share the machine.
    ("OPENBLAS_NUM_THREADS", "1"),
    ("OMP_NUM_THREADS", "1"),
    ("MKL_NUM_THREADS", "1"),
    ("NUMEXPR_NUM_THREADS", "1"),
];

/// The variables that a place of the workspace adds to [`VARIABLES`].
pub(crate) fn home_variables(place: &WorkspacePlace) -> Vec<(&'static str, String)> {
    match place.home_of() {
        Some(name) => vec![
            ("HOME", place.to_string()),
            ("USER", name.to_owned()),
            ("LOGNAME", name.to_owned()),
        ],
        None => Vec::new(),
    }
}

/// How a zygote is started.
#[derive(Clone, Debug)]
pub(crate) struct ZygotePlan {
    pub(crate) python: Python,
    pub(crate) walls: u64,
    pub(crate) view: View,
    pub(crate) place: WorkspacePlace,
    pub(crate) guest: PathBuf,
    pub(crate) preload: Preload,
    pub(crate) shell: Shell,
    /// The seed of Python's hashes; a random one, unless told.
    pub(crate) hash_seed: Option<u32>,
}

/// A running zygote. Dropping it ends the launcher, and with it every session that was forked from it.
#[derive(Debug)]
pub(crate) struct Zygote {
    launcher: Exchange,
    session_requests: Exchange,
    process: std::sync::Mutex<Child>,
    /// The process that the host started.
    pub(crate) launcher_pid: u32,
    dead: AtomicBool,
    /// The zygote's first message.
    pub(crate) ready: ZygoteReady,
}

/// The zygote's first word.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ZygoteReady {
    /// The version of Python.
    pub(crate) python: String,
    /// The modules that every session finds imported.
    pub(crate) preloaded: Vec<String>,
}

impl Zygote {
    /// Starts Python behind the outer walls and waits until it has imported its preload.
    pub(crate) async fn start(plan: &ZygotePlan) -> Result<Zygote, Error> {
        let Launched {
            control,
            zygote,
            mut complaints,
            process,
        } = plan.launch()?.start()?;
        let wrap = Error::system("listening to the launcher");
        let launcher = Packets::new(control, 4096).map_err(wrap)?;
        let session_requests =
            Packets::new(zygote, 64 << 10).map_err(Error::system("listening to the zygote"))?;
        let refused = |problem| Error::Python {
            python: plan.python.executable.clone(),
            problem,
        };

        let begun = tokio::time::timeout(START_LIMIT, async {
            let packet = launcher
                .receive()
                .await
                .map_err(Error::system("starting the launcher"))?;
            FromLauncher::from_bytes(&packet.bytes).map_err(|error| plan.explain(error))?;
            Ok::<_, Error>(session_requests.receive().await)
        });
        let first = match begun.await {
            Ok(Ok(Ok(packet))) => packet,
            Ok(Ok(Err(_))) => {
                let said = complaints.take().map(read_complaints).unwrap_or_default();
                let description = how_it_ended(&launcher, &said).await;
                return Err(refused(PythonProblem::Ended { description }));
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let seconds = START_LIMIT.as_secs();
                return Err(refused(PythonProblem::Silent { seconds }));
            }
        };
        let ready = serde_json::from_slice(&first.bytes)
            .map_err(|_| refused(PythonProblem::MalformedMessage))?;
        Ok(Zygote {
            launcher: Exchange::new(launcher, is_no_news),
            session_requests: Exchange::new(session_requests, |_| true),
            launcher_pid: process.id(),
            process: std::sync::Mutex::new(process),
            dead: AtomicBool::new(false),
            ready,
        })
    }

    /// Whether the zygote still runs. The launcher outlives its zygote as long as sessions of it live.
    pub(crate) fn is_alive(&self) -> bool {
        !self.dead.load(Ordering::Relaxed)
    }

    /// Makes no more sessions; live sessions go on.
    pub(crate) fn retire(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    /// Makes a session; its init answers on its own socket. Returns init's process id, as the launcher counts.
    pub(crate) async fn spawn(
        &self,
        request: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<u32, Error> {
        let wrap = || Error::system("asking the zygote for a session");
        let answer = self
            .session_requests
            .ask(request, descriptors)
            .await
            .inspect_err(|_| self.dead.store(true, Ordering::Relaxed))
            .map_err(wrap())?;
        match std::str::from_utf8(&answer.bytes)
            .ok()
            .and_then(|text| text.parse::<i32>().ok())
        {
            Some(pid @ 1..) => Ok(pid.unsigned_abs()),
            Some(errno) if errno < 0 => Err(wrap()(io::Error::from_raw_os_error(-errno))),
            _ => Err(cellblock_sandbox::Error::Protocol {
                process: "the zygote",
            }
            .into()),
        }
    }

    /// A mount of a workspace for the session with this user id.
    pub(crate) async fn mount(
        &self,
        path: &Path,
        owner: u32,
        group: u32,
        user: u32,
    ) -> Result<OwnedFd, Error> {
        let mut packet = self
            .launcher
            .ask(&mount_request(path, owner, group, user)?, &[])
            .await
            .inspect_err(|_| self.dead.store(true, Ordering::Relaxed))
            .map_err(Error::system("asking the launcher for a mount"))?;
        let message = FromLauncher::from_bytes(&packet.bytes).map_err(|error| {
            if error.is_id_map_unsupported() {
                return Error::Sandbox(error);
            }
            Error::workspace(path, WorkspaceProblem::Mount(error))
        })?;
        match (message, packet.descriptors.pop()) {
            (FromLauncher::Mounted, Some(mount)) => Ok(mount),
            _ => Err(cellblock_sandbox::Error::Protocol {
                process: "the launcher",
            }
            .into()),
        }
    }
}

/// The launcher also tells of the zygote's end, unasked.
fn is_no_news(packet: &Packet) -> bool {
    !matches!(
        FromLauncher::from_bytes(&packet.bytes),
        Ok(FromLauncher::ZygoteEnded(_))
    )
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // The sockets close after this and end the launcher; killing it now spares the wait for that.
        if let Ok(process) = self.process.get_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl ZygotePlan {
    fn launch(&self) -> Result<LaunchPlan, Error> {
        const START: &str = "import sys; sys.path[:] = [sys.argv[1], *filter(None, sys.path)]; from cellblock_guest import zygote; sys.path.pop(0); zygote.main(4, 5, sys.argv[2], int(sys.argv[3]), sys.argv[4])";
        let mut plan = LaunchPlan::new(self.walls, &self.python.executable)?;
        let guest = if plan.has_view() {
            GUEST_DIRECTORY.to_owned()
        } else {
            self.guest.display().to_string()
        };
        let python = self.python.executable.display().to_string();
        let site: &[&str] = if self.python.packages { &[] } else { &["-S"] };
        let walls = self.walls.to_string();
        // Isolated, Python looks at no variable, not at that of the hash seed either. All its variables are chosen below.
        let isolation = match self.hash_seed {
            Some(_) => "-s",
            None => "-I",
        };
        let first = [python.as_str(), isolation, "-B", "-X", "utf8"];
        for word in first
            .iter()
            .chain(site)
            .chain(&["-c", START, &guest, self.preload.name(), &walls])
            .chain(&[self.shell.name()])
        {
            plan = plan.argument(word)?;
        }
        let fonts = self
            .python
            .font_cache
            .as_ref()
            .map(|path| path.display().to_string())
            .unwrap_or_default();
        let mut variables: BTreeMap<&str, String> = VARIABLES
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        variables.extend(home_variables(&self.place));
        variables.insert("CELLBLOCK_FONT_CACHE", fonts);
        if let Some(seed) = self.hash_seed {
            variables.insert("PYTHONHASHSEED", seed.to_string());
        }
        for (name, value) in &variables {
            plan = plan.variable(name, value)?;
        }
        Ok(if plan.has_view() {
            plan.view(&self.view)?
        } else {
            plan
        })
    }

    /// Says what a failure to execute most likely means.
    fn explain(&self, error: cellblock_sandbox::Error) -> Error {
        match error {
            cellblock_sandbox::Error::Build {
                step: "executing Python",
                source,
                ..
            } => {
                let problem = match source.kind() {
                    io::ErrorKind::NotFound => PythonProblem::Missing,
                    io::ErrorKind::PermissionDenied => PythonProblem::NotExecutable,
                    _ => PythonProblem::System(source),
                };
                Error::Python {
                    python: self.python.executable.clone(),
                    problem,
                }
            }
            _ => error.into(),
        }
    }
}

async fn how_it_ended(launcher: &Packets, said: &str) -> String {
    let ended = match tokio::time::timeout(Duration::from_secs(2), launcher.receive()).await {
        Ok(Ok(packet)) => FromLauncher::from_bytes(&packet.bytes).ok(),
        _ => None,
    };
    let how = match ended {
        Some(FromLauncher::ZygoteEnded(Exit::Code(code))) => {
            format!("it ended with exit code {code}")
        }
        Some(FromLauncher::ZygoteEnded(Exit::Signal(signal))) => {
            format!("it was ended by signal {signal}")
        }
        _ => "it ended at once".to_owned(),
    };
    let last: Vec<&str> = said.trim().lines().rev().take(5).collect();
    if last.is_empty() {
        how
    } else {
        format!(
            "{how}; it said: {}",
            last.into_iter().rev().collect::<Vec<_>>().join("\n")
        )
    }
}

/// Reads the text that is in the pipe now: the launcher still holds the other end, so the pipe never ends by itself.
fn read_complaints(stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    if rustix::io::ioctl_fionbio(&stderr, true).is_ok() {
        let _ = stderr.take(MAX_STDERR_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
