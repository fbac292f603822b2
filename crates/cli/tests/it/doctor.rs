use crate::support::Place;
use serde_json::Value;

#[test]
fn the_report_says_whether_sessions_can_run() {
    let ended = Place::new().run(["doctor", "--json"]);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["ok"], ended.status == 0, "{report:#}");
    // These tests cannot pass where no session can start.
    assert_eq!(
        (&report["ok"], &report["session"]["ok"]),
        (&true.into(), &true.into()),
        "{report:#}"
    );
    let pool = &report["session"]["pool"];
    assert_eq!(pool["ready"], pool["size"], "{report:#}");
    assert_eq!(report["walls"].as_array().unwrap().len(), 14);
    assert_eq!(report["environment"]["status"], "missing");
    assert!(
        report["python"]["version"]
            .as_str()
            .unwrap()
            .starts_with("3.")
    );
}

#[test]
fn the_report_for_a_person_has_all_parts_in_order() {
    let ended = Place::new().run(["doctor"]);
    let mut rest = &ended.stdout[..];
    for part in [
        "Isolation",
        "\nWalls\n",
        "\nMechanisms\n",
        "cgroups",
        "\nPython\n",
        "`cellblock setup` makes it",
        "CJK font",
        "\nDirectories\n",
        "\nA session\n",
        "pool",
    ] {
        let (_, after) = rest
            .split_once(part)
            .unwrap_or_else(|| panic!("no {part:?} in order:\n{}", ended.stdout));
        rest = after;
    }
}

#[test]
fn every_python_that_was_tried_is_told() {
    let place = Place::new();
    let empty = place.path().display().to_string();
    let ended = place.run(["doctor", "--python", &format!("{empty}/python3")]);
    assert_eq!(ended.status, 1);
    assert!(
        ended.stdout.contains("/python3: there is no such file"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("hint: name another executable"),
        "{}",
        ended.stdout
    );
}
