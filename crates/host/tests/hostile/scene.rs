//! A session that is attacked from inside, and one beside it that must not notice.

use super::common::{
    behind, builder, in_process_namespace, open, run, run_if_alive, short, under_load, wait, within,
};
use cellblock_protocol::{Cell, CellResult, Isolation, Limits, Status};
use cellblock_session::Session;
use serde_json::Map;
use std::time::{Duration, Instant};

pub(crate) struct Scene {
    pub(crate) session: Session,
    bystander: Session,
    /// The kernel's name for the session's process namespace, the same inside and outside.
    pub(crate) namespace: String,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Scene {
        let session = behind(Isolation::default(), limits, &Map::new());
        let namespace = run(
            &session,
            "import os; print(os.readlink('/proc/self/ns/pid'), end='')",
        )
        .stdout;
        let bystander = open(builder());
        run(&bystander, "import os; x, pid = 'untouched', os.getpid()");
        let scene = Scene {
            session,
            bystander,
            namespace,
        };
        assert!(
            scene.processes() >= 2,
            "the session's processes cannot be counted from here"
        );
        scene
    }

    /// How many processes the session has, counted from outside. The dead that are not reaped count.
    pub(crate) fn processes(&self) -> usize {
        in_process_namespace(&self.namespace).len()
    }

    pub(crate) fn run(&self, code: &str) -> CellResult {
        self.run_for(10.0, code)
    }

    /// Runs a cell with so many seconds of time. It must end soon after them, whatever it does.
    pub(crate) fn run_for(&self, seconds: f64, code: &str) -> CellResult {
        let begin = Instant::now();
        let result = run(
            &self.session,
            Cell::new(code).timeout(Duration::from_secs_f64(seconds)),
        );
        let most = under_load(Duration::from_secs_f64(seconds + 10.0));
        assert!(
            begin.elapsed() < most,
            "the cell ended after {:?}: {}",
            begin.elapsed(),
            short(&result)
        );
        result
    }

    /// Runs the next cell, in the session or not at all: but it does not hang, and it does not lie.
    pub(crate) fn goes_on_or_has_ended(&self) {
        if let Some(result) = run_if_alive(&self.session, "40 + 2") {
            assert_eq!(
                result.value.as_ref().map(|value| value.repr.as_str()),
                Some("42"),
                "{}",
                short(&result)
            );
        }
    }

    /// The session must have survived.
    pub(crate) fn goes_on(&self) {
        let result = run(&self.session, "40 + 2");
        assert_eq!(
            result.value.as_ref().map(|value| value.repr.as_str()),
            Some("42"),
            "{}",
            short(&result)
        );
    }

    /// Closes the session: the one beside it is as it was, and of this one nothing is left.
    pub(crate) fn ends_clean(self) {
        let beside = run(&self.bystander, "import os; (x, pid == os.getpid())");
        assert_eq!(
            beside.value.as_ref().map(|value| value.repr.as_str()),
            Some("('untouched', True)"),
            "{}",
            short(&beside)
        );
        wait(self.session.close());
        let gone = within(Duration::from_secs(2), || self.processes() == 0);
        assert!(
            gone,
            "left behind: {:?}",
            in_process_namespace(&self.namespace)
        );
        wait(self.bystander.close());
    }
}

/// Runs code in a session of its own that must end with one of these statuses and harm nobody.
pub(crate) fn harmless(code: &str, statuses: &[Status]) -> CellResult {
    let scene = Scene::new();
    let result = scene.run(code);
    assert!(
        statuses.contains(&result.status),
        "{code}\n{}",
        short(&result)
    );
    scene.goes_on_or_has_ended();
    scene.ends_clean();
    result
}
