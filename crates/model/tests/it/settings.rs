//! The choice of a model: names, keys, URLs, capabilities.

use crate::server::{Answer, Server};
use crate::streaming::question;
use cellblock_model::openai::{ApiKey, EndpointSettings, KeyHeader, OpenAiModel};
use cellblock_model::{
    Capabilities, CapabilityOverrides, Cost, ModelChoice, ModelError, Prices, Usage, complete,
};

fn find(url: &str, named: Option<&str>, variables: &[(&str, &str)]) -> Result<String, String> {
    let key = ApiKey::find(url, named, |name| {
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
    let settings = EndpointSettings::new("http://localhost/v1", "m")
        .with_key(Some(ApiKey::new("sk-secret", "the variable X")));
    let shown = format!("{settings:?}");
    assert!(
        shown.contains("ApiKey(from the variable X)") && !shown.contains("secret"),
        "{shown}"
    );
    let odd = EndpointSettings::new("http://localhost/v1", "m")
        .with_key(Some(ApiKey::new("sk-secret\nx", "the variable X")));
    let error = OpenAiModel::new(odd).err().unwrap().to_string();
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
        let error = OpenAiModel::new(EndpointSettings::new(url, model)).err();
        assert!(
            matches!(error, Some(ModelError::Settings(_))),
            "{url}: {error:?}"
        );
    }
}

#[test]
fn models_are_known_by_their_names_and_others_get_careful_defaults() {
    assert!(Capabilities::of_model("openai/gpt-4o-mini").json_schema);
    assert!(!Capabilities::of_model("qwen2.5-coder:1.5b").tools);
    assert_eq!(
        Capabilities::of_model("my-own-model"),
        Capabilities::default()
    );
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

fn variables<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    |name| {
        let found = set.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    }
}

fn named(model: &str) -> ModelChoice {
    ModelChoice {
        model: Some(model.into()),
        ..ModelChoice::default()
    }
}

#[tokio::test]
async fn a_model_is_chosen_recorded_and_played_back_by_words_alone() {
    let server = Server::start([Answer::text(["4"])]).await;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file.jsonl");
    let url = server.url();
    let environment = [
        ("CELLBLOCK_MODEL", "my-model"),
        ("OPENAI_BASE_URL", url.as_str()),
    ];
    let choice = ModelChoice {
        record: Some(file.clone()),
        record_source: Some("a server of the tests".into()),
        ..ModelChoice::default()
    };
    let choice = choice.or_from_environment(variables(&environment));
    let model = choice.open(variables(&environment)).unwrap();
    complete(&*model, question()).await.unwrap();
    let replay = named(&format!("replay:{}", file.display()));
    let replay = replay.open(variables(&[])).unwrap();
    assert_eq!(replay.name(), "my-model");
    let header = std::fs::read_to_string(&file).unwrap();
    assert!(
        header.contains(r#""source":"a server of the tests""#),
        "{header}"
    );
    assert_eq!(complete(&*replay, question()).await.unwrap().text, "4");
}

#[test]
fn what_a_person_says_comes_before_the_environment() {
    let environment = [("CELLBLOCK_MODEL", "theirs"), ("OPENAI_MODEL", "other")];
    let model = |choice: ModelChoice| choice.or_from_environment(variables(&environment)).model;
    assert_eq!(model(named("mine")), Some("mine".into()));
    assert_eq!(model(ModelChoice::default()), Some("theirs".into()));
}

#[test]
fn the_endpoint_follows_from_the_name_where_none_is_given() {
    let keys = [("OPENAI_API_KEY", "a"), ("DASHSCOPE_API_KEY", "b")];
    let settings = |model: &str| {
        named(model)
            .endpoint_settings(model, variables(&keys))
            .unwrap()
    };
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
    let choice = ModelChoice {
        base_url: Some("https://me.openai.azure.com/openai/v1".into()),
        ..named("gpt-4o")
    };
    let keys = [("AZURE_OPENAI_API_KEY", "a")];
    let settings = choice
        .endpoint_settings("gpt-4o", variables(&keys))
        .unwrap();
    assert_eq!(settings.key_header, KeyHeader::ApiKey);
}

#[test]
fn a_person_knows_better_what_a_model_can_do() {
    let choice = ModelChoice {
        base_url: Some("http://localhost:8080/v1".into()),
        capabilities: CapabilityOverrides {
            tools: Some(false),
            context_tokens: Some(16_384),
            ..CapabilityOverrides::default()
        },
        ..named("gpt-4o")
    };
    let known = choice
        .endpoint_settings("gpt-4o", variables(&[]))
        .unwrap()
        .capabilities;
    assert_eq!(
        (known.tools, known.context_tokens, known.json_schema),
        (false, 16_384, true)
    );
}

#[test]
fn no_model_is_reported() {
    let error = ModelChoice::default().open(variables(&[])).err().unwrap();
    assert_eq!(
        error.to_string(),
        "the settings of the model: no model is chosen: give its name, or set CELLBLOCK_MODEL"
    );
}
