//! Names and passwords for package indexes, from the user's `.netrc`: of that file an installer gets what is meant for its hosts.

use std::{fs, path::PathBuf};

use crate::Variables;

/// The name of the file in a home.
pub(crate) const NAME: &str = ".netrc";

/// The entries for these hosts, each perhaps with a port; `None` if there are none.
pub(crate) fn for_hosts(variables: &Variables, hosts: &[String]) -> Option<String> {
    let path = variables.absolute_path("NETRC").or_else(|| {
        let home: PathBuf = variables.absolute_path("HOME")?;
        Some(home.join(NAME))
    })?;
    let text = only(&fs::read_to_string(path).ok()?, hosts);
    (!text.is_empty()).then_some(text)
}

fn only(text: &str, hosts: &[String]) -> String {
    let is_meant = |machine: &str| {
        hosts.iter().any(|host| {
            let name = host
                .rsplit_once(':')
                .map_or(host.as_str(), |(name, _)| name);
            name.eq_ignore_ascii_case(machine)
        })
    };
    let mut kept = String::new();
    let mut is_kept = false;
    let mut words = words(text).into_iter();
    while let Some(word) = words.next() {
        match word {
            "machine" => {
                let machine = words.next().unwrap_or_default();
                is_kept = is_meant(machine);
                if is_kept {
                    kept.push_str(&format!("machine {machine}\n"));
                }
            }
            "default" => is_kept = false,
            "login" | "account" | "password" => {
                let value = words.next().unwrap_or_default();
                if is_kept {
                    kept.push_str(&format!("{word} {value}\n"));
                }
            }
            _ => {}
        }
    }
    kept
}

/// Everything but comments and macros, which go on to the next empty line.
fn words(text: &str) -> Vec<&str> {
    let mut in_macro = false;
    let mut words = Vec::new();
    for line in text.lines().map(str::trim) {
        in_macro &= !line.is_empty();
        if in_macro || line.starts_with('#') {
            continue;
        }
        in_macro = line.split_whitespace().any(|word| word == "macdef");
        let before = line.split_whitespace();
        words.extend(before.take_while(|word| *word != "macdef"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_for_other_hosts_stays_where_it_is() {
        let text = "# mine\nmachine git.example login me password secret\nmacdef init\nmachine x\n\n\
            machine Index.example\n  login you\n  password p4ss\ndefault login all password all\n";
        let hosts = ["index.example:8443".to_owned()];
        assert_eq!(
            only(text, &hosts),
            "machine Index.example\nlogin you\npassword p4ss\n"
        );
    }
}
