//! What a cell did to the variables, and looking at them.

use crate::support::{Python, session, wait};
use cellblock_protocol::VariableChanges;
use serde_json::json;

/// The names that a cell added, changed and removed.
fn names(session: &Python, code: &str) -> [Vec<String>; 3] {
    let VariableChanges {
        added,
        changed,
        removed,
    } = session.good(code).variables;
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
    assert_eq!(
        names(&session, "a = 1\nb = 'x'\nc = [1]"),
        [vec!["a", "b", "c"], vec![], vec![]]
    );
    assert_eq!(
        names(&session, "a = 2\ndel b\nd = a"),
        [vec!["d"], vec!["a"], vec!["b"]]
    );
    assert_eq!(
        names(&session, "a, c, d\nprint(c)"),
        [vec![], vec![], vec![] as Vec<&str>]
    );
}

#[test]
fn every_kind_of_value_has_a_summary_that_fits() {
    let code = "n = 3
f = 2.5
s = 'text'
l = [1, 2]
d = {'k': None}
t = (1,)
u = {7}
b = b'x'
none = None
import json
def fun(a, b=2, *rest, c, **more): pass
class Sub(dict): pass
obj = type('Thing', (), {})()
obj.x = 1
long = 'y' * 1000";
    let added = session().good(code).variables.added;
    let added: Vec<_> = added
        .iter()
        .map(|v| (v.name.as_str(), v.type_.as_str(), v.summary.as_str()))
        .collect();
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
        "from collections import defaultdict, deque
l = [1, 2]
d = {'k': 1}
s = {1}
b = bytearray(b'ab')
class Box: pass
box = Box()
box.inside = [1]
nested = {'a': [1]}
q = deque([1])
count = defaultdict(int)
untouched = [0]",
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
    assert!(
        session()
            .good("_hidden = 1\n__more = 2")
            .variables
            .is_empty()
    );
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
    let names: Vec<_> = result
        .variables
        .added
        .into_iter()
        .map(|variable| variable.name)
        .collect();
    assert_eq!(names, ["Loud", "loud", "inside"]);
    assert_eq!(session.good("del loud\nother = 1").output, "");
    wait(session.vars()).unwrap();
    assert_eq!(session.good("1").output, "");
}

#[test]
fn looking_at_variables_keeps_no_object_alive() {
    let session = session();
    session.good(
        "import weakref
class Big: pass
big = Big()
held = [Big()]
gone = weakref.ref(big), weakref.ref(held[0])",
    );
    session.good("del big, held");
    assert_eq!(session.value("[ref() for ref in gone]"), "[None, None]");
}

#[test]
fn a_cell_that_fails_tells_what_it_bound_before() {
    let added = session().run("a = 1\nb = 1/0").variables.added;
    assert_eq!(
        added
            .into_iter()
            .map(|variable| variable.name)
            .collect::<Vec<_>>(),
        ["a"]
    );
}

#[test]
fn vars_lists_what_is_there_with_its_size() {
    let session = session();
    session.good("text = 'x' * 1000\n_hidden = 1\nnumber = 7");
    let vars = wait(session.vars()).unwrap();
    let listed: Vec<_> = vars
        .iter()
        .map(|v| (v.name.as_str(), v.type_.as_str()))
        .collect();
    assert_eq!(listed, [("text", "str"), ("number", "int")]);
    assert!((1000..2000).contains(&vars[0].bytes), "{}", vars[0].bytes);
}

#[test]
fn inspect_looks_at_one_variable() {
    let session = session();
    session.good(
        "def area(r):
    \"\"\"The area of a circle.\"\"\"
    return 3 * r * r
class Card:
    def _repr_html_(self): return '<b>'
    def __repr__(self): return 'Card()'
card = Card()
card.side = [1]",
    );
    let area = wait(session.inspect("area")).unwrap();
    assert_eq!(
        (area.type_.as_str(), area.doc.as_str()),
        ("function", "The area of a circle.")
    );
    let card = serde_json::to_value(wait(session.inspect("card")).unwrap()).unwrap();
    assert_eq!(
        card,
        json!({"type": "Card", "repr": "Card()", "doc": "", "mime": {"text/plain": "Card()", "text/html": "<b>"}})
    );
    assert_eq!(wait(session.inspect("card.side")).unwrap().repr, "[1]");
}
