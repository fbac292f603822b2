//! `cellblock bench`, where it can be quick.

use crate::support::Place;
use serde_json::Value;

#[test]
fn many_sessions_are_opened_used_and_closed() {
    let place = Place::new();
    let ended = place.run(["bench", "--scale", "6", "--quick", "--json", "--stdlib"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let number = |path: &str| report.pointer(path).and_then(Value::as_f64).unwrap();
    assert_eq!(number("/steps/0/sessions"), 6.0);
    assert_eq!(number("/steps/0/open_ms/count"), 5.0);
    assert!(number("/without_pause/per_second") > 0.0);
    assert!(report["stopped_by"].is_null());
    // Each session has at least an init, a head and a standby.
    let bounds = report["bounds"].as_array().unwrap();
    let processes = bounds
        .iter()
        .find(|bound| bound["name"] == "process numbers");
    assert!(
        processes.unwrap()["used"].as_u64().unwrap() >= 18,
        "{report}"
    );
}
