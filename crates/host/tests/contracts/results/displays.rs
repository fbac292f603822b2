//! What a cell shows.

use crate::support::session;
use cellblock_protocol::MimeBundle;

#[test]
fn display_shows_things_in_order() {
    let code = "class Card:
    def _repr_html_(self): return '<b>'
    def __repr__(self): return 'Card()'
display(1, 'two')
display(Card())";
    let plain = |text: &str| MimeBundle::new().with("text/plain", text);
    assert_eq!(
        session().good(code).displays,
        [
            plain("1"),
            plain("'two'"),
            plain("Card()").with("text/html", "<b>")
        ]
    );
}

#[test]
fn a_cell_that_fails_keeps_what_it_showed() {
    let result = session().run("display('shown')\n1/0");
    assert_eq!(
        result.displays,
        [MimeBundle::new().with("text/plain", "'shown'")]
    );
}

#[test]
fn a_flood_of_displays_is_bounded_and_the_cell_goes_on() {
    let session = session();
    let result = session.good("for n in range(5000): display(n)\n'done'");
    assert_eq!(result.value.unwrap().repr, "'done'");
    assert!(
        (100..=1000).contains(&result.displays.len()),
        "{}",
        result.displays.len()
    );
}

#[test]
fn a_display_that_is_too_large_says_so() {
    let code = "class Huge:
    def _repr_html_(self): return 'x' * (30 << 20)
    def __repr__(self): return 'Huge()'
display(Huge())";
    let [shown] = session().good(code).displays.try_into().unwrap();
    assert_eq!(shown.types().collect::<Vec<_>>(), ["text/plain"]);
    let text = shown.text("text/plain").unwrap();
    assert!(
        text.starts_with("Huge()\n[text/html left out: too large"),
        "{text}"
    );
}
