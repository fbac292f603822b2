//! Where code runs and tools are called.

use crate::support::{GetSecretTool, python, wait};
use cellblock::{Cell, Locale, Status};
use cellblock_agent::{Executor, ForkKind, NothingExecutor, Setting};
use cellblock_tools::{Approval, ApprovalMode, ApprovalPolicy, Call, Registry};
use serde_json::json;

fn setting() -> Setting {
    Setting {
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
        fresh_workspace: false,
        replay: None,
        earlier: None,
    }
}

#[test]
fn a_room_has_its_seed_keeps_its_state_and_starts_no_interpreter_before_the_first_cell() {
    let room = python().open(setting());
    assert_eq!(wait(room.session()), None);
    let ran = wait(room.run(Cell::new("total = sum(readings)"), None));
    assert_eq!(ran.result.unwrap().status, Status::Success);
    let ran = wait(room.run(Cell::new("print(total, get_secret()[::-1])"), None));
    assert_eq!(ran.result.unwrap().stdout, "6 aQue9ScN\n");
    assert!(wait(room.session()).is_some());
    assert!(
        wait(room.variables())
            .iter()
            .any(|variable| variable.name == "total")
    );
    assert_eq!(room.recording().calls.len(), 1);
}

#[test]
fn a_fork_has_the_variables_and_its_own_future() {
    let room = python().open(setting());
    wait(room.run(Cell::new("x = 1"), None));
    let fork = wait(room.fork(ForkKind::Lasting)).unwrap();
    wait(fork.run(Cell::new("x = 2"), None));
    let ran = wait(room.run(Cell::new("print(x)"), None));
    assert_eq!(ran.result.as_ref().unwrap().stdout, "1\n", "{ran:?}");
    wait(fork.close());
}

#[test]
fn code_that_needs_approval_is_refused_where_nobody_can_be_asked() {
    let policy = ApprovalPolicy::mode(ApprovalMode::Code);
    let room = python().open(Setting {
        approval: Approval::new(policy, None),
        ..setting()
    });
    let ran = wait(room.run(Cell::new("1/0"), None));
    assert!(ran.result.is_none());
    assert_eq!(
        ran.text,
        "Tool call failed: `execute_python_code` was not run: it needs a person's approval, and there is nobody to ask here"
    );
}

#[test]
fn the_executor_of_nothing_calls_tools_and_runs_no_code() {
    let room = NothingExecutor.open(setting());
    let ran = wait(room.run(Cell::new("print(1)"), None));
    assert_eq!((ran.text.as_str(), ran.result), ("", None));
    let answer = wait(room.call(Call::by_user("get_secret", json!({})), None));
    assert_eq!(answer.for_model(Locale::En, 100), "NcS9euQa");
    let answer = wait(room.call(
        Call::by_user(
            "execute_python_code",
            json!({"python_code_snippet": "print(1)"}),
        ),
        None,
    ));
    assert_eq!(answer.for_model(Locale::En, 100), "");
}
