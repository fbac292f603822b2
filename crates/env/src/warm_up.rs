//! The first import of everything, done once for all sessions. It runs code of the packages: behind walls, where there are any.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::Path,
};

use crate::{
    Error, Order, Progress, Proxies, Room, Step, Strength, Walls, dirs, environment,
    install::{Job, LONGEST, Report},
};

const SCRIPT: &str = include_str!("python/warm_up.py");
/// Where an order is carried out, whatever that is called behind the walls.
const ROOM: &str = ".";

/// Imports the modules. This proves that they work on this machine, and makes matplotlib write its list of
/// fonts into the environment: a session has no home to write to, and the search takes a second.
pub(crate) fn warm_up(
    job: &Job<'_>,
    prefix: &Path,
    imports: &[String],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    if imports.is_empty() {
        return Ok(());
    }
    let has_matplotlib = imports.iter().any(|name| name.starts_with("matplotlib"));
    let config = environment::matplotlib_config(prefix);
    if has_matplotlib {
        dirs::create(&config)?;
    }
    import(job, prefix, &config, imports, report)?;
    if has_matplotlib && !has_font_list(&config) {
        return Err(Error::WarmUp {
            what: format!(
                "matplotlib wrote no list of fonts into {}",
                config.display()
            ),
            lines: Vec::new(),
        });
    }
    Ok(())
}

/// Has matplotlib search for fonts again, and puts the new list in the old one's place.
pub(crate) fn refresh_fonts(job: &Job<'_>, prefix: &Path) -> Result<(), Error> {
    let config = environment::matplotlib_config(prefix);
    let fresh = config.with_file_name(format!(".matplotlib-{}", std::process::id()));
    dirs::create(&fresh)?;
    let imports = ["matplotlib.font_manager".to_owned()];
    let outcome = import(job, prefix, &fresh, &imports, &mut |_| {}).and_then(|()| {
        let entries =
            fs::read_dir(&fresh).map_err(|e| Error::io("read the directory", &fresh, e))?;
        for entry in entries
            .filter_map(Result::ok)
            .filter(|e| is_font_list(&e.file_name().to_string_lossy()))
        {
            let place = config.join(entry.file_name());
            fs::rename(entry.path(), &place).map_err(|e| Error::io("write", &place, e))?;
        }
        Ok(())
    });
    dirs::remove(&fresh)?;
    outcome
}

fn import(
    job: &Job<'_>,
    prefix: &Path,
    config: &Path,
    imports: &[String],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let total = Some(imports.len() as u64);
    let mut done = 0;
    let mut current = String::new();
    let mut line = |line: &str| {
        if let Some(name) = line.strip_prefix("import ") {
            report(Progress::new(
                Step::WarmUp,
                done,
                total,
                format!("importing {name}"),
            ));
            done += 1;
            current = name.to_owned();
        }
    };
    let ran = match job.walls {
        None => import_here(job, prefix, config, imports, &mut line),
        Some(walls) => import_there(walls, job, prefix, config, imports, &mut line),
    };
    match ran {
        Ok(()) => {
            report(Progress::new(Step::WarmUp, done, total, "ready"));
            Ok(())
        }
        Err(Failed::Imports { status, mut lines }) => {
            lines.retain(|line| !line.starts_with("import "));
            Err(Error::WarmUp {
                what: format!("import {current}: {status}"),
                lines,
            })
        }
        Err(Failed::Otherwise(error)) => Err(error),
    }
}

enum Failed {
    Imports { status: String, lines: Vec<String> },
    Otherwise(Error),
}

/// Where nobody has walls.
fn import_here(
    job: &Job<'_>,
    prefix: &Path,
    config: &Path,
    imports: &[String],
    line: &mut dyn FnMut(&str),
) -> Result<(), Failed> {
    let mut command = job.python(environment::python(prefix));
    command
        .args(["-I", "-c", SCRIPT])
        .args(imports)
        .env("MPLCONFIGDIR", config)
        .env("MPLBACKEND", "Agg");
    match job.run("Python", "import the packages", command, line) {
        Ok(_) => Ok(()),
        Err(Error::Install(failure)) => Err(Failed::Imports {
            status: failure.status,
            lines: failure.lines,
        }),
        Err(error) => Err(Failed::Otherwise(error)),
    }
}

fn import_there(
    walls: &dyn Walls,
    job: &Job<'_>,
    prefix: &Path,
    config: &Path,
    imports: &[String],
    line: &mut dyn FnMut(&str),
) -> Result<(), Failed> {
    let room = config.with_file_name(format!(".room-{}", std::process::id()));
    let outcome = dirs::create(&room)
        .map_err(Failed::Otherwise)
        .and_then(|()| {
            let words = ["-I", "-c", SCRIPT].into_iter().map(OsString::from);
            let order = Order {
                command: [environment::python(prefix).into_os_string()]
                    .into_iter()
                    .chain(words)
                    .chain(imports.iter().map(OsString::from))
                    .collect(),
                variables: [("MPLCONFIGDIR", ROOM), ("MPLBACKEND", "Agg")]
                    .map(|(name, value)| (name.into(), value.into()))
                    .into(),
            };
            let walled = Room {
                interpreter: job.interpreter.clone(),
                shown: vec![prefix.to_owned()],
                hosts: Vec::new(),
                proxies: Proxies::default(),
                directory: room.clone(),
                strength: Strength::Best,
                limit: LONGEST,
            };
            let mut lines = Vec::new();
            let mut line = |text: &str| {
                line(text);
                if lines.len() == 20 {
                    lines.remove(0);
                }
                lines.push(text.to_owned());
            };
            let outcome = match walls.open(&walled) {
                Ok(mut opened) => opened
                    .run(&order, job.cancel, &mut line)
                    .map_err(|failed| failed.status),
                Err(no_room) => Err(no_room.why().to_owned()),
            };
            if job.cancel.is_cancelled() {
                return Err(Failed::Otherwise(Error::Cancelled));
            }
            outcome.map_err(|status| Failed::Imports { status, lines })?;
            take_font_lists(&room, config).map_err(Failed::Otherwise)
        });
    let _ = dirs::remove(&room);
    outcome
}

/// Nothing else of what is there now, and only plain files.
fn take_font_lists(room: &Path, config: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(room).map_err(|e| Error::io("read the directory", room, e))?;
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && is_font_list(&lossy(&name)) {
            let place = config.join(&name);
            fs::rename(entry.path(), &place).map_err(|e| Error::io("write", &place, e))?;
        }
    }
    Ok(())
}

fn lossy(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

fn has_font_list(config: &Path) -> bool {
    fs::read_dir(config).is_ok_and(|entries| {
        entries
            .filter_map(Result::ok)
            .any(|entry| is_font_list(&entry.file_name().to_string_lossy()))
    })
}

fn is_font_list(name: &str) -> bool {
    name.starts_with("fontlist-") && name.ends_with(".json")
}
