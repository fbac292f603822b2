//! Results as files, compared, and as a table.

use crate::support::{finished, idle_agents, on_file};
use cellblock_agent::Format;
use cellblock_eval::{EvalReport, Evaluation, Suite, replace_score_table, score_table};
use cellblock_model::{Reply, ScriptedModel};
use std::sync::Arc;

/// What comes of tasks with these names when the model answers these texts.
fn report(format: Format, answers: &'static [(&'static str, &'static str)]) -> EvalReport {
    let tasks = answers.iter().map(|(name, _)| {
        format!("[[tasks]]\nname = \"{name}\"\nquestion = \"?\"\nchecks = [{{ check = \"contains\", text = \"yes\" }}]\n")
    });
    let suite = format!("name = \"small\"\n{}", tasks.collect::<String>());
    let evaluation = Evaluation::new(
        Suite::parse(&suite).unwrap(),
        |task| {
            let (_, text) = answers.iter().find(|(name, _)| *name == task.name).unwrap();
            Ok(Arc::new(ScriptedModel::new([Reply::text(*text)])))
        },
        idle_agents(format),
    );
    finished(&evaluation)
}

#[test]
fn results_are_written_and_read() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("results.json");
    let report = report(Format::Xml, &[("a", "yes"), ("b", "no")]);
    report.write(&file).unwrap();
    // Once more: the older file gives way, and nothing else is left.
    report.write(&file).unwrap();
    assert_eq!(EvalReport::read(&file).unwrap(), report);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn what_is_not_a_file_of_results_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("results.json");
    for (text, words) in [
        ("{}", "these are not results of an evaluation"),
        ("not JSON", "these are not results of an evaluation"),
    ] {
        std::fs::write(&file, text).unwrap();
        let error = EvalReport::read(&file).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let newer = report(Format::Xml, &[("a", "yes")]);
    let newer = serde_json::to_string(&newer)
        .unwrap()
        .replace("\"cellblock_eval\":1", "\"cellblock_eval\":9");
    std::fs::write(&file, newer).unwrap();
    let error = EvalReport::read(&file).unwrap_err().to_string();
    assert!(
        error.contains("it has version 9; this program reads version 1"),
        "{error}"
    );
    let folder = place.path().join("no/such/folder/results.json");
    assert!(report(Format::Xml, &[("a", "yes")]).write(folder).is_err());
}

#[test]
fn a_long_answer_is_cut_in_the_results() {
    let long: &'static str = "yes ".repeat(5_000).leak();
    let answers = vec![("a", long)].leak();
    let report = report(Format::Markdown, answers);
    assert_eq!(report.totals.score, 1.0);
    let answer = report.tasks[0].answer.as_ref().unwrap().as_str().unwrap();
    assert_eq!(answer.chars().count(), 2_001);
}

#[test]
fn tasks_that_became_worse_are_named() {
    let before = report(
        Format::Xml,
        &[("a", "yes"), ("b", "yes"), ("c", "no"), ("old", "yes")],
    );
    let now = report(
        Format::Xml,
        &[("a", "yes"), ("b", "no"), ("c", "yes"), ("new", "no")],
    );
    let changes = now.compare_with(&before);
    assert_eq!((changes.score_before, changes.score_now), (0.75, 0.5));
    assert_eq!(changes.regressions.len(), 1);
    assert_eq!(changes.regressions[0].task, "b");
    assert_eq!(
        changes.regressions[0].problems,
        ["the answer does not contain \"yes\""]
    );
    assert_eq!(changes.improvements[0].task, "c");
    assert_eq!(
        (changes.added, changes.removed),
        (vec!["new".to_owned()], vec!["old".to_owned()])
    );
}

#[test]
fn many_results_make_a_table_in_a_page() {
    let mut reports = [
        report(Format::Xml, &[("a", "yes"), ("b", "no")]),
        report(Format::Markdown, &[("a", "yes"), ("b", "no")]),
    ];
    for report in &mut reports {
        report.totals.usage.input_tokens = 1_234;
        report.totals.usage.output_tokens = 0;
    }
    reports[1].format = None;
    let table = score_table(&reports);
    assert_eq!(
        table,
        "\
| model | asked | small | steps, tokens | code read at the first try |
| --- | --- | --- | --- | --- |
| scripted | without the agent | 0.50 (1 of 2) | 0, 1234 | – |
| scripted | `xml` | 0.50 (1 of 2) | 0, 1234 | – |
"
    );
    let page = "before\n<!-- scores: begin. -->\nold\n<!-- scores: end -->\nafter\n";
    assert_eq!(
        replace_score_table(page, &table).unwrap(),
        format!("before\n<!-- scores: begin. -->\n{table}<!-- scores: end -->\nafter\n")
    );
    assert!(replace_score_table("nothing", &table).is_err());
}

#[test]
fn the_scores_of_the_page_are_those_of_the_results_on_file() {
    let mut files: Vec<_> = std::fs::read_dir(on_file("results"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    let reports: Vec<EvalReport> = files
        .iter()
        .map(|file| EvalReport::read(file).unwrap())
        .collect();
    assert!(!reports.is_empty());
    let page = std::fs::read_to_string(on_file("../docs/models.md")).unwrap();
    let made = replace_score_table(&page, &score_table(&reports)).unwrap();
    let command = "cellblock eval table evals/results/*.json --into docs/models.md";
    assert!(made == page, "the table is old; make it again: {command}");
}
