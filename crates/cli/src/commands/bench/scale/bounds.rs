//! The limits of a machine that are reached first when many sessions are open.

use rustix::process::{Resource, geteuid, getrlimit};
use serde_json::{Value, json};
use std::fs;

/// A bound of the machine, and how much of it is used.
pub(super) struct Bound {
    name: &'static str,
    used: u64,
    limit: u64,
    /// What of `used` belongs to sessions.
    sessions: usize,
    remedy: &'static str,
}

impl Bound {
    /// How many sessions there could be, if each used as much as the open ones do on average.
    fn sessions_until(&self) -> Option<u64> {
        let used = u128::from(self.used.max(1));
        let sessions = u128::from(self.limit) * self.sessions as u128 / used;
        u64::try_from(sessions).ok()
    }

    pub(super) fn to_row(&self) -> String {
        let sessions = self
            .sessions_until()
            .map_or_else(|| "-".to_owned(), |sessions| sessions.to_string());
        let Bound {
            name,
            used,
            limit,
            remedy,
            ..
        } = self;
        format!("| {name} | {used} | {limit} | {sessions} | {remedy} |")
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "name": self.name, "used": self.used, "limit": self.limit,
            "sessions_until": self.sessions_until(), "remedy": self.remedy,
        })
    }
}

/// What the open sessions use.
pub(super) struct Use {
    pub(super) sessions: usize,
    pub(super) processes: u64,
    /// Bytes.
    pub(super) memory: u64,
    /// Bytes that were free before the first session.
    pub(super) memory_before: u64,
}

/// All bounds that can be read here, the nearest first.
pub(super) fn all(using: &Use) -> Vec<Bound> {
    let bound = |name, used, limit, remedy| Bound {
        name,
        used,
        limit,
        sessions: using.sessions,
        remedy,
    };
    let mut bounds = Vec::new();
    let open_files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        bounds.push(bound(
            "open files of the host",
            open_files,
            limit,
            "`ulimit -Hn`, `LimitNOFILE=` of the unit",
        ));
    }
    if let Some(limit) = number("/proc/sys/kernel/pid_max") {
        bounds.push(bound(
            "process numbers",
            using.processes,
            limit,
            "`sysctl kernel.pid_max`",
        ));
    }
    if let Some(limit) = getrlimit(Resource::Nproc).current
        && !geteuid().is_root()
    {
        bounds.push(bound(
            "processes of this user",
            using.processes,
            limit,
            "`ulimit -Hu`, `LimitNPROC=` of the unit",
        ));
    }
    if let (Some(watches), Some(limit)) = (
        inotify_watches(),
        number("/proc/sys/fs/inotify/max_user_watches"),
    ) {
        bounds.push(bound(
            "watches of inotify",
            watches,
            limit,
            "`sysctl fs.inotify.max_user_watches`",
        ));
    }
    bounds.push(bound(
        "memory that was free (MB)",
        using.memory / 1_000_000,
        using.memory_before / 1_000_000,
        "more memory, or fewer sessions at once",
    ));
    bounds.sort_by_key(|bound| bound.sessions_until().unwrap_or(u64::MAX));
    bounds
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number of inotify watches of this process, over all its instances.
fn inotify_watches() -> Option<u64> {
    let mut watches = 0;
    for entry in fs::read_dir("/proc/self/fdinfo").ok()?.flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        watches += text
            .lines()
            .filter(|line| line.starts_with("inotify wd:"))
            .count();
    }
    u64::try_from(watches).ok()
}
