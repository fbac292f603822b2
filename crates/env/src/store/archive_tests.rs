//! Archives that lie about their paths, or are not whole.

use super::*;

fn unpacked(text: &str) -> (tempfile::TempDir, io::Result<()>) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    fs::create_dir(&root).unwrap();
    let outcome = unpack(&mut text.as_bytes(), &root);
    (directory, outcome)
}

fn file(path: &str, text: &str) -> String {
    let bytes = text.len();
    format!(
        "{{\"entry\":\"file\",\"path\":\"{path}\",\"bytes\":{bytes},\"executable\":false}}\n{text}"
    )
}

fn end(entries: u64) -> String {
    format!("{{\"entry\":\"end\",\"entries\":{entries}}}\n")
}

#[test]
fn files_are_unpacked_as_they_were() {
    let directory = "{\"entry\":\"directory\",\"path\":\"lib\"}\n";
    let text = format!("{directory}{}{}", file("lib/a.py", "x = 1\n"), end(2));
    let (place, outcome) = unpacked(&text);
    outcome.unwrap();
    let written = fs::read_to_string(place.path().join("root/lib/a.py")).unwrap();
    assert_eq!(written, "x = 1\n");
}

#[test]
fn no_entry_leads_out_of_the_directory() {
    let link = "{\"entry\":\"link\",\"path\":\"out\",\"target\":\"..\"}\n";
    let cases = [
        file("../escaped", "x"),
        file("/tmp/cellblock-escaped", "x"),
        file("", "x"),
        file("missing/x", "x"),
        format!("{link}{}", file("out/escaped", "x")),
        format!("{link}{}", file("out", "x")),
        "{\"entry\":\"directory\",\"path\":\"..\"}\n".to_owned(),
        "{\"entry\":\"directory\",\"path\":\"a/../..\"}\n".to_owned(),
    ];
    for case in cases {
        let (place, outcome) = unpacked(&format!("{case}{}", end(1)));
        assert!(outcome.is_err(), "{case}");
        let names: Vec<_> = fs::read_dir(place.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "{case}");
    }
}

#[test]
fn an_archive_that_is_not_whole_is_refused() {
    let whole = format!("{}{}", file("a", "text"), end(1));
    unpacked(&whole).1.unwrap();
    for cut in 0..whole.len() {
        assert!(unpacked(&whole[..cut]).1.is_err(), "{cut}");
    }
    let cases = [
        format!("{}{}", file("a", "text"), end(2)),
        format!("{whole}more"),
        format!(
            "{}{}",
            file("a", "x").replace(":1,", ":99999999999999,"),
            end(1)
        ),
    ];
    for case in cases {
        assert!(unpacked(&case).1.is_err(), "{case}");
    }
}
