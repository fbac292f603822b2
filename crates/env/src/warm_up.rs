//! The first import of everything, done once for all sessions.

use std::{fs, path::Path};

use crate::{
    Error, Progress, Step, dirs, environment,
    install::{Job, Report},
};

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
    let mut command = job.python(environment::python(prefix));
    command
        .args(["-I", "-c", include_str!("python/warm_up.py")])
        .args(imports)
        .env("MPLCONFIGDIR", config)
        .env("MPLBACKEND", "Agg");
    let mut done = 0;
    let mut current = String::new();
    let ran = job.run("Python", "import the packages", command, &mut |line| {
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
    });
    match ran {
        Ok(_) => {
            report(Progress::new(Step::WarmUp, done, total, "ready"));
            Ok(())
        }
        Err(Error::Install(failure)) => {
            let mut lines = failure.lines;
            lines.retain(|line| !line.starts_with("import "));
            Err(Error::WarmUp {
                what: format!("import {current}: {}", failure.status),
                lines,
            })
        }
        Err(error) => Err(error),
    }
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
