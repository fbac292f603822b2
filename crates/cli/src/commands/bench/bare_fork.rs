//! What the kernel takes to copy a Python with the same modules, and to end the copy: what no checkpoint can be faster than.

use super::measure::Bench;
use super::samples::Samples;
use anyhow::Context as _;
use cellblock::Strategy;

const CODE: &str = "\
import json, os, time
def fork():
    time.sleep(0.005)
    begun = time.perf_counter()
    copy = os.fork()
    if copy == 0:
        os._exit(0)
    made = time.perf_counter()
    os.waitpid(copy, 0)
    return (made - begun) * 1e3, (time.perf_counter() - begun) * 1e3
print(json.dumps([fork() for _ in range(50)]))";

/// Medians, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BareFork {
    pub(crate) made: f64,
    pub(crate) ended: f64,
}

impl BareFork {
    /// Measures in a session, with what every session has imported.
    pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<BareFork> {
        let session = bench.session(Strategy::Direct).await?;
        let result = session.run(CODE).await?;
        session.close().await;
        let pairs: Vec<(f64, f64)> =
            serde_json::from_str(&result.stdout).context("forks could not be measured")?;
        let (made, ended): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let median = |values| Samples::new(values).quantile(0.5);
        Ok(BareFork {
            made: median(made),
            ended: median(ended),
        })
    }
}
