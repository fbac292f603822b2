//! What is hidden and what is cut.

use cellblock_trace::{Caps, Secrets};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn values_are_hidden_by_the_names_of_their_fields() {
    let value = json!({
        "API_KEY": "abc", "apiToken": "abc", "db_password": "abc", "Authorization": "Bearer abc", "cookie": ["abc"],
        "max_tokens": 100, "tokens": 7, "keyboard": "us", "monkey": "yes", "note": null,
    });
    assert_eq!(
        Secrets::default().hide("", value),
        json!({
            "API_KEY": "<hidden>", "apiToken": "<hidden>", "db_password": "<hidden>", "Authorization": "<hidden>", "cookie": "<hidden>",
            "max_tokens": 100, "tokens": 7, "keyboard": "us", "monkey": "yes", "note": null,
        })
    );
}

#[test]
fn secrets_in_texts_are_hidden_by_their_form() {
    let secrets = Secrets::default();
    for (text, expected) in [
        (
            "the key sk-abcdefghijkl was refused",
            "the key <hidden> was refused",
        ),
        (
            "Authorization: Bearer abc.def",
            "Authorization: <hidden> <hidden>",
        ),
        (
            "GET /x?api_key=abc&page=2",
            "GET /x?api_key=<hidden>&page=2",
        ),
        ("password=hunter2 user=me", "password=<hidden> user=me"),
        ("max_tokens=100", "max_tokens=100"),
        ("postgres://me:pw@host/db", "postgres://<hidden>@host/db"),
        ("a plain text: with a colon", "a plain text: with a colon"),
    ] {
        assert_eq!(secrets.hide_in_text(text), expected);
    }
}

#[test]
fn the_values_of_variables_that_are_named_like_secrets_are_hidden_everywhere() {
    let variables = [
        ("OPENAI_API_KEY", "my-own-secret"),
        ("HOME", "/home/me-and-you"),
        ("A_KEY", "short"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let secrets = Secrets::from_environment(variables);
    let text = "xmy-own-secretx in /home/me-and-you is short";
    assert_eq!(
        secrets.hide_in_text(text),
        "x<hidden>x in /home/me-and-you is short"
    );
    assert_eq!(format!("{secrets:?}"), "Secrets(1 known)");
}

#[test]
fn long_values_are_cut_and_say_so() {
    let caps = Caps {
        characters: 3,
        fields: 2,
        items: 2,
    };
    let value = json!({"a": "äöüß", "b": [1, 2, 3], "c": 1});
    assert_eq!(
        caps.cut(value),
        json!({"a": "äöü… (1 more characters)", "b": [1, 2, "… (1 more items)"], "…": "1 more fields"})
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_a_known_secret_is_never_left(before in "\\PC{0,30}", after in "\\PC{0,30}") {
        let secrets = Secrets::known(["S3CR3T-S3CR3T".to_owned()]);
        let hidden = secrets.hide_in_text(&format!("{before}S3CR3T-S3CR3T{after}"));
        prop_assert!(!hidden.contains("S3CR3T-S3CR3T"));
        let cut = Caps::default().cut(Value::String(hidden));
        prop_assert!(cut.is_string());
    }
}
