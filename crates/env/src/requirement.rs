//! One requirement: a package's name with a range of versions, as pip writes it.

use crate::Error;

/// Longer ones are not meant as requirements.
const LONGEST: usize = 500;

/// Refuses what is not the name of a package on an index: options, addresses and paths would bring code from anywhere.
pub(crate) fn check(text: &str) -> Result<String, Error> {
    let refuse = |why: &str| {
        let text: String = text.chars().take(80).collect();
        Error::BadRequirement {
            text,
            why: why.to_owned(),
        }
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(refuse("it is empty"));
    }
    if text.len() > LONGEST || text.chars().any(char::is_control) {
        return Err(refuse("it is no name of a package"));
    }
    if text.starts_with('-') {
        return Err(refuse("options for the installer are not taken"));
    }
    let rest = &text[name(text).len()..];
    if name(text).is_empty() || rest.starts_with(['/', ':']) || text.starts_with('.') {
        return Err(refuse(
            "packages come by name from the index, not from paths",
        ));
    }
    let before_marker = rest.split(';').next().unwrap_or_default();
    if before_marker.contains('@') || before_marker.contains("://") {
        return Err(refuse(
            "packages come by name from the index, not from addresses",
        ));
    }
    // Installers read requirements from a file, in which these mean more: variables of the environment, options, the next line.
    if text.contains(['$', '{', '}', '\\', '#', '%']) || text.contains(" -") {
        return Err(refuse("it has characters that no requirement has"));
    }
    let plain = before_marker.trim_start();
    if !plain.is_empty() && !plain.starts_with(['[', '(', '=', '<', '>', '!', '~']) {
        return Err(refuse(
            "write a name and, if need be, a range: numpy, 'numpy>=2', 'pandas[excel]==2.2.*'",
        ));
    }
    Ok(text.to_owned())
}

/// The name at the beginning of a requirement, as it was written.
pub(crate) fn name(text: &str) -> &str {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let end = text.find(|c| !good(c)).unwrap_or(text.len());
    let name = &text[..end];
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        name
    } else {
        ""
    }
}

/// PEP 503: case does not matter, and runs of `-`, `_` and `.` are one `-`.
pub(crate) fn normal(name: &str) -> String {
    let lower = name.to_lowercase();
    let parts = lower.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

/// The one version that a requirement accepts, if it names one: `x==1.2`.
pub(crate) fn exact_version(text: &str) -> Option<&str> {
    let rest = &text[name(text).len()..];
    let rest = rest.split(';').next()?.trim();
    let rest = match rest.strip_prefix('[') {
        Some(extras) => extras.split_once(']')?.1.trim(),
        None => rest,
    };
    let version = rest.strip_prefix("==")?.trim_start_matches('=').trim();
    (!version.is_empty() && !version.contains([',', '*'])).then_some(version)
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
            "tomli; python_version < '3.11'",
            "zope.interface ~= 6.0",
            "a (>=1)",
        ] {
            assert_eq!(check(good).ok().as_deref(), Some(good));
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
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_exact_version_is_told_from_a_range() {
        assert_eq!(exact_version("a==1.2"), Some("1.2"));
        assert_eq!(
            exact_version("a[x] == 1.2 ; sys_platform == 'linux'"),
            Some("1.2")
        );
        for range in ["a", "a>=1", "a==1.*", "a==1,<2"] {
            assert_eq!(exact_version(range), None, "{range}");
        }
    }
}
