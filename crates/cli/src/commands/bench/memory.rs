//! The memory of everything that this process started.

use std::collections::HashMap;
use std::fs;

/// The proportional share of memory of all processes below this one, in bytes. `None` where one may not be looked at.
pub(crate) fn of_descendants() -> Option<u64> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        if let Some(parent) = field(pid, "status", "PPid:") {
            children
                .entry(u32::try_from(parent).ok()?)
                .or_default()
                .push(pid);
        }
    }
    let mut open = vec![std::process::id()];
    let mut total = 0;
    while let Some(pid) = open.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            // A process that has just ended has none.
            let alive = fs::metadata(format!("/proc/{child}")).is_ok();
            match field(child, "smaps_rollup", "Pss:") {
                Some(kilobytes) => total += kilobytes * 1024,
                None if alive
                    && fs::read(format!("/proc/{child}/smaps_rollup")).is_err_and(|error| {
                        error.kind() == std::io::ErrorKind::PermissionDenied
                    }) =>
                {
                    return None;
                }
                None => {}
            }
            open.push(child);
        }
    }
    Some(total)
}

fn field(pid: u32, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
