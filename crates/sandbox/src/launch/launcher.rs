//! Starting the launcher, which builds the outer walls and executes Python behind them.

use crate::Error;
use crate::Verdict;
use crate::View;
use crate::launch::session_ids::SessionIds;
use crate::launch::spawn_request::item;
use crate::launch::view::ViewEntry;
use crate::packet_pair;
use crate::receive_packet;
use crate::send_packet;
use cellblock_native::launch::launcher::descriptors;
use cellblock_native::sys;
use cellblock_native::wire::config::{Item, Launch, walls};
use cellblock_native::wire::message::{Message, Stage};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

/// The bytes of temporary files that a zygote needs for itself; sessions have their own.
const ZYGOTE_TEMPORARY_BYTES: u64 = 64 << 20;

/// The program, the walls and the view of a launch.
#[derive(Clone, Debug)]
pub struct LaunchPlan {
    launch: Launch,
    items: Vec<u8>,
}

/// A launcher that was started. Dropping `control` ends it and everything behind it.
#[derive(Debug)]
pub struct Launched {
    /// The launcher's packets.
    pub control: OwnedFd,
    /// The zygote's packets.
    pub zygote: OwnedFd,
    /// The standard error of Python, which tells why it cannot start.
    pub complaints: Option<ChildStderr>,
    /// The process to wait for.
    pub process: Child,
}

impl LaunchPlan {
    /// Executes `program` behind these walls.
    pub fn new(walls: u64, program: &Path) -> Result<LaunchPlan, Error> {
        Ok(LaunchPlan {
            items: item(Item::Program, program, Path::new(""))?,
            ..LaunchPlan::without_program(walls)
        })
    }

    /// Builds these walls, and has nothing to execute behind them.
    fn without_program(walls: u64) -> LaunchPlan {
        let (first_id, shared_id) = match SessionIds::of(walls) {
            SessionIds::Each { first } => (first, 0),
            // Without namespaces the zygote takes the id, with namespaces the launcher does.
            SessionIds::Shared { id } if walls & walls::NAMESPACES == 0 => (id, 0),
            SessionIds::Shared { id } => (0, id),
            SessionIds::Host => (0, 0),
        };
        let launch = Launch {
            walls,
            first_id: first_id.into(),
            shared_id: shared_id.into(),
            temporary_bytes: ZYGOTE_TEMPORARY_BYTES,
        };
        LaunchPlan {
            launch,
            items: Vec::new(),
        }
    }

    /// Adds an argument, the program's own name first.
    pub fn argument(mut self, word: &str) -> Result<LaunchPlan, Error> {
        self.items
            .extend(item(Item::Argument, Path::new(word), Path::new(""))?);
        Ok(self)
    }

    /// Adds a variable to the environment, which is empty otherwise.
    pub fn variable(mut self, name: &str, value: &str) -> Result<LaunchPlan, Error> {
        self.items.extend(item(
            Item::Variable,
            Path::new(&format!("{name}={value}")),
            Path::new(""),
        )?);
        Ok(self)
    }

    /// Sets the part of the host that the zygote and its sessions see.
    pub fn view(mut self, view: &View) -> Result<LaunchPlan, Error> {
        for entry in view.entries() {
            self.items.extend(match entry {
                ViewEntry::Show { host, at } => item(Item::Show, host, at)?,
                ViewEntry::Device { host, at } => item(Item::Device, host, at)?,
                ViewEntry::Link { target, at } => item(Item::Link, target, at)?,
                ViewEntry::Directory(at) => item(Item::Directory, Path::new(""), at)?,
                ViewEntry::File { text, at } => item(Item::File, Path::new(text), at)?,
            });
        }
        Ok(self)
    }

    /// Whether paths inside are those of the view and not the host's.
    pub fn has_view(&self) -> bool {
        self.launch.walls & walls::NAMESPACES != 0 && self.launch.walls & walls::FILES != 0
    }

    /// Starts it.
    pub fn start(&self) -> Result<Launched, Error> {
        let (control, far_control) = packet_pair()?;
        let (zygote, far_zygote) = packet_pair()?;
        let inherited = if self.launch.walls & walls::ENVIRONMENT == 0 {
            Inherited::Everything
        } else {
            Inherited::Nothing
        };
        let mut process = start_native(&[], far_control, Some(far_zygote), inherited)?;
        let mut request = self.launch.to_bytes().to_vec();
        request.extend_from_slice(&self.items);
        if inherited == Inherited::Everything {
            request.extend(own_environment()?);
        }
        send_packet(&control, &request, &[])
            .map_err(|error| Error::system("asking the launcher", error))?;
        let complaints = process.stderr.take();
        Ok(Launched {
            control,
            zygote,
            complaints,
            process,
        })
    }
}

/// Takes every step of a launch up to the program, of which there is none: so the launcher fails at the last step, or at the one that
/// this machine does not allow.
pub(crate) fn try_start(walls: u64) -> Result<Verdict, Error> {
    const WHAT: &str = "trying to start the launcher";
    let mut launched = LaunchPlan::without_program(walls).start()?;
    rustix::io::ioctl_fionbio(&launched.control, false)
        .map_err(|error| Error::system(WHAT, error))?;
    let answer = receive_packet(&launched.control, Message::SIZE);
    drop(launched.control);
    launched
        .process
        .wait()
        .map_err(|error| Error::system(WHAT, error))?;
    let answer = answer.map_err(|error| Error::system(WHAT, error))?;
    let (message, _) = Message::from_bytes(&answer.bytes).map_err(|_| Error::Protocol {
        process: "the launcher",
    })?;
    Ok(if message.a == Stage::Execute as u64 {
        Verdict::Works { version: 0 }
    } else {
        let source = std::io::Error::from_raw_os_error(i32::try_from(message.b).unwrap_or(0));
        Verdict::Fails(format!("{}: {source}", Stage::describe(message.a)))
    })
}

/// The access of the processes inside to the host's own environment and open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inherited {
    /// Not there.
    Nothing,
    /// There, as for any child of the host's: the policy without the wall `environment`.
    Everything,
}

/// The host's variables, as many as one message and one array of the launcher's can hold.
fn own_environment() -> Result<Vec<u8>, Error> {
    const MAX_INHERITED: usize = 200;
    const MAX_INHERITED_BYTES: usize = 64 << 10;
    let mut items = Vec::new();
    let texts = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    for (name, value) in texts.take(MAX_INHERITED) {
        let variable = item(
            Item::Variable,
            Path::new(&format!("{name}={value}")),
            Path::new(""),
        )?;
        if items.len() + variable.len() <= MAX_INHERITED_BYTES {
            items.extend(variable);
        }
    }
    Ok(items)
}

/// Executes the native code with the launcher's descriptors and, of the host's, what is to be inherited.
pub(crate) fn start_native(
    arguments: &[&str],
    control: OwnedFd,
    zygote: Option<OwnedFd>,
    inherited: Inherited,
) -> Result<Child, Error> {
    let library = open_library()?;
    const WHAT: &str = "starting the launcher";
    let wrap = |error: rustix::io::Errno| Error::system(WHAT, error);
    // Out of the way of the numbers that they will have in the child.
    let high = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 16);
    let control = high(&control).map_err(wrap)?;
    let library = high(&library).map_err(wrap)?;
    let zygote = zygote.as_ref().map(high).transpose().map_err(wrap)?;

    let mut command = Command::new(format!("/proc/self/fd/{}", descriptors::LIBRARY));
    command
        .arg0("cellblock-launcher")
        .args(arguments)
        .env_clear()
        .current_dir("/");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // Ctrl-C at a terminal is for the host to interpret, not for everything behind it.
    command.process_group(0);
    let numbers = (
        control.as_raw_fd(),
        zygote.as_ref().map(AsRawFd::as_raw_fd),
        library.as_raw_fd(),
    );
    // SAFETY: only system calls, no allocation; see `arrange`.
    unsafe { command.pre_exec(move || arrange(numbers, inherited)) };
    command.spawn().map_err(|error| Error::system(WHAT, error))
}

/// Runs in the child, between `fork` and `exec`.
fn arrange(
    (control, zygote, library): (i32, Option<i32>, i32),
    inherited: Inherited,
) -> std::io::Result<()> {
    let wrap = |sys::Errno(number)| std::io::Error::from_raw_os_error(number);
    sys::move_to(control, descriptors::CONTROL).map_err(wrap)?;
    sys::move_to(zygote.unwrap_or(control), descriptors::ZYGOTE).map_err(wrap)?;
    sys::move_to(library, descriptors::LIBRARY).map_err(wrap)?;
    if inherited == Inherited::Nothing {
        // On exec, not now: the standard library still needs its own to report a failure.
        sys::close_on_exec_from(descriptors::LIBRARY as u32 + 1);
    }
    Ok(())
}

static NATIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cellblock-native.so"));

/// A sealed file in memory with the native code: to be executed as the launcher and loaded by the guest.
fn open_library() -> Result<OwnedFd, Error> {
    let what = "putting the native code into memory";
    let wrap = |error| Error::system(what, error);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know EXEC and need not be told.
    let file = memfd_create("cellblock", flags | MemfdFlags::EXEC)
        .or_else(|_| memfd_create("cellblock", flags))
        .map_err(wrap)?;
    let mut rest = NATIVE;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).map_err(wrap)?;
        rest = &rest[written..];
    }
    // Writers inside must not be able to change what the next session loads.
    fcntl_add_seals(
        &file,
        SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL,
    )
    .map_err(wrap)?;
    Ok(file)
}
