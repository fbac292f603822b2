//! Replies that say what the model will do, and do nothing.

/// Beginnings of a sentence that announces an action.
const BEGINNINGS: &[&str] = &[
    "i will",
    "i'll",
    "i\u{2019}ll",
    "i am going to",
    "i'm going to",
    "i\u{2019}m going to",
    "let me",
    "let's",
    "let\u{2019}s",
    "let us",
    "now i will",
    "now i'll",
    "now let me",
    "now, let me",
    "next, i will",
    "next, i'll",
    "first, i will",
    "first, i'll",
    "first, let me",
    "we will",
    "we'll",
    "we need to",
    "\u{6211}\u{5c06}",
    "\u{6211}\u{4f1a}",
    "\u{8ba9}\u{6211}",
    "\u{63a5}\u{4e0b}\u{6765}",
    "\u{73b0}\u{5728}\u{6211}",
];

/// Verbs of what code and tools do.
const VERBS: &[&str] = &[
    "run",
    "execute",
    "compute",
    "calculate",
    "call",
    "use the",
    "use a tool",
    "list the",
    "inspect",
    "explore",
    "plot",
    "use python",
    "write",
    "check",
    "load",
    "read",
    "open",
    "look at",
    "try",
    "install",
    "search",
    "fetch",
    "analyze",
    "analyse",
    "start by",
    "begin by",
    "proceed",
    "\u{8fd0}\u{884c}",
    "\u{6267}\u{884c}",
    "\u{8ba1}\u{7b97}",
    "\u{8c03}\u{7528}",
    "\u{8bfb}\u{53d6}",
    "\u{67e5}\u{770b}",
];

/// The longest text that can be a mere announcement.
const MAX_CHARS: usize = 600;

/// Whether the last sentence of a text announces an action. Such a text is not an answer: the action is missing.
pub(super) fn announces_an_action(text: &str) -> bool {
    if text.chars().count() > MAX_CHARS {
        return false;
    }
    let text = text
        .trim()
        .trim_end_matches(['.', ':', '!', '\u{3002}', '\u{ff1a}', '\u{2026}']);
    // Sentences end with a mark and a space, or with a line.
    let last = text
        .rsplit(['\n', '\u{3002}'])
        .next()
        .unwrap_or(text)
        .rsplit(". ")
        .next()
        .unwrap_or(text)
        .rsplit("! ")
        .next()
        .unwrap_or(text);
    let last = last.trim().trim_start_matches(['*', '-', '#', '>', ' ']);
    let last = last.to_lowercase();
    let Some(rest) = BEGINNINGS.iter().find_map(|begin| last.strip_prefix(begin)) else {
        return false;
    };
    // A sentence with a result after a colon has something to say.
    let says_more = last.contains(": ") || last.contains(" = ");
    !says_more && VERBS.iter().any(|verb| contains_word(rest, verb))
}

fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| !c.is_ascii_alphanumeric())
    })
}
