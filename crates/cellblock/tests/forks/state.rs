//! What a fork has of its parent.

use crate::support::session;

#[test]
fn variables_are_copied_and_then_apart() {
    let parent = session();
    parent.good("x = [1]");
    let fork = parent.fork();
    assert_ne!(fork.id(), parent.id());
    fork.good("x.append(2); y = 3");
    parent.good("x.append(9); z = 4");
    assert_eq!(fork.value("x, 'y' in globals(), 'z' in globals()"), "([1, 2], True, False)");
    assert_eq!(parent.value("x, 'y' in globals(), 'z' in globals()"), "([1, 9], False, True)");
}
