//! One requirement: the name of a package, perhaps with extras, a range of versions and a marker (PEP 508).
//!
//! Ranges are parsed by `pep440_rs`. The rest is parsed here: `pep508_rs` adds 17 s of processor time to a
//! release build, and the addresses that it would parse are refused.

use std::str::FromStr as _;

use pep440_rs::{Operator, Version as PackageVersion, VersionSpecifiers};

use crate::{Error, PythonVersion};

/// A longer text is not meant as a requirement.
const MAX_REQUIREMENT_BYTES: usize = 500;
/// How much of a refused text a message shows.
const MAX_SHOWN_CHARS: usize = 80;

/// A requirement that was parsed.
#[derive(Debug)]
pub(crate) struct Requirement<'a> {
    /// The name as it was written.
    pub(crate) name: &'a str,
    versions: VersionSpecifiers,
    has_marker: bool,
}

impl<'a> Requirement<'a> {
    /// Parses a requirement. Everything that is not the name of a package on an index is refused: options,
    /// addresses and paths would bring code from anywhere.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Error> {
        let text = text.trim();
        let refuse = |why: &str| bad_requirement(text, why);
        if text.is_empty() {
            return Err(refuse("it is empty"));
        }
        if text.len() > MAX_REQUIREMENT_BYTES || text.chars().any(char::is_control) {
            return Err(refuse("it is no name of a package"));
        }
        if text.starts_with('-') {
            return Err(refuse("options for the installer are not taken"));
        }
        let (before_marker, marker) = match text.split_once(';') {
            Some((before, marker)) => (before.trim_end(), Some(marker)),
            None => (text, None),
        };
        let name = name_at_start(before_marker);
        let rest = before_marker[name.len()..].trim_start();
        if name.is_empty() || before_marker[name.len()..].starts_with(['/', ':']) {
            return Err(refuse(
                "packages come by name from the index, not from paths",
            ));
        }
        if before_marker.contains('@') || before_marker.contains("://") {
            return Err(refuse(
                "packages come by name from the index, not from addresses",
            ));
        }
        // Installers read requirements from a file, where these characters have a meaning of their own:
        // environment variables, options, comments, the next line.
        if text.contains(['$', '{', '}', '\\', '#', '%']) || text.contains(" -") {
            return Err(refuse("it has characters that no requirement has"));
        }
        let range = without_extras(rest).and_then(without_parentheses);
        let is_name = name.ends_with(|c: char| c.is_ascii_alphanumeric());
        let Some(range) = range.filter(|_| is_name) else {
            return Err(refuse(
                "write a name and, if need be, a range: numpy, 'numpy>=2', 'pandas[excel]==2.2.*'",
            ));
        };
        let versions = parse_range(range).map_err(|why| {
            refuse(&format!(
                "{why}; write a name and, if need be, a range: numpy, 'numpy>=2', 'pandas[excel]==2.2.*'"
            ))
        })?;
        Ok(Self {
            name,
            versions,
            has_marker: marker.is_some(),
        })
    }

    /// The range that an installed version does not meet, as text; `None` where the version will do.
    ///
    /// A requirement with a marker is left to the resolver: it may not apply to this machine.
    pub(crate) fn conflict_with(&self, installed: &str) -> Option<String> {
        let installed = PackageVersion::from_str(installed).ok()?;
        if self.has_marker || self.versions.contains(&installed) {
            return None;
        }
        Some(match &self.versions[..] {
            [exact] if *exact.operator() == Operator::Equal => exact.version().to_string(),
            _ => self.versions.to_string(),
        })
    }
}

/// The name at the beginning of a requirement, as it was written. Empty where there is none.
pub(crate) fn name_at_start(text: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let name = &text[..end];
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        name
    } else {
        ""
    }
}

/// The name of a package in its normal form (PEP 503): lower case, and each run of `-`, `_` and `.` is one `-`.
pub(crate) fn normalize_name(name: &str) -> String {
    let lower = name.to_lowercase();
    let parts = lower.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

/// Whether a version of Python is in a `requires-python` range such as `>=3.10,<3.14` or `==3.11.*`.
pub(crate) fn is_python_in_range(range: &str, version: PythonVersion) -> Result<bool, Error> {
    let PythonVersion {
        major,
        minor,
        micro,
    } = version;
    let python = PackageVersion::new([major, minor, micro].map(u64::from));
    match parse_range(range) {
        Ok(range) => Ok(range.contains(&python)),
        Err(why) => Err(bad_requirement(
            range,
            &format!("{why}; as a range of Pythons, write it as >=3.10,<3.14"),
        )),
    }
}

fn parse_range(text: &str) -> Result<VersionSpecifiers, String> {
    let text = text.trim().trim_end_matches(',');
    VersionSpecifiers::from_str(text).map_err(|error| {
        // The following lines repeat the text with a mark below it.
        let error = error.to_string();
        let first_line = error.lines().next().unwrap_or_default();
        first_line.trim_end_matches(':').to_owned()
    })
}

/// What follows `[excel, aws]`; the text itself where there are no extras. `None` where they are malformed.
fn without_extras(text: &str) -> Option<&str> {
    let Some(inside) = text.strip_prefix('[') else {
        return Some(text);
    };
    let (extras, rest) = inside.split_once(']')?;
    let mut extras = extras.split(',').map(str::trim);
    let are_names = extras.all(|extra| extra.is_empty() || name_at_start(extra) == extra);
    are_names.then(|| rest.trim_start())
}

/// The range in `(>=1)`, the older form; the text itself where there are no parentheses.
fn without_parentheses(text: &str) -> Option<&str> {
    match text.strip_prefix('(') {
        Some(inside) => inside.trim_end().strip_suffix(')'),
        None => Some(text),
    }
}

fn bad_requirement(text: &str, why: &str) -> Error {
    Error::BadRequirement {
        text: text.chars().take(MAX_SHOWN_CHARS).collect(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_from_the_index_are_taken() {
        for good in [
            "numpy",
            "numpy>=2,<3",
            "pandas[excel,aws]==2.2.*",
            "pandas [excel] == 2.2.*",
            "tomli; python_version < '3.11'",
            "zope.interface ~= 6.0",
            "a (>=1)",
            "a!=1.5,>=1.0rc1,<2.dev0",
            "a==1!2.0.post1+local.7",
            "a===1.0",
            "a>1,",
        ] {
            assert!(Requirement::parse(good).is_ok(), "{good:?}");
        }
        for bad in [
            "",
            "-r other.txt",
            "--index-url=https://example.org",
            "./here",
            "/etc/passwd",
            "pkg @ https://example.org/pkg.whl",
            "git+https://example.org/repo.git",
            "https://example.org/pkg.whl",
            "a b",
            "a\nb",
            "file:///x",
            "a>=${HOME}",
            "a>=1 --global-option=x",
            "a>=1 \\",
            "a>=1 # b",
            "a>=one",
            "a=>1",
            "a[x",
            "a[../x]",
            "a (>=1",
            "a-",
        ] {
            assert!(Requirement::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_bad_range_is_named_with_what_is_wrong() {
        let error = Requirement::parse("numpy>=two").unwrap_err().to_string();
        assert!(error.starts_with("`numpy>=two` cannot be installed: "));
        assert!(error.contains("'numpy>=2'"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn an_installed_version_meets_a_range_or_does_not() {
        let against = |text: &str, installed: &str| {
            let requirement = Requirement::parse(text).unwrap();
            requirement.conflict_with(installed)
        };
        assert_eq!(against("a", "1.2"), None);
        assert_eq!(against("a==1.2", "1.2"), None);
        assert_eq!(against("a==1.2", "1.2.0"), None);
        assert_eq!(against("a==1.*", "1.2"), None);
        assert_eq!(against("a[x] == 1.3", "1.2").as_deref(), Some("1.3"));
        assert_eq!(against("a>=2,<3", "1.2").as_deref(), Some(">=2, <3"));
        assert_eq!(against("a==1.3; sys_platform == 'win32'", "1.2"), None);
    }

    #[test]
    fn ranges_of_pythons() {
        let version = PythonVersion {
            major: 3,
            minor: 11,
            micro: 7,
        };
        for (range, fits) in [
            ("", true),
            (">=3.10", true),
            (">=3.10,<3.14", true),
            (">=3.12", false),
            ("<3.11", false),
            ("==3.11.*", true),
            ("!=3.11.*", false),
            ("~=3.9", true),
            ("~=3.12", false),
            (">=3.10.0rc1", true),
            (">=3.8, !=3.9.0, <4.0.dev0", true),
            ("===3.11.7", true),
            (">=3.10.1.2", true),
            (">=3.10,", true),
        ] {
            let is_in_range = is_python_in_range(range, version);
            assert_eq!(is_in_range.ok(), Some(fits), "{range}");
        }
        for bad in ["3.11", ">=three", "=>3.10"] {
            assert!(is_python_in_range(bad, version).is_err(), "{bad}");
        }
    }
}
