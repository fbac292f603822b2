//! Scores of many evaluations as a table for a page.

use crate::report::Report;
use std::collections::BTreeSet;

/// What the part of a page that holds the table begins with, up to the end of that line.
const BEGIN: &str = "<!-- scores: begin";

/// What it ends with.
const END: &str = "<!-- scores: end -->";

/// A page that has no place for the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the page has no line that begins with `{BEGIN}`, followed by a line `{END}`")]
pub struct ScoresError;

/// A Markdown table with a row for each model and way of asking, and two columns for each suite.
pub fn score_table(reports: &[Report]) -> String {
    let suites: BTreeSet<&str> = reports.iter().map(|report| &*report.suite).collect();
    let rows: BTreeSet<(&str, usize, &str)> = reports
        .iter()
        .map(|report| (&*report.model, place(report), report.way()))
        .collect();
    let mut table = String::from("| model | asked |");
    for suite in &suites {
        table.push_str(&format!(
            " {suite} | steps, tokens | code read at the first try |"
        ));
    }
    table.push_str("\n| --- | --- |");
    table.push_str(&" --- | --- | --- |".repeat(suites.len()));
    table.push('\n');
    for (model, _, way) in rows {
        let asked = match way {
            "plain" => "without the agent".to_owned(),
            format => format!("`{format}`"),
        };
        table.push_str(&format!("| {} | {asked} |", cell(model)));
        for suite in &suites {
            let found = reports
                .iter()
                .find(|it| it.suite == *suite && it.model == model && it.way() == way);
            table.push_str(&found.map_or(" | | |".to_owned(), cells));
        }
        table.push('\n');
    }
    table
}

/// A page with the table in its place, between two comments.
pub fn with_scores(page: &str, table: &str) -> Result<String, ScoresError> {
    let begin = page.find(BEGIN).ok_or(ScoresError)?;
    let body = begin + page[begin..].find('\n').ok_or(ScoresError)? + 1;
    let end = body + page[body..].find(END).ok_or(ScoresError)?;
    Ok(format!("{}{table}{}", &page[..body], &page[end..]))
}

/// Plain first, then the formats by their names.
fn place(report: &Report) -> usize {
    usize::from(report.format.is_some())
}

fn cells(report: &Report) -> String {
    let totals = &report.totals;
    let unfinished = if report.complete {
        ""
    } else {
        ", not finished"
    };
    let share = totals
        .parsed_share()
        .map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0));
    format!(
        " {:.2} ({} of {}){unfinished} | {}, {} | {share} |",
        totals.score,
        totals.passed,
        totals.tasks,
        totals.steps,
        totals.usage.total(),
    )
}

/// A text that breaks no table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
