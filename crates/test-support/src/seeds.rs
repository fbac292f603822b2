//! Chance that can be had again: a test that rolls dice says with which seed, and `CELLBLOCK_SEED` gives it the same ones. The short
//! tests always throw the same, so that they tell of a change and not of luck; the long ones throw new ones each time.

use std::env;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// That of the short tests.
const SHORT_TEST_SEED: u64 = 20_250_101;

/// Whether the longer versions of the tests are wanted.
pub fn is_long() -> bool {
    env::var_os("CELLBLOCK_LONG").is_some()
}

/// The seed of this run, and a line that says how to have it again.
pub fn seed(test: &str) -> u64 {
    let given = env::var("CELLBLOCK_SEED").ok();
    let seed = match &given {
        Some(text) => text
            .parse()
            .expect("CELLBLOCK_SEED must be a whole number of at most 64 bits"),
        None if is_long() => Dice::new(nanoseconds()).number(),
        None => SHORT_TEST_SEED,
    };
    println!("{test}: CELLBLOCK_SEED={seed} repeats this");
    seed
}

fn nanoseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 48
}

/// A generator of numbers that look random (SplitMix64: one line of state, and good enough for dice).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice that always throw the same for a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Dice for the `n`-th part of a test, so that its throws do not depend on what the other parts do meanwhile.
    pub fn part(&self, n: u64) -> Dice {
        Dice(Dice(self.0 ^ n.wrapping_mul(0xA076_1D64_78BD_642F)).number())
    }

    /// A number of 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// True once in `chances` throws.
    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    /// One of several values.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Up to `most`, small ones as likely as large ones.
    pub fn pause(&mut self, most: Duration) -> Duration {
        let share = self.below(1001) as f64 / 1000.0;
        most.mul_f64(share * share)
    }
}
