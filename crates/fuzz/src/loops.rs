//! Running a target from a seed.

use crate::Outcome;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The seed of the short runs: always the same, so that they tell of a change and not of luck.
const SHORT_SEED: u64 = 20_250_101;
/// How long a long run takes.
const LONG_RUN: Duration = Duration::from_secs(120);
/// The longest row of choices.
const MAX_CHOICES: usize = 400;
/// Rows of choices that led to an accepted input, to be changed a little.
const MAX_CORPUS: usize = 256;

/// Runs a target with so many inputs, or with `CELLBLOCK_LONG` for two minutes with another seed each time (`CELLBLOCK_SEED` repeats
/// one). Returns how many inputs were accepted.
///
/// Half of the choices are new; the others are those of an accepted input with a few changes. What makes a target panic is printed in
/// a form that `Choices` takes.
pub fn run(name: &str, rounds: usize, mut target: impl FnMut(&[u8]) -> Outcome) -> usize {
    let is_long = env::var_os("CELLBLOCK_LONG").is_some();
    let given = env::var("CELLBLOCK_SEED").ok();
    let seed = match given.and_then(|text| text.parse().ok()) {
        Some(seed) => seed,
        None if is_long => nanoseconds(),
        None => SHORT_SEED,
    };
    println!("{name}: CELLBLOCK_SEED={seed} repeats this");
    let mut random = Random(seed);
    let mut corpus: Vec<Vec<u8>> = Vec::new();
    let (mut accepted, mut round) = (0, 0);
    let begun = Instant::now();
    while round < rounds || (is_long && begun.elapsed() < LONG_RUN) {
        round += 1;
        let choices = match corpus.len() {
            0 => random.bytes(),
            _ if random.next().is_multiple_of(2) => random.bytes(),
            length => random.changed(&corpus[random.clone().below(length)]),
        };
        let ran = catch_unwind(AssertUnwindSafe(|| target(&choices)));
        match ran {
            Ok(Outcome::Accepted) => {
                accepted += 1;
                if corpus.len() < MAX_CORPUS {
                    corpus.push(choices);
                } else {
                    let at = random.below(MAX_CORPUS);
                    corpus[at] = choices;
                }
            }
            Ok(Outcome::Refused) => {}
            Err(panic) => {
                println!("{name}: round {round} of seed {seed} fails with the choices {choices:?}");
                resume_unwind(panic);
            }
        }
    }
    println!("{name}: {accepted} of {round} inputs were accepted");
    accepted
}

/// Numbers that look random (SplitMix64).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = self.below(MAX_CHOICES);
        (0..length).map(|_| self.next() as u8).collect()
    }

    fn changed(&mut self, known: &[u8]) -> Vec<u8> {
        let mut changed = known.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(changed.len() + 1);
            let byte = self.next() as u8;
            match self.below(4) {
                0 => changed.insert(at, byte),
                1 if at < changed.len() => drop(changed.remove(at)),
                2 => changed.truncate(at),
                _ if at < changed.len() => changed[at] = byte,
                _ => changed.push(byte),
            }
        }
        changed.truncate(MAX_CHOICES);
        changed
    }
}

fn nanoseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(SHORT_SEED, |now| now.as_nanos() as u64)
}
