//! Where requirements are written down: requirements files, `pyproject.toml`, and the header of a script (PEP 723).

use std::{fs, path::Path};

use serde::Deserialize;

use crate::{Error, Requirements, requirement::Requirement};

/// Larger files are no lists of packages.
const LARGEST: u64 = 1 << 20;
/// Files that include files that include files.
const DEEPEST: usize = 8;

impl Requirements {
    /// Reads a file: `pyproject.toml`, a script with a header, or else a list as pip takes it.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text = read(path)?;
        let extension = path.extension().and_then(|e| e.to_str());
        match extension {
            Some("toml") => Self::from_pyproject(&text).map_err(|why| bad(path, why)),
            Some("py") => match Self::from_script(&text)? {
                Some(found) => Ok(found),
                None => Err(bad(
                    path,
                    "it has no header with dependencies (PEP 723: a comment block that begins with `# /// script`)",
                )),
            },
            _ => {
                let mut packages = Vec::new();
                collect(path, &text, 0, &mut packages)?;
                Self::checked(packages)
            }
        }
    }

    /// The dependencies in the header of a script (PEP 723); none where it has no header.
    pub fn from_script(code: &str) -> Result<Option<Self>, Error> {
        let Some(header) = header(code) else {
            return Ok(None);
        };
        let header: Header = toml::from_str(&header).map_err(|error| Error::BadHeader {
            why: error.message().to_owned(),
        })?;
        let found = Self::checked(header.dependencies)?;
        Ok(Some(found.for_python(header.requires_python)))
    }

    fn from_pyproject(text: &str) -> Result<Self, String> {
        let file: Pyproject = toml::from_str(text).map_err(|error| error.to_string())?;
        let project = file.project.ok_or("it has no table [project]")?;
        if project.dynamic.iter().any(|name| name == "dependencies") {
            return Err(
                "its dependencies are dynamic: only its own build could say what they are"
                    .to_owned(),
            );
        }
        let found = Self::checked(project.dependencies).map_err(|error| error.to_string())?;
        Ok(found.for_python(project.requires_python))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Header {
    #[serde(default)]
    dependencies: Vec<String>,
    requires_python: Option<String>,
}

#[derive(Deserialize)]
struct Pyproject {
    project: Option<Project>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Project {
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(default)]
    dynamic: Vec<String>,
    requires_python: Option<String>,
}

/// The TOML between `# /// script` and `# ///`. A block that does not end is none.
fn header(code: &str) -> Option<String> {
    let mut lines = code
        .lines()
        .skip_while(|line| line.trim_end() != "# /// script")
        .skip(1);
    let mut text = String::new();
    loop {
        let line = lines.next()?.trim_end();
        if line == "# ///" {
            return Some(text);
        }
        let inside = match line.strip_prefix('#') {
            Some("") => "",
            Some(rest) => rest.strip_prefix(' ')?,
            None => return None,
        };
        text.push_str(inside);
        text.push('\n');
    }
}

/// The lines of a requirements file, and of those that it includes.
fn collect(path: &Path, text: &str, depth: usize, found: &mut Vec<String>) -> Result<(), Error> {
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    for (number, line) in joined.lines().enumerate() {
        let line = without_comment(line).trim();
        if line.is_empty() {
            continue;
        }
        let option = line
            .strip_prefix("--requirement")
            .or(line.strip_prefix("-r"));
        if let Some(other) = option {
            let other = other.trim_start_matches(['=', ' ', '\t']);
            if depth == DEEPEST {
                return Err(bad(path, "files include each other too deeply"));
            }
            let other = path.parent().unwrap_or(Path::new("")).join(other);
            let text = read(&other)?;
            collect(&other, &text, depth + 1, found)?;
            continue;
        }
        // Hashes of the files are pip's to check; the lock has the versions.
        let line = line.split(" --hash").next().unwrap_or(line);
        Requirement::parse(line)
            .map_err(|error| bad(path, format!("line {}: {error}", number + 1)))?;
        found.push(line.trim().to_owned());
    }
    Ok(())
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.split(" #").next().unwrap_or(line)
}

fn read(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::io("read", path, source);
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(bad(path, "it is not a file"));
    }
    if metadata.len() > LARGEST {
        return Err(bad(path, "it is larger than 1 MiB"));
    }
    let bytes = fs::read(path).map_err(failed)?;
    String::from_utf8(bytes).map_err(|_| bad(path, "it is not UTF-8"))
}

fn bad(path: &Path, why: impl Into<String>) -> Error {
    Error::BadFile {
        path: path.to_owned(),
        why: why.into(),
    }
}
