//! Calls and answers that belong to no running cell: they are refused or ignored, and harm nothing.

use super::*;

#[test]
fn an_answer_to_nothing_and_a_second_answer_are_ignored() {
    let session = with_lookup();
    let mut running = session.start("lookup('a'), lookup('b')");
    let mut answers = HashMap::new();
    while let Some(event) = running.next() {
        match event {
            Event::ToolCall {
                call, arguments, ..
            } => {
                session.tool_result("c999", Ok(json!("to nobody")));
                session.tool_result(&call, Ok(arguments.to_map()["query"].clone()));
                session.tool_result(&call, Ok(json!("again")));
                answers.insert(call, ());
            }
            Event::Result { result } => assert_eq!(result.value.unwrap().repr, "('a', 'b')"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(answers.len(), 2);
}

#[test]
fn a_call_from_a_thread_that_outlived_its_cell_is_refused() {
    let session = with_lookup();
    let mut logs = session.logs();
    let code = "import os, threading, time
def late():
    while not os.path.exists('go'): time.sleep(0.01)
    try: lookup('x')
    except ToolError as error: print(error)
threading.Thread(target=late).start()";
    session.good(code);
    wait(session.put_file("go", Vec::new())).unwrap();
    let text = "no cell is running: a call from a thread that outlived its cell is not answered\n";
    assert_eq!(next_logged_line(&mut logs), text);
}

#[test]
fn a_call_that_comes_while_the_host_asks_something_else_is_refused_too() {
    let session = with_lookup();
    let code = "import os, threading
def late():
    while not os.path.exists('stop'):
        try: lookup('x')
        except ToolError: pass
thread = threading.Thread(target=late)
thread.start()";
    session.good(code);
    for _ in 0..100 {
        wait(session.vars()).unwrap();
    }
    wait(session.put_file("stop", Vec::new())).unwrap();
    assert_eq!(
        session.value("thread.join(timeout=5)\nthread.is_alive()"),
        "False",
        "a call was never answered"
    );
}

#[test]
fn a_child_process_cannot_call_tools() {
    let session = with_lookup();
    let code = "import os
child = os.fork()
if child == 0:
    try: lookup('x')
    except BaseException as error: os.write(1, type(error).__name__.encode())
    os._exit(0)
os.waitpid(child, 0)[1]";
    let result = session.good(code);
    assert_eq!(
        (result.stdout.as_str(), result.tool_calls),
        ("RuntimeError", vec![])
    );
}
