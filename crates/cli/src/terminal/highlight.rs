//! Python in colours.

use super::Style;
use crate::python_syntax::{TokenKind, scan};

/// The code with colours. Each line stands for itself: no colour reaches over a line break, so that lines can be indented or
/// prefixed afterwards.
pub(crate) fn highlight(code: &str) -> String {
    let mut painted = String::with_capacity(code.len() * 2);
    let mut end = 0;
    for token in scan(code).tokens {
        painted.push_str(&code[end..token.range.start]);
        let text = &code[token.range.clone()];
        match style(token.kind) {
            Some(style) => {
                let lines: Vec<String> = text.split('\n').map(|line| paint(style, line)).collect();
                painted.push_str(&lines.join("\n"));
            }
            None => painted.push_str(text),
        }
        end = token.range.end;
    }
    painted.push_str(&code[end..]);
    painted
}

fn paint(style: Style, line: &str) -> String {
    if line.is_empty() {
        String::new()
    } else {
        style.paint(line)
    }
}

fn style(kind: TokenKind) -> Option<Style> {
    match kind {
        TokenKind::Keyword => Some(Style::Keyword),
        TokenKind::Builtin => Some(Style::Builtin),
        TokenKind::Text => Some(Style::Text),
        TokenKind::Number => Some(Style::Number),
        TokenKind::Comment => Some(Style::Comment),
        TokenKind::Decorator => Some(Style::Decorator),
        TokenKind::Definition => Some(Style::Definition),
        TokenKind::Name | TokenKind::Symbol | TokenKind::Newline => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellblock::strip_terminal_escapes;

    #[test]
    fn colours_change_nothing_but_the_colour() {
        let code =
            "@cache\ndef f(x: int) -> str:  # why\n    return f'''a\nb {x}''' + \"é\" * 0x1f\n";
        assert_eq!(strip_terminal_escapes(&highlight(code)), code);
    }

    #[test]
    fn each_token_has_its_colour() {
        assert_eq!(
            highlight("def f(): return len('a')"),
            "\u{1b}[35mdef\u{1b}[0m \u{1b}[1;34mf\u{1b}[0m(): \u{1b}[35mreturn\u{1b}[0m \u{1b}[36mlen\u{1b}[0m(\u{1b}[32m'a'\u{1b}[0m)"
        );
    }

    #[test]
    fn a_colour_ends_with_its_line() {
        assert_eq!(
            highlight("'''a\n\nb'''"),
            "\u{1b}[32m'''a\u{1b}[0m\n\n\u{1b}[32mb'''\u{1b}[0m"
        );
    }
}
