//! Sessions with a journal, and what is left of them.

use crate::support::{Python, builder, open, tool, wait};
use cellblock_host::SessionBuilder;
use cellblock_host::journal::{Journal, Journals, Restore, Restored};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A directory for journals.
pub(crate) struct Scene {
    pub(crate) directory: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        Scene { directory }
    }

    pub(crate) fn journals(&self) -> Journals {
        Journals::new(self.path())
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A session of the standard library that keeps its journal here.
    pub(crate) fn session(&self) -> Python {
        self.open(builder())
    }

    pub(crate) fn open(&self, builder: SessionBuilder) -> Python {
        open(builder.journal(self.path()))
    }

    /// Ends a session and reads its journal.
    pub(crate) fn close(&self, session: Python) -> Journal {
        // The last one is told by the times of files, which the kernel counts in steps of some milliseconds.
        std::thread::sleep(Duration::from_millis(50));
        wait(session.close());
        self.journals().find("last").unwrap().read().unwrap()
    }

    /// The journal of a session that ran these cells.
    pub(crate) fn cells(&self, cells: &[&str]) -> Journal {
        let session = self.session();
        for code in cells {
            session.run(*code);
        }
        self.close(session)
    }
}

/// Replays a journal in a session without one.
pub(crate) fn restore(journal: &Journal) -> Restored {
    restore_as(Restore::default(), journal)
}

pub(crate) fn restore_as(how: Restore, journal: &Journal) -> Restored {
    let host = crate::support::host();
    wait(how.journal(false).run(host, journal)).unwrap()
}

/// A tool that looks things up, offered to a session; every call is answered by `answer`.
pub(crate) fn run_with_tool(
    session: &Python,
    code: &str,
    answer: impl Fn(&str, &Value) -> Result<Value, String>,
) {
    session.offer([tool("look-up", "Looks something up", &["query"])]);
    let result = session.start(code).answering(answer);
    assert_eq!(
        result.status,
        cellblock_protocol::Status::Success,
        "{:?}",
        result.error
    );
}

/// An answer that depends on the call.
pub(crate) fn lookup(_: &str, arguments: &Value) -> Result<Value, String> {
    match arguments["query"].as_str() {
        Some("nothing") => Err("there is nothing".to_owned()),
        Some(query) => Ok(json!({"found": [query, query.len(), null, true]})),
        None => Err("a query is needed".to_owned()),
    }
}

/// Runs a script with `python3` alone: its standard output, standard error and exit status.
pub(crate) fn python3(script: &str, arguments: &[&str]) -> (String, String, i32) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("script.py");
    std::fs::write(&path, script).unwrap();
    let python = std::env::var_os("CELLBLOCK_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(python);
    command.arg("-I").arg(&path).args(arguments);
    let output = command
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let status = output.status.code().unwrap_or(-1);
    (text(&output.stdout), text(&output.stderr), status)
}
