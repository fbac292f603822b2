//! A part of the cgroup v2 tree that is this host's alone.
//!
//! In cgroup v2 a cgroup that has processes cannot give limits to cgroups below it. So the host moves into a leaf of its own, and the
//! cgroups of sessions are made beside the leaf. Where other programs share the host's cgroup, as in a login shell, systemd is asked for
//! a scope that is delegated to the host.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// The name of the leaf that the host moves into.
const LEAF: &str = "cellblock-host";
/// The controllers that hold the limits of sessions.
const NEEDED: [&str; 2] = ["memory", "pids"];
/// The file that enables controllers for the cgroups below.
const SUBTREE_CONTROL: &str = "cgroup.subtree_control";
/// How long systemd may take to make a scope and to move the host into it.
const SCOPE_TIMEOUT: Duration = Duration::from_secs(3);

/// The cgroup in which the cgroups of sessions are made, found once for the whole process: the first call may move the process.
/// `current` is the cgroup of this process, as a directory; it is asked for again after a move.
pub(super) fn delegated_base(current: impl Fn() -> Option<PathBuf>) -> Option<PathBuf> {
    static BASE: OnceLock<Option<PathBuf>> = OnceLock::new();
    BASE.get_or_init(|| {
        let base = find_base(current)?;
        try_to_enable_cpu(&base);
        Some(base)
    })
    .clone()
}

fn find_base(current: impl Fn() -> Option<PathBuf>) -> Option<PathBuf> {
    let here = current()?;
    if let Ok(base) = take_over(&here, std::process::id(), &NEEDED) {
        return Some(base);
    }
    ask_for_scope().ok()?;
    let begun = Instant::now();
    while begun.elapsed() < SCOPE_TIMEOUT {
        let now = current()?;
        if now != here {
            return take_over(&now, std::process::id(), &NEEDED).ok();
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Makes `here`, the cgroup of the process `own`, one that can hold the cgroups of sessions, and returns the directory to make them in.
/// Fails where the cgroup is not this user's, or has processes of others.
fn take_over(here: &Path, own: u32, controllers: &[&str]) -> io::Result<PathBuf> {
    // Another host, or this program below another host, has done it already.
    if here.file_name().is_some_and(|name| name == LEAF)
        && let Some(base) = here.parent()
        && enables(base, controllers)
    {
        return Ok(base.to_owned());
    }
    // The root of the tree may have processes and give limits. It has no type.
    if !here.join("cgroup.type").exists() {
        enable(here, controllers)?;
        return Ok(here.to_owned());
    }
    if processes_of(here)? != [own] {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let leaf = here.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let moved = fs::write(leaf.join("cgroup.procs"), own.to_string())
        .and_then(|()| enable(here, controllers));
    if let Err(error) = moved {
        let _ = fs::write(here.join("cgroup.procs"), own.to_string());
        let _ = fs::remove_dir(&leaf);
        return Err(error);
    }
    Ok(here.to_owned())
}

/// Enables the controller that limits processors for the cgroups below `base`. Not every user has it: without it a session with such a
/// limit is refused, and all others go on.
pub(super) fn try_to_enable_cpu(base: &Path) {
    let _ = enable(base, &["cpu"]);
}

fn enable(base: &Path, controllers: &[&str]) -> io::Result<()> {
    if enables(base, controllers) {
        return Ok(());
    }
    let words: Vec<String> = controllers.iter().map(|name| format!("+{name}")).collect();
    fs::write(base.join(SUBTREE_CONTROL), words.join(" "))
}

/// Whether the cgroups below `base` have these controllers.
pub(super) fn enables(base: &Path, controllers: &[&str]) -> bool {
    let enabled = fs::read_to_string(base.join(SUBTREE_CONTROL)).unwrap_or_default();
    controllers
        .iter()
        .all(|wanted| enabled.split_whitespace().any(|name| name == *wanted))
}

/// The processes of a cgroup. One of another process namespace is 0.
fn processes_of(cgroup: &Path) -> io::Result<Vec<u32>> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs"))?;
    Ok(text
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect())
}

/// Asks systemd to move this process into a scope of its own, which is delegated to this user. The user's own systemd is asked by an
/// ordinary user, the system's by root. Systemd answers before the move is done.
fn ask_for_scope() -> io::Result<()> {
    if !Path::new("/run/systemd/system").exists() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let pid = std::process::id().to_string();
    let name = format!("cellblock-{pid}.scope");
    let mut command = Command::new("busctl");
    if !rustix::process::geteuid().is_root() {
        command.arg("--user");
    }
    command.args(["--quiet", "--timeout=3", "call"]).args([
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
        &name,
        "fail",
        "4",
        "PIDs",
        "au",
        "1",
        &pid,
        "Delegate",
        "b",
        "true",
        "CollectMode",
        "s",
        "inactive-or-failed",
        "Description",
        "s",
        "Sessions of cellblock",
        "0",
    ]);
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Child;

    /// A cgroup v2 tree of this machine that this user may write to, and a controller that it has for children, if any.
    fn writable_tree() -> Option<(PathBuf, Vec<String>)> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        let root = PathBuf::from(line.split(' ').nth(4)?);
        let enabled = fs::read_to_string(root.join(SUBTREE_CONTROL)).ok()?;
        let enabled = enabled.split_whitespace().map(str::to_owned).collect();
        rustix::process::geteuid()
            .is_root()
            .then_some((root, enabled))
    }

    /// A cgroup that is removed in the end, with the process in it.
    struct Tree {
        path: PathBuf,
        process: Child,
    }

    impl Tree {
        fn new(root: &Path, name: &str) -> Option<Tree> {
            let path = root.join(format!("cellblock-test-{name}-{}", std::process::id()));
            fs::create_dir(&path).ok()?;
            let process = Command::new("sleep").arg("60").spawn().unwrap();
            let pid = process.id().to_string();
            fs::write(path.join("cgroup.procs"), pid).unwrap();
            Some(Tree { path, process })
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            self.process.kill().unwrap();
            self.process.wait().unwrap();
            let _ = fs::remove_dir(self.path.join(LEAF));
            let _ = fs::remove_dir(&self.path);
        }
    }

    #[test]
    fn a_process_alone_in_its_cgroup_moves_into_a_leaf_and_others_find_it_there() {
        let Some((root, enabled)) = writable_tree() else {
            return;
        };
        let controllers: Vec<&str> = enabled.iter().map(String::as_str).collect();
        let Some(tree) = Tree::new(&root, "alone") else {
            return;
        };
        let own = tree.process.id();
        assert_eq!(take_over(&tree.path, own, &controllers).unwrap(), tree.path);
        let leaf = tree.path.join(LEAF);
        assert_eq!(processes_of(&leaf).unwrap(), [own]);
        assert!(processes_of(&tree.path).unwrap().is_empty());
        assert!(enables(&tree.path, &controllers));
        assert_eq!(take_over(&leaf, own, &controllers).unwrap(), tree.path);
    }

    #[test]
    fn a_cgroup_with_processes_of_others_stays_as_it_is() {
        let Some((root, _)) = writable_tree() else {
            return;
        };
        let Some(tree) = Tree::new(&root, "shared") else {
            return;
        };
        let other = tree.process.id();
        assert!(take_over(&tree.path, other + 1, &[]).is_err());
        assert!(!tree.path.join(LEAF).exists());
        assert_eq!(processes_of(&tree.path).unwrap(), [other]);
    }

    #[test]
    fn a_leaf_that_cannot_have_the_controllers_is_left_again() {
        let Some((root, _)) = writable_tree() else {
            return;
        };
        let Some(tree) = Tree::new(&root, "refused") else {
            return;
        };
        let own = tree.process.id();
        assert!(take_over(&tree.path, own, &["no-such-controller"]).is_err());
        assert_eq!(processes_of(&tree.path).unwrap(), [own]);
        assert!(!tree.path.join(LEAF).exists());
    }
}
