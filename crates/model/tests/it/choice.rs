//! Models by the words of a person.

use crate::server::{Answer, Server};
use crate::streaming::question;
use cellblock_model::openai::KeyHeader;
use cellblock_model::{Choice, Overrides, complete};

fn variables<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    |name| {
        let found = set.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    }
}

fn named(model: &str) -> Choice {
    Choice {
        model: Some(model.into()),
        ..Choice::default()
    }
}

#[tokio::test]
async fn a_model_is_chosen_recorded_and_played_back_by_words_alone() {
    let server = Server::start([Answer::text(["4"])]).await;
    let place = tempfile::tempdir().unwrap();
    let tape = place.path().join("tape.jsonl");
    let url = server.url();
    let environment = [
        ("CELLBLOCK_MODEL", "my-model"),
        ("OPENAI_BASE_URL", url.as_str()),
    ];
    let choice = Choice {
        record: Some(tape.clone()),
        record_source: Some("a server of the tests".into()),
        ..Choice::default()
    };
    let choice = choice.or_from(variables(&environment));
    let model = choice.open(variables(&environment)).unwrap();
    complete(&*model, question()).await.unwrap();
    let replay = named(&format!("replay:{}", tape.display()));
    let replay = replay.open(variables(&[])).unwrap();
    assert_eq!(replay.name(), "my-model");
    let header = std::fs::read_to_string(&tape).unwrap();
    assert!(
        header.contains(r#""source":"a server of the tests""#),
        "{header}"
    );
    assert_eq!(complete(&*replay, question()).await.unwrap().text, "4");
}

#[test]
fn what_a_person_says_comes_before_the_environment() {
    let environment = [("CELLBLOCK_MODEL", "theirs"), ("OPENAI_MODEL", "other")];
    let model = |choice: Choice| choice.or_from(variables(&environment)).model;
    assert_eq!(model(named("mine")), Some("mine".into()));
    assert_eq!(model(Choice::default()), Some("theirs".into()));
}

#[test]
fn the_endpoint_follows_from_the_name_where_none_is_given() {
    let keys = [("OPENAI_API_KEY", "a"), ("DASHSCOPE_API_KEY", "b")];
    let settings = |model: &str| named(model).settings(model, variables(&keys)).unwrap();
    assert_eq!(settings("gpt-4o").base_url, "https://api.openai.com/v1");
    let qwen = settings("qwen-plus");
    assert_eq!(
        qwen.base_url,
        "https://dashscope.aliyuncs.com/compatible-mode/v1"
    );
    assert_eq!(qwen.key.unwrap().source(), "the variable DASHSCOPE_API_KEY");
}

#[test]
fn azure_gets_its_own_header() {
    let choice = Choice {
        base_url: Some("https://me.openai.azure.com/openai/v1".into()),
        ..named("gpt-4o")
    };
    let keys = [("AZURE_OPENAI_API_KEY", "a")];
    let settings = choice.settings("gpt-4o", variables(&keys)).unwrap();
    assert_eq!(settings.key_header, KeyHeader::ApiKey);
}

#[test]
fn a_person_knows_better_what_a_model_can_do() {
    let choice = Choice {
        base_url: Some("http://localhost:8080/v1".into()),
        capabilities: Overrides {
            tools: Some(false),
            context_tokens: Some(16_384),
            ..Overrides::default()
        },
        ..named("gpt-4o")
    };
    let known = choice
        .settings("gpt-4o", variables(&[]))
        .unwrap()
        .capabilities;
    assert_eq!(
        (known.tools, known.context_tokens, known.json_schema),
        (false, 16_384, true)
    );
}

#[test]
fn no_model_is_told() {
    let error = Choice::default().open(variables(&[])).err().unwrap();
    assert_eq!(
        error.to_string(),
        "the settings of the model: no model is chosen: give its name, or set CELLBLOCK_MODEL"
    );
}
