//! Code in fences, and the output that a model invents after its own code.

use super::{DialectAction, DialectReply};
use crate::format::FormatContext;
use crate::repair::{Fenced, fenced_blocks};
use cellblock_tools::names::FINAL_ANSWER;

/// Names of languages that mean Python, beside those that the format `markdown` asks for. Gemma marks code as `tool_code`.
const CODE_WORDS: &[&str] = &[
    "python",
    "py",
    "python3",
    "ipython",
    "tool_code",
    "code",
    "execute",
    "run",
];

/// Words that begin a line of Python.
const KEYWORDS: &[&str] = &[
    "import ", "from ", "def ", "class ", "for ", "while ", "if ", "elif ", "else:", "try:",
    "except", "finally:", "with ", "return", "raise ", "assert ", "async ", "await ", "print(",
    "pass", "del ", "global ", "@",
];

/// Fences whose content is the output of code.
const OUTPUT_WORDS: &[&str] = &["output", "tool_output", "result", "stdout"];

/// Line beginnings after which a model writes the output that it expects.
const OUTPUT_LABELS: &[&str] = &[
    "output",
    "the output",
    "result",
    "results",
    "execution result",
    "execution_result",
    "observation",
    "tool output",
    "terminal output",
    "expected output",
    "stdout",
    "## code execution",
    "### terminal output",
    "\u{8f93}\u{51fa}",
    "\u{7ed3}\u{679c}",
    "\u{6267}\u{884c}\u{7ed3}\u{679c}",
    "\u{89c2}\u{5bdf}",
];

/// Code in fences that are marked as Python or `tool_code`, and in unmarked fences that can only be Python.
///
/// A fence that is marked as code and empty is an action that cannot be read.
pub(super) fn fenced_code(text: &str, _: &FormatContext) -> Option<DialectReply> {
    let blocks = fenced_blocks(text);
    let is_marked = |block: &&Fenced| CODE_WORDS.iter().any(|word| block.language == *word);
    let is_code = |block: &&Fenced| {
        is_marked(block) || (block.language.is_empty() && looks_like_python(&block.body))
    };
    let first = blocks.iter().find(|block| is_code(block))?;
    let mut reply = DialectReply {
        start: first.start,
        ..DialectReply::default()
    };
    let mut at = first.start;
    for block in blocks.iter().filter(is_code) {
        // The rest was written for an output that did not come.
        if invented_output(&text[at..block.start]).is_some() {
            break;
        }
        at = block.end;
        reply.is_open |= !block.is_closed;
        if !block.body.trim().is_empty() {
            reply.actions.push(DialectAction::Code(block.body.clone()));
        }
    }
    Some(reply)
}

/// A reply that is nothing but Python, without any mark: it imports, prints, or calls a tool or `final_answer`.
///
/// An assignment alone is no sign of code: `x = 4` may be the answer.
pub(super) fn bare_code(text: &str, context: &FormatContext) -> Option<DialectReply> {
    let code = text.trim();
    if code.contains("```") || !looks_like_python(code) {
        return None;
    }
    let offered = context.registry.offered_to_code();
    let is_certain = |line: &str| {
        let line = line.trim();
        let is_import =
            line.starts_with("import ") || (line.starts_with("from ") && line.contains(" import "));
        let called = line.split_once('(').map(|(name, _)| name);
        let called = called.map(|name| name.strip_prefix("tools.").unwrap_or(name));
        let is_known = called.is_some_and(|name| {
            name == "print"
                || name == FINAL_ANSWER
                || offered
                    .iter()
                    .any(|tool| tool.name.replace('-', "_") == name)
        });
        (is_import && !is_prose(line)) || (is_known && line.ends_with(')'))
    };
    code.lines().any(is_certain).then(|| DialectReply {
        actions: vec![DialectAction::Code(code.to_owned())],
        ..DialectReply::default()
    })
}

/// The byte at which a text that follows code begins to state the output of that code. `None` where it does not.
pub(in crate::format) fn invented_output(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let plain = line.trim().trim_matches(['*', '`', '_', '>']).trim();
        let lower = plain.to_lowercase();
        let is_label = OUTPUT_LABELS.iter().any(|label| {
            lower.strip_prefix(label).is_some_and(|rest| {
                let rest = rest.trim_start_matches(['*', '`', '_', ' ']);
                rest.starts_with([':', '\u{ff1a}']) || label.starts_with('#') && !rest.is_empty()
            })
        });
        let is_fence = line
            .trim()
            .strip_prefix("```")
            .is_some_and(|word| OUTPUT_WORDS.contains(&word.trim().to_lowercase().as_str()));
        if is_label || is_fence {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// The code of a text: the content of the one fence around it, or the text itself.
pub(super) fn unfenced_code(text: &str) -> String {
    match fenced_blocks(text).as_slice() {
        [only] if text.trim_start().starts_with("```") => only.body.clone(),
        _ => text.trim_matches(['\n', '\r']).trim_end().to_owned(),
    }
}

/// Whether a text can only be Python: a line has a form of Python, and no line is prose.
fn looks_like_python(text: &str) -> bool {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut has_code = false;
    for line in lines {
        let is_statement = KEYWORDS.iter().any(|word| line.starts_with(word))
            && (line.ends_with(':') || !is_prose(line))
            || is_assignment(line)
            || is_call(line);
        has_code |= is_statement;
        if !is_statement && is_prose(line) {
            return false;
        }
    }
    has_code
}

/// Whether a line is made of words: at least three, without the punctuation of code.
fn is_prose(line: &str) -> bool {
    let words = line.split_whitespace();
    let is_word = |word: &str| {
        let word = word.trim_end_matches(['.', ',', ':', ';', '!', '?']);
        !word.is_empty() && word.chars().all(char::is_alphabetic)
    };
    words.filter(|word| is_word(word)).count() >= 3 && !line.contains(['(', '=', '[', '{'])
}

fn is_assignment(line: &str) -> bool {
    let Some((target, value)) = line.split_once('=') else {
        return false;
    };
    let target = target.trim_end_matches(['+', '-', '*', '/', '%', '|', '&']);
    let is_target = |c: char| c.is_alphanumeric() || "_.,[]'\" ()*".contains(c);
    let begins = target.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '(');
    let words = target.split_whitespace().count();
    begins
        && target.chars().all(is_target)
        && (words == 1 || target.contains(','))
        && !value.trim().is_empty()
        && !value.starts_with('=')
}

fn is_call(line: &str) -> bool {
    let Some((name, _)) = line.split_once('(') else {
        return false;
    };
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    !name.is_empty()
        && name.chars().all(is_name)
        && name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && line.ends_with(')')
}
