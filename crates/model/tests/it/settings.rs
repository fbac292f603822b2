//! Keys, addresses, and what is known of models.

use cellblock_model::openai::{Key, OpenAi, Settings};
use cellblock_model::{Capabilities, Cost, ModelError, Prices, Usage};

fn find(url: &str, named: Option<&str>, variables: &[(&str, &str)]) -> Result<String, String> {
    let key = Key::find(url, named, |name| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    });
    match key {
        Ok(Some(key)) => Ok(key.source().to_owned()),
        Ok(None) => Ok("none needed".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn a_key_is_looked_for_where_its_provider_expects_it() {
    let both = [("OPENAI_API_KEY", "a"), ("DASHSCOPE_API_KEY", "b")];
    let openai = "https://api.openai.com/v1";
    let dashscope = "https://dashscope.aliyuncs.com/compatible-mode/v1";
    assert_eq!(
        find(openai, None, &both).unwrap(),
        "the variable OPENAI_API_KEY"
    );
    assert_eq!(
        find(dashscope, None, &both).unwrap(),
        "the variable DASHSCOPE_API_KEY"
    );
    assert_eq!(
        find(openai, Some("MINE"), &[("MINE", "c")]).unwrap(),
        "the variable MINE"
    );
    assert_eq!(
        find("http://localhost:11434/v1", None, &[]).unwrap(),
        "none needed"
    );
    assert_eq!(
        find("http://[::1]:8080/v1", None, &[]).unwrap(),
        "none needed"
    );
}

#[test]
fn a_missing_key_is_told_with_what_was_looked_at() {
    let empty = [("OPENAI_API_KEY", " ")];
    assert_eq!(
        find("https://user:pass@api.openai.com/v1?key=x", None, &empty).unwrap_err(),
        "there is no key for https://api.openai.com/v1: set the environment variable CELLBLOCK_API_KEY or OPENAI_API_KEY"
    );
    assert_eq!(
        find("http://localhost/v1", Some("MINE"), &[]).unwrap_err(),
        "there is no key for http://localhost/v1: set the environment variable MINE"
    );
}

#[test]
fn a_key_is_not_shown() {
    let settings = Settings::new("http://localhost/v1", "m")
        .with_key(Some(Key::new("sk-secret", "the variable X")));
    let shown = format!("{settings:?}");
    assert!(
        shown.contains("Key(from the variable X)") && !shown.contains("secret"),
        "{shown}"
    );
    let odd = Settings::new("http://localhost/v1", "m")
        .with_key(Some(Key::new("sk-secret\nx", "the variable X")));
    let error = OpenAi::new(odd).err().unwrap().to_string();
    assert!(
        error.contains("line break") && !error.contains("secret"),
        "{error}"
    );
}

#[test]
fn an_address_that_is_none_is_told_at_once() {
    for (url, model) in [
        ("localhost:8080/v1", "m"),
        ("", "m"),
        ("ftp://x/v1", "m"),
        ("http://x/v1", " "),
    ] {
        let error = OpenAi::new(Settings::new(url, model)).err();
        assert!(
            matches!(error, Some(ModelError::Settings(_))),
            "{url}: {error:?}"
        );
    }
}

#[test]
fn models_are_known_by_their_names_and_others_get_careful_defaults() {
    assert!(Capabilities::of("openai/gpt-4o-mini").json_schema);
    assert!(!Capabilities::of("qwen2.5-coder:1.5b").tools);
    assert_eq!(Capabilities::of("my-own-model"), Capabilities::default());
}

#[test]
fn tokens_have_their_price() {
    let prices = Prices {
        input: 2.0,
        cached_input: Some(0.5),
        output: 8.0,
    };
    let mut usage = Usage {
        input_tokens: 1_000_000,
        cached_input_tokens: 400_000,
        output_tokens: 0,
        ..Usage::default()
    };
    usage += Usage {
        output_tokens: 250_000,
        ..Usage::default()
    };
    assert_eq!(prices.cost(&usage), Cost(1.2 + 0.2 + 2.0));
}
