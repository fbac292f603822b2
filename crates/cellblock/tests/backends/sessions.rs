//! Sessions of the bare standard library, from one host for all tests.

use cellblock::env::Dirs;
use cellblock::{Cell, CellResult, Host, Preload, PythonChoice, Session, SessionBuilder};
use cellblock_test_support::{python, test_directory, wait};
use std::sync::LazyLock;

pub(crate) fn host() -> &'static Host {
    static HOST: LazyLock<Host> = LazyLock::new(|| {
        let dirs = Dirs {
            cache: test_directory().join("cache"),
            state: test_directory().join("state"),
        };
        Host::builder()
            .interpreter(python())
            .python(PythonChoice::StandardLibrary)
            .preload(Preload::None)
            .dirs(dirs)
            .build()
            .unwrap()
    });
    &HOST
}

pub(crate) fn open(builder: SessionBuilder) -> Session {
    wait(builder.start()).unwrap()
}

/// Runs a cell; whatever the code does, there is a result.
pub(crate) fn run(session: &Session, cell: impl Into<Cell>) -> CellResult {
    wait(session.run(cell)).unwrap()
}
