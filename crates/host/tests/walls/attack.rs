//! An attack, and the walls in its way.

use super::common::{behind, run, short, wait};
use cellblock_protocol::{Cell, CellResult, Isolation, Limits, Rung, Wall};
use serde_json::{Map, Value};
use std::time::Duration;

/// A snippet that prints `REACHED` and what it found, if it gets that far.
pub(crate) struct Attack {
    wall: Wall,
    rung: Rung,
    /// Other walls that would stop it as well.
    helpers: Vec<Wall>,
    code: String,
    seeds: Map<String, Value>,
    limits: Limits,
}

impl Attack {
    /// On this wall.
    pub(crate) fn on(wall: Wall, code: impl Into<String>) -> Attack {
        Attack {
            wall,
            rung: Rung::Full,
            helpers: Vec::new(),
            code: code.into(),
            seeds: Map::new(),
            limits: Limits::default(),
        }
    }

    /// Where there are no namespaces.
    pub(crate) fn without_namespaces(mut self) -> Attack {
        self.rung = Rung::Landlock;
        self
    }

    /// These stand behind it and are off as well, while it is tried alone.
    pub(crate) fn helped_by(mut self, helpers: impl IntoIterator<Item = Wall>) -> Attack {
        self.helpers.extend(helpers);
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: impl Into<Value>) -> Attack {
        self.seeds.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn limits(mut self, limits: Limits) -> Attack {
        self.limits = limits;
        self
    }

    /// Succeeds with the wall off, fails with it, and fails by default.
    pub(crate) fn is_stopped(&self) {
        self.is_stopped_as(|result| result.stdout.contains("REACHED"));
    }

    /// The same for an attack whose success is seen in another way.
    pub(crate) fn is_stopped_as(&self, succeeded: impl Fn(&CellResult) -> bool) {
        let alone = self
            .helpers
            .iter()
            .fold(Isolation::on(self.rung), |isolation, wall| {
                isolation.without(*wall)
            });
        let off = alone.clone().without(self.wall);
        let result = self.run(&off);
        assert!(
            succeeded(&result),
            "without the wall `{}` it should work: {}",
            self.wall,
            short(&result)
        );
        for isolation in [alone, Isolation::default()] {
            let result = self.run(&isolation);
            assert!(
                !succeeded(&result),
                "behind `{isolation}` it should not work: {}",
                short(&result)
            );
        }
    }

    fn run(&self, isolation: &Isolation) -> CellResult {
        let session = behind(isolation.clone(), self.limits.clone(), &self.seeds);
        let result = run(
            &session,
            Cell::new(self.code.as_str()).timeout(Duration::from_secs(20)),
        );
        wait(session.close());
        result
    }
}
