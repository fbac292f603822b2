//! `cellblock exec notebook.ipynb`: runs a notebook, and writes its outputs back.

use super::exec::{NotebookFile, exit_status};
use super::jupyter::{HostOpener, KernelAdvice, about, advice, notebook_host};
use crate::cell_run::Signals;
use crate::failure::Usage;
use crate::terminal::{Console, HintPlace, WorkspaceKind};
use anyhow::Context as _;
use cellblock::{ReplacedFile, Shell, Status, journal::python_literal};
use cellblock_jupyter::{Notebook, NotebookEnd};
use serde_json::Value;
use std::sync::Arc;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

/// The longest notebook that is read. Pictures of many cells fit.
const MAX_NOTEBOOK_BYTES: u64 = 256 << 20;

impl NotebookFile<'_> {
    /// Runs the notebook. The status is that of its first cell that failed.
    pub(crate) async fn run(mut self, console: &Console) -> anyhow::Result<u8> {
        let name = self.path.display();
        let unreadable =
            |error: std::io::Error| Usage::plain(format!("{name} cannot be read: {error}"));
        let place = ReplacedFile::find(self.path).map_err(unreadable)?;
        let text = place.read(MAX_NOTEBOOK_BYTES).map_err(unreadable)?;
        let text = String::from_utf8(text)
            .map_err(|_| Usage::plain(format!("{name} cannot be read: it is not UTF-8 text")))?;
        let mut notebook =
            Notebook::parse(&text).map_err(|error| Usage::plain(format!("{name}: {error}")))?;
        let seed = std::mem::take(&mut self.options.seed);
        let assignments: Vec<String> = seed
            .iter()
            .map(|(name, value)| format!("{name} = {}", python_literal(value)))
            .collect();
        notebook.set_parameters(&assignments);
        self.options.shell = Shell::Ipython;
        let mut signals = Signals::new()?;
        let preparing = notebook_host(self.python, self.environment, console);
        let host = match signals.or(preparing).await {
            Ok(host) => host?,
            Err(stopped) => return super::exec::stopped_status(stopped),
        };
        let advice: KernelAdvice = match WorkspaceKind::of(self.options.workspace.as_deref()) {
            WorkspaceKind::Fresh => |result| advice(HintPlace::Exec, WorkspaceKind::Fresh, result),
            WorkspaceKind::Named => |result| advice(HintPlace::Exec, WorkspaceKind::Named, result),
        };
        let about = about(&host, advice);
        let options = self.options;
        let opener = Arc::new(HostOpener { host, options });
        let (interrupt, interrupts) = mpsc::channel(1);
        let mut running = Box::pin(notebook.run(opener, about, interrupts));
        let end = loop {
            tokio::select! {
                end = &mut running => break end,
                signal = signals.next() => {
                    if signal != SignalKind::interrupt().as_raw_value() {
                        return Ok(128 + signal as u8);
                    }
                    let _ = interrupt.try_send(());
                }
            }
        };
        drop(running);
        place
            .replace(notebook.to_text().as_bytes())
            .with_context(|| format!("writing {name}"))?;
        Ok(tell(&end, console))
    }
}

/// Says which cell failed. Returns the exit status.
fn tell(end: &NotebookEnd, console: &Console) -> u8 {
    let NotebookEnd::Failed {
        cell,
        name,
        value,
        ending,
    } = end
    else {
        return 0;
    };
    console.say_guest(&format!("cell {cell} of the notebook: {name}: {value}\n"));
    let number = |field: &str| {
        let number = ending.get(field).and_then(Value::as_i64);
        number.and_then(|number| i32::try_from(number).ok())
    };
    let status = ending.get("status").cloned().unwrap_or_default();
    let status: Status = serde_json::from_value(status).unwrap_or(Status::Failure);
    exit_status(status, number("exit_code"), number("signal"))
}
