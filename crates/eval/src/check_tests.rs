//! How answers are read.

use super::{has_word, last_number};

#[test]
fn the_last_number_of_an_answer_is_found() {
    for (text, number) in [
        ("21386.41", Some(21386.41)),
        ("The 3 values add up to $1,234.50.", Some(1234.5)),
        ("between 1 and -7", Some(-7.0)),
        ("5-3", Some(3.0)),
        ("it is 1e3", Some(1000.0)),
        ("in Q2 it was 17 in all", Some(17.0)),
        ("1,2,3", Some(3.0)),
        ("**42**", Some(42.0)),
        ("none", None),
        ("größe 7 €", Some(7.0)),
    ] {
        assert_eq!(last_number(text), number, "{text}");
    }
}

#[test]
fn a_word_stands_alone() {
    assert!(has_word("the answer is `aQue9ScN`.", "aQue9ScN"));
    assert!(!has_word("aQue9ScNx", "aQue9ScN"));
    assert!(!has_word("", "a"));
}
