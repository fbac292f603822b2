//! Sessions as Markdown.

use cellblock_protocol::CellResult;
use cellblock_session::journal::Journal;

/// The cells that were kept, each with its code and what came of it. Pictures are named, not shown.
pub fn markdown(title: &str, journal: &Journal) -> String {
    let mut parts = vec![format!("# {}", title.trim())];
    for cell in journal.summary().kept() {
        parts.push(fenced_block("python", &cell.cell.code));
        if let Some(ended) = &cell.ended {
            parts.extend(outputs(&ended.result));
        }
    }
    parts.join("\n\n") + "\n"
}

fn outputs(result: &CellResult) -> Vec<String> {
    let value = result.value.as_ref().map(|value| value.repr.as_str());
    let error = result.error.as_ref().map(|error| error.traceback.as_str());
    let texts = [
        Some(result.stdout.as_str()),
        Some(result.stderr.as_str()),
        value,
        error,
    ];
    let texts = texts.into_iter().flatten();
    let mut parts: Vec<String> = texts
        .filter(|text| !text.trim().is_empty())
        .map(|text| fenced_block("", text))
        .collect();
    for display in &result.displays {
        let kinds: Vec<&str> = display.iter().map(|(kind, _)| kind).collect();
        parts.push(format!("*Shown: {}*", kinds.join(", ")));
    }
    parts
}

/// A block of code whose fence is longer than any in the text.
pub fn fenced_block(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::fenced_block;

    #[test]
    fn a_fence_in_the_text_does_not_end_the_block() {
        assert_eq!(fenced_block("", "a\n```\nb"), "````\na\n```\nb\n````");
    }
}
