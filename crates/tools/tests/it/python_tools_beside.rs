//! Calls of tools written in Python that run side by side, hang, or cannot be stopped.

use crate::python_tools::{folder, text};
use crate::support::{printed, sessions, wait};
use cellblock_tools::{PythonTools, Registry, ToolRunner};
use serde_json::json;

const BESIDE: &str = r#"
import asyncio, threading, time

barrier = threading.Barrier(3)
lock = asyncio.Lock()
inside = 0
seen = []

def meet(name: str) -> str:
    """Waits for two others."""
    print("printed by", name)
    barrier.wait(60)
    return name

met = 0

async def meet_async(name: str) -> str:
    """Waits for two others."""
    global met
    met += 1
    while met < 3:
        await asyncio.sleep(0.01)
    return name

async def one_by_one(name: str) -> list:
    """Takes a lock of the module."""
    global inside
    async with lock:
        inside += 1
        await asyncio.sleep(0.05)
        seen.append(inside)
        inside -= 1
    return seen

@tool(time_limit=1)
def hang(seconds: float) -> None:
    """Takes long."""
    time.sleep(seconds)

@tool(time_limit=1)
def deaf() -> None:
    """Takes long and hears no signal."""
    import signal
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    time.sleep(600)

def calculate() -> int:
    """Says a number."""
    return 7
"#;

fn beside() -> ToolRunner {
    let folder = folder(&[("beside.py", BESIDE)]);
    let tools = wait(PythonTools::new(folder.path()).load(sessions())).unwrap();
    let registry = Registry::builder().built_in().extend(tools).build();
    ToolRunner::builder(registry.unwrap())
        .open_sessions(sessions())
        .build()
}

#[test]
fn calls_of_threads_run_side_by_side() {
    let code = "\
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(3) as pool:
    print(list(pool.map(meet, 'abc')))
import asyncio
async def main():
    return await asyncio.gather(*[tools.meet.aio(name) for name in 'def'])
print(asyncio.run(main()))
async def asynchronous():
    return await asyncio.gather(*[tools.meet_async.aio(name) for name in 'ghi'])
print(asyncio.run(asynchronous()))";
    assert_eq!(
        printed(&beside(), code),
        "['a', 'b', 'c']\n['d', 'e', 'f']\n['g', 'h', 'i']\n"
    );
}

#[test]
fn async_tools_share_one_event_loop_across_cells() {
    let runner = beside();
    let code = "\
import asyncio
async def main():
    return await asyncio.gather(*[tools.one_by_one.aio(str(i)) for i in range(3)])
print(max(asyncio.run(main()), key=len))";
    assert_eq!(printed(&runner, code), "[1, 1, 1]\n");
    assert_eq!(printed(&runner, code), "[1, 1, 1, 1, 1, 1]\n");
}

#[test]
fn a_call_that_hangs_is_given_up_alone() {
    let code = "\
import asyncio
async def main():
    hanging = [tools.hang.aio(600) for _ in range(2)]
    return await asyncio.gather(*hanging, *[tools.meet.aio(name) for name in 'abc'], return_exceptions=True)
for outcome in asyncio.run(main()):
    print(outcome)
print(calculate())";
    let runner = beside();
    let given_up = "`hang` did not answer within 1 s and was given up\n";
    assert_eq!(
        printed(&runner, code),
        format!("{given_up}{given_up}a\nb\nc\n7\n")
    );
    assert_eq!(text(&runner, "calculate", json!({})), "7");
}

#[test]
fn a_call_that_cannot_be_stopped_costs_the_session_and_not_the_next_call() {
    let runner = beside();
    assert_eq!(
        text(&runner, "deaf", json!({})),
        "Tool call failed: `deaf` did not answer within 1 s and was given up"
    );
    assert_eq!(text(&runner, "calculate", json!({})), "7");
}
