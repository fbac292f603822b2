//! The processes below this one: how many there are, and what memory they use.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;

/// The processes below this one, of all generations.
pub(super) fn descendants() -> Option<Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some(parent) = field(pid, "status", "PPid:") {
            let parent = u32::try_from(parent).ok()?;
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![std::process::id()];
    while let Some(pid) = open.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        open.extend(below);
    }
    Some(found)
}

/// The proportional share of memory of all processes below this one, in bytes. `None` where one may not be looked at.
pub(super) fn descendant_memory() -> Option<u64> {
    let mut total = 0;
    for pid in descendants()? {
        match field(pid, "smaps_rollup", "Pss:") {
            Some(kilobytes) => total += kilobytes * 1024,
            None if may_not_be_read(pid) => return None,
            // A process that has just ended has none.
            None => {}
        }
    }
    Some(total)
}

fn may_not_be_read(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/smaps_rollup"))
        .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// A number of a file of `/proc/PID`, by the name that its line begins with.
fn field(pid: u32, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
