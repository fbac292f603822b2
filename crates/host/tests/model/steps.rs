//! What can happen to a session, and how it is made up.

use cellblock_protocol::{Rung, Strategy};
use proptest::prelude::{Just, any, prop_oneof};
use proptest::sample::select;
use proptest::strategy::Strategy as Dice;
use std::fmt;

/// A sequence of happenings, and the session that they happen to.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) setting: Setting,
    pub(crate) steps: Vec<ModelStep>,
}

/// What kind of session.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) rung: Rung,
    pub(crate) strategy: Strategy,
    /// How many checkpoints are kept for `undo`.
    pub(crate) checkpoints: u64,
    /// Every cell that fails leaves no trace.
    pub(crate) atomic: bool,
    /// The workspace is a directory of the user's, with a file in it.
    pub(crate) own_workspace: bool,
}

/// One thing that happens.
#[derive(Clone)]
pub(crate) enum ModelStep {
    Run {
        code: String,
        end: End,
        atomic: Option<bool>,
    },
    Undo(usize),
    Reset,
    Seed(u8),
    /// A person on the host puts a file into the workspace.
    Put(&'static str, String),
    /// A second session that begins where this one stands. What follows happens to the old one, or to the new one.
    Fork(Follow),
    /// What follows happens to another session of the family.
    Turn(usize),
    /// This session is closed, if there is another.
    Close,
    /// Nothing, for so many milliseconds: the next checkpoint is made meanwhile.
    Pause(u64),
}

/// Whom to follow at a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Parent,
    Child,
}

/// How a cell ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Well,
    Exception(&'static str),
    /// The process dies of this code.
    Death(&'static str),
    Timeout(&'static str),
    Interrupt,
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const FILES: [&str; 4] = ["f", "g", "d/h", "d/e/i"];
/// Cells leave these alone.
const HOST_FILES: [&str; 2] = ["given-1", "given-2"];

const EXCEPTIONS: [&str; 5] = [
    "1 / 0",
    "import sys; sys.exit(3)",
    "raise KeyboardInterrupt",
    "def deep(): return deep()\ndeep()",
    "import json; json.loads('{')",
];
const DEATHS: [&str; 6] = [
    "os._exit(0)",
    "os._exit(139)",
    "import ctypes; ctypes.string_at(0)",
    "os.kill(os.getpid(), 9)",
    "os.abort()",
    // A child that outlives its parent.
    "if os.fork() == 0: time.sleep(60)\nos.kill(os.getpid(), 15)",
];
const TIMEOUTS: [&str; 3] = [
    "while True: pass",
    "time.sleep(60)",
    "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
];

/// A cell that is seen to change nothing.
pub(crate) const CHANGES_NOTHING: &str = "1 + 1";

/// Cells like this one are run again instead of being in a checkpoint.
pub(crate) const ONLY_BINDS: [&str; 5] = ["a = 7", "b = 'text'", "c = 2.5", "a = b", "c = a * 2"];

/// What a cell prints before its end that is not its own doing.
pub(crate) const LAST_WORDS: &str = "and now";

/// What every cell may use.
pub(crate) const PRELUDE: &str = "import os, random, shutil, time";

/// What runs before the first cell: a generator of random numbers with a known state, and open files that stand somewhere.
pub(crate) const SETUP: &str = "import os, random, shutil, time
random.seed(7)
with open('book', 'w') as file:
    file.writelines(f'line {n}\\n' for n in range(3000))
reader = open('book')
log = open('log', 'a')";

fn statement() -> impl Dice<Value = String> {
    let name = || select(&NAMES[..]);
    let file = || select(&FILES[..]);
    let number = || 0u8..100;
    prop_oneof![
        6 => (name(), number()).prop_map(|(a, n)| format!("{a} = {n}")),
        3 => (name(), number()).prop_map(|(a, n)| format!("{a} = [{n}]")),
        3 => (name(), name()).prop_map(|(a, b)| format!("{a} = {b}")),
        4 => (name(), number()).prop_map(|(a, n)| format!("{a}.append({n})")),
        2 => name().prop_map(|a| format!("del {a}")),
        2 => (name(), number()).prop_map(|(a, n)| format!("{a} = (n for n in range({n}, 1000))")),
        2 => name().prop_map(|a| format!("print(next({a}))")),
        2 => (name(), number()).prop_map(|(a, n)| format!("def {a}(): return {n}")),
        1 => name().prop_map(|a| format!("{a} = random.random()")),
        1 => number().prop_map(|n| format!("random.seed({n})")),
        3 => name().prop_map(|a| format!("print([it for it in [globals().get({a:?})] if isinstance(it, (int, float, list))])")),
        2 => Just("print(reader.readline())".to_owned()),
        1 => number().prop_map(|n| format!("reader.seek({n})")),
        2 => number().prop_map(|n| format!("log.write('entry {n}\\n'); log.flush()")),
        1 => number().prop_map(|n| format!("log.write('entry {n}\\n')")),
        5 => (file(), number()).prop_map(|(f, n)| format!("os.makedirs(os.path.dirname({f:?}) or '.', exist_ok=True); open({f:?}, 'w').write('{n}' * {n})")),
        3 => (file(), number()).prop_map(|(f, n)| format!("open({f:?}, 'a').write('+{n}')")),
        2 => (file(), number()).prop_map(|(f, n)| format!("with open({f:?}, 'r+') as file: file.write('{n}')")),
        3 => file().prop_map(|f| format!("os.remove({f:?})")),
        2 => (file(), file()).prop_map(|(f, g)| format!("os.rename({f:?}, {g:?})")),
        1 => file().prop_map(|f| format!("print(open({f:?}).read())")),
        1 => file().prop_map(|f| format!("os.symlink('nowhere', {f:?})")),
        1 => (file(), select(&["0o600", "0o640", "0o755"][..])).prop_map(|(f, mode)| format!("os.chmod({f:?}, {mode})")),
        1 => Just("shutil.rmtree('d')".to_owned()),
        1 => Just("os.rename('d', 'moved')".to_owned()),
        1 => Just("shutil.rmtree('moved')".to_owned()),
        1 => Just("os.mkdir('f')".to_owned()),
    ]
}

fn end() -> impl Dice<Value = End> {
    prop_oneof![
        20 => Just(End::Well),
        3 => select(&EXCEPTIONS[..]).prop_map(End::Exception),
        6 => select(&DEATHS[..]).prop_map(End::Death),
        1 => select(&TIMEOUTS[..]).prop_map(End::Timeout),
        1 => Just(End::Interrupt),
    ]
}

fn run() -> impl Dice<Value = ModelStep> {
    let statements = proptest::collection::vec(statement(), 1..4);
    let atomic = prop_oneof![4 => Just(None), 1 => Just(Some(true)), 1 => Just(Some(false))];
    (statements, end(), atomic).prop_map(|(statements, end, atomic)| ModelStep::Run {
        code: statements.join("\n"),
        end,
        atomic,
    })
}

fn step() -> impl Dice<Value = ModelStep> {
    let pure = ModelStep::Run {
        code: CHANGES_NOTHING.to_owned(),
        end: End::Well,
        atomic: None,
    };
    let put =
        (select(&HOST_FILES[..]), 0u8..100).prop_map(|(f, n)| ModelStep::Put(f, n.to_string()));
    prop_oneof![
        30 => run(),
        6 => (1usize..5).prop_map(ModelStep::Undo),
        1 => Just(ModelStep::Reset),
        1 => (0u8..100).prop_map(ModelStep::Seed),
        2 => Just(pure),
        6 => select(&ONLY_BINDS[..]).prop_map(|code| ModelStep::Run { code: code.to_owned(), end: End::Well, atomic: None }),
        1 => put,
        2 => select(&[Follow::Parent, Follow::Child][..]).prop_map(ModelStep::Fork),
        2 => (0usize..4).prop_map(ModelStep::Turn),
        1 => Just(ModelStep::Close),
        4 => (0u64..12).prop_map(ModelStep::Pause),
    ]
}

pub(crate) fn scenario() -> impl Dice<Value = Scenario> {
    let rung = prop_oneof![4 => Just(Rung::Full), 1 => Just(Rung::Landlock), 1 => Just(Rung::None)];
    let strategy = prop_oneof![3 => Just(Strategy::Process), 1 => Just(Strategy::Thread)];
    let checkpoints = select(&[10u64, 3, 1][..]);
    let atomic = proptest::bool::weighted(0.15);
    let setting = (rung, strategy, checkpoints, atomic, any::<bool>());
    let setting = setting.prop_map(|(rung, strategy, checkpoints, atomic, own)| Setting {
        rung,
        strategy,
        checkpoints,
        atomic,
        // Without a mapping of owners, a session of root's may not write to root's files.
        own_workspace: own && rung != Rung::Landlock,
    });
    (setting, proptest::collection::vec(step(), 1..26))
        .prop_map(|(setting, steps)| Scenario { setting, steps })
}

/// As a script that a person can follow.
impl fmt::Debug for Scenario {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "in a session with {:?}:", self.setting)?;
        writeln!(formatter, "{}", indented("setup", SETUP))?;
        for step in &self.steps {
            writeln!(formatter, "{step:?}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ModelStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ModelStep::Run { code, end, atomic } => {
                let label = match atomic {
                    Some(atomic) => format!("run, atomic={atomic}"),
                    None => "run".to_owned(),
                };
                indented(&label, &full_code(code, *end))
            }
            ModelStep::Undo(count) => format!("undo {count}"),
            ModelStep::Reset => "reset".to_owned(),
            ModelStep::Seed(n) => format!("seed given = {n}"),
            ModelStep::Put(path, text) => format!("put {path:?} with {text:?}"),
            ModelStep::Fork(Follow::Parent) => "fork".to_owned(),
            ModelStep::Fork(Follow::Child) => "fork and go on in the fork".to_owned(),
            ModelStep::Turn(n) => format!("go on in session {n} of those that are there"),
            ModelStep::Close => "close, if it is not the last".to_owned(),
            ModelStep::Pause(milliseconds) => format!("pause {milliseconds} ms"),
        };
        write!(formatter, "{text}")
    }
}

fn indented(label: &str, code: &str) -> String {
    format!("{label}:\n    {}", code.replace('\n', "\n    "))
}

/// The code as the session gets it.
pub(crate) fn full_code(code: &str, end: End) -> String {
    match end {
        End::Well if code == CHANGES_NOTHING || ONLY_BINDS.contains(&code) => code.to_owned(),
        End::Well => format!("{PRELUDE}\n{code}"),
        End::Exception(last) | End::Timeout(last) => format!("{PRELUDE}\n{code}\n{last}"),
        End::Death(last) => format!("{PRELUDE}\n{code}\nprint({LAST_WORDS:?}, flush=True)\n{last}"),
        End::Interrupt => {
            format!("{PRELUDE}\n{code}\nprint({LAST_WORDS:?}, flush=True)\ntime.sleep(60)")
        }
    }
}

/// The code that does the same in plain Python.
pub(crate) fn plain_code(code: &str, end: End) -> String {
    match end {
        End::Interrupt => {
            format!("{PRELUDE}\n{code}\nprint({LAST_WORDS:?}, flush=True)\nraise KeyboardInterrupt")
        }
        _ => full_code(code, end),
    }
}
