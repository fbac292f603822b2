//! R12, R24: the value of a cell.

use crate::support::session;

#[test]
fn r12_the_value_of_the_last_expression_is_returned() {
    let session = session();
    assert_eq!(session.value("x = 20\nx + 1"), "21");
    assert_eq!(session.value("  'text'  # with a comment"), "'text'");
    assert_eq!(
        session.value("if True:\n    pass\n(\n  1,\n  2,\n)"),
        "(1, 2)"
    );
}

#[test]
fn r12_where_there_is_no_value_it_is_null() {
    let session = session();
    let none = [
        "x = 1",
        "None",
        "print('x')",
        "for x in 'ab':\n    x",
        "",
        "# nothing",
        "1\nx = 2",
    ];
    let values: Vec<_> = none.iter().map(|code| session.good(code).value).collect();
    assert_eq!(values, vec![None; none.len()]);
}

#[test]
fn r24_await_works_at_the_top() {
    let session = session();
    assert_eq!(
        session.value(
            "import asyncio
async def f(n):
    await asyncio.sleep(0)
    return n
await f(41) + 1"
        ),
        "42"
    );
    assert_eq!(session.value("await asyncio.gather(f(1), f(2))"), "[1, 2]");
    assert_eq!(
        session.stdout("async with asyncio.Lock():\n    print('held')"),
        "held\n"
    );
}

#[test]
fn r24_tasks_and_locks_of_one_cell_go_on_in_the_next() {
    let session = session();
    session.good(
        "import asyncio
queue = asyncio.Queue()
task = asyncio.ensure_future(queue.get())
await asyncio.sleep(0)",
    );
    assert_eq!(
        session.value("await queue.put('sent')\nawait task"),
        "'sent'"
    );
}
