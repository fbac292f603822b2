//! The table of `docs/libraries.md`.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- libraries:begin -->";
const END: &str = "<!-- libraries:end -->";
const HEAD: &str = "| library | works | armed | after crashes | after undo | in forks | note |
| --- | --- | --- | --- | --- | --- | --- |
";

/// What was seen of one library.
#[derive(Debug)]
pub(crate) struct Row {
    name: String,
    pub(crate) works: Verdict,
    pub(crate) armed: Verdict,
    pub(crate) crash: Verdict,
    pub(crate) undo: Verdict,
    pub(crate) fork: Verdict,
    pub(crate) note: String,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    Yes,
    /// Yes, after each of so many crashes.
    Times(usize),
    No,
    NotTried,
    /// No, and why.
    Because(String),
    /// The session was called armed, and then the state was another.
    Lie(String),
}

impl Verdict {
    /// The state was not as before; `what` says what it was.
    pub(crate) fn after(was_armed: bool, what: String) -> Verdict {
        if was_armed {
            Verdict::Lie(what)
        } else {
            Verdict::Because(what)
        }
    }
}

impl Row {
    pub(crate) fn new(name: &str) -> Row {
        Row {
            name: name.to_owned(),
            works: Verdict::NotTried,
            armed: Verdict::NotTried,
            crash: Verdict::NotTried,
            undo: Verdict::NotTried,
            fork: Verdict::NotTried,
            note: String::new(),
        }
    }

    pub(crate) fn is_a_lie(&self) -> bool {
        [&self.crash, &self.undo, &self.fork]
            .iter()
            .any(|verdict| matches!(verdict, Verdict::Lie(_)))
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let text = match self {
            Verdict::Yes => "yes".to_owned(),
            Verdict::Times(count) => format!("yes ({count})"),
            Verdict::No => "no".to_owned(),
            Verdict::NotTried => "–".to_owned(),
            Verdict::Because(why) | Verdict::Lie(why) => format!("no: {}", one_line(why)),
        };
        f.write_str(&text)
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Row {
            name,
            works,
            armed,
            crash,
            undo,
            fork,
            note,
        } = self;
        let note = one_line(note);
        write!(
            f,
            "| {name} | {works} | {armed} | {crash} | {undo} | {fork} | {note} |"
        )
    }
}

/// Short enough for a cell of a table, and without what would end it.
fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 100;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    flat.replace('|', "/").chars().take(MAX_CHARS).collect()
}

/// Puts a row between the marks of the page, in the place of the library's old one. The rows have the order of the catalogue.
pub(crate) fn write(row: &Row, order: &[&str]) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/libraries.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (old, after) = rest.split_once(END).unwrap();
    let mut lines: BTreeMap<usize, String> = BTreeMap::new();
    let new = row.to_string();
    for line in old.lines().chain([new.as_str()]) {
        let name = line.split('|').nth(1).unwrap_or_default().trim();
        if let Some(place) = order.iter().position(|known| *known == name) {
            lines.insert(place, format!("{line}\n"));
        }
    }
    let table: String = lines.into_values().collect();
    fs::write(page, format!("{before}{BEGIN}\n{HEAD}{table}{END}{after}")).unwrap();
}
