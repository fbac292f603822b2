//! From a question to an answer.

use crate::support::{
    GetSecretTool, ProvideAnswerTool, answers, calls, keeper, runs, scripted, wait,
};
use cellblock_agent::{
    Agent, CancellationToken, Format, NoopExecutor, Prompt, RunEvent, RunStatus,
};
use cellblock_model::{Message, Reply, ScriptedModel};
use cellblock_protocol::Status;
use serde_json::json;

const QUESTION: &str = "What do 15000 become at 6 % compounded semi-annually for 6 years?";
const WRONG: &str = "round(principle * (1 + 0.06 / 2) ** (2 * 6), 2)";
const RIGHT: &str = "principal = 15000\nprint(round(principal * (1 + 0.06 / 2) ** (2 * 6), 2))";

#[test]
fn in_every_format_code_fails_is_fixed_and_gives_the_answer() {
    for format in Format::ALL {
        let replies = [
            runs(format, WRONG),
            runs(format, RIGHT),
            answers(format, "21386.41"),
        ];
        let model = std::sync::Arc::new(ScriptedModel::new(replies));
        let agent = Agent::builder()
            .shared_model(model.clone())
            .executor(crate::support::python())
            .format(format)
            .build()
            .unwrap();
        let outcome = wait(agent.run(QUESTION)).unwrap();
        assert_eq!(
            (outcome.status, outcome.answer),
            (RunStatus::Answered, Some(json!("21386.41"))),
            "{format}"
        );
        let cells: Vec<(Status, String)> = outcome
            .steps
            .iter()
            .flat_map(|step| &step.actions)
            .map(|done| {
                done.result
                    .as_ref()
                    .map(|result| (result.status, result.stdout.clone()))
                    .unwrap()
            })
            .collect();
        assert_eq!(
            cells,
            [
                (Status::Failure, String::new()),
                (Status::Success, "21386.41\n".to_owned())
            ],
            "{format}"
        );
        let requests = model.requests();
        let read = |request: usize| requests[request].messages.last().unwrap().text();
        assert!(
            read(1).contains("NameError: name 'principle' is not defined"),
            "{format}: {}",
            read(1)
        );
        assert!(
            read(2).contains("## Code execution succeeded") && read(2).contains("21386.41"),
            "{format}: {}",
            read(2)
        );
        assert!(outcome.warnings.is_empty() && outcome.session.is_some());
    }
}

#[test]
fn the_answer_comes_from_the_run_and_not_from_the_tape() {
    let code = "secret = get_secret()\nprovide_answer(secret[::-1])";
    for format in Format::ALL {
        let replies = || [runs(format, code), answers(format, "done")];
        let given = ProvideAnswerTool::default();
        let builder = |given: &ProvideAnswerTool| {
            scripted(replies())
                .format(format)
                .tool(GetSecretTool)
                .tool(given.clone())
        };
        wait(builder(&given).build().unwrap().run("Reverse the secret.")).unwrap();
        assert_eq!(*given.0.lock().unwrap(), ["aQue9ScN"], "{format}");

        let nothing = ProvideAnswerTool::default();
        let outcome = wait(
            builder(&nothing)
                .executor(NoopExecutor)
                .build()
                .unwrap()
                .run("Reverse the secret."),
        )
        .unwrap();
        assert_eq!(outcome.status, RunStatus::Answered);
        assert!(nothing.0.lock().unwrap().is_empty(), "{format}");
    }
}

#[test]
fn a_run_that_executes_no_code_starts_no_interpreter_and_says_that_nothing_was_computed() {
    let outcome = wait(scripted([Reply::text("4")]).build().unwrap().run("2 + 2?")).unwrap();
    assert_eq!(
        (outcome.status, outcome.session.clone(), outcome.steps.len()),
        (RunStatus::Answered, None, 0)
    );
    assert_eq!(
        outcome.warnings,
        ["the model answered without running code or calling a tool: nothing was computed"]
    );
}

#[test]
fn an_answer_after_code_that_failed_does_not_say_that_no_code_ran() {
    let agent = scripted([runs(Format::Markdown, "1 / 0"), Reply::text("7")])
        .format(Format::Markdown)
        .build()
        .unwrap();
    let outcome = wait(agent.run("?")).unwrap();
    assert_eq!(outcome.status, RunStatus::Answered);
    assert_eq!(
        outcome.warnings,
        [
            "the model answered although all code that it ran and every tool that it called failed: the answer is not computed"
        ]
    );
}

#[test]
fn several_blocks_run_in_order_and_the_rest_stops_after_a_failure() {
    let reply = Reply::text("```python\nx = 1\n```\n```python\n1 / 0\n```\n```python\nx = 99\n```");
    let agent = scripted([reply, runs(Format::Markdown, "print(x)"), Reply::text("1")])
        .format(Format::Markdown)
        .build()
        .unwrap();
    let outcome = wait(agent.run("?")).unwrap();
    let actions = &outcome.steps[0].actions;
    assert_eq!(
        actions.iter().map(|done| done.ok).collect::<Vec<_>>(),
        [true, false, false]
    );
    assert_eq!(
        actions[2].text,
        "(not run, because the code before it failed)"
    );
    assert_eq!(
        outcome.steps[1].actions[0].result.as_ref().unwrap().stdout,
        "1\n"
    );
}

#[test]
fn the_dependency_tag_is_answered_with_what_is_there() {
    let text = "<pip-dependencies-to-install>NumPy>=1.0, nothing-like-it</pip-dependencies-to-install>\n<execution-code>\nprint(1)\n</execution-code>";
    let executor = crate::support::python().dependencies(["numpy".to_owned()]);
    let agent = scripted([Reply::text(text), Reply::text("1")])
        .executor(executor)
        .format(Format::Xml)
        .build()
        .unwrap();
    let outcome = wait(agent.run("?")).unwrap();
    assert_eq!(
        outcome.steps[0].actions[0].text,
        "Packages that are there: NumPy>=1.0. Not there: nothing-like-it. Nothing can be installed in this session; go on without what is missing."
    );
    assert!(outcome.steps[0].actions[1].ok);
}

#[test]
fn a_conversation_keeps_its_session_and_its_history() {
    let replies = [
        runs(Format::Tools, "x = 41"),
        Reply::text("kept"),
        runs(Format::Tools, "print(x + 1)"),
        Reply::text("42"),
    ];
    let model = std::sync::Arc::new(ScriptedModel::new(replies));
    let agent = Agent::builder()
        .shared_model(model.clone())
        .executor(crate::support::python())
        .build()
        .unwrap();
    let mut conversation = agent.conversation();
    let (observer, _) = keeper();
    let token = CancellationToken::new;
    wait(conversation.ask("Keep 41.", observer.clone(), token())).unwrap();
    let outcome = wait(conversation.ask("One more?", observer, token())).unwrap();
    assert_eq!(
        outcome.steps[0].actions[0].result.as_ref().unwrap().stdout,
        "42\n"
    );
    let last = &model.requests()[3].messages;
    let roles: Vec<&str> = last
        .iter()
        .map(|message| match message {
            Message::System { .. } => "system",
            Message::User { .. } => "user",
            Message::Assistant(_) => "assistant",
            _ => "tool",
        })
        .collect();
    assert_eq!(
        roles,
        [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
            "assistant",
            "tool"
        ]
    );
    wait(conversation.executor().close());
}

#[test]
fn two_runs_share_nothing() {
    let agent = scripted([
        runs(Format::Tools, "x = 1"),
        Reply::text("a"),
        runs(Format::Tools, "print('x' in globals())"),
        Reply::text("b"),
    ])
    .build()
    .unwrap();
    wait(agent.run("first")).unwrap();
    let outcome = wait(agent.run("second")).unwrap();
    assert_eq!(
        outcome.steps[0].actions[0].result.as_ref().unwrap().stdout,
        "False\n"
    );
}

#[test]
fn everything_that_happens_is_told_as_it_happens() {
    let replies = [
        calls(
            "recursive_plan_tree_todo",
            json!({"tool_call_purpose": "plan", "recursive_plan_tree": {"core_goal": "g", "tree_nodes": [{"task_name": "a"}], "next_action": {}}}),
        ),
        Reply {
            text: "I print.".to_owned(),
            ..runs(Format::Tools, "print('hello')")
        },
        Reply::text("hello"),
    ];
    let (observer, kept) = keeper();
    let agent = scripted(replies)
        .prompt(Prompt::DeepResearch)
        .build()
        .unwrap();
    wait(agent.run_observed("?", observer, CancellationToken::new())).unwrap();
    let mut names: Vec<String> = kept
        .lock()
        .unwrap()
        .iter()
        .map(|event| {
            serde_json::to_value(event).unwrap()["event"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    names.dedup();
    assert_eq!(
        names,
        [
            "begun",
            "asked",
            "replied",
            "spent",
            "thought",
            "call",
            "plan",
            "recorded",
            "done",
            "asked",
            "thought_part",
            "code_part",
            "replied",
            "spent",
            "thought",
            "code",
            "cell",
            "done",
            "asked",
            "thought_part",
            "replied",
            "spent",
            "answer",
            "finished"
        ]
    );
    let events = kept.lock().unwrap();
    let output = events.iter().find_map(|event| match event {
        RunEvent::Cell {
            event: cellblock_protocol::Event::Stdout { text },
        } => Some(text.clone()),
        _ => None,
    });
    assert_eq!(output.as_deref(), Some("hello\n"));
}

#[test]
fn fifty_runs_at_once_keep_apart() {
    let agents: Vec<Agent> = (0..50)
        .map(|index| {
            let replies = [
                runs(Format::Markdown, &format!("x = {index}")),
                runs(Format::Markdown, "print(x)"),
                Reply::text("done"),
            ];
            scripted(replies).format(Format::Markdown).build().unwrap()
        })
        .collect();
    let outcomes = wait(futures_util::future::join_all(
        agents.iter().map(|agent| agent.run("?")),
    ));
    let printed: Vec<String> = outcomes
        .into_iter()
        .map(|outcome| {
            outcome.unwrap().steps[1].actions[0]
                .result
                .as_ref()
                .unwrap()
                .stdout
                .clone()
        })
        .collect();
    let expected: Vec<String> = (0..50).map(|index| format!("{index}\n")).collect();
    assert_eq!(printed, expected);
}
