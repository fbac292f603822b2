//! The steps of the tour: code, and what must come of it.

use super::output::TourOutput;
use anyhow::Context as _;
use cellblock::agent::{Agent, CancellationToken, Format, Observer, RunEvent, executor};
use cellblock::model::{Reply, ScriptedModel};
use cellblock::{CellResult, Host, Obstacle, SessionOptions, Status};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// One step.
pub(crate) struct TourStep {
    pub(crate) title: &'static str,
    pub(crate) actions: &'static [DemoAction],
}

/// What is done in a step.
pub(crate) enum DemoAction {
    /// A cell is run.
    Cell(DemoCell),
    /// This many cells are taken back.
    Undo(usize),
    /// The session is forked, and the fork goes on.
    Fork,
    /// The session that was forked goes on.
    Back,
}

/// One cell of a step.
pub(crate) struct DemoCell {
    pub(crate) code: &'static str,
    pub(crate) timeout: Option<Duration>,
    /// Says what is wrong when the cell did not do what the step claims.
    pub(crate) check: fn(&CellResult) -> Result<(), String>,
}

/// What needs nothing but Python.
pub(crate) const FIRST: &[TourStep] = &[
    TourStep {
        title: "A session remembers",
        actions: &[
            DemoAction::Cell(DemoCell {
                code: "readings = [12, 19, 23, 31, 8, 27]",
                timeout: None,
                check: |result| status(result, Status::Success),
            }),
            DemoAction::Cell(DemoCell {
                code: "\
from statistics import mean, pstdev
middle, spread = mean(readings), pstdev(readings)
sum(abs(r - middle) > spread for r in readings)",
                timeout: None,
                check: |result| value(result, "2"),
            }),
        ],
    },
    TourStep {
        title: "An exception is explained, with the values at hand",
        actions: &[DemoAction::Cell(DemoCell {
            code: "\
def share(total, people):
    return total / people

share(100, people=0)",
            timeout: None,
            check: |result| {
                status(result, Status::Failure)?;
                let frames = result
                    .error
                    .as_ref()
                    .map(|error| &error.frames[..])
                    .unwrap_or_default();
                let told = frames.iter().any(|frame| {
                    frame
                        .locals
                        .0
                        .contains(&("people".to_owned(), "0".to_owned()))
                });
                claim(told, "the value of `people` is not told")
            },
        })],
    },
    TourStep {
        title: "The network is refused, and the refusal says why",
        actions: &[DemoAction::Cell(DemoCell {
            code: "\
import socket
socket.create_connection((\"example.com\", 80), timeout=5)",
            timeout: None,
            check: |result| {
                status(result, Status::Failure)?;
                let obstacle = result.error.as_ref().and_then(|error| error.obstacle);
                claim(
                    obstacle == Some(Obstacle::NoNetwork),
                    "the error does not speak of the network",
                )
            },
        })],
    },
    TourStep {
        title: "A cell that never ends is ended, even inside C code, and nothing is lost",
        actions: &[
            DemoAction::Cell(DemoCell {
                code: "\
from collections import deque
from itertools import count
deque(count(), maxlen=0)  # a loop in C that never looks up",
                timeout: Some(Duration::from_secs(1)),
                check: |result| {
                    status(result, Status::Timeout)?;
                    claim(
                        result.usage.wall < Duration::from_secs(2),
                        "it took far longer than its time",
                    )
                },
            }),
            DemoAction::Cell(DemoCell {
                code: "readings",
                timeout: None,
                check: |result| value(result, "[12, 19, 23, 31, 8, 27]"),
            }),
        ],
    },
    TourStep {
        title: "A crash costs no variable",
        actions: &[
            DemoAction::Cell(DemoCell {
                code: "\
def countdown(n):
    while n:
        yield n
        n -= 1

numbers = countdown(10)
next(numbers)",
                timeout: None,
                check: |result| value(result, "10"),
            }),
            DemoAction::Cell(DemoCell {
                code: "\
import ctypes
readings.clear()
ctypes.string_at(0)  # a segmentation fault",
                timeout: None,
                check: |result| status(result, Status::Crashed),
            }),
            DemoAction::Cell(DemoCell {
                code: "readings, next(numbers)",
                timeout: None,
                check: |result| value(result, "([12, 19, 23, 31, 8, 27], 9)"),
            }),
        ],
    },
    TourStep {
        title: "A cell can be taken back, with its files",
        actions: &[
            DemoAction::Cell(DemoCell {
                code: "\
readings.sort(reverse=True)
open(\"readings.txt\", \"w\").write(str(readings))",
                timeout: None,
                check: |result| created(result, "readings.txt"),
            }),
            DemoAction::Undo(1),
            DemoAction::Cell(DemoCell {
                code: "\
import os
readings, os.path.exists(\"readings.txt\")",
                timeout: None,
                check: |result| value(result, "([12, 19, 23, 31, 8, 27], False)"),
            }),
        ],
    },
    TourStep {
        title: "A fork tries something out, and the session does not notice",
        actions: &[
            DemoAction::Fork,
            DemoAction::Cell(DemoCell {
                code: "\
readings.append(1000)
open(\"idea.txt\", \"w\").write(\"only here\")
len(readings), next(numbers)",
                timeout: None,
                check: |result| value(result, "(7, 8)"),
            }),
            DemoAction::Back,
            DemoAction::Cell(DemoCell {
                code: "len(readings), next(numbers), os.path.exists(\"idea.txt\")",
                timeout: None,
                check: |result| value(result, "(6, 8, False)"),
            }),
        ],
    },
];

/// What shows the packages.
pub(crate) const WITH_PACKAGES: &[TourStep] = &[
    TourStep {
        title: "Real packages: a table in pandas",
        actions: &[DemoAction::Cell(DemoCell {
            code: "\
import pandas as pd
table = pd.DataFrame({\"city\": [\"Oslo\", \"Rome\", \"Lima\"], \"degrees\": [4, 15, 19]})
table.sort_values(\"degrees\", ascending=False)",
            timeout: None,
            check: |result| {
                status(result, Status::Success)?;
                let html = result
                    .value
                    .as_ref()
                    .and_then(|value| value.mime.text("text/html"));
                claim(html.is_some(), "the table has no HTML form")
            },
        })],
    },
    TourStep {
        title: "A plot is saved and listed",
        actions: &[DemoAction::Cell(DemoCell {
            code: "\
import matplotlib.pyplot as plt
plt.bar(table[\"city\"], table[\"degrees\"])
plt.title(\"Degrees\")
plt.savefig(\"degrees.png\")
plt.show()",
            timeout: None,
            check: |result| {
                status(result, Status::Success)?;
                created(result, "degrees.png")?;
                let shown = result
                    .displays
                    .iter()
                    .any(|bundle| bundle.text("image/png").is_some());
                claim(shown, "the plot is not among the displays")
            },
        })],
    },
];

/// The plot without packages.
pub(crate) const WITHOUT_PACKAGES: &[TourStep] = &[TourStep {
    title: "A plot is saved and listed",
    actions: &[DemoAction::Cell(DemoCell {
        code: "\
degrees = {\"Oslo\": 4, \"Rome\": 15, \"Lima\": 19}
bars = \"\".join(
    f'<rect x=\"{40 * i}\" y=\"{100 - 5 * d}\" width=\"30\" height=\"{5 * d}\"><title>{city}</title></rect>'
    for i, (city, d) in enumerate(degrees.items())
)
with open(\"degrees.svg\", \"w\") as file:
    file.write(f'<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 120 100\">{bars}</svg>')",
        timeout: None,
        check: |result| {
            status(result, Status::Success)?;
            created(result, "degrees.svg")
        },
    })],
}];

fn status(result: &CellResult, wanted: Status) -> Result<(), String> {
    claim(
        result.status == wanted,
        &format!("it ended with {} and not with {wanted}", result.status),
    )
}

fn value(result: &CellResult, wanted: &str) -> Result<(), String> {
    status(result, Status::Success)?;
    let repr = result.value.as_ref().map(|value| value.repr.as_str());
    claim(
        repr == Some(wanted),
        &format!("its value is {repr:?} and not {wanted}"),
    )
}

fn created(result: &CellResult, path: &str) -> Result<(), String> {
    let found = result
        .files
        .created
        .iter()
        .any(|file| file.path == path && file.bytes > 0);
    claim(found, &format!("{path} is not listed as created"))
}

fn claim(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

/// Recorded replies of a model: the tour needs no network.
const RECORDED_REPLIES: &str = include_str!("../../../demo/scripted-compound-interest.json");

#[derive(Deserialize)]
struct RecordedReplies {
    question: String,
    replies: Vec<Reply>,
}

/// Asks, shows what happens, and checks that the answer was computed.
pub(super) async fn ask_model(
    output: &TourOutput,
    host: &Host,
) -> anyhow::Result<Result<(), String>> {
    let recorded: RecordedReplies =
        serde_json::from_str(RECORDED_REPLIES).context("the replies of the tour cannot be read")?;
    output.line(&format!("   {}", recorded.question))?;
    output.aside("   The model's replies were recorded before, so that this needs no network. The code really runs.")?;
    let agent = Agent::builder()
        .model(ScriptedModel::new(recorded.replies))
        .executor(executor(
            host.clone(),
            SessionOptions::default(),
            Vec::new(),
        ))
        .format(Format::Json)
        .build()?;
    let outcome = agent
        .run_observed(
            &recorded.question,
            observer(output),
            CancellationToken::new(),
        )
        .await?;
    let answer = outcome.answer_text();
    output.line(&format!("   Final answer: {answer}"))?;
    let cells: Vec<(Status, Option<String>)> = outcome
        .cells()
        .filter_map(|done| done.result.as_ref())
        .map(|result| {
            (
                result.status,
                result.value.as_ref().map(|value| value.repr.clone()),
            )
        })
        .collect();
    let expected = [
        (Status::Failure, None),
        (Status::Success, Some("21386.41".to_owned())),
    ];
    Ok(if answer == "21386.41" && cells == expected {
        Ok(())
    } else {
        Err(format!(
            "the answer is {answer:?} and the cells gave {cells:?}"
        ))
    })
}

/// Prints thoughts, code and results as they come. A failure to write shows at the next line of the tour.
fn observer(output: &TourOutput) -> Observer {
    let output = output.clone();
    Arc::new(move |event| {
        let _ = match event {
            RunEvent::Thought { text, .. } => output.line(&format!("   Thinking: {text}")),
            RunEvent::Code { code, .. } => output.code(code),
            RunEvent::Done { done, .. } => {
                let value = done
                    .result
                    .as_ref()
                    .and_then(|result| result.value.as_ref());
                let words = match (&done.error, value) {
                    (Some(error), _) => error.clone(),
                    (None, Some(value)) => value.repr.clone(),
                    (None, None) => String::new(),
                };
                output.line(&format!("   {words}"))
            }
            _ => Ok(()),
        };
    })
}
