//! Questions of an editor: completion, help at a cursor, and whether a text needs more lines.

use crate::support::{Python, session, tool, wait};
use cellblock_protocol::{CompletenessStatus, Completion, Cursor, Detail, Event};
use serde_json::json;

/// The texts that can stand at the end of `code`.
fn texts(session: &Python, code: &str) -> Vec<String> {
    matches(session, code)
        .into_iter()
        .map(|it| it.text)
        .collect()
}

fn matches(session: &Python, code: &str) -> Vec<Completion> {
    wait(session.complete(Cursor::at_end(code)))
        .unwrap()
        .matches
}

fn help(session: &Python, code: &str, detail: Detail) -> String {
    let help = wait(session.inspect_at(Cursor::at_end(code), detail)).unwrap();
    assert_eq!(help.found, help.mime.text("text/plain").is_some());
    help.mime.text("text/plain").unwrap_or_default().to_owned()
}

#[test]
fn names_of_the_session_of_python_and_of_the_same_cell_are_completed() {
    let session = session();
    session.good("zebra = 1");
    assert_eq!(texts(&session, "zi"), ["zip"]);
    assert_eq!(texts(&session, "zeb"), ["zebra"]);
    assert_eq!(texts(&session, "f'{zeb"), ["zebra"]);
    assert_eq!(
        texts(&session, "locality = 1\nprint(loca"),
        ["locality", "locals"]
    );
    assert_eq!(texts(&session, "# zeb"), [""; 0]);
    assert_eq!(texts(&session, "nonl"), ["nonlocal"]);
}

#[test]
fn the_replaced_text_is_counted_in_code_points() {
    let session = session();
    session.good("häuser = {'ä': 1}");
    let completion = &matches(&session, "x = '🐍'\nhä")[0];
    let expected = Completion {
        text: "häuser".into(),
        start: 8,
        end: 10,
        type_: "instance".into(),
    };
    assert_eq!(completion, &expected);
    let inside = wait(session.complete(Cursor::new("hä + 1", 2))).unwrap();
    assert_eq!((inside.matches[0].start, inside.matches[0].end), (0, 2));
    let beyond = wait(session.complete(Cursor::new("hä", 99))).unwrap();
    assert_eq!(beyond.matches[0].end, 2);
}

#[test]
fn attributes_keyword_arguments_modules_keys_and_paths_are_completed() {
    let session = session();
    session.good(
        "import os.path
class Duck:
    def quack(self, times, *, loudly=False): ...
duck = Duck()
d = {'one': 1, \"it's\": {'deep': 'x'}, 3: 4}
open('data.csv', 'w').close(); os.mkdir('data')",
    );
    assert_eq!(texts(&session, "duck.qu"), ["quack"]);
    assert_eq!(texts(&session, "os.path.isd"), ["isdir"]);
    assert_eq!(texts(&session, "duck.quack(3, lou"), ["loudly="]);
    assert_eq!(texts(&session, "sorted([1], k"), ["key="]);
    assert_eq!(texts(&session, "import js"), ["json"]);
    assert_eq!(texts(&session, "import xml.do"), ["dom"]);
    assert_eq!(texts(&session, "from os.path import isd"), ["isdir"]);
    assert_eq!(texts(&session, "d['o"), ["one"]);
    assert_eq!(texts(&session, "d['it"), ["it\\'s"]);
    assert_eq!(
        texts(&session, "d[\"it's\"]['d"),
        ["deep", "data/", "data.csv"]
    );
    assert_eq!(texts(&session, "d['one'].bit_l"), ["bit_length"]);
    assert_eq!(&texts(&session, "d[")[..3], ["'one'", "\"it's\"", "3"]);
    assert_eq!(texts(&session, "open('da"), ["data/", "data.csv"]);
    assert_eq!(texts(&session, "'-'.joi"), ["join"]);
    assert_eq!(
        session.value("'xml.dom' in __import__('sys').modules"),
        "False"
    );
}

#[test]
fn a_question_runs_no_code_of_the_user() {
    let session = session();
    session.good(
        "ran = []
class Meta(type):
    def __getattribute__(cls, name): ran.append(name); return type.__getattribute__(cls, name)
class Trap(metaclass=Meta):
    @property
    def price(self): 'What it costs.'; ran.append('property')
    def __getattr__(self, name): ran.append(name)
    def __getattribute__(self, name): ran.append(name); return object.__getattribute__(self, name)
    def __dir__(self): ran.append('dir'); return []
    def __repr__(self): ran.append('repr'); return ''
    def __call__(self, volume): ran.append('call')
    def __getitem__(self, key): ran.append('item')
class Keys(dict):
    def keys(self): ran.append('keys'); return []
    def __iter__(self): ran.append('iter'); return iter([])
trap, keys = Trap(), Keys(a=1)
def wrapped(x, y=trap): ...
ran.clear()",
    );
    assert_eq!(texts(&session, "trap."), ["price"]);
    assert_eq!(texts(&session, "trap.price."), [""; 0]);
    assert_eq!(texts(&session, "trap['a']."), [""; 0]);
    assert_eq!(texts(&session, "trap(vol"), ["volume="]);
    assert_eq!(texts(&session, "keys['a"), ["a"]);
    assert!(help(&session, "trap", Detail::Source).starts_with("Signature: trap(volume)"));
    assert_eq!(
        help(&session, "trap.price", Detail::Summary),
        "Type:      property\nDocstring:\nWhat it costs."
    );
    assert!(help(&session, "wrapped", Detail::Summary).contains("wrapped(x, y=<Trap>)"));
    assert!(help(&session, "Trap", Detail::Summary).starts_with("Signature: Trap()"));
    assert_eq!(session.value("ran"), "[]");
}

#[test]
fn help_at_a_cursor_has_the_signature_and_the_docstring_and_the_source_when_asked_for() {
    let session = session();
    session.good("def area(width, height=2):\n    '''The area.'''\n    return width * height");
    let summary = "Signature: area(width, height=2)\nType:      function\nFile:      <cell 1>\nDocstring:\nThe area.";
    assert_eq!(help(&session, "area", Detail::Summary), summary);
    assert_eq!(help(&session, "area(3, ", Detail::Summary), summary);
    assert_eq!(help(&session, "area?", Detail::Summary), summary);
    assert!(help(&session, "area", Detail::Source).ends_with("return width * height\n"));
    assert!(help(&session, "open", Detail::Summary).contains("Docstring:\nOpen file"));
    assert_eq!(help(&session, "no_such_thing", Detail::Summary), "");
}

#[test]
fn a_text_is_complete_incomplete_or_invalid() {
    let session = session();
    let judge = |code: &str| {
        let it = wait(session.is_complete(code)).unwrap();
        (it.status, it.indent)
    };
    for code in [
        "1",
        "def f(x):\n  return x*2\n\n",
        "await g()",
        "",
        "%matplotlib inline",
    ] {
        assert_eq!(
            judge(code),
            (CompletenessStatus::Complete, String::new()),
            "{code}"
        );
    }
    for (code, indent) in [
        ("print('''hello", ""),
        ("def f(x):", "    "),
        ("def f(x):\n  x*2", "  "),
        ("x = [1,", ""),
    ] {
        assert_eq!(
            judge(code),
            (CompletenessStatus::Incomplete, indent.to_owned()),
            "{code}"
        );
    }
    for code in ["import = 7q", "x = 1 +", "print(1))"] {
        assert_eq!(
            judge(code),
            (CompletenessStatus::Invalid, String::new()),
            "{code}"
        );
    }
    session.good("import warnings; warnings.simplefilter('error')");
    assert_eq!(judge("'\\d'").0, CompletenessStatus::Complete);
}

#[test]
fn questions_are_answered_while_a_tool_call_waits() {
    let session = session();
    session.offer([tool("lookup", "Looks something up.", &["query"])]);
    let mut running = session.start("early = 1\nlookup('x')\nlate = 2");
    let Some(Event::ToolCall { call, .. }) = running.next() else {
        panic!("no call came")
    };
    assert_eq!(texts(&session, "earl"), ["early"]);
    assert_eq!(texts(&session, "lookup(quer"), ["query="]);
    assert!(help(&session, "lookup", Detail::Summary).contains("Looks something up."));
    let verdict = wait(session.is_complete("for x in y:")).unwrap();
    assert_eq!(verdict.status, CompletenessStatus::Incomplete);
    session.tool_result(&call, Ok(json!(null)));
    running.result();
    assert_eq!(texts(&session, "lat"), ["late"]);
}

#[test]
fn a_question_about_strange_text_is_answered_and_a_too_long_one_is_refused() {
    let session = session();
    for code in [
        "((((((((".repeat(5000),
        "a.".repeat(5000),
        "\u{0}x".to_owned(),
        "'''".to_owned(),
        "f'{f'{f'{".to_owned(),
        "]]]]}}}}))))".to_owned(),
        "x[".repeat(1000),
        "\\".to_owned(),
        "é́\u{202e}".to_owned(),
    ] {
        wait(session.complete(Cursor::at_end(code.as_str()))).unwrap();
        wait(session.inspect_at(Cursor::at_end(code.as_str()), Detail::Source)).unwrap();
        wait(session.is_complete(&code)).unwrap();
    }
    let long = "x".repeat((1 << 20) + 1);
    assert!(wait(session.complete(Cursor::at_end(long.as_str()))).is_err());
    assert!(wait(session.is_complete(&long)).is_err());
    session.good("1");
}
