//! B5: what goes on while a call waits for its answer: the clock stands still, and the session can be looked at.

use super::*;

#[test]
fn b5_the_clock_of_a_cell_stands_still_while_it_waits() {
    let session = with_lookup();
    let mut running = session.start(Cell::new("lookup('x')").timeout(Duration::from_millis(500)));
    let Some(Event::ToolCall { call, .. }) = running.next() else {
        panic!("no call came")
    };
    std::thread::sleep(std::time::Duration::from_millis(800));
    session.tool_result(&call, Ok(json!("late")));
    let result = running.result();
    assert_eq!(
        (result.status, result.value.unwrap().repr.as_str()),
        (Status::Success, "'late'")
    );
}

#[test]
fn b5_while_a_call_waits_the_session_can_be_looked_at() {
    let session = with_lookup();
    for code in [
        "before = 1\nlookup('x')\nafter = 2",
        "import threading\nbefore = 1\nthread = threading.Thread(target=lookup, args=('x',))\nthread.start(); thread.join()",
        "before = 1\nawait tools.lookup.aio('x')",
    ] {
        let mut running = session.start(code);
        let Some(Event::ToolCall { call, .. }) = running.next() else {
            panic!("no call came")
        };
        for _ in 0..20 {
            let names: Vec<String> = wait(session.vars())
                .unwrap()
                .into_iter()
                .map(|variable| variable.name)
                .collect();
            assert!(names.contains(&"before".to_owned()), "{code}: {names:?}");
            assert_eq!(wait(session.inspect("before")).unwrap().repr, "1");
        }
        assert!(wait(session.inspect("nothing")).is_err());
        // What would change something still has to wait.
        assert_eq!(wait(session.reset()).unwrap_err().code(), "busy");
        session.tool_result(&call, Ok(json!(null)));
        assert_eq!(running.result().status, Status::Success);
    }
}

#[test]
fn b5_looking_may_itself_call_a_tool() {
    let session = with_lookup();
    session
        .good("class Odd:\n    def __repr__(self): return 'odd ' + lookup('inner')\nodd = Odd()");
    let mut running = session.start("lookup('outer')");
    let Some(Event::ToolCall { call: outer, .. }) = running.next() else {
        panic!("no call came")
    };
    let looking = {
        let session = (*session).clone();
        std::thread::spawn(move || wait(session.inspect("odd")))
    };
    let Some(Event::ToolCall { call: inner, .. }) = running.next() else {
        panic!("no second call came")
    };
    session.tool_result(&inner, Ok(json!("answer")));
    assert_eq!(looking.join().unwrap().unwrap().repr, "odd answer");
    session.tool_result(&outer, Ok(json!("done")));
    assert_eq!(running.result().value.unwrap().repr, "'done'");
}

#[test]
fn b5_code_that_computes_again_is_busy_and_a_question_that_came_too_late_is_not_lost() {
    let session = with_lookup();
    let mut running = session.start("lookup('x')\nimport time\ntime.sleep(1)");
    let Some(Event::ToolCall { call, .. }) = running.next() else {
        panic!("no call came")
    };
    session.tool_result(&call, Ok(json!(null)));
    assert_eq!(wait(session.vars()).unwrap_err().code(), "busy");
    assert_eq!(running.result().status, Status::Success);
    assert!(wait(session.vars()).is_ok());
}
