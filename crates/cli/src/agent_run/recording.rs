//! The record and the trace of a run, written while it goes on.

use crate::config::Config;
use crate::terminal::{Console, Style};
use cellblock::agent::{Observer, Outcome, RunEnd, RunStart, RunStore, RunWriter};
use cellblock::env::Dirs;
use cellblock::tools::Session;
use cellblock_trace::{Trace, TraceWriter, trace_path};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The runs of this user.
pub(crate) fn run_store() -> anyhow::Result<RunStore> {
    Ok(RunStore::new(Dirs::from_process()?.state.join("runs")))
}

/// Writes the events of a run to its record. A write that fails is reported, and does not end the run.
pub(crate) struct RunRecorder {
    writer: Writer,
    console: Console,
}

type Writer = Arc<Mutex<Option<RunWriter>>>;

/// Notes in the record of a run which session it works in. It is made before the record; earlier notes are dropped.
#[derive(Clone, Default)]
pub(crate) struct SessionNote(Arc<Mutex<Option<Writer>>>);

impl SessionNote {
    /// From now on the notes are part of this record.
    pub(crate) fn attach(&self, recorder: &RunRecorder) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(Arc::clone(&recorder.writer));
    }

    /// The run works in this session now.
    pub(crate) fn write(&self, session: &Session) {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(writer), Some(journal)) = (place.as_ref(), session.journal()) {
            note_session(writer, journal.id);
        }
    }
}

fn note_session(writer: &Writer, journal: &str) {
    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(writer) = writer.as_mut() {
        // The next event tells what is wrong.
        let _ = writer.append_event(&json!({"event": "session", "journal": journal}));
    }
}

impl RunRecorder {
    /// Starts the record of a run. A failure is reported, and the run goes on without a record.
    pub(crate) fn begin(
        question: &str,
        model: &str,
        options: Value,
        console: &Console,
    ) -> RunRecorder {
        let start = RunStart {
            question: question.to_owned(),
            model: model.to_owned(),
            options,
        };
        let writer = run_store().and_then(|store| Ok(store.start_run(start)?));
        if let Err(error) = &writer {
            console.error(&format!("this run is not kept: {error}"));
        }
        RunRecorder {
            writer: Arc::new(Mutex::new(writer.ok())),
            console: console.clone(),
        }
    }

    /// Goes on with the record of a run that was cut off.
    pub(crate) fn resume(writer: RunWriter, console: &Console) -> RunRecorder {
        RunRecorder {
            writer: Arc::new(Mutex::new(Some(writer))),
            console: console.clone(),
        }
    }

    /// The run works in the session with this journal.
    pub(crate) fn note_session(&self, journal: Option<String>) {
        if let Some(journal) = journal {
            note_session(&self.writer, &journal);
        }
    }

    /// The id of the run.
    pub(crate) fn id(&self) -> Option<String> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.as_ref().map(RunWriter::id)
    }

    /// Passes events on, and keeps them.
    pub(crate) fn observer(&self, inner: Observer) -> Observer {
        let (writer, console) = (Arc::clone(&self.writer), self.console.clone());
        Arc::new(move |event| {
            inner(event);
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = writer.as_mut().map(|writer| writer.keep_event(event));
            if let Some(Err(error)) = kept {
                console.error(&format!("the rest of this run is not kept: {error}"));
            }
        })
    }

    /// The run is over.
    pub(crate) fn end(self, outcome: &Outcome) {
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(writer) = writer else {
            return;
        };
        let end = RunEnd {
            status: outcome.status.name().to_owned(),
            answer: outcome.answer.as_ref().map(|_| outcome.answer_text()),
            outcome: serde_json::to_value(outcome).unwrap_or_default(),
        };
        if let Err(error) = writer.finish(end) {
            self.console
                .error(&format!("the end of this run is not kept: {error}"));
        }
    }
}

/// How long a collector is waited for.
const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes the trace of this process, and sends it where that is wanted.
pub(crate) struct Telemetry {
    writer: Option<TraceWriter>,
    endpoint: Option<String>,
    headers: Vec<(String, String)>,
}

impl Telemetry {
    /// Begins to write.
    pub(crate) fn start(config: &Config) -> anyhow::Result<Telemetry> {
        let state = Dirs::from_process()?.state;
        Ok(Telemetry {
            writer: cellblock_trace::start(&state),
            endpoint: endpoint(config),
            headers: headers(&variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default()),
        })
    }

    /// A run is over: what is known of it goes to the collector.
    pub(crate) async fn send(&self, run: Option<&str>, console: &Console) {
        let (Some(endpoint), Some(run), Some(writer)) = (&self.endpoint, run, &self.writer) else {
            return;
        };
        writer.flush();
        if let Err(error) = self.post(endpoint, run).await {
            let text = format!("the trace could not be sent: {error}");
            console.note(&console.on_err(Style::Warning, "warning:"), &text);
        }
    }

    async fn post(&self, endpoint: &str, run: &str) -> anyhow::Result<()> {
        let trace = Trace::read(&trace_path(&Dirs::from_process()?.state), run)?;
        // The second time there is one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(COLLECTOR_TIMEOUT)
            .build()?;
        let mut request = client.post(endpoint).json(&trace.otlp());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.send().await?.error_for_status()?;
        Ok(())
    }
}

/// By the variables that OpenTelemetry names, else by the configuration.
fn endpoint(config: &Config) -> Option<String> {
    if let Some(whole) = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
        return Some(whole);
    }
    let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT").or_else(|| config.trace.otlp.clone())?;
    Some(format!("{}/v1/traces", base.trim_end_matches('/')))
}

/// `name=value,name=value`.
fn headers(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok()?.trim().to_owned();
    (!value.is_empty()).then_some(value)
}
