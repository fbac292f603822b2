use crate::support::{Place, normal_text};

#[test]
fn the_tour_on_the_standard_library_does_what_it_claims() {
    let place = Place::new();
    let ended = place.run(["demo", "--stdlib"]);
    assert_eq!(
        (ended.status, &ended.stderr[..]),
        (0, ""),
        "{}",
        ended.stdout
    );
    let text = normal_text(&ended.stdout, &place);
    // The version of Python differs between machines.
    let lines = text.lines().map(|line| match line.split_once(" with ") {
        Some((python, rest)) if python.starts_with("Python 3.") => {
            format!("Python […] with {rest}")
        }
        _ => line.to_owned(),
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}
