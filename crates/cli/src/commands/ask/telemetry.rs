//! Traces to a collector of OpenTelemetry, where one is configured. Whatever goes wrong with it, the run does not care.

use crate::config::Config;
use crate::terminal::{Console, Style};
use cellblock::env::Dirs;
use cellblock_trace::{Trace, TraceWriter, trace_path};
use std::time::Duration;

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
