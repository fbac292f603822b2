//! The parts of a text that can be looked for in another: names, quoted texts, whole words.

/// A text without the numbers of its list entries: `1. Anna`.
pub(super) fn without_list_marks(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let trimmed = line.trim_start();
        let digits = trimmed.chars().take_while(char::is_ascii_digit).count();
        let rest = &trimmed[digits..];
        let is_mark =
            (1..=2).contains(&digits) && (rest.starts_with(". ") || rest.starts_with(") "));
        if is_mark { &rest[2..] } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The texts in quotes, in code marks and in bold.
pub(super) fn quoted_texts(text: &str) -> Vec<String> {
    let pairs = [
        ("\"", "\""),
        ("`", "`"),
        ("**", "**"),
        ("\u{201c}", "\u{201d}"),
        ("\u{300c}", "\u{300d}"),
    ];
    let mut found = Vec::new();
    for (open, close) in pairs {
        let mut rest = text;
        while let Some((_, after)) = rest.split_once(open) {
            let Some((quoted, next)) = after.split_once(close) else {
                break;
            };
            if !quoted.trim().is_empty() {
                found.push(quoted.trim().trim_end_matches(['.', ':', ',']).to_owned());
            }
            rest = next;
        }
    }
    found
}

/// Whether a word is a hash, or an id in hexadecimal digits: the digits in it are no numbers.
pub(super) fn is_hexadecimal(word: &str) -> bool {
    /// Shorter words may be a number with a unit.
    const MIN_LENGTH: usize = 8;
    let has_digit = word.contains(|c: char| c.is_ascii_digit());
    // `e` alone may be an exponent.
    let has_letter = word.contains(['a', 'b', 'c', 'd', 'f']);
    let is_all = word.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    word.len() >= MIN_LENGTH && has_digit && has_letter && is_all
}

/// The names of a text: words with a capital letter that do not begin a sentence, names of files, and hashes.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut begins_sentence = true;
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_capital = bare.chars().next().is_some_and(char::is_uppercase);
        let is_file = bare
            .rsplit_once('.')
            .is_some_and(|(stem, end)| !stem.is_empty() && (2..=5).contains(&end.len()))
            && bare.chars().any(char::is_alphabetic);
        let is_pronoun = matches!(bare, "I" | "It" | "The" | "A" | "An");
        if (is_capital && !begins_sentence && !is_pronoun) || is_file || is_hexadecimal(bare) {
            found.push(bare.to_owned());
        }
        begins_sentence = word.ends_with(['.', '!', '?', ':']);
    }
    found
}

/// A text with single spaces and single line breaks.
pub(super) fn normalized(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

/// Whether a text contains another as whole words: `12` does not contain `2`.
pub(super) fn has_words(text: &str, words: &str) -> bool {
    if words.is_empty() {
        return false;
    }
    let is_edge = |inside: Option<char>, outside: Option<char>, next: Option<char>| {
        let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let goes_on = match outside {
            Some('.' | ',') => next.is_some_and(|c| c.is_ascii_digit()),
            // The sign of a number is a part of it.
            Some('-' | '\u{2212}') => {
                inside.is_some_and(|c| c.is_ascii_digit()) && !next.is_some_and(in_word)
            }
            Some(c) => in_word(c),
            None => false,
        };
        !(inside.is_some_and(in_word) && goes_on)
    };
    text.match_indices(words).any(|(at, _)| {
        let mut before = text[..at].chars().rev();
        let mut after = text[at + words.len()..].chars();
        is_edge(words.chars().next(), before.next(), before.next())
            && is_edge(words.chars().next_back(), after.next(), after.next())
    })
}
