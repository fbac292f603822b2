//! `requires-python`: which versions of Python something is for.

use crate::{Error, Version};

/// Whether the version is in a range such as `>=3.10,<3.14` or `==3.11.*`.
pub(crate) fn admits(range: &str, version: Version) -> Result<bool, Error> {
    let have = [version.major, version.minor, version.micro];
    for clause in range.split(',').map(str::trim).filter(|c| !c.is_empty()) {
        let end = clause
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(clause.len());
        let (sign, number) = clause.split_at(end);
        let open = number.ends_with(".*");
        let parts: Option<Vec<u32>> = number
            .trim_end_matches(".*")
            .split('.')
            .map(|part| part.parse().ok())
            .collect();
        let wanted = parts.filter(|parts| (1..=3).contains(&parts.len()));
        let Some(wanted) = wanted else {
            return Err(Error::BadRequirement {
                text: range.chars().take(80).collect(),
                why: "as a range of Pythons, write it as >=3.10,<3.14".to_owned(),
            });
        };
        let mut full = wanted.clone();
        full.resize(3, 0);
        let full = [full[0], full[1], full[2]];
        let begins = have.starts_with(&wanted);
        let fits = match sign.trim() {
            ">=" => have >= full,
            ">" => have > full,
            "<=" => have <= full,
            "<" => have < full,
            "==" | "===" if open => begins,
            "==" | "===" => have == full,
            "!=" if open => !begins,
            "!=" => have != full,
            "~=" => have >= full && have.starts_with(&wanted[..wanted.len() - 1]),
            _ => {
                return Err(Error::BadRequirement {
                    text: range.chars().take(80).collect(),
                    why: "as a range of Pythons, write it as >=3.10,<3.14".to_owned(),
                });
            }
        };
        if !fits {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_pythons() {
        let version = Version {
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
        ] {
            assert_eq!(admits(range, version).ok(), Some(fits), "{range}");
        }
        for bad in ["3.11", ">=three", "=>3.10", ">=3.10.1.2"] {
            assert!(admits(bad, version).is_err(), "{bad}");
        }
    }
}
