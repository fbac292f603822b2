//! `cellblock ask`: what a question brings along: files, directories, a network and templates, and the files that it leaves.

use crate::ask::{ask, asked};
use crate::fake_model::FakeModel;
use crate::support::Place;
use std::fs;

#[test]
fn files_go_in_and_out() {
    let place = Place::new();
    fs::write(place.path().join("numbers.csv"), "1\n2\n3\n").unwrap();
    let code = "total = sum(map(int, open('numbers.csv')))\nimport os\nos.makedirs('out', exist_ok=True)\nopen('out/total.txt', 'w').write(str(total))\ntotal";
    let model = FakeModel::saying([format!("```python\n{code}\n```"), "6".to_owned()]);
    let ended = ask(
        &place,
        &model,
        &["Sum?", "--file", "numbers.csv", "--out", "taken", "--quiet"],
    );
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (0, "6\n"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        fs::read_to_string(place.path().join("taken/out/total.txt")).unwrap(),
        "6"
    );
    assert!(!place.path().join("taken/numbers.csv").exists());
}

/// A cell that shows a picture of one pixel, as `plt.show()` would.
const PICTURE: &str = "\
```python
import base64
PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
class Picture:
    def _repr_png_(self):
        return base64.b64decode(PIXEL)
display(Picture())
open('numbers.txt', 'w').close()
```";

#[test]
fn pictures_are_files_of_the_run() {
    let place = Place::new();
    let model = FakeModel::saying([PICTURE, "Look at it."]);
    let ended = ask(&place, &model, &["Draw.", "--out", "taken"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let picture = fs::read(place.path().join("taken/plots/cell-1.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));

    let model = FakeModel::saying([PICTURE, "Look at it."]);
    let ended = ask(&place, &model, &["Draw."]);
    let named: Vec<&str> = ended
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("file "))
        .collect();
    assert_eq!(named.len(), 2, "{}", ended.stderr);
    assert!(named[0].ends_with("/numbers.txt") && named[1].ends_with("/plots/cell-1.png"));
    assert_eq!(fs::read(named[1]).unwrap(), picture);
}

#[test]
fn the_model_is_told_what_it_was_given() {
    let place = Place::new();
    fs::write(place.path().join("sales.csv"), "1\n").unwrap();
    let model = FakeModel::saying(["ready"]);
    let given = [
        "Ready?",
        "--file",
        "sales.csv",
        "--import",
        "math",
        "--allow-net",
        "GET api.example.org",
    ];
    assert_eq!(ask(&place, &model, &given).status, 0);
    let prompt = model.asked()[0]["messages"][0]["content"].to_string();
    for line in [
        "Files that are there: sales.csv.",
        "Imported already: math.",
        "Over the network the code can reach these, and nothing else: GET api.example.org.",
    ] {
        assert!(prompt.contains(line), "{line:?} is not in {prompt}");
    }
    assert!(!prompt.contains("There is no network"), "{prompt}");
}

#[test]
fn the_model_is_not_told_that_there_is_no_network_where_its_wall_is_left_out() {
    let place = Place::new();
    let model = FakeModel::saying(["ready"]);
    assert_eq!(
        ask(&place, &model, &["Ready?", "--without", "network"]).status,
        0
    );
    let prompt = model.asked()[0]["messages"][0]["content"].to_string();
    let open = "The code can reach the network of this machine.";
    assert!(prompt.contains(open), "{prompt}");
    assert!(!prompt.contains("no network"), "{prompt}");
}

#[test]
fn a_directory_is_given_with_all_its_files() {
    let place = Place::new();
    fs::create_dir_all(place.path().join("data/2026")).unwrap();
    fs::write(place.path().join("data/a.csv"), "1\n").unwrap();
    fs::write(place.path().join("data/2026/b.csv"), "2\n").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", place.path().join("data/link")).unwrap();
    let code = "```python\nimport glob\nprint(sorted(glob.glob('**/*', recursive=True)))\n```";
    let model = FakeModel::saying([code, "seen"]);
    insta::assert_snapshot!(asked(&place, &model, &["What is there?", "--file", "data"]));
}

#[test]
fn a_template_is_asked_with_arguments() {
    let place = Place::new();
    let template = include_str!("../../../agent/examples/outlier_count.md");
    fs::write(place.path().join("t.md"), template).unwrap();
    let code = "from statistics import mean, pstdev\nprint(sum(abs(r - mean(readings)) > limit * pstdev(readings) for r in readings))";
    let model = FakeModel::saying([format!("```python\n{code}\n```"), "2".to_owned()]);
    let readings = "readings=[12, 19, 23, 31, 8, 27]";
    let shown = [readings, "reading=1"]
        .map(|argument| asked(&place, &model, &["--template", "t.md", "--arg", argument]));
    insta::assert_snapshot!(shown.concat());
}

#[test]
fn templates_of_a_folder_can_call_each_other() {
    let place = Place::new();
    let folder = place.path().join("templates");
    fs::create_dir(&folder).unwrap();
    let mean = "+++\nname = \"mean_of\"\ndescription = \"The mean.\"\ncode = true\n[params]\nvalues = \"list of numbers\"\n[returns]\ntype = \"number\"\n+++\nWhat is the mean of `values`?\n";
    let report = "+++\nname = \"report\"\ndescription = \"A report.\"\ncode = true\n[params]\nvalues = \"list of numbers\"\n+++\nSay how large `values` are.\n";
    fs::write(folder.join("mean.md"), mean).unwrap();
    fs::write(folder.join("report.md"), report).unwrap();
    let model = FakeModel::saying([
        "```python\nmean_of(values=values) + 1\n```",
        "```python\nsum(values) / len(values)\n```",
        "2.0",
        "The mean and one are 3.0.",
    ]);
    let mut flags = vec!["--template", "templates/report.md"];
    flags.extend(["--templates-dir", "templates", "--arg", "values=[1, 2, 3]"]);
    let shown = asked(&place, &model, &flags);
    let none = asked(&place, &model, &["?", "--templates-dir", "."]);
    insta::assert_snapshot!(shown + &none);
}
