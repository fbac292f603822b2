//! The spawner of a session: it starts processes beside the head, at the host's request.
//!
//! Init forks the spawner when the host first asks for one. The spawner puts itself behind the walls of the session once, so every process that
//! it starts is behind them, and all of these have one filter with one listener, which init holds. The spawner runs nothing but this code.
//!
//! ```text
//! init ─┬─ head, standbys
//!       └─ spawner ─┬─ supervisor ─ process ─ whatever it starts
//!                   └─ supervisor ─ process
//! ```
//!
//! Everything below the spawner is left alone when the head is swept away. Each process has a supervisor ([`supervisor`]), which adopts what
//! the process leaves behind: so init can always tell to which process another one belongs, whatever group or session it has moved to.

mod supervisor;

use crate::init::memory;
use crate::sys::{
    self, Errno, Fd, Forked, Poll, clone_process, close, close_all_but, duplicate_above, open,
    open_flags, poll, reap, receive, send, signal_descriptor, signals,
};
use crate::walls::harden::{OUT_OF_THE_WAY, Visibility, confine, report};
use crate::walls::limits;
use crate::walls::privileges;
use crate::wire::config::{Item, Items, Spawn, SpawnProcess};
use crate::wire::message::{At, Failure, Message, Stage, from_spawner};

/// The life of the spawner. `socket` leads to the host; on `outcome` init waits to hear whether the walls stand.
pub fn run(request: &Spawn, items: Items<'_>, socket: Fd, outcome: Fd) -> ! {
    let prepared = prepare(socket, outcome);
    let (socket, outcome, children) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => {
            report(outcome, Err(failure));
            sys::exit(70)
        }
    };
    // If a wall is missing, the spawner ends here.
    report(outcome, confine(request, items, Visibility::Closed));
    close(outcome);
    let _ = limits::limit_open_files(request.open_files);
    let Ok(buffer) = memory::allocate::<[u8; SpawnProcess::MAX_BYTES]>() else {
        sys::exit(70)
    };
    // SAFETY: fresh memory of the kernel is zero, and zeros are bytes.
    let buffer = unsafe { buffer.assume_init_mut() };
    tell(socket, from_spawner::STARTED, sys::own_pid() as u64, 0, 0);
    loop {
        let mut wanted = [Poll::readable(socket), Poll::readable(children)];
        poll(&mut wanted, -1);
        let [request, child] = wanted;
        if child.seen != 0 {
            drain(children);
            while let Ok(Some(_)) = reap(-1, false) {}
        }
        if request.seen != 0 {
            match receive(socket, buffer) {
                Ok(received) if received.bytes > 0 => {
                    let fds = &received.descriptors[..received.count];
                    start(&buffer[..received.bytes], fds, socket, children);
                    fds.iter().copied().for_each(close);
                }
                // The host is gone, and init ends us.
                _ => sys::exit(0),
            }
        }
    }
}

/// Leaves the two sockets and a descriptor for the ends of children. The numbers of standard streams are taken, so that nothing that comes
/// later has one of them.
fn prepare(socket: Fd, outcome: Fd) -> Result<(Fd, Fd, Fd), Failure> {
    sys::new_session();
    sys::set_signal_mask(u64::MAX);
    let socket = duplicate_above(socket, OUT_OF_THE_WAY).at(Stage::Fork)?;
    let outcome = duplicate_above(outcome, OUT_OF_THE_WAY).at(Stage::Fork)?;
    let mut kept = [socket, outcome];
    kept.sort_unstable();
    close_all_but(&kept);
    (0..3).for_each(close);
    for _ in 0..3 {
        open(c"/dev/null", open_flags::RDWR, 0).at(Stage::Fork)?;
    }
    // Before there is a filter: each supervisor inherits it, and reads of its own children.
    let children = signal_descriptor(1 << (signals::CHLD - 1)).at(Stage::Fork)?;
    Ok((socket, outcome, children))
}

/// Starts the supervisor of one process, which starts the process.
fn start(bytes: &[u8], fds: &[Fd], socket: Fd, children: Fd) {
    // Without a socket there is no one to tell.
    let Some((&status, streams)) = fds.split_first() else {
        return;
    };
    let outcome = SpawnProcess::from_bytes(bytes).and_then(|(request, strings)| {
        let streams = match (request.has_terminal, streams) {
            (1, [terminal]) => Streams::Terminal(*terminal),
            (0, [input, output, error]) => Streams::Pipes([*input, *output, *error]),
            _ => return Err(Errno::PROTO),
        };
        let program = Program {
            items: Items(strings),
            streams,
        };
        // SAFETY: the child stays native until it executes a program.
        match unsafe { clone_process(0) }? {
            Forked::Parent(_) => Ok(()),
            Forked::Child => {
                close(socket);
                supervisor::run(&program, status, children)
            }
        }
    });
    if let Err(errno) = outcome {
        let stage = Stage::Fork as u64;
        tell(status, from_spawner::FAILED, stage, errno.0 as u64, 0);
    }
}

/// What a process shall be.
struct Program<'a> {
    items: Items<'a>,
    streams: Streams,
}

/// What a process has as its standard streams.
#[derive(Clone, Copy)]
enum Streams {
    /// Input, output and error.
    Pipes([Fd; 3]),
    /// One terminal, which becomes the controlling terminal.
    Terminal(Fd),
}

impl Program<'_> {
    /// Becomes the program. Returns only on failure.
    fn execute(&self) -> Failure {
        match self.try_to_execute() {
            Ok(errno) => Failure {
                stage: Stage::Execute,
                errno,
            },
            Err(failure) => failure,
        }
    }

    fn try_to_execute(&self) -> Result<Errno, Failure> {
        const MAX: usize = SpawnProcess::MAX_STRINGS;
        let [input, output, error] = match self.streams {
            Streams::Pipes(streams) => streams,
            Streams::Terminal(terminal) => {
                sys::take_terminal(terminal).at(Stage::Terminal)?;
                [terminal; 3]
            }
        };
        for (number, fd) in [input, output, error].into_iter().enumerate() {
            sys::move_to(fd, number as Fd).at(Stage::Terminal)?;
        }
        sys::close_on_exec_from(3);
        if let Some(directory) = self.items.one(Item::Home) {
            sys::chdir(directory).at(Stage::Home)?;
        }
        let mut arguments = [core::ptr::null(); MAX + 1];
        let mut variables = [core::ptr::null(); MAX + 1];
        for (item, strings) in [
            (Item::Argument, &mut arguments),
            (Item::Variable, &mut variables),
        ] {
            let given = self.items.of(item).map(|(text, _)| text.as_ptr());
            // The last place stays null.
            strings[..MAX]
                .iter_mut()
                .zip(given)
                .for_each(|(slot, text)| *slot = text);
        }
        // When memory runs out the kernel shall take a spawned process as soon as the head. Where there is Landlock, the spawner had to do
        // so before.
        privileges::set_dumpable(true);
        let _ = sys::write_file(c"/proc/self/oom_score_adj", b"500");
        sys::default_signals();
        sys::set_signal_mask(0);
        let mut refused = Errno::NOENT;
        for (path, _) in self.items.of(Item::Program) {
            match sys::execute(path, &arguments, &variables) {
                Errno::NOENT | Errno::NOT_DIRECTORY => {}
                // Another directory may have one that can be executed.
                Errno::ACCES => refused = Errno::ACCES,
                errno => return Ok(errno),
            }
        }
        Ok(refused)
    }
}

fn tell(socket: Fd, kind: u64, a: u64, b: u64, c: u64) {
    let _ = send(socket, &Message { kind, a, b, c }.to_bytes(), &[]);
}

fn drain(children: Fd) {
    let mut buffer = [0u8; 128 * 4];
    while let Ok(1..) = sys::read(children, &mut buffer) {}
}
