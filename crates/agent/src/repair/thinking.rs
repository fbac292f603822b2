//! Thoughts in front of a reply.

/// Takes `<think>…</think>` in front of a reply apart: the thoughts, and the rest. Code in there is not meant to run.
///
/// Some endpoints swallow the opening tag, so that the closing one alone marks the end of the thoughts.
pub fn split_thinking(text: &str) -> (Option<&str>, &str) {
    let trimmed = text.trim_start();
    for (open, close) in [("<think>", "</think>"), ("<thinking>", "</thinking>")] {
        let body = trimmed.strip_prefix(open);
        match (body, body.unwrap_or(trimmed).split_once(close)) {
            (Some(_), Some((thoughts, rest))) => return (Some(thoughts.trim()), rest.trim_start()),
            (Some(thoughts), None) => return (Some(thoughts.trim()), ""),
            (None, Some((thoughts, rest))) if !thoughts.contains(open) && is_own_line(thoughts) => {
                return (Some(thoughts.trim()), rest.trim_start());
            }
            _ => {}
        }
    }
    (None, text)
}

/// Whether a tag that follows this text begins a line outside of code. In a JSON text line breaks are escaped, so there it never does.
fn is_own_line(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    before.contains('\n')
        && line.trim().is_empty()
        && before.matches("```").count().is_multiple_of(2)
}
