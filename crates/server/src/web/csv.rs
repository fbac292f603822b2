//! CSV files as tables for the preview.

use serde::Serialize;

/// A table as the page shows it: the shape of `application/vnd.cellblock.table+json`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Table {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// Whether rows or columns were left out.
    pub(super) is_cut: bool,
}

/// The most rows of a preview.
const MAX_ROWS: usize = 500;
/// The most columns of a preview.
const MAX_COLUMNS: usize = 60;

/// The table in `text`: fields between commas, semicolons or tabs, whichever the first line has most of.
pub(super) fn parse(text: &str) -> Table {
    let first_line = text.lines().next().unwrap_or_default();
    let count = |separator: char| first_line.matches(separator).count();
    let separator = [',', ';', '\t']
        .into_iter()
        .max_by_key(|&separator| (count(separator), separator == ','))
        .unwrap_or(',');
    let mut records = Records {
        rest: text.trim_start_matches('\u{feff}'),
        separator,
    };
    let mut is_cut = false;
    let mut bounded = |mut record: Vec<String>| {
        is_cut |= record.len() > MAX_COLUMNS;
        record.truncate(MAX_COLUMNS);
        record
    };
    let columns = records.next().map(&mut bounded).unwrap_or_default();
    let rows = records.by_ref().take(MAX_ROWS).map(&mut bounded).collect();
    is_cut |= records.next().is_some();
    Table {
        columns,
        rows,
        is_cut,
    }
}

/// The records of a CSV text, one after the other.
struct Records<'text> {
    rest: &'text str,
    separator: char,
}

impl Iterator for Records<'_> {
    type Item = Vec<String>;

    fn next(&mut self) -> Option<Vec<String>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut record = Vec::new();
        let mut field = String::new();
        let mut is_quoted = false;
        let mut characters = self.rest.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            let next = characters.peek().map(|&(_, next)| next);
            match character {
                '"' if is_quoted && next == Some('"') => {
                    characters.next();
                    field.push('"');
                }
                '"' if is_quoted => is_quoted = false,
                '"' if field.is_empty() => is_quoted = true,
                '\r' if !is_quoted && next == Some('\n') => {}
                '\n' if !is_quoted => {
                    self.rest = &self.rest[at + 1..];
                    record.push(field);
                    return Some(record);
                }
                _ if character == self.separator && !is_quoted => {
                    record.push(std::mem::take(&mut field))
                }
                _ => field.push(character),
            }
        }
        self.rest = "";
        record.push(field);
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_commas_and_line_ends_in_fields_are_text() {
        let table = parse("city,note\r\nOslo,\"cold, \"\"very\"\"\nand dark\"\nRome,");
        assert_eq!(table.columns, ["city", "note"]);
        assert_eq!(
            table.rows,
            [["Oslo", "cold, \"very\"\nand dark"], ["Rome", ""]]
        );
        assert!(!table.is_cut);
    }

    #[test]
    fn the_separator_is_found_and_long_files_are_cut() {
        assert_eq!(parse("a;b\n1;2\n").rows, [["1", "2"]]);
        let long = parse(&"x\n".repeat(MAX_ROWS + 2));
        assert_eq!((long.rows.len(), long.is_cut), (MAX_ROWS, true));
    }
}
