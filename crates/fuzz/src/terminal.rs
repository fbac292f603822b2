//! The fuzz target for text that is cleaned before it is shown at a terminal.

use crate::Outcome;
use crate::choices::Choices;
use cellblock_protocol::{strip_terminal_escapes, visible_json, visible_name, visible_text};

/// Cleans a text in every way. Nothing that a terminal obeys, and nothing that turns the direction of a text, is left.
pub fn terminal(bytes: &[u8]) -> Outcome {
    const PARTS: [&str; 24] = [
        "a",
        "\u{1b}",
        "[",
        "31m",
        "]0;t",
        "\u{7}",
        "\u{9b}",
        "\u{9d}",
        "\u{9c}",
        "\r",
        "\n",
        "\t",
        "\u{202e}",
        "\u{2066}",
        "\u{200b}",
        "\u{200d}",
        "👩",
        "💻",
        "❤",
        "\u{fe0f}",
        "\u{e0041}",
        "1",
        "\u{20e3}",
        "é",
    ];
    let mut choices = Choices::new(bytes);
    let mut text = String::new();
    while !choices.is_over() {
        text.push_str(choices.pick(&PARTS));
    }
    for cleaned in [strip_terminal_escapes(&text), visible_text(&text)] {
        assert_clean(&cleaned);
        // What is clean stays as it is.
        assert_eq!(strip_terminal_escapes(&cleaned), cleaned);
    }
    let name = visible_name(&text);
    assert_clean(&name);
    assert!(!name.contains(['\n', '\t']), "{name:?}");
    let json = serde_json::Value::String(text.clone()).to_string();
    let shown = visible_json(&json);
    assert_clean(&shown);
    match serde_json::from_str::<String>(&shown) {
        Ok(read) => assert_eq!(read, text),
        Err(problem) => panic!("{problem}: {shown:?}"),
    }
    if strip_terminal_escapes(&text) == text {
        Outcome::Accepted
    } else {
        Outcome::Refused
    }
}

fn assert_clean(text: &str) {
    let is_bad = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200b}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e0fff}')
    };
    assert!(!text.chars().any(is_bad), "{text:?}");
}
