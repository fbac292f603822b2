use crate::support::Place;

#[test]
fn the_tour_on_the_standard_library_does_what_it_claims() {
    let ended = Place::new().run(["demo", "--stdlib"]);
    assert_eq!(
        (ended.status, &ended.stderr[..]),
        (0, ""),
        "{}",
        ended.stdout
    );
    let headings: Vec<&str> = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    assert_eq!(
        headings,
        [
            "1. A session remembers",
            "2. An exception is explained, with the values at hand",
            "3. The network is refused, and the refusal says why",
            "4. A cell that never ends is ended, even inside C code, and nothing is lost",
            "5. A crash costs no variable",
            "6. A cell can be taken back, with its files",
            "7. A fork tries something out, and the session does not notice",
            "8. A plot is saved and listed",
            "9. A model asks Python, fails, repairs its code, and knows the answer",
        ]
    );
    assert!(
        ended.stdout.contains("Python 3.")
            && ended.stdout.contains("with the standard library alone")
    );
    assert!(ended.stdout.contains("in share: total = 100, people = 0"));
    assert!(ended.stdout.contains("degrees.svg (273 bytes)"));
    assert!(
        ended
            .stdout
            .contains("NameError: name 'principal' is not defined")
    );
    assert!(ended.stdout.contains("   Final answer: 21386.41\n"));
}
