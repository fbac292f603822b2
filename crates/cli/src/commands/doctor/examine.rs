//! Everything that the doctor looks at.

use super::trial::Trial;
use super::walls::{reached, stands};
use crate::args::PythonArgs;
use crate::commands::making::find_interpreter;
use cellblock::env::{
    self, Dirs, Environment, EnvironmentStatus, Font, Interpreter, RejectedPython, Variables,
    cjk_font,
};
use cellblock::{Cgroups, Mechanism, Probe, Rung, Verdict, Wall};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The findings. What could not be found out is an error text in its place; the examination itself never fails.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) probe: Result<Probe, String>,
    pub(crate) rung: Rung,
    pub(crate) cgroups: Option<&'static str>,
    pub(crate) python: Result<Interpreter, NoPython>,
    pub(crate) environment: Option<EnvironmentStatus>,
    pub(crate) uv: Option<Uv>,
    pub(crate) font: Option<Font>,
    pub(crate) dirs: Result<Dirs, String>,
    /// Real sessions that answered `1+1`, or what went wrong.
    pub(crate) session: Result<Trial, String>,
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

impl Report {
    pub(crate) async fn make(args: &PythonArgs) -> Report {
        let probe = Probe::run().map_err(|error| error.to_string());
        let dirs = Dirs::from_process().map_err(|error| error.to_string());
        let python = find_interpreter(args.python.as_deref()).map_err(NoPython::from);
        Report {
            rung: probe.as_ref().map_or(Rung::None, reached),
            cgroups: Cgroups::detect().map(|cgroups| cgroups.describe()),
            environment: python
                .as_ref()
                .ok()
                .and_then(|python| env::default_environment_status(python).ok()),
            uv: find_uv(dirs.as_ref().ok()),
            font: cjk_font(&Variables::from_process()),
            session: match &python {
                Ok(_) => Trial::run(args).await.map_err(|error| error.to_string()),
                Err(_) => Err("there is no Python to start".to_owned()),
            },
            probe,
            dirs,
            python,
        }
    }

    /// Whether sessions can run here behind walls.
    pub(crate) fn is_well(&self) -> bool {
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
            "ok": self.is_well(),
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
                Ok(trial) => trial.to_json(),
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
