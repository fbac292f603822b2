//! The words for the model.

use crate::support::{answers, facts, wait};
use cellblock_agent::{Agent, Format, NoopExecutor, Prompt, PromptPart};
use cellblock_model::{ScriptedModel, estimate_request};
use cellblock_protocol::Locale;
use cellblock_session::Session;
use cellblock_tools::{InstallFuture, InstallPackagesTool, PackageInstaller, ToolError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Installs nothing. The command line offers the tool in every run, so a bare run has it.
struct NoInstaller;

impl PackageInstaller for NoInstaller {
    fn install<'a>(&'a self, _: &'a Session, _: Vec<String>) -> InstallFuture<'a> {
        Box::pin(async { Err(ToolError::new("nothing is installed here")) })
    }
}

fn placeholders(text: &str) -> Vec<&str> {
    text.split("{{")
        .skip(1)
        .map(|rest| rest.split("}}").next().unwrap())
        .collect()
}

#[test]
fn every_part_is_there_in_both_languages_with_the_same_blanks() {
    for part in PromptPart::ALL {
        let (english, chinese) = (part.text(Locale::En), part.text(Locale::Zh));
        assert!(
            part.version(Locale::En) >= 1 && part.version(Locale::Zh) >= 1,
            "{part:?}"
        );
        assert!(english.is_ascii(), "{part:?}");
        assert!(
            chinese
                .chars()
                .filter(|c| ('\u{4e00}'..'\u{9fff}').contains(c))
                .count()
                > 15,
            "{part:?}"
        );
        assert_eq!(placeholders(english), placeholders(chinese), "{part:?}");
    }
}

#[test]
fn blanks_are_filled_once_and_what_fills_them_is_not_searched() {
    let text = PromptPart::Workspace.fill(
        Locale::En,
        &BTreeMap::from([("workspace", "{{dependencies}}"), ("dependencies", "numpy")]),
    );
    assert!(
        text.starts_with("The working directory of the code is {{dependencies}}:"),
        "{text}"
    );
    assert!(
        text.contains("beside the standard library: numpy."),
        "{text}"
    );
}

#[test]
fn every_format_explains_itself_in_both_languages() {
    for format in Format::ALL {
        for locale in [Locale::En, Locale::Zh] {
            let facts = cellblock_agent::FormatContext { locale, ..facts() };
            let text = format.implementation().instructions(&facts);
            assert!(text.len() > 100 && !text.contains("{{"), "{format}: {text}");
        }
    }
}

#[test]
fn what_the_formats_show_as_an_example_they_can_read() {
    for (format, part) in [Format::Json, Format::Xml, Format::Markdown]
        .map(|format| (format, PromptPart::Format(format)))
    {
        for locale in [Locale::En, Locale::Zh] {
            let example: String = match format {
                Format::Json => part
                    .text(locale)
                    .lines()
                    .find(|line| line.starts_with('{'))
                    .unwrap()
                    .to_owned(),
                _ => part.text(locale).to_owned(),
            };
            let turn = format
                .implementation()
                .parse(&cellblock_model::Reply::text(example), &facts())
                .unwrap();
            assert!(
                turn.actions
                    .contains(&cellblock_agent::Action::Code("print(1)".to_owned())),
                "{format}: {turn:?}"
            );
            assert!(turn.repairs.is_empty());
        }
    }
}

/// The prompt of a bare run and its tools, in estimated tokens. The estimate is rather too high than too low.
fn bare_tokens(format: Format, locale: Locale) -> u64 {
    let model = Arc::new(ScriptedModel::new([answers(format, "It is 42.")]));
    let agent = Agent::builder()
        .shared_model(model.clone())
        .executor(NoopExecutor)
        .tool(InstallPackagesTool::new(NoInstaller))
        .format(format)
        .locale(locale)
        .build()
        .unwrap();
    wait(agent.run("?")).unwrap();
    let requests = model.requests();
    estimate_request(requests.first().unwrap())
}

#[test]
fn the_prompt_of_a_bare_run_is_small() {
    let mut wrong = Vec::new();
    for locale in [Locale::En, Locale::Zh] {
        for (format, bound) in [
            (Format::Markdown, 650),
            (Format::Xml, 700),
            (Format::Json, 750),
            (Format::Tools, 1500),
            (Format::NextStep, 1500),
        ] {
            let tokens = bare_tokens(format, locale);
            if tokens > bound {
                wrong.push(format!("{format} in {locale:?}: {tokens} of {bound}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_plan_tree_is_offered_where_the_prompt_speaks_of_it() {
    let offers_plan = |prompt: Prompt| {
        let agent = Agent::builder()
            .model(ScriptedModel::new([]))
            .executor(NoopExecutor)
            .prompt(prompt)
            .build()
            .unwrap();
        agent.registry().get("recursive_plan_tree_todo").is_some()
    };
    let custom = Prompt::Custom("Plan with recursive_plan_tree_todo.".to_owned());
    assert!(offers_plan(Prompt::DeepResearch) && offers_plan(custom));
    assert!(!offers_plan(Prompt::Minimal) && !offers_plan(Prompt::Custom("Add.".to_owned())));
}

#[test]
fn prompts_are_named() {
    assert_eq!("deep-research".parse(), Ok(Prompt::DeepResearch));
    assert_eq!(
        "long".parse::<Prompt>().unwrap_err().to_string(),
        "there is no prompt \"long\"; the prompts are minimal and deep-research"
    );
    assert!(
        PromptPart::DeepResearch
            .text(Locale::En)
            .contains("recursive_plan_tree_todo")
    );
}

#[test]
fn functions_are_shown_with_types_defaults_and_their_whole_description() {
    let text = Format::Markdown.implementation().instructions(&facts());
    let signature = "def file_reader(file_path: str, encoding: str = \"utf-8\", max_size_mb: float = 1.0) -> str:";
    assert!(text.contains(signature), "{text}");
    // The second line of the description too.
    assert!(
        text.contains("its number of lines and bytes is told instead"),
        "{text}"
    );
}
