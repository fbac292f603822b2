//! Where code runs and tools are called.

use crate::support::{GetSecretTool, python, wait};
use cellblock_agent::{Executor, ExecutorOptions, ForkKind, NoopExecutor, WorkspaceChoice};
use cellblock_protocol::{Cell, Locale, Status};
use cellblock_tools::{Approval, ApprovalMode, ApprovalPolicy, Call, Registry};
use serde_json::json;

fn setting() -> ExecutorOptions {
    ExecutorOptions {
        registry: Registry::builder()
            .built_in()
            .tool(GetSecretTool)
            .build()
            .unwrap(),
        seed: [("readings".to_owned(), json!([1, 2, 3]))]
            .into_iter()
            .collect(),
        approval: Approval::default(),
        locale: Locale::En,
        workspace: WorkspaceChoice::Usual,
        replay: None,
        earlier: None,
    }
}

#[test]
fn a_room_has_its_seed_keeps_its_state_and_starts_no_interpreter_before_the_first_cell() {
    let executor = python().open(setting());
    assert_eq!(wait(executor.session()), None);
    let ran = wait(executor.run(Cell::new("total = sum(readings)"), None));
    assert_eq!(ran.result.unwrap().status, Status::Success);
    let ran = wait(executor.run(Cell::new("print(total, get_secret()[::-1])"), None));
    assert_eq!(ran.result.unwrap().stdout, "6 aQue9ScN\n");
    assert!(wait(executor.session()).is_some());
    assert!(
        wait(executor.variables())
            .iter()
            .any(|variable| variable.name == "total")
    );
    assert_eq!(executor.recording().calls.len(), 1);
}

#[test]
fn a_fork_has_the_variables_and_its_own_future() {
    let executor = python().open(setting());
    wait(executor.run(Cell::new("x = 1"), None));
    let fork = wait(executor.fork(ForkKind::Lasting)).unwrap();
    wait(fork.run(Cell::new("x = 2"), None));
    let ran = wait(executor.run(Cell::new("print(x)"), None));
    assert_eq!(ran.result.as_ref().unwrap().stdout, "1\n", "{ran:?}");
    wait(fork.close());
}

#[test]
fn code_that_needs_approval_is_refused_where_nobody_can_be_asked() {
    let policy = ApprovalPolicy::mode(ApprovalMode::Code);
    let executor = python().open(ExecutorOptions {
        approval: Approval::new(policy, None),
        ..setting()
    });
    let ran = wait(executor.run(Cell::new("1/0"), None));
    assert!(ran.result.is_none());
    assert_eq!(
        ran.text,
        "Tool call failed: `execute_python_code` was not run: it needs a person's approval, and no person can be asked here"
    );
}

#[test]
fn the_executor_of_nothing_calls_tools_and_runs_no_code() {
    let executor = NoopExecutor.open(setting());
    let ran = wait(executor.run(Cell::new("print(1)"), None));
    assert_eq!((ran.text.as_str(), ran.result), ("", None));
    let outcome = wait(executor.call(Call::by_user("get_secret", json!({})), None));
    assert_eq!(outcome.answer.for_model(Locale::En, 100), "NcS9euQa");
    let outcome = wait(executor.call(
        Call::by_user(
            "execute_python_code",
            json!({"python_code_snippet": "print(1)"}),
        ),
        None,
    ));
    assert_eq!(outcome.answer.for_model(Locale::En, 100), "");
}
