//! P1 to P6: the plan tree.

use crate::support::{failure, runner, text, wait};
use cellblock_protocol::Locale;
use cellblock_tools::plan::{PlanHistory, PlanTree};
use cellblock_tools::{
    Call, OnToolEvent, RecursivePlanTreeTodoTool, Registry, ToolEvent, ToolRunner,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const NAME: &str = "recursive_plan_tree_todo";

fn tree(nodes: Value) -> Value {
    json!({"recursive_plan_tree": {"core_goal": "find out", "tree_nodes": nodes}})
}

fn plan() -> ToolRunner {
    runner(RecursivePlanTreeTodoTool)
}

fn update(runner: &ToolRunner, nodes: Value) -> String {
    text(runner, NAME, tree(nodes))
}

/// The lines between `Changes:` and `Plan:`.
fn changes(runner: &ToolRunner, nodes: Value) -> String {
    let text = update(runner, nodes);
    let rest = text
        .strip_prefix("Changes:\n")
        .unwrap_or_else(|| panic!("{text}"));
    rest.split("\nPlan:").next().unwrap().to_owned()
}

#[test]
fn p3_p4_the_first_plan_is_created_and_shown_whole() {
    let text = update(
        &plan(),
        json!([
            {"task_id": "T1", "task_name": "collect", "description": "the data", "status": "completed", "output": "3 files", "children": [
                {"task_id": "T2", "task_name": "clean", "status": "failed", "output": "bad\n rows"},
                {"task_id": "T3", "task_name": "merge", "status": "processing", "children": []},
            ]},
            {"task_id": "T4", "task_name": "draw", "dependencies": ["collect"]},
            {"task_id": "T5", "task_name": "write", "status": "retry", "dependencies": ["draw"]},
            {"task_id": "T6", "task_name": "print", "status": "skipped"},
        ]),
    );
    assert_eq!(
        text,
        "Changes:
✅ Plan created
Plan:
- [✅] **collect** (ID: T1)
  > Description: the data
  > Result: 3 files
  - [❌] **clean** (ID: T2) | Status: failed
    > Result: bad rows
  - [➡️] **merge** (ID: T3)
- [⏳] **draw** (ID: T4)
- [♻️] **write** (ID: T5) | Status: retry
- [⏭️] **print** (ID: T6) | Status: skipped
Statistics:
{\"pending\":1,\"processing\":1,\"completed\":1,\"failed\":1,\"retry\":1,\"skipped\":1,\"__total\":6,\"__completion_rate\":0.17,\"__pending_rate\":0.17}
Ready:
draw"
    );
}

#[test]
fn p3_each_kind_of_change_has_its_line() {
    let plan = plan();
    let first = json!([
        {"task_id": "A", "task_name": "a", "children": [{"task_id": "B", "task_name": "b"}]},
        {"task_id": "C", "task_name": "c"},
        {"task_id": "D", "task_name": "d"},
    ]);
    assert_eq!(changes(&plan, first.clone()), "✅ Plan created");
    assert_eq!(changes(&plan, first), "ℹ️ No change");
    let second = json!([
        {"task_id": "A", "task_name": "a", "status": "completed", "output": "done", "description": "x"},
        {"task_id": "B", "task_name": "b", "dependencies": ["a"], "children": [{"task_id": "C", "task_name": "c"}]},
        {"task_name": "e"},
        {"task_name": "f"},
    ]);
    assert_eq!(
        changes(&plan, second),
        "🆕 New tasks: e, f
🗑️ Deleted tasks: d
🔄 Status: a (waiting → succeeded)
📂 Moved: b (parent: a → root)
📂 Moved: c (parent: root → b)
✏️ Edited: a (description, output)
✏️ Edited: b (dependencies)"
    );
}

#[test]
fn p3_the_same_in_chinese() {
    let registry = Registry::builder()
        .tool(RecursivePlanTreeTodoTool)
        .build()
        .unwrap();
    let plan = ToolRunner::builder(registry).locale(Locale::Zh).build();
    assert_eq!(
        update(&plan, json!([{"task_id": "A", "task_name": "a", "description": "x", "output": "y", "status": "failed", "children": [{"task_id": "B", "task_name": "b"}]}])),
        "变更总结：
✅ 首次创建计划树
Markdown清单：
- [❌] **a**（ID：A） | 状态：执行失败
  > 说明：x
  > 结果：y
  - [⏳] **b**（ID：B）
status_statistics:
{\"pending\":1,\"processing\":0,\"completed\":0,\"failed\":1,\"retry\":0,\"skipped\":0,\"__total\":2,\"__completion_rate\":0.0,\"__pending_rate\":0.5}
可执行任务：
b"
    );
    let text = update(
        &plan,
        json!([{"task_id": "B", "task_name": "b", "status": "skipped", "output": "z"}, {"task_id": "N", "task_name": "n"}]),
    );
    let lines: Vec<&str> = text.lines().take(7).collect();
    assert_eq!(
        lines,
        [
            "变更总结：",
            "🆕 新增任务：n",
            "🗑️ 删除任务：a",
            "🔄 状态变更：b（待执行 → 已跳过）",
            "📂 层级调整：b（父任务：a → 根节点）",
            "✏️ 内容变更：b（output）",
            "Markdown清单：",
        ]
    );
    let again = update(
        &plan,
        json!([{"task_id": "B", "task_name": "b", "status": "skipped", "output": "z"}, {"task_id": "N", "task_name": "n"}]),
    );
    assert!(again.contains("\nℹ️ 计划树无明显变更\n"));
}

#[test]
fn p3_a_task_without_an_id_is_the_one_of_that_name() {
    let plan = plan();
    let text = update(&plan, json!([{"task_name": "a"}, {"task_name": "b"}]));
    let id = text
        .split("**a** (ID: ")
        .nth(1)
        .unwrap()
        .split(')')
        .next()
        .unwrap();
    let uuid = id.strip_prefix("TASK-").unwrap();
    assert_eq!((uuid.len(), uuid.matches('-').count()), (36, 4));
    assert_eq!(
        changes(
            &plan,
            json!([{"task_name": "b"}, {"task_name": "a", "status": "processing"}])
        ),
        "🔄 Status: a (waiting → running)"
    );
    // Renamed with its id; a new task takes the old name and is not taken for it.
    assert_eq!(
        changes(
            &plan,
            json!([{"task_name": "a"}, {"task_name": "b"}, {"task_id": id, "task_name": "z", "status": "processing"}])
        ),
        "🆕 New tasks: a\n✏️ Edited: z (task_name)"
    );
    assert_eq!(
        changes(
            &plan,
            json!([{"task_name": "a"}, {"task_name": "b"}, {"task_name": "z", "status": "processing"}])
        ),
        "ℹ️ No change"
    );
}

#[test]
fn p1_only_the_goal_and_names_are_required_and_unknown_keys_on_nodes_are_tolerated() {
    let plan = plan();
    assert_eq!(
        text(
            &plan,
            NAME,
            json!({"recursive_plan_tree": {"core_goal": "g"}})
        ),
        "Changes:\n✅ Plan created\nPlan:\nStatistics:\n{\"pending\":0,\"processing\":0,\"completed\":0,\"failed\":0,\"retry\":0,\"skipped\":0,\"__total\":0,\"__completion_rate\":0.0,\"__pending_rate\":0.0}\nReady:"
    );
    assert!(
        update(
            &plan,
            json!([{"task_name": "a", "mood": "good", "children": [{"task_name": "b", "x": 1}]}])
        )
        .contains("**b**")
    );
    assert_eq!(
        failure(
            &plan,
            json!({"recursive_plan_tree": {"tree_nodes": [{"status": "lost"}]}})
        ),
        "the arguments of `recursive_plan_tree_todo` do not fit: missing field `recursive_plan_tree.core_goal`: expected a text; \
         missing field `recursive_plan_tree.tree_nodes[0].task_name`: expected a text; \
         `recursive_plan_tree.tree_nodes[0].status`: expected one of \"pending\", \"processing\", \"completed\", \"failed\", \"retry\", \"skipped\", got \"lost\""
    );
    // A list in a text is a list all the same.
    let twice = json!({"recursive_plan_tree": "{\"core_goal\": \"g\", \"tree_nodes\": [{\"task_name\": \"q\"}]}"});
    assert!(text(&plan, NAME, twice).contains("**q**"));
}

#[test]
fn p1_an_empty_list_of_children_is_none() {
    let tree: PlanTree = serde_json::from_value(
        json!({"core_goal": "g", "tree_nodes": [{"task_name": "a", "children": []}]}),
    )
    .unwrap();
    assert_eq!(tree.tree_nodes[0].children, None);
}

#[test]
fn p5_what_cannot_be_is_refused_and_the_plan_stays() {
    let plan = plan();
    update(&plan, json!([{"task_name": "a"}]));
    for (nodes, message) in [
        (
            json!([{"task_name": "a"}, {"task_name": "b", "children": [{"task_name": "a"}]}]),
            "two tasks are called \"a\"; give each its own `task_name`",
        ),
        (
            json!([{"task_id": "X", "task_name": "a"}, {"task_id": "X", "task_name": "b"}]),
            "two tasks have the `task_id` \"X\": \"a\" and \"b\"",
        ),
        (
            json!([{"task_name": "a", "dependencies": ["nobody"]}]),
            "the task \"a\" depends on \"nobody\", and there is no task of that name",
        ),
        (
            json!([{"task_name": "a", "dependencies": ["a"]}]),
            "the dependencies form a circle: \"a\" → \"a\"",
        ),
        (
            json!([{"task_name": "a", "dependencies": ["b"]}, {"task_name": "b", "dependencies": ["c"]}, {"task_name": "c", "dependencies": ["b"]}]),
            "the dependencies form a circle: \"b\" → \"c\" → \"b\"",
        ),
        (
            json!([{"task_name": " "}]),
            "a task has an empty `task_name`",
        ),
    ] {
        assert_eq!(failure(&plan, tree(nodes)), message);
    }
    assert_eq!(changes(&plan, json!([{"task_name": "a"}])), "ℹ️ No change");
}

#[test]
fn p4_the_text_is_never_longer_than_eight_thousand_characters() {
    let wide = |prefix: &str| -> Value {
        let node = |n: usize| json!({"task_name": format!("{prefix}{n:->500}"), "description": "d".repeat(1000)});
        (0..10_000).map(node).collect()
    };
    let plan = plan();
    for (nodes, counted) in [
        (wide("x"), "Plan created"),
        (wide("y"), "🗑️ Deleted tasks: x"),
        (wide("y"), "No change"),
    ] {
        let text = update(&plan, nodes);
        assert!(text.chars().count() <= 8_000, "{}", text.chars().count());
        for part in [
            counted,
            "… and ",
            "more\nStatistics:",
            "\"__total\":10000",
            "Ready:",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let edited: Value = (0..10_000)
        .map(|n| json!({"task_name": format!("y{n:->500}"), "status": "completed", "output": "o"}))
        .collect();
    let text = update(&plan, edited);
    assert!(text.chars().count() <= 8_000 && text.contains("🔄 Status: y"));
}

#[test]
fn a_tree_ten_thousand_deep_is_refused_with_a_message() {
    let deep = format!(
        "{{\"recursive_plan_tree\": {{\"core_goal\": \"g\", \"tree_nodes\": [{}{}]}}}}",
        "{\"task_name\": \"a\", \"children\": [".repeat(10_000),
        "]}".repeat(10_000)
    );
    assert_eq!(
        failure(&plan(), deep),
        "the arguments of `recursive_plan_tree_todo` are not a JSON object: it is nested deeper than 128 levels"
    );
}

#[test]
fn a_chain_of_ten_thousand_dependencies_is_no_circle_until_it_is_closed() {
    let chain = |close: bool| -> Value {
        let node = |n: usize| match (n, close) {
            (0, false) => json!({"task_name": "0"}),
            (0, true) => json!({"task_name": "0", "dependencies": ["9999"]}),
            _ => json!({"task_name": n.to_string(), "dependencies": [(n - 1).to_string()]}),
        };
        (0..10_000).map(node).collect()
    };
    let plan = plan();
    assert!(update(&plan, chain(false)).ends_with("Ready:\n0"));
    let message = failure(&plan, tree(chain(true)));
    assert!(
        message.starts_with("the dependencies form a circle: \"0\" → \"9999\" → \"9998\""),
        "{message}"
    );
    assert!(message.len() < 200);
}

#[test]
fn a_plan_of_too_many_tasks_is_refused() {
    let nodes: Value = (0..20_001)
        .map(|n| json!({"task_name": n.to_string()}))
        .collect();
    assert_eq!(
        failure(&plan(), tree(nodes)),
        "a plan of 20001 tasks is too large; at most 20000 are allowed"
    );
}

#[test]
fn p3_every_version_is_kept_and_p6_shown_while_it_changes() {
    let shown: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
    let watcher: OnToolEvent = {
        let shown = Arc::clone(&shown);
        Arc::new(move |happening| {
            if let ToolEvent::PlanChanged { version, markdown } = happening {
                shown.lock().unwrap().push((version, markdown));
            }
        })
    };
    let registry = Registry::builder()
        .tool(RecursivePlanTreeTodoTool)
        .build()
        .unwrap();
    let plan = ToolRunner::builder(registry).on_event(watcher).build();
    for status in ["pending", "completed"] {
        let call = Call::by_user(
            NAME,
            tree(json!([{"task_id": "A", "task_name": "a", "status": status}])),
        );
        assert!(wait(plan.call(call)).is_ok());
    }
    assert_eq!(
        *shown.lock().unwrap(),
        [
            (1, "- [⏳] **a** (ID: A)".to_owned()),
            (2, "- [✅] **a** (ID: A)".to_owned())
        ]
    );
    let book = plan.state::<PlanHistory>();
    assert_eq!(book.lock().unwrap().versions().len(), 2);
}

#[test]
fn a_fork_goes_on_from_a_copy_of_the_plan() {
    let registry = Registry::builder()
        .tool(RecursivePlanTreeTodoTool)
        .build()
        .unwrap();
    let first = ToolRunner::new(registry);
    let write = |runner: &ToolRunner, status: &str| {
        let tasks = json!([{"task_id": "A", "task_name": "a", "status": status}]);
        assert!(wait(runner.call(Call::by_user(NAME, tree(tasks)))).is_ok());
    };
    let versions = |runner: &ToolRunner| {
        let history = runner.state::<PlanHistory>();
        let history = history.lock().unwrap();
        history.versions().len()
    };
    write(&first, "pending");
    let fork = first.for_fork(None, None);
    write(&fork, "completed");
    assert_eq!((versions(&first), versions(&fork)), (1, 2));
}
