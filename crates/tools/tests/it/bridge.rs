//! B1 to B7: tools called from inside Python, checked and answered by the host.

use crate::support::{WeatherQueryTool, execute, printed, python_with, sessions, wait};
use cellblock_protocol::{Cell, Status};
use cellblock_tools::{
    CallLimits, Caller, CellOutcome, Context, DynamicTool, OnToolEvent, Output, Part, Registry,
    Tool, ToolDefinition, ToolError, ToolEvent, ToolFuture, ToolRunner,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Barrier;

/// Gives back what it is told to.
#[derive(Deserialize, JsonSchema)]
struct Give {
    kind: String,
}

struct GiveTool;

impl Tool for GiveTool {
    type Parameters = Give;
    type Output = Output;

    async fn call(&self, give: Give, context: &Context) -> Result<Output, ToolError> {
        assert_eq!(context.caller(), Caller::Code);
        Ok(match give.kind.as_str() {
            "picture" => Output::blob("image/png", &b"\x89PNG\r\n"[..]),
            "long" => Output::text("é".repeat(600_000)),
            "text" => Output::text("plain"),
            "json" => Output::json(json!({"a": [1, null, "x"]})),
            "nothing" => Output::default(),
            "mixed" => Output {
                structured: None,
                parts: vec![
                    Part::Text("look:".into()),
                    Part::blob("image/gif", &b"GIF"[..]),
                ],
            },
            "latin" => Output::blob("text/plain", &b"caf\xe9"[..]),
            "huge" => Output::text("x".repeat(17 << 20)),
            "panic" => panic!("inside"),
            "purpose" => Output::json(context.purpose()),
            other => return Err(ToolError::new(format!("there is no {other}"))),
        })
    }
}

#[test]
fn what_a_thread_prints_after_its_cell_is_told_with_the_next_one() {
    let registry = Registry::builder().build().unwrap();
    let runner = ToolRunner::builder(registry)
        .open_sessions(sessions())
        .build();
    let begin = "\
import threading
go, done = threading.Event(), threading.Event()
def late():
    go.wait()
    print('late line', flush=True)
    done.set()
threading.Thread(target=late).start()";
    let first = wait(runner.run_cell(Cell::new(begin), None)).unwrap();
    assert_eq!(first.notes, [""; 0]);
    let next = "go.set()\n_ = done.wait()\nprint('two')";
    let second = wait(runner.run_cell(Cell::new(next), None)).unwrap();
    assert_eq!(second.result.stdout, "two\n");
    assert_eq!(
        second.notes,
        ["### Output of threads of earlier code:\nlate line"]
    );
}

/// Never answers.
struct WaitTool;

#[derive(Deserialize, JsonSchema)]
struct Wait {}

impl Tool for WaitTool {
    type Parameters = Wait;
    type Output = ();

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_millis(500))
    }

    async fn call(&self, _: Wait, _: &Context) -> Result<(), ToolError> {
        std::future::pending().await
    }
}

fn runner() -> ToolRunner {
    python_with(|registry| registry.tool(WeatherQueryTool).tool(GiveTool))
}

fn run(runner: &ToolRunner, code: &str) -> CellOutcome {
    wait(runner.run_cell(Cell::new(code), None)).unwrap()
}

fn error(runner: &ToolRunner, code: &str) -> String {
    run(runner, code).result.error.unwrap().repr
}

#[test]
fn b1_a_tool_is_a_function_and_help_tells_of_it() {
    let runner = runner();
    assert_eq!(
        printed(
            &runner,
            "print(weather_query('Oslo')['days'], tools.weather_query(city='Oslo', days='5')['days'])"
        ),
        "3 5\n"
    );
    assert_eq!(
        printed(&runner, "help(weather_query)"),
        "Help on function weather_query:\n\n\
         weather_query(city: str, days: int = 3, unit: str = 'C', near: list | None = ...)\n    \
         The weather of the next days.\n    \n    Args:\n        city (str): Where.\n        days (int): How many days. Optional.\n        \
         unit (str): The scale. One of 'C', 'F'. Optional.\n        near (list | None): Further places. Optional.\n\n"
    );
}

#[test]
fn b1_threads_and_tasks_call_side_by_side() {
    struct MeetTool(Arc<Barrier>);
    #[derive(Deserialize, JsonSchema)]
    struct Meet {
        number: u64,
    }
    impl Tool for MeetTool {
        type Parameters = Meet;
        type Output = u64;
        async fn call(&self, meet: Meet, _: &Context) -> Result<u64, ToolError> {
            self.0.wait().await;
            Ok(meet.number * 2)
        }
    }
    let meet = |size| python_with(|registry| registry.tool(MeetTool(Arc::new(Barrier::new(size)))));
    let threads = "from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(20) as pool:
    print(sum(pool.map(meet, range(20))))";
    assert_eq!(printed(&meet(20), threads), "380\n");
    let tasks = "import asyncio
print(sum(await asyncio.gather(*[tools.meet.aio(n) for n in range(100)])))";
    assert_eq!(printed(&meet(100), tasks), "9900\n");
}

#[test]
fn b2_arguments_are_checked_on_the_host_and_errors_raised() {
    let runner = runner();
    for (code, message) in [
        (
            "weather_query()",
            "the arguments of `weather_query` do not fit: missing field `city`: expected a text",
        ),
        (
            "weather_query('Oslo', days=99)",
            "the arguments of `weather_query` do not fit: `days`: expected a number of at most 14, got 99",
        ),
        (
            "weather_query('Oslo', color='red')",
            "the arguments of `weather_query` do not fit: unknown field `color`; the fields are city, days, unit, near",
        ),
        ("give('nothing else')", "there is no nothing else"),
        ("give('panic')", "`give` broke down: inside"),
    ] {
        assert_eq!(
            error(&runner, code),
            format!("ToolError('{message}')"),
            "{code}"
        );
    }
    assert_eq!(
        printed(
            &runner,
            "try: give('x')\nexcept ToolError as e: print('caught', e)"
        ),
        "caught there is no x\n"
    );
}

#[test]
fn b3_json_and_text_arrive_as_values_and_the_rest_as_handles() {
    let runner = runner();
    let code = "print(give('json'), give('text'), give('nothing'))
p = give('picture')
print(p.mime, p.size, p.bytes(), repr(p))
t = give('long')
print(t.mime, t.size, len(t.text()))
m = give('mixed')
print(m[0], m[1].mime)
print(give('latin').text(), give('latin').text('latin-1'))";
    assert_eq!(
        printed(&runner, code),
        "{'a': [1, None, 'x']} plain None\n\
         image/png 6 b'\\x89PNG\\r\\n' <ToolResponse image/png, 6 bytes>\n\
         text/plain 1200000 600000\nlook: image/gif\ncaf\u{fffd} café\n"
    );
}

#[test]
fn b3_a_marker_in_the_output_is_expanded_in_order_and_once() {
    let runner = runner();
    let ran = run(
        &runner,
        "a = give('picture')\nb = give('mixed')[1]\nprint(f'first {b} then {a} and {a}')\nprint(give('latin'))",
    );
    assert_eq!(
        ran.result.stdout,
        "first [image/gif, 3 bytes] then [image/png, 6 bytes] and [shown above]\ncaf\u{fffd}\n"
    );
    assert_eq!(
        ran.attachments,
        [
            Part::blob("image/gif", &b"GIF"[..]),
            Part::blob("image/png", &b"\x89PNG\r\n"[..])
        ]
    );
    // Handles live on in the session, and so do their markers.
    let ran = run(&runner, "print(a)");
    assert_eq!(ran.result.stdout, "[image/png, 6 bytes]\n");
    assert_eq!(ran.attachments.len(), 1);
}

#[test]
fn b3_a_handle_at_the_end_of_a_cell_is_shown() {
    let runner = runner();
    let value = run(&runner, "give('picture')").result.value.unwrap();
    assert_eq!(value.mime.text("image/png"), Some("iVBORw0K"));
    assert!(execute(&runner, "display(give('picture'))").contains("### Shown:"));
}

#[test]
fn b3_the_marker_of_another_session_is_not_expanded() {
    let (one, other) = (runner(), runner());
    let marker = |runner: &ToolRunner| {
        let code =
            "marker = str(give('picture'))\nprint(marker.replace('<', '(').replace('>', ')'))";
        let printed = printed(runner, code);
        printed.trim().replace('(', "<").replace(')', ">")
    };
    let (mine, foreign) = (marker(&one), marker(&other));
    assert_ne!(mine, foreign);
    assert_eq!(
        printed(&one, &format!("print('{foreign}')")),
        format!("{foreign}\n")
    );
    assert_eq!(
        printed(&one, &format!("print('{mine}')")),
        "[image/png, 6 bytes]\n"
    );
}

#[test]
fn b4_purpose_is_optional_from_python() {
    let runner = runner();
    let code = "print(give('purpose'), give('purpose', tool_call_purpose='to see'))";
    assert_eq!(printed(&runner, code), "None to see\n");
}

#[test]
fn b6_calls_per_cell_are_limited() {
    let registry = Registry::builder().tool(WeatherQueryTool).build().unwrap();
    let limits = CallLimits {
        max_calls_per_cell: 3,
        ..CallLimits::default()
    };
    let runner = ToolRunner::builder(registry)
        .open_sessions(sessions())
        .limits(limits)
        .build();
    assert_eq!(
        error(&runner, "for n in range(10): weather_query(str(n))\n"),
        "ToolError('this cell has made 3 tool calls, and more are not allowed; continue in another cell')"
    );
    // Each cell begins anew.
    assert_eq!(
        printed(
            &runner,
            "print(len([weather_query('x') for _ in range(3)]))"
        ),
        "3\n"
    );
}

#[test]
fn b6_bytes_per_call_are_limited_both_ways() {
    let runner = runner();
    let message = error(&runner, "weather_query('x' * 17_000_000)");
    assert!(
        message.starts_with("ToolError('the arguments of `weather_query` would be 170000")
            && message.ends_with(" bytes, and at most 16777216 are allowed')"),
        "{message}"
    );
    assert_eq!(
        error(&runner, "give('huge')"),
        "ToolError('the result of `give` would be 17825792 bytes, and at most 16777216 are allowed')"
    );
    assert_eq!(printed(&runner, "print(give('text'))"), "plain\n");
}

#[test]
fn b6_the_time_of_a_call_is_limited() {
    assert_eq!(
        error(&python_with(|registry| registry.tool(WaitTool)), "wait()"),
        "ToolError('`wait` did not answer within 0.5 s and was given up')"
    );
}

#[test]
fn b7_names_that_are_no_identifiers_are_mapped_and_nothing_is_shadowed() {
    struct Named(&'static str);
    impl DynamicTool for Named {
        fn definition(&self) -> ToolDefinition {
            ToolDefinition::new(self.0, "", Map::new())
        }
        fn invoke(self: Arc<Self>, _: Map<String, Value>, _: Context) -> ToolFuture {
            Box::pin(async move { Ok(Output::json(self.0)) })
        }
    }
    let names = ["get-weather", "print", "mine", "class"];
    let runner = python_with(|registry| {
        registry.extend(names.map(|name| Arc::new(Named(name)) as Arc<dyn DynamicTool>))
    });
    run(&runner, "mine = 'my own'");
    assert_eq!(
        printed(
            &runner,
            "print(get_weather(), tools.print(), mine, tools.mine(), class_())"
        ),
        "get-weather print my own mine class\n"
    );
}

#[test]
fn code_cannot_call_what_would_wait_for_itself() {
    let runner = runner();
    assert_eq!(
        error(&runner, "execute_python_code('1')"),
        "NameError(\"name 'execute_python_code' is not defined\")"
    );
    // Not even by writing the frame itself.
    let forged = "import sys
bridge = tools.give.__closure__
channel = next(cell.cell_contents for cell in bridge if type(cell.cell_contents).__name__ == 'Bridge')._channel
print(channel.ask({'t': 'tool_call', 'name': 'execute_python_code', 'arguments': {'python_code_snippet': '1'}})['error'])";
    assert_eq!(
        printed(&runner, forged),
        "`execute_python_code` was not run: code in a session cannot call it\n"
    );
}

#[test]
fn the_plan_and_files_can_be_used_from_code() {
    let runner = runner();
    let code = "open('a.txt', 'w').write('hello')
print(list_files(), file_reader('a.txt'))
print(recursive_plan_tree_todo({'core_goal': 'g', 'tree_nodes': [{'task_name': 'a'}]})['statistics']['__total'])";
    assert_eq!(
        printed(&runner, code),
        "[{'path': 'a.txt', 'bytes': 5, 'mime': 'text/plain'}] File contents (5 chars):\nhello\n1\n"
    );
}

#[test]
fn the_calls_of_a_cell_are_told_to_whoever_watches_and_stand_in_its_result() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let watcher: OnToolEvent = {
        let told = Arc::clone(&told);
        Arc::new(move |happening| match happening {
            ToolEvent::Cell(cellblock_protocol::Event::ToolCall { name, .. }) => {
                told.lock().unwrap().push(format!("call {name}"))
            }
            ToolEvent::Answered { name, ok, .. } => {
                told.lock().unwrap().push(format!("answer {name} {ok}"))
            }
            _ => {}
        })
    };
    let runner = runner();
    let ran =
        wait(runner.run_cell(Cell::new("give('text')\ngive('bad')"), Some(&watcher))).unwrap();
    assert_eq!(ran.result.status, Status::Failure);
    assert_eq!(ran.result.tool_calls.len(), 2);
    assert_eq!(
        *told.lock().unwrap(),
        [
            "call give",
            "answer give true",
            "call give",
            "answer give false"
        ]
    );
}

#[test]
fn input_is_refused_with_a_message() {
    let message = error(&runner(), "input('Name? ')");
    assert!(message.contains("no person can type here"), "{message}");
}

#[test]
fn a_thousand_calls_in_one_cell_all_arrive() {
    let runner = runner();
    assert_eq!(
        printed(
            &runner,
            "print(len({weather_query(str(n))['text'] for n in range(1000)}))"
        ),
        "1000\n"
    );
}

#[test]
fn tools_are_found_by_words_and_listed_by_help() {
    let runner = python_with(|registry| registry.tool(WeatherQueryTool));
    let found = printed(&runner, "print(tools.search('weather'))");
    assert!(found.starts_with("weather_query("), "{found}");
    assert!(found.contains("The weather of the next days."), "{found}");
    let none = printed(&runner, "print(tools.search('submarine'))");
    assert!(
        none.starts_with("no tool has the words 'submarine'; there are: "),
        "{none}"
    );
    let help = printed(&runner, "help(tools)");
    assert!(
        help.contains("weather_query(") && help.contains("list_files("),
        "{help}"
    );
}
