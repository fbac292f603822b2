//! The value of a cell, in all its forms.

use crate::support::session;
use serde_json::{Value, json};

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
    assert_eq!(
        bundle(code),
        json!({"text/plain": "Rich()", "text/markdown": "md"})
    );
}

#[test]
fn an_object_that_claims_to_have_everything_is_not_believed() {
    let code = "class Magic:
    def __getattr__(self, name): return lambda *args: 'boo'
    def __repr__(self): return 'Magic()'
Magic()";
    assert_eq!(bundle(code), json!({"text/plain": "Magic()"}));
}

#[test]
fn a_repr_that_fails_is_no_failure_of_the_cell() {
    let session = session();
    let repr = session.value(
        "class Broken:
    def __repr__(self): raise ValueError('no repr')
broken = Broken()
broken",
    );
    assert_eq!(repr, "<unrepresentable Broken: ValueError('no repr')>");
    assert_eq!(session.value("type(broken).__name__"), "'Broken'");
}

#[test]
fn a_huge_value_is_cut() {
    let session = session();
    for code in [
        "list(range(10**7))",
        "'x' * 10**8",
        "{n: n for n in range(10**6)}",
        "10**100_000",
        "b'x' * 10**8",
    ] {
        let result = session.good(code);
        let repr = result.value.unwrap().repr;
        assert!(repr.len() < 200_000, "{code}: {}", repr.len());
        assert!(
            repr.contains("in all") || repr.contains("digits"),
            "{code} says nothing of what was cut: {}",
            &repr[repr.len() - 60..]
        );
    }
}

#[test]
fn a_value_that_contains_itself_is_shown() {
    assert_eq!(session().value("x = [1]\nx.append(x)\nx"), "[1, [...]]");
}
