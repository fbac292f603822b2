//! Packages that come to a session while it lives.

use crate::packages::{host, wait, wheel, workbench};
use cellblock::agent::{Agent, Format, executor};
use cellblock::env::Requirements;
use cellblock::model::{Reply, ScriptedModel};
use cellblock::tools::{
    Answer, Approval, ApprovalMode, ApprovalPolicy, Call, InstallPackagesTool, Registry, ToolRunner,
};
use cellblock::{CellResult, Locale, Session, SessionBuilder, SessionOptions, Status};
use serde_json::json;

fn session() -> Session {
    wait(SessionBuilder::new().host(host()).start()).unwrap()
}

fn run(session: &Session, code: &str) -> CellResult {
    wait(session.run(code)).unwrap()
}

fn value(session: &Session, code: &str) -> String {
    let result = run(session, code);
    assert_eq!(result.status, Status::Success, "{result:?}");
    result.value.unwrap().repr
}

fn install(session: &Session, packages: &[&str]) -> Result<String, String> {
    let wanted = Requirements::parse(packages).unwrap();
    let layer = wait(host().packages().install(session, wanted));
    layer
        .map(|layer| layer.to_string())
        .map_err(|error| error.to_string())
}

fn text(answer: &Answer) -> String {
    answer.for_model(Locale::En, 20_000)
}

#[test]
fn a_missing_package_is_installed_and_work_goes_on_with_the_same_variables() {
    let bench = workbench();
    let code = |id: &str, code: &str| {
        let arguments = json!({"python_code_snippet": code, "tool_call_purpose": "work"});
        let answer = wait(bench.call(Call::by_model(id, "execute_python_code", arguments)));
        text(&answer)
    };
    assert!(code("1", "readings = [3, 1, 2]\nimport tiny").contains("No module named 'tiny'"));

    let arguments = json!({"packages": ["tiny"], "tool_call_purpose": "an import failed"});
    let answer = wait(bench.call(Call::by_model("2", "install_packages", arguments)));
    assert_eq!(
        text(&answer),
        "Installed tiny 1.0. All variables are as they were."
    );

    let after = code("3", "import tiny\nprint(sorted(readings), tiny.number)");
    assert!(after.contains("[1, 2, 3] 1"), "{after}");
}

#[test]
fn code_with_a_header_has_what_the_header_names() {
    let bench = workbench();
    let code =
        "# /// script\n# dependencies = ['tiny']\n# ///\nimport tiny\nprint(tiny.number + 5)";
    let arguments = json!({"python_code_snippet": code, "tool_call_purpose": "work"});
    let answer = wait(bench.call(Call::by_model("1", "execute_python_code", arguments)));
    assert!(text(&answer).contains('6'), "{}", text(&answer));
}

#[test]
fn an_agent_that_names_dependencies_has_them_before_its_code_runs() {
    let model = ScriptedModel::new([
        Reply::text(
            "<pip-dependencies-to-install>tiny</pip-dependencies-to-install>\n<execution-code>import tiny\nprint(tiny.number)</execution-code>",
        ),
        Reply::text("It is 1."),
    ]);
    let policy = ApprovalPolicy {
        mode: ApprovalMode::Never,
        ..ApprovalPolicy::default()
    };
    let agent = Agent::builder()
        .model(model)
        .executor(executor(
            host().clone(),
            SessionOptions::default(),
            Vec::new(),
        ))
        .format(Format::Xml)
        .tool(InstallPackagesTool::new(host().packages().clone()))
        .approval(Approval::new(policy, None))
        .build()
        .unwrap();
    let outcome = wait(agent.run("Which number has tiny?")).unwrap();
    assert_eq!(outcome.answer_text(), "It is 1.");
    let cell = outcome.cells().next().unwrap();
    assert_eq!(cell.result.as_ref().unwrap().stdout, "1\n", "{outcome:?}");
}

#[test]
fn nobody_installs_without_being_asked() {
    let registry = Registry::builder()
        .built_in()
        .tool(InstallPackagesTool::new(host().packages().clone()))
        .build()
        .unwrap();
    let bench = ToolRunner::builder(registry)
        .open_sessions(|| Box::pin(async { Ok(host().open(SessionOptions::default()).await?) }))
        .approval(Approval::new(ApprovalPolicy::default(), None))
        .build();
    let arguments = json!({"packages": ["tiny"], "tool_call_purpose": "an import failed"});
    let answer = wait(bench.call(Call::by_model("1", "install_packages", arguments)));
    assert!(answer.outcome.is_err(), "{answer:?}");

    // Nor by way of code.
    let header = "# /// script\n# dependencies = ['tiny']\n# ///\nprint('it ran')";
    for code in [header, "%pip install tiny\nprint('it ran')"] {
        let arguments = json!({"python_code_snippet": code, "tool_call_purpose": "work"});
        let answer = wait(bench.call(Call::by_model("2", "execute_python_code", arguments)));
        assert!(!text(&answer).contains("\nit ran"), "{}", text(&answer));
    }
}

#[test]
fn what_was_added_outlives_a_crash_an_undo_and_goes_into_forks() {
    let session = session();
    run(&session, "x = 41");
    install(&session, &["other", "tiny"]).unwrap();
    assert_eq!(value(&session, "import other; x + other.number"), "43");

    let crashed = run(&session, "import os; os._exit(9)");
    assert_eq!(crashed.status, Status::Crashed);
    assert_eq!(value(&session, "import other; x + other.number"), "43");

    // Back to where nobody had heard of it.
    wait(session.undo(2)).unwrap();
    assert_eq!(value(&session, "'other' in globals()"), "False");
    assert_eq!(value(&session, "import other; x + other.number"), "43");

    let fork = wait(session.fork()).unwrap();
    assert_eq!(value(&fork, "import tiny; tiny.number"), "1");
    run(&fork, "import os; os._exit(9)");
    assert_eq!(value(&fork, "import tiny; tiny.number"), "1");
}

#[test]
fn what_one_session_adds_another_does_not_import() {
    let (one, two) = (session(), session());
    install(&one, &["tiny"]).unwrap();
    assert_eq!(value(&one, "import tiny; tiny.number"), "1");
    let refused = run(&two, "import tiny");
    assert_eq!(refused.error.unwrap().type_, "ModuleNotFoundError");
    // Nobody can change what others use.
    let changed = run(&one, "import tiny; open(tiny.__file__, 'w')");
    assert_eq!(changed.status, Status::Failure);
}

#[test]
fn a_package_cannot_stand_in_the_place_of_the_standard_library() {
    let session = session();
    install(&session, &["json"]).unwrap();
    assert_eq!(
        value(&session, "import json; hasattr(json, 'intruder')"),
        "False"
    );
    assert_eq!(
        value(&session, "import honest; honest.__name__"),
        "'honest'"
    );
}

#[test]
fn another_version_of_what_is_there_is_a_conflict_that_names_both() {
    wheel("moving", "1.0", &[("moving.py", "version = 1")]);
    wheel("moving", "2.0", &[("moving.py", "version = 2")]);
    let session = session();
    install(&session, &["moving==1.0"]).unwrap();
    assert_eq!(value(&session, "import moving; moving.version"), "1");
    let refused = install(&session, &["moving==2.0"]).unwrap_err();
    assert_eq!(
        refused,
        "moving 1.0 is installed already, and moving 2.0 cannot be installed beside it"
    );
    assert_eq!(
        install(&session, &["moving"]).unwrap(),
        "Already there: moving 1.0. All variables are as they were."
    );
    let refused = install(&session, &["moving>=2"]).unwrap_err();
    assert_eq!(
        refused,
        "moving 1.0 is installed already, and moving >=2 cannot be installed beside it"
    );
    assert_eq!(value(&session, "moving.version"), "1");
}

#[test]
fn a_package_that_does_not_exist_is_a_clear_message_and_the_session_goes_on() {
    let session = session();
    run(&session, "x = 1");
    let refused = install(&session, &["no-such-package"]).unwrap_err();
    assert!(refused.contains("no-such-package"), "{refused}");
    assert_eq!(value(&session, "x"), "1");
}

#[test]
fn code_that_asks_for_a_package_has_it_when_the_answer_is_there() {
    let bench = workbench();
    let code = "x = 5\n%pip install tiny\nimport tiny\nprint(x + tiny.number)";
    let arguments = json!({"python_code_snippet": code, "tool_call_purpose": "work"});
    let answer = wait(bench.call(Call::by_model("1", "execute_python_code", arguments)));
    assert!(text(&answer).contains('6'), "{}", text(&answer));
}
