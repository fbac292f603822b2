//! Whether an answer can be traced back to what code and tools gave.

use serde_json::Value;
use std::collections::HashMap;

/// The longest text of an answer that is named as a whole in a warning.
const MAX_SHOWN_CHARS: usize = 80;

/// The digits up to which two whole numbers are compared as numbers. Longer ones are compared digit by digit.
const MAX_EXACT_DIGITS: usize = 15;

/// What the second run of the cells produced: texts, numbers, and values that were handed over as answers.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    text: String,
    numbers: Vec<Number>,
    /// Numbers that stand behind a label: `mean: 4.5`, `"mean": 4.5`, `mean = 4.5`, and `mean    4.5` in a table.
    labelled: HashMap<String, Vec<Number>>,
    answers: Vec<Value>,
    /// The names of files whose contents are the same as in the first run.
    files: Vec<String>,
}

/// A number in a text.
#[derive(Clone, Debug, PartialEq)]
struct Number {
    value: f64,
    /// The digits after the point.
    decimals: i32,
    /// The digits as they are written, without separators.
    digits: String,
    /// What the number is multiplied by: `1.2 million`.
    scale: f64,
    is_percent: bool,
}

impl Evidence {
    /// Adds a text: the output of a cell, the value of its last expression, a result of a tool, or a file.
    pub(super) fn add_text(&mut self, text: &str) {
        self.numbers.extend(numbers(text));
        for (label, number) in labelled_numbers(text) {
            self.labelled.entry(label).or_default().push(number);
        }
        self.text.push_str(&normalized(text));
        self.text.push('\n');
    }

    /// Adds a value that the code handed over with `final_answer`.
    pub(super) fn add_answer(&mut self, answer: Value) {
        self.answers.push(answer);
    }

    /// Adds a file whose contents are the same as in the first run.
    pub(super) fn add_same_file(&mut self, name: &str) {
        self.files.push(name.to_owned());
    }

    /// The parts of an answer that the evidence does not have. Numbers and names of the question may be repeated in a text.
    pub(super) fn untraced(&self, answer: &Value, question: &str) -> Vec<String> {
        // A value that a cell handed over is the answer itself. Without a schema its text is.
        let is_handed_over = self.answers.iter().any(|given| {
            is_same_value(given, answer) || answer.as_str().is_some_and(|text| text == shown(given))
        });
        if is_handed_over {
            return Vec::new();
        }
        let mut untraced = Vec::new();
        self.check_value(answer, question, &mut untraced);
        untraced
    }

    fn check_value(&self, value: &Value, question: &str, untraced: &mut Vec<String>) {
        let is_found = match value {
            Value::Null => self.has_any_word(&["None", "null", "nan", "NaN"]),
            Value::Bool(true) => self.has_any_word(&["True", "true"]),
            Value::Bool(false) => self.has_any_word(&["False", "false"]),
            Value::Number(number) => numbers(&number.to_string())
                .iter()
                .all(|number| self.has_number(number)),
            Value::Array(items) if items.is_empty() => self.has_any_word(&["[]", "set()", "()"]),
            Value::Object(map) if map.is_empty() => self.has_any_word(&["{}"]),
            Value::Array(items) => {
                let before = untraced.len();
                items
                    .iter()
                    .for_each(|item| self.check_value(item, question, untraced));
                // The same values in another order are another answer.
                if untraced.len() == before && !self.has_in_order(items) {
                    untraced.push(value.to_string().chars().take(MAX_SHOWN_CHARS).collect());
                }
                return;
            }
            Value::Object(map) => {
                for (key, item) in map {
                    let number = item.as_f64().map(|_| numbers(&item.to_string()));
                    match number.as_deref() {
                        Some([number]) if self.contradicts(key, number) => {
                            untraced.push(format!("{key}: {item}"));
                        }
                        _ => self.check_value(item, question, untraced),
                    }
                }
                return;
            }
            Value::String(text) => return self.check_text(text, question, untraced),
        };
        if !is_found {
            untraced.push(value.to_string());
        }
    }

    /// Checks a text: it stands in the evidence as a whole, or every number, quoted text and name in it does.
    fn check_text(&self, text: &str, question: &str, untraced: &mut Vec<String>) {
        let whole = normalized(text);
        let whole = whole.trim_matches(['.', '*', '`', '"', '\'', ' ', '\u{3002}']);
        if whole.is_empty() || has_words(&self.text, whole) {
            return;
        }
        if let Some(read) = crate::repair::read_value(text)
            && matches!(read.value, Value::Array(_) | Value::Object(_))
        {
            return self.check_value(&read.value, question, untraced);
        }
        let question_numbers = numbers(question);
        let question = normalized(question);
        let mut is_traced = false;
        let before = untraced.len();
        let stated = without_list_marks(text);
        let contradicted: Vec<Number> = stated_numbers(&stated)
            .into_iter()
            .filter(|(words, number)| {
                // The word next to the number that is a label decides.
                let mut labels = words.iter().filter(|word| word.chars().count() > 1);
                let label = labels.find(|word| self.labelled.contains_key(*word));
                label.is_some_and(|label| self.contradicts(label, number))
            })
            .map(|(_, number)| number)
            .collect();
        for number in numbers(&stated) {
            if contradicted.contains(&number) {
                untraced.push(number.digits.clone());
            } else if self.has_number(&number) {
                is_traced = true;
            } else if !question_numbers.iter().any(|given| number.fits(given)) {
                untraced.push(number.digits.clone());
            }
        }
        for name in quoted_texts(text).into_iter().chain(names(text)) {
            let name = normalized(&name);
            if self.files.contains(&name) || has_words(&self.text, &name) {
                is_traced = true;
            } else if !has_words(&question, &name) && numbers(&name).is_empty() {
                untraced.push(name);
            }
        }
        let is_clear = untraced.len() == before;
        if is_clear && !is_traced && !self.has_line_in(whole) && !self.agrees_with(whole) {
            untraced.push(whole.chars().take(MAX_SHOWN_CHARS).collect());
        }
    }

    /// Whether the evidence has other numbers for this label, and not this one: the answer has swapped two of them.
    fn contradicts(&self, label: &str, number: &Number) -> bool {
        let found = self.labelled.get(&label.to_lowercase());
        found.is_some_and(|found| !found.iter().any(|found| number.fits(found)))
    }

    /// Whether the numbers of a list stand in the evidence in this order, or as a set that it shows. Other lists are not checked.
    fn has_in_order(&self, items: &[Value]) -> bool {
        let wanted: Option<Vec<Number>> = items
            .iter()
            .map(
                |item| match numbers(&item.as_f64().map(|_| item.to_string())?).as_slice() {
                    [number] => Some(number.clone()),
                    _ => None,
                },
            )
            .collect();
        let Some(wanted) = wanted else {
            return true;
        };
        let mut wanted = wanted.iter().peekable();
        for found in &self.numbers {
            if wanted.next_if(|number| number.fits(found)).is_some() && wanted.peek().is_none() {
                break;
            }
        }
        wanted.peek().is_none()
    }

    fn has_number(&self, number: &Number) -> bool {
        self.numbers.iter().any(|found| number.fits(found))
    }

    fn has_any_word(&self, words: &[&str]) -> bool {
        words.iter().any(|word| has_words(&self.text, word))
    }

    /// Whether the answer repeats a whole line of the evidence.
    fn has_line_in(&self, answer: &str) -> bool {
        let lines = self
            .text
            .lines()
            .map(|line| line.trim().trim_matches(['\'', '"']));
        lines
            .filter(|line| line.chars().count() >= 2 && !line.starts_with(['<', '#']))
            .filter(|line| !matches!(*line, "True" | "False" | "None"))
            .any(|line| has_words(answer, line))
    }

    /// Whether the answer says yes or no, and the evidence has `True` or `False`, and not both.
    fn agrees_with(&self, answer: &str) -> bool {
        let first: String = answer
            .chars()
            .take_while(|c| c.is_alphabetic())
            .collect::<String>()
            .to_lowercase();
        let is_yes = matches!(first.as_str(), "yes" | "true") || answer.starts_with('\u{662f}');
        let is_no = matches!(first.as_str(), "no" | "false")
            || answer.starts_with('\u{5426}')
            || answer.starts_with('\u{4e0d}');
        let has_true = self.has_any_word(&["True", "true"]);
        let has_false = self.has_any_word(&["False", "false"]);
        (is_yes && has_true && !has_false) || (is_no && has_false && !has_true)
    }
}

impl Number {
    /// Whether this number, as it is shown, is another one rounded.
    fn fits(&self, found: &Number) -> bool {
        let is_whole = self.decimals == 0 && found.decimals == 0 && self.scale == 1.0;
        if is_whole && self.digits.len().max(found.digits.len()) > MAX_EXACT_DIGITS {
            return self.digits == found.digits;
        }
        let is_near = |value: f64, unit: f64| {
            let step = 10f64.powi(-self.decimals) * unit;
            let error = (value - self.value * unit).abs();
            error <= step / 2.0 * (1.0 + 1e-9) + value.abs() * 1e-12
        };
        let value = found.value * found.scale;
        is_near(value, self.scale) || (self.is_percent && is_near(value, 0.01))
    }
}

/// The numbers of a text: with separators of thousands, decimals, exponents, a percent sign, and words such as `million`.
fn numbers(text: &str) -> Vec<Number> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
        if !chars[at].is_ascii_digit() || (in_word && chars[at - 1].is_ascii()) {
            at += 1;
            continue;
        }
        let is_negative = at > 0
            && matches!(chars[at - 1], '-' | '\u{2212}')
            && (at < 2 || !chars[at - 2].is_alphanumeric());
        let (number, end) = number_at(&chars, at, is_negative);
        found.extend(number);
        at = end;
    }
    found
}

/// The number that begins at a digit, and the index after it.
fn number_at(chars: &[char], start: usize, is_negative: bool) -> (Option<Number>, usize) {
    let digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let mut at = start;
    let mut digits = String::new();
    loop {
        if digit(at) {
            digits.push(chars[at]);
            at += 1;
        } else if chars.get(at) == Some(&',')
            && (1..=3).all(|next| digit(at + next))
            && !digit(at + 4)
            && at - start <= 3 + digits.len()
        {
            at += 1;
        } else {
            break;
        }
    }
    let mut decimals = 0;
    if chars.get(at) == Some(&'.') && digit(at + 1) {
        digits.push('.');
        at += 1;
        while digit(at) {
            digits.push(chars[at]);
            decimals += 1;
            at += 1;
        }
    }
    if matches!(chars.get(at), Some('e' | 'E')) {
        let sign = usize::from(matches!(chars.get(at + 1), Some('-' | '+')));
        if digit(at + 1 + sign) {
            let mut exponent = String::new();
            exponent.extend(chars.get(at + 1).filter(|_| sign == 1));
            at += 1 + sign;
            while digit(at) {
                exponent.push(chars[at]);
                at += 1;
            }
            let power: i32 = exponent.trim_start_matches('+').parse().unwrap_or(0);
            decimals -= power;
            digits.push_str(&format!("e{power}"));
        }
    }
    let rest: String = chars[at..].iter().take(12).collect();
    let rest = rest.trim_start();
    let scales = [
        ("million", 1e6),
        ("billion", 1e9),
        ("thousand", 1e3),
        ("\u{4e07}", 1e4),
        ("\u{4ebf}", 1e8),
    ];
    let scale = scales.iter().find(|(word, _)| rest.starts_with(word));
    let value: Option<f64> = digits.parse().ok();
    let number = value.map(|value| Number {
        value: if is_negative { -value } else { value },
        decimals,
        digits: if is_negative {
            format!("-{digits}")
        } else {
            digits
        },
        scale: scale.map_or(1.0, |(_, scale)| *scale),
        is_percent: rest.starts_with('%'),
    });
    (number, at)
}

/// The numbers of a text with the label that stands directly before each, in lower case.
fn labelled_numbers(text: &str) -> Vec<(String, Number)> {
    let mut found = Vec::new();
    for line in text.lines() {
        for (at, _) in line
            .match_indices([':', '='])
            .chain(line.match_indices("  "))
        {
            let label = line[..at].trim_end().trim_end_matches(['"', '\'']);
            let label: String = label
                .chars()
                .rev()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let label: String = label.chars().rev().collect();
            let rest = line[at..].trim_start_matches([':', '=', ' ']);
            let begins = rest.trim_start_matches(['-', '\u{2212}']);
            let is_label = label.starts_with(char::is_alphabetic);
            if !is_label || !begins.starts_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            let number = numbers(rest).into_iter().next();
            found.extend(number.map(|number| (label.to_lowercase(), number)));
        }
    }
    found
}

/// The words before a number that may name it.
const MAX_NAMING_WORDS: usize = 3;

/// The numbers of a text with the words before each, the nearest first, in lower case. A number, a comma and a line end the words.
fn stated_numbers(text: &str) -> Vec<(Vec<String>, Number)> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words: Vec<String> = Vec::new();
        for word in line.split_whitespace() {
            let in_word = numbers(word);
            if in_word.is_empty() {
                let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
                words.insert(0, bare.to_lowercase());
                words.truncate(MAX_NAMING_WORDS);
                if word.ends_with([',', ';', '.']) {
                    words.clear();
                }
                continue;
            }
            found.extend(in_word.into_iter().map(|number| (words.clone(), number)));
            words.clear();
        }
    }
    found
}

/// A text without the numbers of its list entries: `1. Anna`.
fn without_list_marks(text: &str) -> String {
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
fn quoted_texts(text: &str) -> Vec<String> {
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

/// The names of a text: words with a capital letter that do not begin a sentence, and names of files.
fn names(text: &str) -> Vec<String> {
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
        if (is_capital && !begins_sentence && !is_pronoun) || is_file {
            found.push(bare.to_owned());
        }
        begins_sentence = word.ends_with(['.', '!', '?', ':']);
    }
    found
}

/// A text with single spaces and single line breaks.
fn normalized(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

/// Whether a text contains another as whole words: `12` does not contain `2`.
fn has_words(text: &str, words: &str) -> bool {
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

/// Whether two values are the same, whole numbers and their decimal form too.
fn is_same_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_same_value(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, a)| other.get(key).is_some_and(|b| is_same_value(a, b)))
        }
        _ => one == other,
    }
}

/// A value as the text of an answer.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::Evidence;
    use serde_json::{Value, json};

    fn untraced(printed: &str, answer: Value) -> Vec<String> {
        let mut evidence = Evidence::default();
        evidence.add_text(printed);
        evidence.untraced(&answer, "What do 15000 become at 6 % in Rome?")
    }

    #[test]
    fn an_answer_that_the_evidence_has_is_traced() {
        let cases = [
            ("42", json!("42")),
            ("42", json!("It is 42.")),
            ("21386.413302", json!("15000 become 21,386.41 at 6 %.")),
            ("0.1253", json!("About 12.5 % of them.")),
            ("1234567", json!("1.2 million people")),
            ("Anna Schmidt", json!("The best is Anna Schmidt.")),
            ("aQue9ScN", json!("The text backwards is \"aQue9ScN\".")),
            ("True", json!("Yes, it is a prime.")),
            (
                "{'mean': 2.0, 'names': ['a']}",
                json!({"mean": 2, "names": ["a"]}),
            ),
            ("[1, 2]\n3", json!("1. The first is 1\n2. The second is 2")),
            ("12345678901234567890", json!("12345678901234567890")),
            ("-5", json!("-5")),
            (
                "mean: 5\nmedian: 3",
                json!("The mean is 5 and the median is 3."),
            ),
            (
                "mean     5.25\nstd      1.5",
                json!({"mean": 5.3, "std": 1.5}),
            ),
            ("{'a': 1, 'b': 2}", json!({"b": 2, "a": 1})),
            ("[3, 1, 2]", json!([3, 1, 2])),
            ("3 rows\n1 file\n2 tables", json!([3, 2])),
            ("count = 5", json!("There are 5 of them above 15000.")),
        ];
        for (printed, answer) in cases {
            assert_eq!(
                untraced(printed, answer.clone()),
                [""; 0],
                "{printed}: {answer}"
            );
        }
    }

    #[test]
    fn an_answer_that_the_evidence_does_not_have_is_not_traced() {
        let cases = [
            ("42", json!("43"), vec!["43"]),
            ("42", json!("It is 43."), vec!["43"]),
            ("21386.413302", json!("21386.42"), vec!["21386.42"]),
            ("42", json!("15000"), vec!["15000"]),
            ("Anna Schmidt", json!("The best is Bert."), vec!["Bert"]),
            ("aQue9ScN", json!("aQue9Scn"), vec!["aQue9Scn"]),
            ("True", json!("No, it is not."), vec!["No, it is not"]),
            ("True\nFalse", json!("Yes."), vec!["Yes"]),
            ("{'mean': 2.0}", json!({"mean": 2.5}), vec!["mean: 2.5"]),
            (
                "12345678901234567890",
                json!("12345678901234567891"),
                vec!["12345678901234567891"],
            ),
            ("-5", json!("5"), vec!["5"]),
            ("", json!("All is well."), vec!["All is well"]),
            ("1", json!(true), vec!["true"]),
            (
                "mean: 5\nmedian: 3",
                json!("The mean is 3 and the median is 5."),
                vec!["3", "5"],
            ),
            (
                "{'a': 1, 'b': 2}",
                json!({"a": 2, "b": 1}),
                vec!["a: 2", "b: 1"],
            ),
            (
                "mean     5.25\nstd      1.5",
                json!("The std is 5.25."),
                vec!["5.25"],
            ),
            ("[3, 1, 2]", json!([1, 2, 3]), vec!["[1,2,3]"]),
        ];
        for (printed, answer, expected) in cases {
            assert_eq!(
                untraced(printed, answer.clone()),
                expected,
                "{printed}: {answer}"
            );
        }
    }
}
