use std::borrow::Cow;

use cellblock_protocol::strip_terminal_escapes;
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
