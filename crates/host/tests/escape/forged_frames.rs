//! Forged frames: user code shares its process with our guest and can write to its channel.
//!
//! There is nothing outside to reach this way, so the canary is the host itself: its memory, its descriptors, its patience, and
//! a session beside this one.

use super::common::{behind, builder, open, run, run_if_alive, short, under_load, wait};
use cellblock_protocol::{Cell, CellResult, Event, Isolation, Limits, Status};
use cellblock_session::Session;
use serde_json::{Map, Value};
use std::fs;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

/// What one hostile session may cost the host at its peak: a frame of the largest size, read and parsed.
const MOST_MEMORY: u64 = 160 << 20;

/// Those that measure this very process do so alone.
static QUIET: RwLock<()> = RwLock::new(());

macro_rules! forged {
    ($($name:ident),+ $(,)?) => {
        $(#[test]
        fn $name() {
            Forgery(include_str!(concat!("forged_frames/", stringify!($name), ".py"))).is_harmless();
        })+
    };
}

forged! {
    a_channel_that_is_none,
    a_claim_about_the_exit,
    a_hundred_thousand_brackets,
    a_length_of_four_gigabytes,
    a_length_of_nothing,
    a_thousand_descriptors,
    an_unknown_message,
    answers_to_no_question,
    calls_around_a_pause,
    claims_around_a_pause,
    dead_in_the_middle_of_a_frame,
    displays_of_small_values,
    displays_without_end,
    done_and_dead,
    done_before_it_is,
    done_for_another_cell,
    half_a_frame,
    large_tool_calls_that_wait,
    logs_without_end,
    many_small_tool_calls,
    no_json,
    requests_stolen,
    ten_million_values,
    tool_calls_that_wait,
    tool_calls_without_end,
    wrong_types,
}

struct Forgery(&'static str);

impl Forgery {
    fn is_harmless(&self) {
        if self.note("costs").is_some() {
            let _alone = QUIET.write().unwrap_or_else(PoisonError::into_inner);
            let before = peak_memory_from_now();
            self.is_survived();
            let grown = peak_memory().saturating_sub(before);
            assert!(
                grown < MOST_MEMORY,
                "the host needed {} MiB more",
                grown >> 20
            );
        } else {
            let _others = QUIET.read().unwrap_or_else(PoisonError::into_inner);
            self.is_survived();
        }
    }

    fn is_survived(&self) {
        let bystander = open(builder());
        run(&bystander, "x = 'untouched'");
        let session = behind(
            Isolation::default(),
            Limits::default(),
            &Map::from_iter([("cell".to_owned(), Value::from(1))]),
        );
        let begin = Instant::now();

        let limit = self
            .note("seconds")
            .map_or(2.0, |seconds| seconds.parse().unwrap());
        let cell = Cell::new(self.0).timeout(Duration::from_secs_f64(limit));
        let (result, most) = match self.note("reader") {
            // The clock of the cell stands still while its calls wait.
            Some(_) => (run_for_a_late_reader(&session, cell), 2.0 * limit + 8.0),
            None => (run(&session, cell), limit + 8.0),
        };
        assert!(
            begin.elapsed() < under_load(Duration::from_secs_f64(most)),
            "the host waited {:?}",
            begin.elapsed()
        );
        self.check(&result);
        if self.note("pause").is_some() {
            pause_and_resume(&session);
        }
        self.check_next(&session);

        assert_eq!(run(&bystander, "x").value.unwrap().repr, "'untouched'");
        // A session of its own has some twenty; the others that run now have as many.
        assert!(
            open_descriptors() < 700,
            "{} descriptors",
            open_descriptors()
        );
        wait(session.close());
        wait(bystander.close());
    }

    /// The status is one of those that can be true; what the process died of is the kernel's word.
    fn check(&self, result: &CellResult) {
        let expected = self
            .note("status")
            .expect("every forgery says what comes of it");
        assert!(
            expected
                .split(' ')
                .any(|status| status == result.status.name()),
            "{}",
            short(result)
        );
        if let Some(signal) = self.note("signal") {
            assert_eq!(
                (result.signal, result.exit_code),
                (signal.parse().ok(), None),
                "{}",
                short(result)
            );
        }
        if let Some(code) = self.note("exit") {
            assert_eq!(
                (result.exit_code, result.signal),
                (code.parse().ok(), None),
                "{}",
                short(result)
            );
        }
    }

    /// The session is over, or its next cell ends as a cell does: the lie reaches no further than that.
    fn check_next(&self, session: &Session) {
        let begin = Instant::now();
        let next = wait(session.run(Cell::new("40 + 2").timeout(Duration::from_secs(2))));
        assert!(
            begin.elapsed() < under_load(Duration::from_secs(15)),
            "the next cell took {:?}",
            begin.elapsed()
        );
        match next {
            Ok(result) => println!("next: {} {:?}", result.status, result.state.outcome),
            Err(error) => assert_eq!(error.code(), "ended", "{error}"),
        }
        // Whatever a later cell says as well, it says it in time; and if it claims to have succeeded, it has.
        if let Some(result) =
            run_if_alive(session, Cell::new("40 + 2").timeout(Duration::from_secs(2)))
            && result.status == Status::Success
        {
            assert_eq!(result.value.map(|value| value.repr), Some("42".to_owned()));
        }
    }

    fn note(&self, word: &str) -> Option<&'static str> {
        let comments = self.0.lines().map_while(|line| line.strip_prefix("# "));
        comments
            .filter_map(|line| line.split_once(": "))
            .find_map(|(found, text)| (found == word).then_some(text))
    }
}

/// Pauses a session whose threads go on after its cell. What they wrote before is read after the resume. A session that is over is fine.
fn pause_and_resume(session: &Session) {
    const PAUSE: Duration = Duration::from_millis(300);
    for _ in 0..3 {
        let begin = Instant::now();
        match wait(session.pause()) {
            Ok(()) => std::thread::sleep(PAUSE),
            Err(error) => return assert_eq!(error.code(), "ended", "{error}"),
        }
        wait(session.resume()).unwrap();
        let limit = under_load(Duration::from_secs(8));
        assert!(begin.elapsed() < limit, "it took {:?}", begin.elapsed());
        // The threads write at the moment in which they go on.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs a cell whose events wait, and those of the session's log, until as many wait as ever will.
fn run_for_a_late_reader(session: &Session, cell: Cell) -> CellResult {
    /// Every queue is full when the host's memory did not grow for so long.
    const STILL: Duration = Duration::from_secs(3);
    let logs = session.logs();
    let mut running = session.start(cell).unwrap();
    let (mut peak, mut since) = (0, Instant::now());
    while since.elapsed() < STILL {
        std::thread::sleep(Duration::from_millis(100));
        let now = peak_memory();
        if now > peak {
            (peak, since) = (now, Instant::now());
        }
    }
    let result = loop {
        match wait(running.next()) {
            Some(Event::Result { result }) => break *result,
            Some(Event::Error { message, .. }) => panic!("{message}"),
            Some(_) => {}
            None => panic!("there is no result"),
        }
    };
    drop(logs);
    result
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Forgets how much memory this process ever had, and returns what it has.
fn peak_memory_from_now() -> u64 {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    peak_memory()
}

fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}
