//! What a person sees of a command line, as the text of a snapshot: the command, its input, both outputs and the exit status.
//! `INSTA_UPDATE=always` writes the snapshots anew.
//!
//! A snapshot is the same for root and for an ordinary user, on another machine and with another Python: [`normal_text`] replaces
//! what differs.

use crate::support::{Ended, Place};
use std::fs;

impl Place {
    /// Runs a command line to its end with nothing on standard input. What a person saw of it.
    pub fn transcript<A: AsRef<str>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        self.transcript_with(arguments, "")
    }

    /// Runs a command line to its end with this on standard input. What a person saw of it.
    pub fn transcript_with<A: AsRef<str>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &str,
    ) -> String {
        let arguments: Vec<A> = arguments.into_iter().collect();
        let words: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        let ended = self.run_with(words, input.as_bytes());
        transcript(self, &arguments, input, &ended)
    }
}

/// What a person saw of a command line that has ended. Call it while the place has what the command left there: ids are known by
/// their files.
pub fn transcript<A: AsRef<str>>(
    place: &Place,
    arguments: &[A],
    input: &str,
    ended: &Ended,
) -> String {
    let quoted = arguments.iter().map(|argument| {
        let argument = argument.as_ref();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,".contains(c);
        if !argument.is_empty() && argument.chars().all(is_plain) {
            argument.to_owned()
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    });
    let mut text = format!("$ cellblock {}\n", quoted.collect::<Vec<_>>().join(" "));
    for (label, part) in [
        ("input", input),
        ("stdout", &ended.stdout),
        ("stderr", &ended.stderr),
    ] {
        if !part.is_empty() {
            text.push_str(&format!("----- {label}\n{part}"));
            if !part.ends_with('\n') {
                text.push_str("(no line end)\n");
            }
        }
    }
    text.push_str(&format!("----- status {}\n\n", ended.status));
    normal_text(&text, place)
}

/// The text with everything replaced that differs from run to run or from machine to machine: paths, times, dates, sizes of memory,
/// versions of ours and of Python, ids of runs and journals, ports that the kernel chose, and names that hold a time.
pub fn normal_text(text: &str, place: &Place) -> String {
    let path = place.path().display().to_string();
    let real = fs::canonicalize(place.path())
        .unwrap()
        .display()
        .to_string();
    let variables = place.variables();
    let cache = &variables.iter().find(|(name, _)| *name == "XDG_CACHE_HOME");
    let mut text = text.replace(&real, "[PLACE]").replace(&path, "[PLACE]");
    if let Some((_, cache)) = cache {
        text = text.replace(cache, "[CACHE]");
    }
    text = text.replace(env!("CARGO_PKG_VERSION"), "[VERSION]");
    for id in ids(place) {
        text = text.replace(&id, "[ID]");
    }
    let text = without_random_digits(&without_ports(&text));
    let lines = text.split('\n').map(without_place).map(normal_line);
    lines.collect::<Vec<String>>().join("\n")
}

/// The ids of the runs and journals that are kept in the place.
fn ids(place: &Place) -> Vec<String> {
    let directories =
        ["runs", "journals"].map(|name| place.path().join("state/cellblock").join(name));
    let files = directories
        .iter()
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten();
    let stems = files.filter_map(|file| {
        let path = file.ok()?.path();
        path.extension()?;
        Some(path.file_stem()?.to_str()?.to_owned())
    });
    stems.filter(|stem| !stem.is_empty()).collect()
}

/// The text without the ports that the kernel chose. Ports that stand in a test are small numbers.
fn without_ports(text: &str) -> String {
    const ADDRESS: &str = "127.0.0.1:";
    const FIRST_CHOSEN: u32 = 32_768;
    let mut parts = text.split(ADDRESS);
    let mut normal = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(part.len());
        let is_chosen = part[..end]
            .parse()
            .is_ok_and(|port: u32| port >= FIRST_CHOSEN);
        normal.push_str(ADDRESS);
        normal.push_str(if is_chosen { "[PORT]" } else { &part[..end] });
        normal.push_str(&part[end..]);
    }
    normal
}

/// The text without the long hexadecimal numbers that a test draws by lot. A number of digits alone has been computed.
fn without_random_digits(text: &str) -> String {
    const LENGTH: usize = 32;
    let mut normal = String::new();
    for part in text.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
        if digits.len() == LENGTH && digits.contains(|c: char| c.is_ascii_alphabetic()) {
            normal.push_str("[HEX]");
            normal.push_str(&part[LENGTH..]);
        } else {
            normal.push_str(part);
        }
    }
    normal
}

/// A line without the place at which a cell was stopped: Python tells it only if it answers in time.
fn without_place(line: &str) -> &str {
    line.split(" (in line ").next().unwrap_or(line)
}

/// Whether a word is a day as `2026-11-19` or, as in a table, an hour as `17:33`.
fn is_date(word: &str) -> bool {
    let form: String = word
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    form == "0000-00-00" || form == "00:00"
}

/// A line without the numbers that differ: times, memory, the version of Python, and the names of workspaces, which hold a time and a process id.
fn normal_line(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let is_number = |word: &str| {
        let digits = word.trim_start_matches('(');
        !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let bare = |word: &str| word.trim_end_matches([',', ')', ';', ':', '.']).to_owned();
    let mut normal = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at + 1).map(|word| bare(word)).unwrap_or_default();
        let is_memory = matches!(&next[..], "MB" | "GB" | "kB")
            && matches!(
                words.get(at + 2..at + 4),
                Some(["of", "memory" | "memory," | "its"])
            );
        // Whole seconds are a limit, not a measurement, but for those that have passed.
        let is_past = words.get(at + 2) == Some(&"ago");
        let is_time =
            matches!(&next[..], "ms" | "秒") || (next == "s" && (word.contains('.') || is_past));
        let is_python = at > 0 && words[at - 1] == "Python" && word.matches('.').count() == 2;
        if is_date(word) {
            normal.push("[DATE]".to_owned());
        } else if is_python {
            normal.push("[…]".to_owned());
        } else if is_number(word) && (is_time || is_memory) {
            let bracket = if word.starts_with('(') { "(" } else { "" };
            normal.push(format!("{bracket}[N]"));
        } else if word.contains("/workspaces/") {
            let (before, after) = word.split_once("/workspaces/").unwrap();
            let file = after.find('/').map_or("", |at| &after[at..]);
            normal.push(format!("{before}/workspaces/[NAME]{file}"));
        } else {
            normal.push((*word).to_owned());
        }
    }
    // How large a time is decides its unit.
    let line = normal.join(" ");
    line.replace("[N] ms", "[TIME]")
        .replace("[N] s", "[TIME]")
        .replace("[N] 秒", "[TIME]")
        .replace("[DATE] [DATE]", "[DATE]")
}

/// The rows of a table without their alignment, which follows the widths of what differs.
pub fn unaligned(text: &str) -> String {
    let row = |line: &str| {
        line.split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect::<Vec<_>>()
            .join("  ")
    };
    text.lines().map(row).collect::<Vec<_>>().join("\n")
}
