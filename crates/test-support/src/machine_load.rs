//! How busy the machine is: what takes a second on a quiet one may take ten here, and that is no error of the code under test.

use std::sync::LazyLock;
use std::time::Duration;
use std::{fs, thread};

/// More is not forgiven.
const MAX_FACTOR: f64 = 30.0;

/// How long something may take now that takes this long on a quiet machine.
pub fn under_load(quiet: Duration) -> Duration {
    quiet.mul_f64((waiting_for_processors() * stolen_by_the_hypervisor()).clamp(1.0, MAX_FACTOR))
}

/// How many threads want each processor.
fn waiting_for_processors() -> f64 {
    let processors = thread::available_parallelism().map_or(1, usize::from) as f64;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = load.split_whitespace().next();
    let wanting = first.and_then(|number| number.parse::<f64>().ok());
    (wanting.unwrap_or(0.0) / processors).max(1.0)
}

/// How much longer everything takes because other virtual machines had the processors, since these tests began.
fn stolen_by_the_hypervisor() -> f64 {
    static BEGIN: LazyLock<(f64, f64)> = LazyLock::new(processor_time);
    let (stolen_before, all_before) = *BEGIN;
    let (stolen, all) = processor_time();
    let share = (stolen - stolen_before) / (all - all_before).max(1.0);
    1.0 / (1.0 - share.clamp(0.0, 0.95))
}

/// Ticks of the processors since the machine started: those that were stolen, and all.
fn processor_time() -> (f64, f64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> = ticks.filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, waiting, interrupts, soft interrupts, stolen; what follows is counted among them.
    (
        ticks.get(7).copied().unwrap_or(0.0),
        ticks.iter().take(8).sum(),
    )
}
