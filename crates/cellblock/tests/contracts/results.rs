//! W6: the shape of a result, and what each part of it tells.

use crate::support::{Python, session, tool, wait};
use cellblock::{CellResult, MimeBundle, Status, VariableChanges};
use serde_json::{Value, json};

#[test]
fn w6_one_complete_result() {
    let session = session();
    session.offer([tool("lookup", "Looks something up.", &["query"])]);
    session.good("old = [1]\ngone = 'soon'");
    session.good("open('old.txt', 'w').write('before')\nopen('gone.csv', 'w').write('a,b')");
    let code = "import os, sys
print('start')
print('trouble', file=sys.stderr)
class Card:
    def _repr_html_(self): return '<b>card</b>'
    def __repr__(self): return 'Card()'
display(Card())
k = len(lookup(query='x')) - 1
old.append(2)
del gone
os.remove('gone.csv')
open('old.txt', 'a').write(' and after')
open('a.csv', 'w').write('1,2\\n' * 30)
1/k";
    let result = session
        .start(code)
        .answering(|_, arguments| Ok(json!([arguments["query"]])));

    let mut json = serde_json::to_value(&result).unwrap();
    let usage = json["usage"].as_object_mut().unwrap();
    for measured in ["wall_ms", "cpu_ms", "peak_bytes"] {
        assert!(usage.remove(measured).unwrap().as_f64().unwrap() > 0.0, "{measured}");
    }
    assert!(json["tool_calls"][0]["ms"].take().as_f64().unwrap() > 0.0);
    json["state"].as_object_mut().unwrap().remove("checkpoint");
    assert_eq!(
        json,
        json!({
            "session": session.id(), "cell": 3, "status": "failure", "exit_code": null, "signal": null,
            "stdout": "start\n", "stderr": "trouble\n", "output": "start\ntrouble\n", "truncated": null,
            "value": null,
            "displays": [{"text/html": "<b>card</b>", "text/plain": "Card()"}],
            "error": {
                "type": "ZeroDivisionError", "value": "division by zero", "repr": "ZeroDivisionError('division by zero')",
                "traceback": "Traceback (most recent call last):\n  File \"<cell 3>\", line 14, in <module>\n    1/k\nZeroDivisionError: division by zero\n",
                "frames": [{"file": "<cell 3>", "line": 14, "function": "<module>", "source": "1/k", "locals": {"k": "0"}}],
            },
            "variables": {
                "added": [
                    {"name": "os", "type": "module", "summary": "os"},
                    {"name": "sys", "type": "module", "summary": "sys"},
                    {"name": "Card", "type": "type", "summary": "class Card"},
                    {"name": "k", "type": "int", "summary": "0"},
                ],
                "changed": [{"name": "old", "type": "list", "summary": "len 2: [1, 2]"}],
                "removed": [{"name": "gone", "type": "str", "summary": "'soon'"}],
            },
            "files": {
                "created": [{"path": "a.csv", "bytes": 120, "mime": "text/csv"}],
                "changed": [{"path": "old.txt", "bytes": 16, "mime": "text/plain"}],
                "deleted": [{"path": "gone.csv", "bytes": 3, "mime": "text/csv"}],
            },
            "state": {"outcome": "kept"},
            "usage": {"stdout_bytes": 6, "stderr_bytes": 8},
            "tool_calls": [{"call": "c1", "name": "lookup", "arguments": {"query": "x"}, "ms": null, "outcome": "ok"}],
            "strategy": "process", "backend": "local", "isolation": session.rung().name(),
        })
    );
}

#[test]
fn a_result_survives_the_way_through_json() {
    let result = session().run("print('x')\ndisplay({'a': 1})\n1/0");
    let text = serde_json::to_string(&result).unwrap();
    assert_eq!(serde_json::from_str::<CellResult>(&text).unwrap(), result);
}

mod values {
    use super::*;

    /// The MIME bundle of a cell's value.
    fn bundle(code: &str) -> Value {
        let value = session().good(code).value.unwrap();
        serde_json::to_value(value.mime).unwrap()
    }

    #[test]
    fn a_plain_value_has_its_repr_and_nothing_else() {
        let value = session().good("{'a': [1, (2,)], 'b': {3}}").value.unwrap();
        assert_eq!(
            serde_json::to_value(value).unwrap(),
            json!({"repr": "{'a': [1, (2,)], 'b': {3}}", "mime": {"text/plain": "{'a': [1, (2,)], 'b': {3}}"}})
        );
    }

    #[test]
    fn an_object_offers_every_form_it_has() {
        let code = "class Rich:
    def __repr__(self): return 'Rich()'
    def _repr_html_(self): return '<p>'
    def _repr_markdown_(self): return '**md**'
    def _repr_svg_(self): return '<svg/>'
    def _repr_latex_(self): return '$x$'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_json_(self): return {'deep': [1, None]}
Rich()";
        assert_eq!(
            bundle(code),
            json!({
                "text/plain": "Rich()", "text/html": "<p>", "text/markdown": "**md**", "image/svg+xml": "<svg/>",
                "text/latex": "$x$", "image/png": "iVBORw==", "application/json": {"deep": [1, null]},
            })
        );
    }

    #[test]
    fn an_object_can_offer_a_whole_bundle() {
        let code = "class Rich:
    def __repr__(self): return 'Rich()'
    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/html': '<i>', 'application/x+json': {'a': 1}}, {'meta': 'data'}
Rich()";
        assert_eq!(
            bundle(code),
            json!({"text/plain": "Rich()", "text/html": "<i>", "application/x+json": {"a": 1}})
        );
    }

    #[test]
    fn a_form_that_fails_or_is_none_is_left_out() {
        let code = "class Rich:
    def __repr__(self): return 'Rich()'
    def _repr_html_(self): raise ValueError('no')
    def _repr_png_(self): return None
    def _repr_markdown_(self): return 'md'
Rich()";
        assert_eq!(bundle(code), json!({"text/plain": "Rich()", "text/markdown": "md"}));
    }

    #[test]
    fn an_object_that_claims_to_have_everything_is_not_believed() {
        let code = "class Magic:\n    def __getattr__(self, name): return lambda *args: 'boo'\n    def __repr__(self): return 'Magic()'\nMagic()";
        assert_eq!(bundle(code), json!({"text/plain": "Magic()"}));
    }

    #[test]
    fn a_repr_that_fails_is_no_failure_of_the_cell() {
        let session = session();
        let repr = session.value("class Broken:\n    def __repr__(self): raise ValueError('no repr')\nbroken = Broken()\nbroken");
        assert_eq!(repr, "<unrepresentable Broken: ValueError('no repr')>");
        assert_eq!(session.value("type(broken).__name__"), "'Broken'");
    }

    #[test]
    fn a_huge_value_is_cut() {
        let session = session();
        for code in ["list(range(10**7))", "'x' * 10**8", "{n: n for n in range(10**6)}", "10**100_000", "b'x' * 10**8"] {
            let result = session.good(code);
            let repr = result.value.unwrap().repr;
            assert!(repr.len() < 200_000, "{code}: {}", repr.len());
            assert!(repr.contains("in all") || repr.contains("digits"), "{code} says nothing of what was cut: {}", &repr[repr.len() - 60..]);
        }
    }

    #[test]
    fn a_value_that_contains_itself_is_shown() {
        assert_eq!(session().value("x = [1]\nx.append(x)\nx"), "[1, [...]]");
    }
}

mod displays {
    use super::*;

    #[test]
    fn display_shows_things_in_order() {
        let code = "class Card:\n    def _repr_html_(self): return '<b>'\n    def __repr__(self): return 'Card()'\n\
                    display(1, 'two')\ndisplay(Card())";
        let plain = |text: &str| MimeBundle::new().with("text/plain", text);
        assert_eq!(
            session().good(code).displays,
            [plain("1"), plain("'two'"), plain("Card()").with("text/html", "<b>")]
        );
    }

    #[test]
    fn a_cell_that_fails_keeps_what_it_showed() {
        let result = session().run("display('shown')\n1/0");
        assert_eq!(result.displays, [MimeBundle::new().with("text/plain", "'shown'")]);
    }

    #[test]
    fn a_flood_of_displays_is_bounded_and_the_cell_goes_on() {
        let session = session();
        let result = session.good("for n in range(5000): display(n)\n'done'");
        assert_eq!(result.value.unwrap().repr, "'done'");
        assert!((100..=1000).contains(&result.displays.len()), "{}", result.displays.len());
    }

    #[test]
    fn a_display_that_is_too_large_says_so() {
        let code = "class Huge:\n    def _repr_html_(self): return 'x' * (30 << 20)\n    def __repr__(self): return 'Huge()'\ndisplay(Huge())";
        let [shown] = session().good(code).displays.try_into().unwrap();
        assert_eq!(shown.types().collect::<Vec<_>>(), ["text/plain"]);
        let text = shown.text("text/plain").unwrap();
        assert!(text.starts_with("Huge()\n[text/html left out: too large"), "{text}");
    }
}

mod variables {
    use super::*;

    /// The names that a cell added, changed and removed.
    fn names(session: &Python, code: &str) -> [Vec<String>; 3] {
        let VariableChanges { added, changed, removed } = session.good(code).variables;
        [added, changed, removed].map(|list| list.into_iter().map(|change| change.name).collect())
    }

    fn changed(session: &Python, code: &str) -> Vec<String> {
        let [added, changed, removed] = names(session, code);
        assert_eq!((added, removed), (vec![], vec![]), "{code}");
        changed
    }

    #[test]
    fn names_that_are_new_bound_anew_and_gone_are_told_apart() {
        let session = session();
        assert_eq!(names(&session, "a = 1\nb = 'x'\nc = [1]"), [vec!["a", "b", "c"], vec![], vec![]]);
        assert_eq!(names(&session, "a = 2\ndel b\nd = a"), [vec!["d"], vec!["a"], vec!["b"]]);
        assert_eq!(names(&session, "a, c, d\nprint(c)"), [vec![], vec![], vec![] as Vec<&str>]);
    }

    #[test]
    fn every_kind_of_value_has_a_summary_that_fits() {
        let code = "n = 3\nf = 2.5\ns = 'text'\nl = [1, 2]\nd = {'k': None}\nt = (1,)\nu = {7}\nb = b'x'\nnone = None\n\
                    import json\ndef fun(a, b=2, *rest, c, **more): pass\nclass Sub(dict): pass\nobj = type('Thing', (), {})()\nobj.x = 1\nlong = 'y' * 1000";
        let added = session().good(code).variables.added;
        let added: Vec<_> = added.iter().map(|v| (v.name.as_str(), v.type_.as_str(), v.summary.as_str())).collect();
        let long = format!("len 1000: '{}…", "y".repeat(108));
        assert_eq!(
            added,
            [
                ("n", "int", "3"),
                ("f", "float", "2.5"),
                ("s", "str", "'text'"),
                ("l", "list", "len 2: [1, 2]"),
                ("d", "dict", "len 1: {'k': None}"),
                ("t", "tuple", "len 1: (1,)"),
                ("u", "set", "len 1: {7}"),
                ("b", "bytes", "b'x'"),
                ("none", "NoneType", "None"),
                ("json", "module", "json"),
                ("fun", "function", "fun(a, b=2, *rest, c, **more)"),
                ("Sub", "type", "class Sub(dict)"),
                ("obj", "Thing", "x=1"),
                ("long", "str", long.as_str()),
            ]
        );
    }

    #[test]
    fn a_change_in_place_is_seen() {
        let session = session();
        session.good(
            "from collections import defaultdict, deque\nl = [1, 2]\nd = {'k': 1}\ns = {1}\nb = bytearray(b'ab')\n\
             class Box: pass\nbox = Box()\nbox.inside = [1]\nnested = {'a': [1]}\nq = deque([1])\ncount = defaultdict(int)\nuntouched = [0]",
        );
        for (code, name) in [
            ("l.append(3)", "l"),
            ("l[0] = 9", "l"),
            ("d['k'] = 2", "d"),
            ("s.add(2)", "s"),
            ("b[0] = 0", "b"),
            ("box.more = 1", "box"),
            ("box.inside.append(2)", "box"),
            ("nested['a'].append(2)", "nested"),
            ("q.append(2)", "q"),
            ("count['x'] += 1", "count"),
        ] {
            assert_eq!(changed(&session, code), [name], "{code}");
        }
    }

    #[test]
    fn both_names_of_one_object_change_with_it() {
        let session = session();
        session.good("x = [1]\ny = x");
        assert_eq!(changed(&session, "x.append(2)"), ["x", "y"]);
    }

    #[test]
    fn a_large_value_that_grew_or_was_replaced_is_seen() {
        let session = session();
        session.good("l = list(range(10**6))\ntext = 'a' * 10**6\nd = dict.fromkeys(range(10**6))");
        assert_eq!(changed(&session, "l.append(1)"), ["l"]);
        assert_eq!(changed(&session, "text = 'b' * 10**6"), ["text"]);
        assert_eq!(changed(&session, "d['new'] = 1"), ["d"]);
        assert_eq!(changed(&session, "l[0], text[0], d[0]"), [] as [&str; 0]);
    }

    #[test]
    fn the_same_value_again_is_no_change() {
        let session = session();
        session.good("a = 1\ns = 'text'");
        assert_eq!(changed(&session, "a = 1\ns = 'te' + 'xt'"), [] as [&str; 0]);
    }

    #[test]
    fn names_with_an_underscore_in_front_are_nobodys_business() {
        assert!(session().good("_hidden = 1\n__more = 2").variables.is_empty());
    }

    #[test]
    fn looking_at_variables_runs_no_code_of_the_users() {
        let session = session();
        let code = "class Loud:
    def shout(self, *args): print('called'); raise RuntimeError
    __repr__ = __str__ = __eq__ = __hash__ = __len__ = __iter__ = __bool__ = __getattr__ = __sizeof__ = __reduce__ = __dir__ = shout
loud = Loud()
inside = [Loud(), {'k': Loud()}]";
        let result = session.good(code);
        assert_eq!(result.output, "");
        let names: Vec<_> = result.variables.added.into_iter().map(|variable| variable.name).collect();
        assert_eq!(names, ["Loud", "loud", "inside"]);
        assert_eq!(session.good("del loud\nother = 1").output, "");
        wait(session.vars()).unwrap();
        assert_eq!(session.good("1").output, "");
    }

    #[test]
    fn looking_at_variables_keeps_no_object_alive() {
        let session = session();
        session.good("import weakref\nclass Big: pass\nbig = Big()\nheld = [Big()]\ngone = weakref.ref(big), weakref.ref(held[0])");
        session.good("del big, held");
        assert_eq!(session.value("[ref() for ref in gone]"), "[None, None]");
    }

    #[test]
    fn a_cell_that_fails_tells_what_it_bound_before() {
        let added = session().run("a = 1\nb = 1/0").variables.added;
        assert_eq!(added.into_iter().map(|variable| variable.name).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn vars_lists_what_is_there_with_its_size() {
        let session = session();
        session.good("text = 'x' * 1000\n_hidden = 1\nnumber = 7");
        let vars = wait(session.vars()).unwrap();
        let listed: Vec<_> = vars.iter().map(|v| (v.name.as_str(), v.type_.as_str())).collect();
        assert_eq!(listed, [("text", "str"), ("number", "int")]);
        assert!((1000..2000).contains(&vars[0].bytes), "{}", vars[0].bytes);
    }

    #[test]
    fn inspect_looks_at_one_variable() {
        let session = session();
        session.good("def area(r):\n    \"\"\"The area of a circle.\"\"\"\n    return 3 * r * r\nclass Card:\n    def _repr_html_(self): return '<b>'\n    def __repr__(self): return 'Card()'\ncard = Card()\ncard.side = [1]");
        let area = wait(session.inspect("area")).unwrap();
        assert_eq!((area.type_.as_str(), area.doc.as_str()), ("function", "The area of a circle."));
        let card = serde_json::to_value(wait(session.inspect("card")).unwrap()).unwrap();
        assert_eq!(
            card,
            json!({"type": "Card", "repr": "Card()", "doc": "", "mime": {"text/plain": "Card()", "text/html": "<b>"}})
        );
        assert_eq!(wait(session.inspect("card.side")).unwrap().repr, "[1]");
    }
}

mod usage {
    use super::*;

    #[test]
    fn bytes_written_are_counted_as_bytes() {
        let usage = session().good("import sys\nprint('世界')\nsys.stderr.write('é')").usage;
        assert_eq!((usage.stdout_bytes, usage.stderr_bytes), (7, 2));
    }

    #[test]
    fn cpu_time_is_counted_and_sleep_is_not() {
        let session = session();
        let busy = session.good("import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass").usage;
        let idle = session.good("time.sleep(0.2)").usage;
        assert!(busy.cpu_ms >= 200.0, "{busy:?}");
        assert!(idle.cpu_ms < 100.0 && idle.wall_ms >= 200.0, "{idle:?}");
    }

    #[test]
    fn cpu_time_of_child_processes_counts() {
        let code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.3: pass']).returncode";
        let usage = session().good(code).usage;
        assert!(usage.cpu_ms >= 300.0, "{usage:?}");
    }

    #[test]
    fn the_peak_of_memory_is_that_of_the_cell() {
        let session = session();
        let before = session.good("1").usage.peak_bytes;
        let peak = session.good("x = bytearray(100 << 20)\ndel x").usage.peak_bytes;
        assert!(peak >= before + (100 << 20), "{before} {peak}");
        let after = session.good("1").usage.peak_bytes;
        assert!(after < before + (50 << 20), "{before} {after}");
    }

    #[test]
    fn a_time_out_tells_how_long_it_ran() {
        let usage = session().run(cellblock::Cell::new("while True: pass").timeout(0.5)).usage;
        assert!(usage.wall_ms >= 500.0, "{usage:?}");
        assert!(usage.cpu_ms > 100.0 && usage.peak_bytes > 0, "{usage:?}");
    }
}

mod errors {
    use super::*;

    /// What a failed cell says, and the hint that goes with it.
    fn hint(code: &str) -> (String, Option<String>) {
        let result = session().run(code);
        assert_eq!(result.status, Status::Failure);
        let error = result.error.unwrap();
        (error.value, error.hint)
    }

    #[test]
    fn a_refused_connection_says_that_there_is_no_network_and_what_would_help() {
        let (value, _) = hint("import socket\nsocket.create_connection(('93.184.216.34', 80), timeout=5)");
        let why = "; this session has no network: hand the data in as a file in the workspace or fetch it through a tool, \
                   or open the session with network access";
        assert!(value.ends_with(why), "{value}");
    }

    #[test]
    fn a_name_that_cannot_be_resolved_says_that_there_is_no_network() {
        let (value, _) = hint("import urllib.request\nurllib.request.urlopen('http://example.com', timeout=5)");
        assert!(value.contains("this session has no network"), "{value}");
    }

    #[test]
    fn a_file_of_the_host_is_not_there_and_the_hint_says_where_files_are() {
        let (value, hint) = hint("open('/home/someone/data.csv')");
        assert_eq!(value, "[Errno 2] No such file or directory: '/home/someone/data.csv'");
        assert_eq!(
            hint.unwrap(),
            "Files of the host are not visible in this session; put the file into the workspace, which is /workspace."
        );
    }

    #[test]
    fn writing_outside_the_workspace_is_refused_and_explained() {
        let (_, hint) = hint("open('/usr/lib/x', 'w')");
        assert_eq!(
            hint.unwrap(),
            "Only /workspace and /tmp are writable in this session; /usr/lib/x is outside. Use a path relative to the workspace."
        );
    }

    #[test]
    fn a_package_that_is_missing_and_an_install_name_install_packages() {
        let (_, missing) = hint("import no_such_package");
        assert_eq!(
            missing.unwrap(),
            "The package 'no_such_package' is not part of this session. Packages cannot be installed from a cell; ask for them with install_packages."
        );
        for code in ["!pip install x", "%pip install x", "import subprocess\nsubprocess.run(['pip', 'install', 'x'])", "import os\nos.system('uv add x')"] {
            let (value, _) = hint(code);
            assert!(value.contains("install_packages"), "{code}: {value}");
        }
    }

    #[test]
    fn a_misspelt_name_gets_a_proposal() {
        assert_eq!(hint("temperature = 1\ntemprature").1.unwrap(), "Did you mean 'temperature'?");
    }

    #[test]
    fn an_error_without_a_wall_behind_it_has_no_hint() {
        assert_eq!(hint("[][0]"), ("list index out of range".into(), None));
    }

    #[test]
    fn a_huge_message_is_cut_and_the_last_line_stays() {
        let error = session().run("raise ValueError('x' * 10**7)").error.unwrap();
        assert!(error.traceback.len() < 100_000, "{}", error.traceback.len());
        assert!(error.traceback.lines().last().unwrap().starts_with("ValueError: xxx"));
    }

    #[test]
    fn warnings_go_to_stderr_with_the_line_that_caused_them() {
        let result = session().good("import warnings\nwarnings.warn('careful')");
        assert_eq!(result.stderr, "<cell 1>:2: UserWarning: careful\n  warnings.warn('careful')\n");
    }

    #[test]
    fn what_notebooks_allow_beyond_python_is_explained() {
        let session = session();
        session.good("%matplotlib inline\nx = 1");
        assert_eq!(session.value("    x + 1"), "2");
        let error = session.run("!ls -l").error.unwrap();
        assert!(error.value.contains("subprocess.run('ls -l', shell=True"), "{}", error.value);
    }
}
