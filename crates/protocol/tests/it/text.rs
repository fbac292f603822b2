//! Text for a terminal: control characters and hidden marks are taken out or written out, letters stay.

use std::borrow::Cow;

use cellblock_protocol::{strip_terminal_escapes, visible_json, visible_name, visible_text};
use proptest::prelude::*;

#[test]
fn plain_text_is_not_copied() {
    assert!(matches!(
        strip_terminal_escapes("naïve\n\t☃"),
        Cow::Borrowed("naïve\n\t☃")
    ));
}

#[test]
fn a_terminal_is_told_nothing() {
    for (written, shown) in [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;cm0gLXJm\x1b\\x", "x"),
        ("\x1bP1$r0m\x1b\\x", "x"),
        ("\u{9b}2Jx", "x"),
        ("\u{9d}0;title\u{9c}x", "x"),
        ("\x1b(Bx\x1bcy\x1b7z", "xyz"),
        ("a\x08\x07\x7f\0b", "ab"),
        ("\x1b", ""),
        ("\x1b\nx", "\nx"),
        ("\x1b[31\nx", "\nx"),
        ("\x1b]unfinished\nx", "\nx"),
        ("\x1b]a\x1b[31mx", "x"),
        ("\x1bé", "é"),
    ] {
        assert_eq!(strip_terminal_escapes(written), shown, "{written:?}");
    }
}

#[test]
fn a_carriage_return_paints_over_nothing() {
    for (written, shown) in [
        ("a\r\nb", "a\nb"),
        ("10%\r20%\r30%\n", "10%\n20%\n30%\n"),
        ("\r10%", "10%"),
        ("a\r\r\n", "a\n"),
        ("safe\rrm -rf", "safe\nrm -rf"),
    ] {
        assert_eq!(strip_terminal_escapes(written), shown, "{written:?}");
    }
}

#[test]
fn nested_sequences_do_not_eat_the_stack() {
    assert_eq!(strip_terminal_escapes(&"\x1b]".repeat(1_000_000)), "");
}

proptest! {
    #[test]
    fn no_control_character_is_left(text in "[\\x1b\\x07\\x9b\\x9d\\x9c\\r\\n\\[\\]P;0-9a-zé\\\\ ]{0,60}") {
        let plain = strip_terminal_escapes(&text);
        prop_assert!(plain.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
    }
}

/// Every character that turns the direction of a text.
const BIDIRECTIONAL: [char; 12] = [
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// Characters without a shape.
const SHAPELESS: [char; 36] = [
    '\u{ad}',
    '\u{34f}',
    '\u{115f}',
    '\u{1160}',
    '\u{17b4}',
    '\u{180b}',
    '\u{180e}',
    '\u{200b}',
    '\u{200c}',
    '\u{200d}',
    '\u{2028}',
    '\u{2029}',
    '\u{2060}',
    '\u{2061}',
    '\u{2062}',
    '\u{2063}',
    '\u{2064}',
    '\u{206a}',
    '\u{206f}',
    '\u{3164}',
    '\u{fe00}',
    '\u{fe0e}',
    '\u{fe0f}',
    '\u{feff}',
    '\u{ffa0}',
    '\u{fff9}',
    '\u{fffb}',
    '\u{13430}',
    '\u{1bca0}',
    '\u{1d173}',
    '\u{e0000}',
    '\u{e0001}',
    '\u{e0020}',
    '\u{e007f}',
    '\u{e0100}',
    '\u{e01ef}',
];

#[test]
fn what_turns_the_direction_of_a_text_or_has_no_shape_is_not_shown() {
    for hidden in BIDIRECTIONAL.into_iter().chain(SHAPELESS) {
        let written = format!("photo{hidden}gpj.exe");
        let shown = strip_terminal_escapes(&written).replace('\n', "");
        assert_eq!(shown, "photogpj.exe", "{hidden:?}");
    }
}

#[test]
fn in_a_name_it_is_written_out() {
    for hidden in BIDIRECTIONAL.into_iter().chain(SHAPELESS) {
        let shown = format!("a{}b", hidden.escape_unicode());
        assert_eq!(visible_name(&format!("a{hidden}b")), shown);
    }
    assert_eq!(
        visible_name("a\nb\tc\rd\x1b[31m\u{9b}"),
        "a\\nb\\tc\\rd\\u{1b}[31m\\u{9b}"
    );
    assert!(matches!(visible_name("naïve ☃"), Cow::Borrowed("naïve ☃")));
}

/// What looks like a plain space, or like nothing on many terminals.
const BLANK: [char; 16] = [
    '\u{a0}',
    '\u{600}',
    '\u{605}',
    '\u{6dd}',
    '\u{70f}',
    '\u{8e2}',
    '\u{1680}',
    '\u{2000}',
    '\u{200a}',
    '\u{202f}',
    '\u{205f}',
    '\u{2800}',
    '\u{3000}',
    '\u{110bd}',
    '\u{13441}',
    '\u{1d159}',
];

#[test]
fn names_that_differ_in_blanks_look_different() {
    for blank in BLANK {
        let written = format!("a{blank}b");
        let shown = format!("a{}b", blank.escape_unicode());
        assert_eq!(visible_name(&written), shown);
        // In a text that is read on, they are what they are.
        assert_eq!(strip_terminal_escapes(&written), written);
    }
    let names = ["a b", " a", "a  ", "  ", " a\n "];
    let shown = [
        "a b",
        "\\u{20}a",
        "a\\u{20}\\u{20}",
        "\\u{20}\\u{20}",
        "\\u{20}a\\n\\u{20}",
    ];
    assert_eq!(names.map(|name| visible_name(name).into_owned()), shown);
}

#[test]
fn letters_of_every_script_and_emoji_stay_as_they_are() {
    for text in [
        "שלום עולם",
        "مرحبا ۝ ١٢٣",
        "हिन्दी",
        "日本語",
        "é ñ å",
        "👩\u{200d}💻",
        "🏳\u{fe0f}\u{200d}🌈",
        "👨🏽\u{200d}🚀",
        "❤\u{fe0f}",
        "1\u{fe0f}\u{20e3}",
        "🇩🇪",
    ] {
        assert_eq!(strip_terminal_escapes(text), text);
        let name = text.replace('۝', "\\u{6dd}");
        assert_eq!(visible_name(text), name);
    }
    assert_eq!(strip_terminal_escapes("⠀⠿"), "⠀⠿");
    // But not a second selector, and no joiner that joins nothing.
    assert_eq!(strip_terminal_escapes("❤\u{fe0f}\u{fe0f}"), "❤\u{fe0f}");
    assert_eq!(strip_terminal_escapes("👩\u{200d}"), "👩");
    assert_eq!(strip_terminal_escapes("\u{200d}👩"), "👩");
    // What was written out is before it no more.
    assert_eq!(visible_text("1\u{fe0f}\u{200d}❤"), "1\\u{fe0f}\\u{200d}❤");
}

#[test]
fn code_that_a_person_judges_keeps_its_lines() {
    assert_eq!(
        visible_text("if x: \u{2066}# ok\n\trun()\r\n"),
        "if x: \\u{2066}# ok\n\trun()\\r\n"
    );
}

#[test]
fn json_for_a_terminal_has_the_same_values() {
    let value =
        serde_json::json!({"a\u{202e}": ["\u{e0041}", "\u{9b}\u{7f}", "👩\u{200d}💻", "é\n"]});
    let text = value.to_string();
    let visible = visible_json(&text);
    assert!(
        visible.contains(r"a\u202e") && visible.contains(r"\udb40\udc41"),
        "{visible}"
    );
    assert!(!visible.chars().any(|c| c.is_control() || c == '\u{202e}'));
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&visible).unwrap(),
        value
    );
}
