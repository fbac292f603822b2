//! The numbers of a text, as a person or a program writes them.

use crate::verify::text_parts::is_hexadecimal;

/// The digits up to which two whole numbers are compared as numbers. Longer ones are compared digit by digit.
const MAX_EXACT_DIGITS: usize = 15;

/// A number in a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Number {
    value: f64,
    /// The digits after the point.
    decimals: i32,
    /// The digits as they are written, without separators.
    pub(super) digits: String,
    /// What the number is multiplied by: `1.2 million`.
    scale: f64,
    is_percent: bool,
}

impl Number {
    /// Whether this number, as it is shown, is another one rounded.
    pub(super) fn fits(&self, found: &Number) -> bool {
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
pub(super) fn numbers(text: &str) -> Vec<Number> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
        if !chars[at].is_ascii_digit() || (in_word && chars[at - 1].is_ascii()) {
            at += 1;
            continue;
        }
        let word = chars[at..].iter().take_while(|c| c.is_alphanumeric());
        let word: String = word.collect();
        if is_hexadecimal(&word) {
            at += word.chars().count();
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
pub(super) fn labelled_numbers(text: &str) -> Vec<(String, Number)> {
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
pub(super) fn stated_numbers(text: &str) -> Vec<(Vec<String>, Number)> {
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
