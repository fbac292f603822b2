//! What a message to another process and back costs on this machine when nothing is done with it: what no session can be faster
//! than. After a pause it is a multiple, for the processors have to wake up.

use super::samples::Samples;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Medians, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bare {
    pub(crate) back_to_back: f64,
    pub(crate) apart: f64,
}

impl Bare {
    /// Measures with `cat` on the other side.
    pub(crate) fn measure(repetitions: usize, gap: Duration) -> io::Result<Bare> {
        let mut cat = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(mut to), Some(mut from)) = (cat.stdin.take(), cat.stdout.take()) else {
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
        cat.wait()?;
        Ok(Bare {
            back_to_back,
            apart,
        })
    }
}

fn round_trip(to: &mut impl Write, from: &mut impl Read) -> io::Result<f64> {
    let mut message = [b'x'; 100];
    let begun = Instant::now();
    to.write_all(&message)?;
    to.flush()?;
    from.read_exact(&mut message)?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}
