//! A profile of AppArmor that lets this program make user namespaces.
//!
//! Ubuntu lets only programs with a profile make them. The profile names one program by its path, and the rest of the machine stays as it is.

use crate::terminal::Console;
use anyhow::{Context as _, bail};
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The profile for a program that was installed by a package. It is the template for all other paths.
const PACKAGE_PROFILE: &str = include_str!("apparmor-profile");
const PACKAGE_PATH: &str = "/usr/bin/cellblock";
const PROFILES: &str = "/etc/apparmor.d";
/// It holds `1` where AppArmor refuses user namespaces to programs without a profile.
const RESTRICTION: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

/// Whether AppArmor refuses user namespaces to programs without a profile.
pub(super) fn is_restricted() -> bool {
    fs::read_to_string(RESTRICTION).is_ok_and(|text| text.trim() == "1")
}

/// A profile that can be installed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) file: PathBuf,
    pub(super) text: String,
}

impl Profile {
    /// The profile of the program that runs.
    pub(super) fn of_this_program() -> anyhow::Result<Profile> {
        let program = std::env::current_exe().context("the path of this program is not known")?;
        Profile::of(&program)
    }

    /// The profile of a program. Its file is named after the path, as AppArmor's own are.
    fn of(program: &Path) -> anyhow::Result<Profile> {
        let path = program.to_str().filter(|path| is_plain(path));
        let Some(path) = path else {
            bail!(
                "the path {} has characters that mean something to AppArmor: move the program to another place",
                program.display()
            );
        };
        let name = path.trim_start_matches('/').replace('/', ".");
        Ok(Profile {
            file: Path::new(PROFILES).join(&name),
            text: PACKAGE_PROFILE
                .replace(PACKAGE_PATH, path)
                .replace("profile cellblock ", &format!("profile {name} ")),
        })
    }

    /// Writes the profile and loads it into the kernel. An ordinary user does so by `sudo`, which may ask for a password.
    pub(super) fn install(&self, console: &Console) -> anyhow::Result<()> {
        let file = self.file.as_os_str();
        let write = [OsStr::new("tee"), file];
        let load = ["apparmor_parser", "--replace"].map(OsStr::new);
        run_as_root(&write, &self.text)
            .with_context(|| format!("{} could not be written", self.file.display()))?;
        run_as_root(&[load[0], load[1], file], "")
            .with_context(|| format!("{} could not be loaded", self.file.display()))?;
        console.note("installed", &self.file.display().to_string());
        Ok(())
    }
}

/// Whether AppArmor takes a path as it is: its patterns, quotes, variables and separators are not in it.
fn is_plain(path: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    path.starts_with('/') && path.chars().all(is_plain)
}

fn run_as_root(command: &[&OsStr], input: &str) -> anyhow::Result<()> {
    let (program, arguments) = command.split_first().context("there is no command")?;
    let mut process = if rustix::process::geteuid().is_root() {
        Command::new(program)
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg("--").arg(program);
        sudo
    };
    let mut child = process
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("`{}` could not be started", process.get_program().display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "the command failed: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_names_the_program_where_it_lies() {
        let profile = Profile::of(Path::new("/home/ada/.cargo/bin/cellblock")).unwrap();
        assert_eq!(
            profile.file,
            Path::new("/etc/apparmor.d/home.ada..cargo.bin.cellblock")
        );
        let head = "profile home.ada..cargo.bin.cellblock /home/ada/.cargo/bin/cellblock flags=(unconfined) {";
        assert!(profile.text.contains(head), "{}", profile.text);
        assert!(!profile.text.contains(PACKAGE_PATH), "{}", profile.text);
    }

    #[test]
    fn a_path_that_apparmor_would_read_as_a_pattern_is_refused() {
        for path in [
            "/tmp/{a,b}",
            "/tmp/*",
            "/tmp/a b",
            "/tmp/a\"",
            "relative",
            "/tmp/@{HOME}",
        ] {
            let refused = Profile::of(Path::new(path)).unwrap_err().to_string();
            assert!(refused.contains("move the program"), "{path}: {refused}");
        }
    }
}
