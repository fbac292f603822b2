//! The table of `docs/libraries.md`.

use crate::pipe::Answer;
use std::fmt::{Display, Formatter, Result};
use std::fs;
use std::path::Path;

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
    No,
    NotTried,
    /// No, and why.
    Because(String),
    /// The session was called armed, and then the state was another.
    Lie(String),
}

impl Verdict {
    /// The state was not as before.
    pub(crate) fn differs(was_armed: bool, answer: &Answer) -> Verdict {
        let value = answer.value.as_deref().unwrap_or("no value");
        let what = format!("{} {value} {}", answer.status, answer.error);
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

/// Puts the rows between the marks of the page.
pub(crate) fn write(rows: &[Row]) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/libraries.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once("<!-- libraries:begin -->").unwrap();
    let (_, after) = rest.split_once("<!-- libraries:end -->").unwrap();
    let mut table = String::from(
        "| library | works | armed | after crashes | after undo | in a fork | note |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        table += &format!("{row}\n");
    }
    let whole = format!("{before}<!-- libraries:begin -->\n{table}<!-- libraries:end -->{after}");
    fs::write(page, whole).unwrap();
}
