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

#[test]
fn files_that_a_run_leaves_are_checked() {
    let task = |checks: &str| {
        format!(
            "name = \"out\"\n[[tasks]]\nname = \"it\"\nquestion = \"Write.\"\nchecks = [{checks}]"
        )
    };
    let code = "```python\nimport struct\nopen('t.csv', 'w').write('a,b\\n1,2\\n3,4\\n')\nopen('r.json', 'w').write('{\"mean\": 2.51, \"n\": 2}')\nopen('p.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + struct.pack('>I', 13) + b'IHDR' + struct.pack('>II', 640, 480))\nfinal_answer('done')\n```";
    for (checks, problem) in [
        (
            "{ check = 'file', path = 't.csv', rows = 2, contains = '3,4' }",
            None,
        ),
        (
            "{ check = 'file', path = 'r.json', json = { mean = 2.5, n = 2 }, tolerance = 0.05 }",
            None,
        ),
        (
            "{ check = 'file', path = 'p.png', picture = [600, 400] }",
            None,
        ),
        (
            "{ check = 'file', path = 'none.txt' }",
            Some("there is no file `none.txt`"),
        ),
        (
            "{ check = 'file', path = 't.csv', rows = 3 }",
            Some("`t.csv`: it has 2 rows, not 3"),
        ),
        (
            "{ check = 'file', path = 't.csv', picture = [1, 1] }",
            Some("`t.csv`: it is no PNG picture"),
        ),
        (
            "{ check = 'file', path = 'p.png', picture = [800, 400] }",
            Some("`p.png`: it has 640 by 480 pixels, less than 800 by 400"),
        ),
        (
            "{ check = 'file', path = 'r.json', json = { mean = 2.5, n = 2 } }",
            Some("`r.json`: it is {\"mean\":2.51,\"n\":2}, not {\"mean\":2.5,\"n\":2}"),
        ),
    ] {
        let model = move |_: &_| -> Result<Arc<dyn Model>, ModelError> {
            Ok(Arc::new(ScriptedModel::new([Reply::text(code)])))
        };
        let suite = Suite::parse(&task(checks)).unwrap();
        let report = finished(&Evaluation::new(suite, model, agents(Format::Markdown)));
        let problems: Vec<&str> = report.tasks[0]
            .problems
            .iter()
            .map(String::as_str)
            .collect();
        assert_eq!(
            problems,
            problem.into_iter().collect::<Vec<_>>(),
            "{checks}"
        );
    }
}

#[test]
fn a_task_with_several_tries_counts_by_the_share_that_passed() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let model = move |_: &_| -> Result<Arc<dyn Model>, ModelError> {
        let said = if count.fetch_add(1, Ordering::SeqCst) == 1 {
            "no"
        } else {
            "yes"
        };
        Ok(Arc::new(ScriptedModel::new([Reply::text(said)])))
    };
    let evaluation = Evaluation::new(suite(&["one"]), model, idle_agents(Format::Markdown));
    let report = finished(&evaluation.tries(4));
    let task = &report.tasks[0];
    assert_eq!(
        (task.passed, task.score(), task.more_tries),
        (false, 0.75, 3)
    );
    assert_eq!((report.totals.score, report.totals.passed), (0.75, 0));
    assert_eq!(task.answer, Some("no".into()));
    assert_eq!(asked.load(Ordering::SeqCst), 4);
}

#[test]
fn files_of_a_suite_may_be_files_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("suite.toml");
    let text = "name = \"disk\"\n[files]\n\"n.txt\" = { path = \"data/n.txt\" }\n[[tasks]]\nname = \"it\"\nquestion = \"?\"\nfiles = [\"n.txt\"]\nchecks = [{ check = \"exact\", answer = \"6\" }]";
    std::fs::write(&suite, text).unwrap();
    let missing = Suite::read(&suite).unwrap_err().to_string();
    assert!(missing.contains("data/n.txt: No such file"), "{missing}");
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/n.txt"), "1 2 3").unwrap();
    let read = Suite::read(&suite).unwrap();
    assert_eq!(read.tasks[0].files[0].contents, b"1 2 3");
    assert!(Suite::parse(text).is_err());
}

#[test]
fn what_a_cell_printed_is_checked_and_files_are_written_out() {
    let suite = |text: &str| {
        Suite::parse(&format!(
            "name = \"out\"\n[[tasks]]\nname = \"it\"\nquestion = \"?\"\n\
             checks = [{{ check = \"printed\", text = \"{text}\" }}, {{ check = \"file\", path = \"a/b.txt\" }}]"
        ))
        .unwrap()
    };
    let code = "```python\nimport os\nos.mkdir('a')\nopen('a/b.txt', 'w').write('made')\nprint('six', 6)\n```";
    let run = |text: &str, out: &std::path::Path| {
        let model = move |_: &_| -> Result<Arc<dyn Model>, ModelError> {
            Ok(Arc::new(ScriptedModel::new(
                [code, "six 7"].map(Reply::text),
            )))
        };
        finished(&Evaluation::new(suite(text), model, agents(Format::Markdown)).out(out))
    };
    let out = tempfile::tempdir().unwrap();
    assert!(run("six 6", out.path()).tasks[0].passed);
    let written = std::fs::read_to_string(out.path().join("it/a/b.txt")).unwrap();
    assert_eq!(written, "made");
    // The answer is no output.
    let report = run("six 7", out.path());
    assert_eq!(report.tasks[0].problems, ["no cell printed \"six 7\""]);
}
