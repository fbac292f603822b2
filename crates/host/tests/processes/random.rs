//! Random spawns, writes, cells, crashes and undos, against a model of which processes live.

use crate::basics::{others, wait_for_output};
use crate::common::{builder, open, run, wait};
use cellblock_protocol::{ProcessStatus, Spawn};
use cellblock_session::{Process, Session};
use cellblock_test_support::{Dice, seed};
use std::time::{Duration, Instant};

/// One process, as the model knows it.
struct Known {
    process: Process,
    /// How many cells had been kept when it was started.
    cells: usize,
    lines: u32,
}

struct Model {
    session: Session,
    living: Vec<Known>,
    /// The value of `x` after each kept cell; the first before any.
    values: Vec<u64>,
    trace: Vec<String>,
}

impl Model {
    fn spawn(&mut self) {
        // It leaves its group and its session, and something behind that does so too.
        let line = "setsid sh -c 'sleep 1000' </dev/null >/dev/null 2>&1 & exec cat";
        let process = wait(self.session.spawn(Spawn::shell(line).with_input())).unwrap();
        self.trace.push(format!("spawn {}", process.info().proc));
        self.living.push(Known {
            process,
            cells: self.values.len(),
            lines: 0,
        });
    }

    fn write(&mut self, dice: &mut Dice) {
        if self.living.is_empty() {
            return;
        }
        let index = dice.below(self.living.len());
        let known = &mut self.living[index];
        known.lines += 1;
        let word = format!("line {} of {}", known.lines, known.process.info().proc);
        self.trace.push(word.clone());
        wait(known.process.write(format!("{word}\n").as_bytes())).unwrap();
        wait_for_output(&known.process, &word);
    }

    fn cell(&mut self, dice: &mut Dice) {
        let value = dice.number() % 1000;
        self.trace.push(format!("x = {value}"));
        run(&self.session, format!("x = {value}"));
        self.values.push(value);
    }

    /// A cell that crashes goes back to just before it: nothing that was spawned before it is younger.
    fn crash(&mut self) {
        self.trace.push("crash".to_owned());
        let crashed = run(&self.session, "import os; x = -1; os.abort()");
        for known in &self.living {
            let name = format!("the process {} ", known.process.info().proc);
            let named = crashed.state.not_restored.iter();
            let count = named.filter(|line| line.starts_with(&name)).count();
            assert_eq!(count, 1, "{:?}\n{:?}", crashed.state, self.trace);
        }
    }

    fn undo(&mut self, dice: &mut Dice) {
        let kept = self.values.len() - 1;
        if kept == 0 {
            return;
        }
        let count = 1 + dice.below(kept.min(3));
        self.trace.push(format!("undo {count}"));
        let undone = wait(self.session.undo(count)).unwrap();
        self.values.truncate(self.values.len() - count);
        for known in self.living.drain(..).collect::<Vec<_>>() {
            if known.cells > self.values.len() {
                let end = wait(known.process.wait());
                assert_eq!(end.status, ProcessStatus::TakenBack, "{:?}", self.trace);
            } else {
                self.living.push(known);
            }
        }
        for known in &self.living {
            let name = format!("the process {} ", known.process.info().proc);
            assert!(
                undone
                    .not_restored
                    .iter()
                    .any(|line| line.starts_with(&name)),
                "{undone:?}\n{:?}",
                self.trace
            );
        }
    }

    fn kill(&mut self, dice: &mut Dice) {
        if !self.living.is_empty() {
            let known = self.living.remove(dice.below(self.living.len()));
            self.trace
                .push(format!("kill {}", known.process.info().proc));
            wait(known.process.kill());
            assert_eq!(wait(known.process.wait()).status, ProcessStatus::Killed);
        }
    }

    fn check(&self) {
        let running = self.session.processes();
        let wanted: Vec<_> = self
            .living
            .iter()
            .map(|known| known.process.info().clone())
            .collect();
        assert_eq!(running, wanted, "{:?}", self.trace);
        let value = run(&self.session, "x").repr().unwrap().to_owned();
        assert_eq!(
            Some(value),
            self.values.last().map(u64::to_string),
            "{:?}",
            self.trace
        );
        // Each has one `cat` and one `sleep`, once it has come so far, and nothing else is left of any other.
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let seen = others(&self.session);
            let count = |name: &str| seen.iter().filter(|seen| *seen == name).count();
            if (count("cat"), count("sleep")) == (wanted.len(), wanted.len()) {
                break;
            }
            let state = format!("{seen:?} {:?}", self.trace);
            assert!(
                Instant::now() < deadline,
                "{} are wanted: {state}",
                wanted.len()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn random_spawns_writes_cells_crashes_and_undos_agree_with_a_model() {
    let mut dice = Dice::new(seed("processes"));
    for round in 0..3 {
        let mut dice = dice.part(round);
        let session = open(builder());
        run(&session, "x = 0");
        let mut model = Model {
            session,
            living: Vec::new(),
            values: vec![0],
            trace: Vec::new(),
        };
        for _ in 0..25 {
            match dice.below(10) {
                0..=2 if model.living.len() < 6 => model.spawn(),
                0..=4 => model.write(&mut dice),
                5..=6 => model.cell(&mut dice),
                7 => model.crash(),
                8 => model.undo(&mut dice),
                _ => model.kill(&mut dice),
            }
        }
        model.check();
        wait(model.session.close());
        for known in &model.living {
            assert_eq!(
                wait(known.process.wait()).status,
                ProcessStatus::SessionEnded
            );
        }
        dice.number();
    }
    dice.number();
}
