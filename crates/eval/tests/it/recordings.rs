//! Both suites of this repository, through replies that were recorded. The code in them really runs.

use crate::support::{agents, finished, idle_agents, on_file};
use cellblock_agent::{AgentBuilder, Format, RunLimits};
use cellblock_eval::{AskMode, EvalReport, Evaluation, PlainOptions, Suite, Task, TaskFile};
use cellblock_model::{Model, ModelError, ReplayModel, Reply, RequestMatch, ScriptedModel};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

const SUITES: [&str; 2] = ["secret", "data"];

fn suite(name: &str) -> Suite {
    Suite::read(on_file(&format!("{name}/suite.toml"))).unwrap()
}

/// The recording of a task; one with a mistake on purpose has another name.
fn recording(suite: &str, format: Format, task: &str) -> PathBuf {
    let folder = on_file(&format!("{suite}/recordings/{format}"));
    let staged = folder.join(format!("scripted-{task}.jsonl"));
    if staged.exists() {
        return staged;
    }
    folder.join(format!("{task}.jsonl"))
}

/// Plays a suite back: a reply comes only to what it was recorded for.
fn replayed<A>(name: &'static str, format: Format, agents: A) -> EvalReport
where
    A: Fn(Vec<TaskFile>) -> AgentBuilder + Send + Sync + 'static,
{
    let models = move |task: &Task| -> Result<Arc<dyn Model>, ModelError> {
        let file = recording(name, format, &task.name);
        Ok(Arc::new(ReplayModel::open_matching(
            file,
            RequestMatch::Conversation,
        )?))
    };
    finished(&Evaluation::new(suite(name), models, agents).jobs(3))
}

/// Says what is on the tape, whatever it is asked.
fn deaf(name: &'static str, format: Format, task: &str) -> ScriptedModel {
    let text = std::fs::read_to_string(recording(name, format, task)).unwrap();
    let replies = text.lines().skip(1).map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        serde_json::from_value::<Reply>(line["reply"].take()).unwrap()
    });
    ScriptedModel::new(replies.collect::<Vec<_>>())
}

#[test]
fn both_suites_on_file_pass_in_every_format() {
    for name in SUITES {
        for format in Format::ALL {
            let report = replayed(name, format, agents(format));
            let failed: Vec<_> = report.tasks.iter().filter(|task| !task.passed).collect();
            assert!(failed.is_empty(), "{name}, {format}: {failed:#?}");
            assert_eq!((report.totals.score, report.complete), (1.0, true));
            assert_eq!(report.format, Some(format));
        }
    }
}

#[test]
fn in_every_format_on_file_something_fails_and_is_repaired() {
    for format in Format::ALL {
        let data = replayed("data", format, agents(format));
        // Code that fails on the data, and is put right.
        assert!(data.totals.failed_cells >= 2, "{format}: {:?}", data.totals);
        // A reply that is not what was asked for, and is mended on its way.
        let secret = replayed("secret", format, agents(format));
        let staged = secret.tasks.iter().find(|task| task.name == "swap-case");
        let staged = staged.unwrap();
        assert!(!staged.repairs.is_empty(), "{format}: {staged:?}");
        assert_eq!((staged.failed_cells, staged.passed), (1, true), "{format}");
        assert!(secret.totals.parsed_share().unwrap() < 1.0);
    }
}

#[test]
fn every_recording_on_file_says_where_it_comes_from() {
    for name in SUITES {
        for format in Format::ALL {
            for task in suite(name).tasks {
                let file = recording(name, format, &task.name);
                let replay = ReplayModel::open(&file).unwrap();
                let is_staged = file
                    .file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with("scripted-");
                let source = &replay.header().source;
                assert_eq!(
                    source.starts_with("scripted"),
                    is_staged,
                    "{}",
                    file.display()
                );
                assert!(source.contains("llm_shim"), "{}", file.display());
            }
        }
    }
}

#[test]
fn with_an_executor_that_does_nothing_the_score_of_the_recordings_on_file_falls() {
    for name in SUITES {
        for format in Format::ALL {
            let report = replayed(name, format, idle_agents(format));
            assert!(
                report.totals.score < 0.5,
                "{name}, {format}: {:?}",
                report.totals
            );
        }
    }
}

/// Even a tape that does not listen passes only where the code runs: it is the code that hands in the answer.
#[test]
fn the_answer_on_file_comes_from_the_run_and_not_from_the_tape() {
    for format in Format::ALL {
        let tape = std::fs::read_to_string(recording("secret", format, "backwards")).unwrap();
        assert!(tape.contains("provide_answer(secret[::-1])"), "{format}");
        let backwards = || {
            suite("secret")
                .with_tasks(&["backwards".to_owned()])
                .unwrap()
        };
        let model = move |task: &Task| -> Result<Arc<dyn Model>, ModelError> {
            Ok(Arc::new(deaf("secret", format, &task.name)))
        };
        let real = finished(&Evaluation::new(backwards(), model, agents(format)));
        assert_eq!(real.totals.score, 1.0, "{format}: {:?}", real.tasks);
        let idle = finished(&Evaluation::new(backwards(), model, idle_agents(format)));
        assert_eq!(idle.totals.score, 0.0, "{format}: {:?}", idle.tasks);
        // In `json` the words that it ends with count as handed in, and are not the answer.
        if format != Format::Json {
            assert_eq!(
                idle.tasks[0].problems,
                ["`provide_answer` was never called"]
            );
        }
    }
}

/// The results of real models have the exchanges beside them that they come from.
#[test]
fn the_results_on_file_are_what_their_recordings_give() {
    let files = std::fs::read_dir(on_file("results")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut seen = 0;
    for file in files.filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
        let expected = EvalReport::read(&file).unwrap();
        let folder = on_file("results/recordings").join(file.file_stem().unwrap());
        let names: Vec<String> = expected
            .tasks
            .iter()
            .map(|task| task.name.clone())
            .collect();
        let suite = suite(&expected.suite).with_tasks(&names).unwrap();
        let models = move |task: &Task| -> Result<Arc<dyn Model>, ModelError> {
            let file = folder.join(format!("{}.jsonl", task.name));
            Ok(Arc::new(ReplayModel::open_matching(
                file,
                RequestMatch::Conversation,
            )?))
        };
        let steps = expected.tasks.iter().map(|task| task.steps).max().unwrap();
        let limits = RunLimits {
            steps: steps.max(1),
            ..RunLimits::default()
        };
        let sessions = agents(expected.format.unwrap_or_default());
        let evaluation = Evaluation::new(suite, models, move |files| {
            sessions(files).limits(limits.clone())
        });
        let got = finished(&match expected.format {
            Some(_) => evaluation,
            None => evaluation.mode(AskMode::Plain(PlainOptions::default())),
        });
        let passed = |report: &EvalReport| -> Vec<(String, bool)> {
            let tasks = report.tasks.iter();
            tasks.map(|task| (task.name.clone(), task.passed)).collect()
        };
        assert_eq!(passed(&got), passed(&expected), "{}", file.display());
        seen += 1;
    }
    assert!(seen > 0);
}
