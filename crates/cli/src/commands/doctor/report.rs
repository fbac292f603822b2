//! Everything that the doctor looks at.

use crate::args::PythonArgs;
use crate::commands::setup::find_interpreter;
use cellblock::duration_json::as_milliseconds;
use cellblock::env::{
    self, Dirs, Environment, EnvironmentStatus, Font, Interpreter, RejectedPython, Variables,
    cjk_font,
};
use cellblock::{
    Cgroups, Host, Isolation, Mechanism, PoolState, Preload, Probe, Rung, Verdict, Wall,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The findings. What could not be found out is an error text in its place; the examination itself never fails.
#[derive(Debug)]
pub(crate) struct DoctorReport {
    pub(crate) probe: Result<Probe, String>,
    pub(crate) rung: Rung,
    pub(crate) cgroups: Option<&'static str>,
    pub(crate) python: Result<Interpreter, NoPython>,
    pub(crate) environment: Option<EnvironmentStatus>,
    pub(crate) uv: Option<Uv>,
    pub(crate) font: Option<Font>,
    pub(crate) dirs: Result<Dirs, String>,
    /// Real sessions that answered `1+1`, or what went wrong.
    pub(crate) session: Result<SessionCheck, String>,
}

/// Why there is no Python.
#[derive(Debug)]
pub(crate) struct NoPython {
    pub(crate) message: String,
    pub(crate) tried: Vec<RejectedPython>,
    pub(crate) hint: Option<String>,
}

/// An installer.
#[derive(Debug)]
pub(crate) struct Uv {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

impl DoctorReport {
    pub(crate) async fn make(args: &PythonArgs) -> DoctorReport {
        let probe = Probe::run().map_err(|error| error.to_string());
        let dirs = Dirs::from_process().map_err(|error| error.to_string());
        let python = find_interpreter(args.python.as_deref()).map_err(NoPython::from);
        let session = match &python {
            Ok(_) => SessionCheck::run(args)
                .await
                .map_err(|error| error.to_string()),
            Err(_) => Err("there is no Python to start".to_owned()),
        };
        DoctorReport {
            // A session that ran is the proof; the probe only says what could be reached.
            rung: match (&session, &probe) {
                (Ok(check), _) => check.rung,
                (Err(_), Ok(probe)) => reached(probe),
                (Err(_), Err(_)) => Rung::None,
            },
            cgroups: Cgroups::detect().map(|cgroups| cgroups.describe()),
            environment: python
                .as_ref()
                .ok()
                .and_then(|python| env::default_environment_status(python).ok()),
            uv: find_uv(dirs.as_ref().ok()),
            font: cjk_font(&Variables::from_process()),
            session,
            probe,
            dirs,
            python,
        }
    }

    /// Whether sessions can run here behind walls.
    pub(crate) fn is_ok(&self) -> bool {
        self.rung >= Rung::Landlock && self.python.is_ok() && self.session.is_ok()
    }

    /// The environment, when it is ready.
    pub(crate) fn ready_environment(&self) -> Option<&Environment> {
        match &self.environment {
            Some(EnvironmentStatus::Ready(environment)) => Some(environment),
            _ => None,
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "ok": self.is_ok(),
            "rung": self.rung,
            "caveat": self.rung.caveat(),
            "walls": Wall::ALL.map(|wall| json!({
                "name": wall, "stops": wall.stops(), "stands": stands(wall, self.rung),
            })),
            "mechanisms": self.mechanisms(),
            "cgroups": self.cgroups,
            "python": self.python_json(),
            "environment": self.environment_json(),
            "uv": self.uv.as_ref().map(|uv| json!({ "path": uv.path, "version": uv.version })),
            "cjk_font": self.font.as_ref().map(|font| json!({ "family": font.family, "path": font.path })),
            "directories": self.dirs.as_ref().ok().map(|dirs| json!({ "cache": dirs.cache, "state": dirs.state })),
            "session": match &self.session {
                Ok(session_check) => session_check.to_json(),
                Err(error) => json!({ "ok": false, "error": error }),
            },
        })
    }

    fn mechanisms(&self) -> Value {
        let Ok(probe) = &self.probe else {
            return Value::Null;
        };
        let entry = |(mechanism, verdict): (Mechanism, &Verdict)| match verdict {
            Verdict::Works { version } => {
                json!({ "name": mechanism.name(), "works": true, "version": version })
            }
            Verdict::Fails(error) => json!({
                "name": mechanism.name(), "works": false, "error": error, "remedy": mechanism.remedy(),
            }),
        };
        probe.verdicts().map(entry).collect()
    }

    fn python_json(&self) -> Value {
        match &self.python {
            Ok(python) => {
                json!({ "path": python.executable, "version": python.version.to_string() })
            }
            Err(none) => {
                let tried = none
                    .tried
                    .iter()
                    .map(|one| json!({ "path": one.path, "reason": one.reason.to_string() }));
                json!({ "error": none.message, "tried": tried.collect::<Vec<_>>(), "hint": none.hint })
            }
        }
    }

    fn environment_json(&self) -> Value {
        match &self.environment {
            Some(EnvironmentStatus::Ready(environment)) => json!({
                "status": "ready",
                "path": environment.prefix,
                "bytes": environment.bytes,
                "installer": environment.installer,
                "packages": environment.packages,
            }),
            Some(EnvironmentStatus::Building) => json!({ "status": "building" }),
            Some(EnvironmentStatus::Missing) => json!({ "status": "missing" }),
            None => Value::Null,
        }
    }
}

impl From<env::Error> for NoPython {
    fn from(error: env::Error) -> NoPython {
        let hint = error.hint();
        let message = error.to_string();
        let tried = match error {
            env::Error::NoInterpreter { tried } => tried,
            env::Error::BadInterpreter(rejected) => vec![rejected],
            _ => Vec::new(),
        };
        NoPython {
            message,
            tried,
            hint,
        }
    }
}

/// The user's own uv, or the one that was fetched when the user had none.
fn find_uv(dirs: Option<&Dirs>) -> Option<Uv> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("uv"));
    let fetched = dirs.map(|dirs| dirs.cache.join("tools/uv/bin/uv"));
    on_path.chain(fetched).find_map(|path| version_of(&path))
}

fn version_of(uv: &Path) -> Option<Uv> {
    let answer = Command::new(uv).arg("--version").output().ok()?;
    let text = String::from_utf8(answer.stdout)
        .ok()
        .filter(|_| answer.status.success())?;
    let version = text.split_whitespace().nth(1)?.to_owned();
    Some(Uv {
        path: uv.to_owned(),
        version,
    })
}

const POOL_SESSIONS: usize = 2;
/// Making a session takes milliseconds; a pool that is not full by then will not be.
const POOL_TIMEOUT: Duration = Duration::from_secs(5);

/// What was tried, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionCheck {
    /// From nothing to the answer of the first session.
    pub(crate) first: Duration,
    pub(crate) pool: Pool,
    /// The rung that it ran on.
    pub(crate) rung: Rung,
}

/// A pool as it was after it had time to fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) state: PoolState,
    /// From asking for a session to the answer of its first cell.
    pub(crate) answer: Duration,
}

impl SessionCheck {
    pub(crate) async fn run(args: &PythonArgs) -> anyhow::Result<SessionCheck> {
        let begun = Instant::now();
        let host = args
            .host_builder(Preload::None)
            .pool(POOL_SESSIONS)
            .build()?;
        answer(&host).await?;
        let first = begun.elapsed();
        let runtime = host.runtime(&Isolation::default()).await?;
        let filling = Instant::now();
        while runtime.pool().ready < POOL_SESSIONS && filling.elapsed() < POOL_TIMEOUT {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let state = runtime.pool();
        let begun = Instant::now();
        answer(&host).await?;
        let pool = Pool {
            state,
            answer: begun.elapsed(),
        };
        Ok(SessionCheck {
            first,
            pool,
            rung: runtime.rung(),
        })
    }

    pub(crate) fn to_json(self) -> Value {
        let Pool { state, answer } = self.pool;
        json!({
            "ok": true,
            "ms": as_milliseconds(self.first),
            "pool": { "size": state.size, "ready": state.ready, "ms": as_milliseconds(answer) },
        })
    }
}

async fn answer(host: &Host) -> anyhow::Result<()> {
    let session = host.session().start().await?;
    let result = session.run("1+1").await?;
    session.close().await;
    let is_two = result.value.is_some_and(|value| value.repr == "2");
    anyhow::ensure!(is_two, "1+1 ended with {}", result.status);
    Ok(())
}

/// The rung that this machine reaches.
pub(crate) fn reached(probe: &Probe) -> Rung {
    let has_all =
        |mechanisms: &[Mechanism]| mechanisms.iter().all(|mechanism| probe.has(*mechanism));
    if has_all(&Mechanism::FULL) {
        Rung::Full
    } else if has_all(&Mechanism::LANDLOCK) {
        Rung::Landlock
    } else {
        Rung::None
    }
}

/// Whether a wall stands on a rung. On the middle one there are no namespaces; Landlock stands in for files, and the filter of
/// system calls for the network.
pub(crate) fn stands(wall: Wall, rung: Rung) -> bool {
    match rung {
        Rung::Full => true,
        Rung::Landlock => !matches!(
            wall,
            Wall::Files | Wall::Processes | Wall::Ipc | Wall::Hostname
        ),
        Rung::None => wall == Wall::Output,
    }
}
