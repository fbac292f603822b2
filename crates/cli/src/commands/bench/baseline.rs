//! What a message to another process and back costs on this machine, without any code of Cellblock: the least time that a session could take.
//! After a pause it is a multiple, for the processors have to wake up, and find nothing in their caches.

use super::Bench;
use super::rows::Samples;
use anyhow::Context as _;
use cellblock::Strategy;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The least that a cell needs: Python that computes an expression, and sends back what came of it.
const COMPUTE: &str = "\
import os
while code := os.read(0, 100):
    value = eval(compile(code, '<cell>', 'eval'))
    os.write(1, repr(value).encode().ljust(100))";

/// Medians, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bare {
    pub(crate) back_to_back: f64,
    pub(crate) apart: f64,
}

impl Bare {
    /// `cat` on the other side, which does nothing with the message.
    pub(crate) fn message(repetitions: usize, gap: Duration) -> io::Result<Bare> {
        Bare::measure(Command::new("cat"), repetitions, gap)
    }

    /// A Python on the other side that computes `1+1`: no walls, no variables, no checkpoint, no result but a text.
    pub(crate) fn python(python: &Path, repetitions: usize, gap: Duration) -> io::Result<Bare> {
        let mut command = Command::new(python);
        command.args(["-S", "-E", "-c", COMPUTE]);
        Bare::measure(command, repetitions, gap)
    }

    fn measure(mut other: Command, repetitions: usize, gap: Duration) -> io::Result<Bare> {
        let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(mut to), Some(mut from)) = (other.stdin.take(), other.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut median = |count: usize, gap: Duration| -> io::Result<f64> {
            let mut values = Vec::with_capacity(count);
            for _ in 0..count {
                std::thread::sleep(gap);
                values.push(round_trip(&mut to, &mut from)?);
            }
            Ok(Samples::new(values).quantile(0.5))
        };
        let back_to_back = median(10 * repetitions, Duration::ZERO)?;
        let apart = median(repetitions, gap)?;
        drop(to);
        other.wait()?;
        Ok(Bare {
            back_to_back,
            apart,
        })
    }
}

fn round_trip(to: &mut impl Write, from: &mut impl Read) -> io::Result<f64> {
    let mut message = [b' '; 100];
    message[..3].copy_from_slice(b"1+1");
    let begun = Instant::now();
    to.write_all(&message)?;
    to.flush()?;
    from.read_exact(&mut message)?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

const FORK_CODE: &str = "\
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
        let result = session.run(FORK_CODE).await?;
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
