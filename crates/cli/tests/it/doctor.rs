//! `cellblock doctor`: the report for a person and for a program.

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
fn the_report_for_a_person() {
    let ended = Place::new().run(["doctor"]);
    insta::assert_snapshot!(layout(&ended.stdout));
}

/// The report without what differs between machines: of the walls the whole lines, of everything else the names.
fn layout(report: &str) -> String {
    let mut section = "";
    let mut lines = Vec::new();
    for line in report.lines() {
        let is_heading = !line.is_empty() && !line.starts_with(' ') && !line.contains("  ");
        let text = line.trim_start();
        if is_heading || line.is_empty() {
            section = line;
            lines.push(line.to_owned());
        } else if line.starts_with("Isolation") {
            lines.push("Isolation  […]".to_owned());
        } else if line.starts_with("      ") {
            // Hints and packages are a matter of the machine.
        } else if let Some((_, rest)) = text.split_once(' ') {
            let name = rest.trim_start().split("  ").next().unwrap_or_default();
            match section {
                "Walls" => lines.push(format!("  […] {}", rest.trim_start())),
                "" => {}
                _ => lines.push(format!("  […] {}", name.trim_end())),
            }
        }
    }
    lines.join("\n")
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
