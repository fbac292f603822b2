//! Running many tasks: side by side, with trouble in one of them, ended early, and without an agent.

use crate::support::{agents, finished, idle_agents, wait};
use cellblock_agent::{CancellationToken, Format, RunStatus};
use cellblock_eval::{AskMode, Evaluation, PlainOptions, Progress, Suite, plain_question};
use cellblock_model::{
    Capabilities, Model, ModelError, Reply, ReplyStream, Request, ScriptedModel,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn suite(names: &[&str]) -> Suite {
    let tasks = names.iter().map(|name| {
        format!("[[tasks]]\nname = \"{name}\"\nquestion = \"{name}?\"\nchecks = [{{ check = \"exact\", answer = \"yes\" }}]\n")
    });
    Suite::parse(&format!("name = \"many\"\n{}", tasks.collect::<String>())).unwrap()
}

fn yes() -> Arc<dyn Model> {
    Arc::new(ScriptedModel::new([Reply::text("yes")]))
}

/// A model that never answers, and counts how often it is asked.
#[derive(Clone, Default)]
struct Silent {
    capabilities: Capabilities,
    asked: Arc<AtomicUsize>,
}

impl Model for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn stream(&self, _: Request) -> ReplyStream {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(futures_util::stream::pending())
    }
}

#[test]
fn files_are_there_and_code_is_counted() {
    let suite = Suite::parse(
        "name = \"sum\"\nfiles = { \"n.txt\" = \"1 2 3\" }\n[[tasks]]\nname = \"it\"\nquestion = \"Sum?\"\n\
         files = [\"n.txt\"]\nchecks = [{ check = \"number\", value = 6 }]",
    );
    let replies = [
        "```python\nsum(open('n.txt'))\n```",
        // The fence is not closed.
        "```python\nprint(sum(map(int, open('n.txt').read().split())))",
        "6",
    ];
    let model = move |_: &_| -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(ScriptedModel::new(replies.map(Reply::text))))
    };
    let report = finished(&Evaluation::new(
        suite.unwrap(),
        model,
        agents(Format::Markdown),
    ));
    let task = &report.tasks[0];
    assert_eq!(
        (task.passed, task.status),
        (true, Some(RunStatus::Answered)),
        "{task:?}"
    );
    assert_eq!(
        (
            task.steps,
            task.code_actions,
            task.parsed_at_first_try,
            task.failed_cells
        ),
        (2, 2, 1, 1)
    );
    assert_eq!(task.repairs, ["what was open at the end was closed"]);
    assert_eq!(report.totals.parsed_share(), Some(0.5));
    assert_eq!(
        (&*report.model, report.mode_name()),
        ("scripted", "markdown")
    );
}

#[test]
fn trouble_in_one_task_leaves_the_others_alone() {
    let evaluation = Evaluation::new(
        suite(&["a", "b", "c"]),
        |task| match &*task.name {
            "b" => Err(ModelError::Settings("no such model".to_owned())),
            _ => Ok(yes()),
        },
        idle_agents(Format::Markdown),
    );
    let report = finished(&evaluation);
    let passed: Vec<bool> = report.tasks.iter().map(|task| task.passed).collect();
    assert_eq!(passed, [true, false, true]);
    assert_eq!(report.tasks[1].status, None);
    let message = report.tasks[1].message.as_deref().unwrap();
    assert!(message.contains("no such model"), "{message}");
    assert_eq!((report.totals.passed, report.totals.tasks), (2, 3));
    assert!(report.complete);
}

#[test]
fn so_many_tasks_run_at_a_time() {
    let silent = Silent::default();
    let asked = Arc::clone(&silent.asked);
    let cancel = CancellationToken::new();
    let evaluation = Evaluation::new(
        suite(&["a", "b", "c", "d", "e"]),
        move |_| Ok(Arc::new(silent.clone())),
        idle_agents(Format::Markdown),
    );
    let evaluation = evaluation.jobs(3);
    let ends = cancel.clone();
    let report = wait(async {
        let running = evaluation.run(&|_| {}, &cancel);
        let waiting = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let running = asked.load(Ordering::SeqCst);
            ends.cancel();
            running
        };
        let (report, running) = tokio::join!(running, waiting);
        assert_eq!(running, 3);
        report
    });
    // What was under way is cancelled, the rest did not begin, and the report is whole.
    assert!(!report.complete);
    let statuses: Vec<_> = report.tasks.iter().map(|task| task.status).collect();
    let cancelled = Some(RunStatus::Cancelled);
    assert_eq!(statuses, [cancelled, cancelled, cancelled, None, None]);
}

#[test]
fn what_happens_is_told_on_the_way() {
    let told: Mutex<Vec<String>> = Mutex::default();
    let evaluation = Evaluation::new(
        suite(&["a", "b"]),
        |_| Ok(yes()),
        idle_agents(Format::Markdown),
    );
    let progress = |happened: Progress<'_>| {
        told.lock().unwrap().push(match happened {
            Progress::Started { task } => format!("{task} begins"),
            Progress::Finished { task, so_far } => {
                format!("{} ends, score {}", task.name, so_far.totals.score)
            }
        });
    };
    wait(evaluation.run(&progress, &CancellationToken::new()));
    assert_eq!(
        *told.lock().unwrap(),
        [
            "a begins",
            "a ends, score 0.5",
            "b begins",
            "b ends, score 1"
        ]
    );
}

#[test]
fn a_model_alone_gets_everything_in_one_question() {
    let suite = Suite::parse(
        "name = \"alone\"\nfiles = { \"a.csv\" = \"x\\n1\\n\" }\n[[tasks]]\nname = \"it\"\nquestion = \"Reverse it.\"\nsecret = \"abc\"\n\
         tools = [\"get_secret\", \"provide_answer\"]\nfiles = [\"a.csv\"]\n\
         checks = [{ check = \"called\", tool = \"provide_answer\", arguments = { answer = \"cba\" } }]",
    )
    .unwrap();
    assert_eq!(
        plain_question(&suite.tasks[0]),
        "Reverse it.\n\nThe tool get_secret was called for you. It gave: abc\n\nThe file a.csv:\n```\nx\n1\n```\n\n\
         You cannot run code or call tools now. Reply with the answer alone."
    );
    for (reply, score) in [("The result is `cba`.", 1.0), ("acb", 0.0)] {
        let evaluation = Evaluation::new(
            suite.clone(),
            move |_| Ok(Arc::new(ScriptedModel::new([Reply::text(reply)]))),
            idle_agents(Format::Markdown),
        );
        let report = finished(&evaluation.mode(AskMode::Plain(PlainOptions::default())));
        assert_eq!(
            (report.totals.score, report.mode_name()),
            (score, "plain"),
            "{reply}"
        );
        assert_eq!((report.totals.steps, report.format), (0, None));
    }
}

#[test]
fn a_model_alone_has_its_time_too() {
    let evaluation = Evaluation::new(
        suite(&["a"]),
        |_| Ok(Arc::new(Silent::default())),
        idle_agents(Format::Markdown),
    );
    let asking = PlainOptions {
        time_limit: Some(Duration::from_millis(50)),
        ..PlainOptions::default()
    };
    let report = finished(&evaluation.mode(AskMode::Plain(asking)));
    assert_eq!(report.tasks[0].status, Some(RunStatus::MaxTime));
}
