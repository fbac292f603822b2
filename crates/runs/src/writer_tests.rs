use super::*;
use crate::Runs;
use serde_json::json;

#[test]
fn a_full_disk_is_told_once_and_the_record_stays_whole() {
    let place = tempfile::tempdir().unwrap();
    let runs = Runs::new(place.path());
    let mut writer = runs.begin(Beginning::default()).unwrap();
    writer.event(&json!("one")).unwrap();
    // A device that is always full takes the place of the file.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let good = std::mem::replace(&mut writer.file, full);
    let error = writer.event(&json!("two")).unwrap_err().to_string();
    assert!(
        error.ends_with("cannot be written: No space left on device (os error 28)"),
        "{error}"
    );
    writer.event(&json!("three")).unwrap();
    // There is room again for the last words.
    writer.file = good;
    let ending = Ending {
        status: "answered".into(),
        ..Ending::default()
    };
    writer.end(ending.clone()).unwrap();
    let run = runs.find("last").unwrap().read().unwrap();
    assert_eq!((run.events.len(), run.life), (1, Life::Ended(ending)));
    let told = run.incomplete.unwrap();
    assert!(
        told.starts_with("it was not written to the end: "),
        "{told}"
    );
}

#[test]
fn a_record_that_grows_too_long_is_not_continued() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = Runs::new(place.path()).begin(Beginning::default()).unwrap();
    writer.bytes = MOST_BYTES;
    let error = writer.event(&json!("one")).unwrap_err();
    assert!(matches!(error, RunError::Full { limit: 256 }), "{error}");
}
