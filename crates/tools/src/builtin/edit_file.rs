//! The tools `edit_file` and `search_files`: exact replacements in files of the workspace, and lines that match a pattern.

use super::files::workspace_path;
use crate::{Context, Tool, ToolError};
use cellblock_session::{Error, Session};
use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use std::io;

/// The largest file that is edited or searched.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// Unchanged lines before and after a change in a diff.
const CONTEXT_LINES: usize = 3;
/// The longest diff that is shown, in lines.
const MAX_DIFF_LINES: usize = 120;
/// The most lines that a search returns.
const MAX_MATCHES: usize = 200;
/// The characters of a matching line that are shown.
const MAX_LINE_CHARS: usize = 300;
/// The memory that a compiled pattern may take. Patterns come from a model.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Replaces a piece of text in a file of the workspace.
#[derive(Debug)]
pub struct EditFileTool;

/// Replaces a piece of text in a file of the workspace and returns the change as a diff. old_text must be in the file exactly once, letter
/// by letter with all spaces, unless replace_all is true. With an empty old_text a new file is written.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EditFile {
    /// The path, relative to the workspace.
    file_path: String,
    /// The text as it is now.
    old_text: String,
    /// The text in its place.
    new_text: String,
    /// Whether every occurrence is replaced.
    #[serde(default)]
    replace_all: bool,
}

impl Tool for EditFileTool {
    type Parameters = EditFile;
    type Output = String;

    async fn call(&self, edit: EditFile, context: &Context) -> Result<String, ToolError> {
        let session = context.runner().session().await?;
        let path = workspace_path(&session, &edit.file_path).to_owned();
        let before = read_text(&session, &path).await?;
        let (before, after) = match (before, edit.old_text.is_empty()) {
            (None, true) => (String::new(), edit.new_text),
            (None, false) => {
                return Err(ToolError::new(format!("the file `{path}` does not exist")));
            }
            (Some(_), true) => {
                return Err(ToolError::new(format!(
                    "the file `{path}` exists: say in old_text which piece of it is replaced"
                )));
            }
            (Some(before), false) => {
                let after = replaced(&before, &edit)?;
                (before, after)
            }
        };
        let diff = diff(&path, &before, &after);
        session.put_file(&path, after.into_bytes()).await?;
        Ok(diff)
    }
}

/// The text of a file. `None` where there is no file.
async fn read_text(session: &Session, path: &str) -> Result<Option<String>, ToolError> {
    let bytes = match session.open_file(path).await {
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
        Ok(file) => {
            let length = file.metadata().map(|metadata| metadata.len());
            if length.unwrap_or(u64::MAX) > MAX_FILE_BYTES {
                let limit = MAX_FILE_BYTES >> 20;
                let message = format!("`{path}` is larger than {limit} MiB: change it with Python");
                return Err(ToolError::new(message));
            }
            session.get_file(path).await?
        }
    };
    let text = String::from_utf8(bytes);
    text.map(Some)
        .map_err(|_| ToolError::new(format!("`{path}` is no UTF-8 text: change it with Python")))
}

fn replaced(before: &str, edit: &EditFile) -> Result<String, ToolError> {
    let count = before.matches(&edit.old_text).count();
    match (count, edit.replace_all) {
        (0, _) => Err(ToolError::new(format!(
            "old_text is not in the file{}",
            nearest_line(before, &edit.old_text)
        ))),
        (2.., false) => Err(ToolError::new(format!(
            "old_text is in the file {count} times: add lines around it until it is unique, or set replace_all"
        ))),
        _ => Ok(before.replace(&edit.old_text, &edit.new_text)),
    }
}

/// A hint where the file has the first line of a text with other spaces.
fn nearest_line(before: &str, wanted: &str) -> String {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = wanted.lines().map(squeezed).find(|line| !line.is_empty());
    let Some(first) = first else {
        return String::new();
    };
    let found = before.lines().enumerate();
    let found = found
        .filter(|(_, line)| squeezed(line) == first)
        .map(|(number, line)| format!("; line {} has it with other spaces: {line:?}", number + 1));
    found.into_iter().next().unwrap_or_default()
}

/// The change between two texts as one hunk of a unified diff.
fn diff(path: &str, before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same_start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - same_start;
    let same_end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(rest)
        .take_while(|(a, b)| a == b)
        .count();
    let start = same_start.saturating_sub(CONTEXT_LINES);
    let end_context = same_end.min(CONTEXT_LINES);
    let (old_end, new_end) = (old.len() - same_end, new.len() - same_end);
    let mut lines = vec![
        format!("--- {path}"),
        format!("+++ {path}"),
        format!(
            "@@ -{},{} +{},{} @@",
            start + 1,
            old_end + end_context - start,
            start + 1,
            new_end + end_context - start
        ),
    ];
    let part = |mark: char, lines: &[&str]| {
        let marked = lines.iter().map(|line| format!("{mark}{line}"));
        marked.collect::<Vec<_>>()
    };
    lines.extend(part(' ', &old[start..same_start]));
    lines.extend(part('-', &old[same_start..old_end]));
    lines.extend(part('+', &new[same_start..new_end]));
    lines.extend(part(' ', &old[old_end..old_end + end_context]));
    if lines.len() > MAX_DIFF_LINES {
        let more = lines.len() - MAX_DIFF_LINES;
        lines.truncate(MAX_DIFF_LINES);
        lines.push(format!("… and {more} more lines"));
    }
    lines.join("\n")
}

/// Searches the files of the workspace.
#[derive(Debug)]
pub struct SearchFilesTool;

/// Finds lines of the workspace's text files that match a regular expression. Each match is given as path:line: text.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchFiles {
    /// The regular expression, without look-around.
    pattern: String,
    /// Only files whose path ends with this, such as .py
    #[serde(default)]
    ending: String,
    /// Whether upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
}

impl Tool for SearchFilesTool {
    type Parameters = SearchFiles;
    type Output = String;

    async fn call(&self, search: SearchFiles, context: &Context) -> Result<String, ToolError> {
        let pattern = RegexBuilder::new(&search.pattern)
            .case_insensitive(search.ignore_case)
            .size_limit(MAX_PATTERN_BYTES)
            .build()
            .map_err(|error| ToolError::new(format!("the pattern cannot be used: {error}")))?;
        let session = context.runner().session().await?;
        let mut found = Vec::new();
        let mut total = 0;
        for file in session.list_files().await? {
            if !file.path.ends_with(&search.ending) || file.bytes > MAX_FILE_BYTES {
                continue;
            }
            // Files that are no text, and those that went meanwhile, have no lines.
            let Ok(Ok(text)) = session.get_file(&file.path).await.map(String::from_utf8) else {
                continue;
            };
            let lines = text.lines().enumerate();
            for (number, line) in lines.filter(|(_, line)| pattern.is_match(line)) {
                total += 1;
                if found.len() < MAX_MATCHES {
                    let line: String = line.chars().take(MAX_LINE_CHARS).collect();
                    found.push(format!("{}:{}: {line}", file.path, number + 1));
                }
            }
        }
        if found.is_empty() {
            return Ok("No line matches.".to_owned());
        }
        if total > found.len() {
            found.push(format!("… and {} more lines", total - found.len()));
        }
        Ok(found.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str, replace_all: bool) -> EditFile {
        EditFile {
            file_path: "a.txt".to_owned(),
            old_text: old.to_owned(),
            new_text: new.to_owned(),
            replace_all,
        }
    }

    #[test]
    fn a_diff_shows_the_changed_lines_with_three_around_them() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = before.replace("5\n", "five\nand a half\n");
        let expected =
            "--- a.txt\n+++ a.txt\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and a half\n 6\n 7\n 8";
        assert_eq!(diff("a.txt", before, &after), expected);
        assert_eq!(
            diff("a.txt", "", "new\n"),
            "--- a.txt\n+++ a.txt\n@@ -1,0 +1,1 @@\n+new"
        );
        // A line that repeats is counted once.
        let repeated = "--- a.txt\n+++ a.txt\n@@ -1,1 +1,2 @@\n x\n+x";
        assert_eq!(diff("a.txt", "x\n", "x\nx\n"), repeated);
    }

    #[test]
    fn a_text_that_is_there_twice_or_with_other_spaces_is_refused() {
        let text = "a = 1\n    b = 2\na = 1\n";
        let twice = replaced(text, &edit("a = 1", "a = 2", false)).map_err(|e| e.to_string());
        assert!(twice.is_err_and(|message| message.contains("2 times")));
        let spaces = replaced(text, &edit("b  = 2", "", false)).map_err(|e| e.to_string());
        assert!(spaces.is_err_and(|message| message.contains("line 2 has it with other spaces")));
        let all = replaced(text, &edit("a = 1", "a = 2", true)).map_err(|e| e.to_string());
        assert_eq!(all.as_deref(), Ok("a = 2\n    b = 2\na = 2\n"));
    }
}
