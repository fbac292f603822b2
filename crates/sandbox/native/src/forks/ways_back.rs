//! What leads from the helper of a head back to its own session is taken from it before it enters a fork.
//!
//! Code of the session runs in the fork before the guest does: handlers of Python's and of libc's `fork`, threads, or all that the helper itself
//! runs. In the fork it finds directories that are limited anew. With a socket of its parent's it could pass files of these directories on, and the
//! parent would hold what each of many forks has written. So would a process that shares its table of descriptors. A directory of the
//! parent's leads to sockets with a path there, also one that is only read: `..` leads on to every mount of the parent's.
//!
//! What stays are files, pipes, devices and objects without a file, such as an `eventfd`: nothing is passed on through those. The guest
//! makes them anew.

use crate::sys::text::{Text, leading_number};
use crate::sys::{
    Errno, Fd, Pid, Result, Status, close, link_status_at, open_at, open_flags, packet_pair, pipe,
    read_directory, status_at,
};

/// The most sockets and directories that a session which is forked may have open.
const MAX_WAYS_BACK: usize = 4096;

/// The descriptors of a process that lead to its session.
pub struct WaysBack {
    found: [WayBack; MAX_WAYS_BACK],
    count: usize,
}

#[derive(Clone, Copy)]
struct WayBack {
    number: Fd,
    is_socket: bool,
}

impl WaysBack {
    /// Of a process that init may look into. It must be stopped, and share its descriptors with no other.
    pub fn of(processes: Fd, pid: Pid) -> Result<WaysBack> {
        let mut ways = WaysBack {
            found: [WayBack {
                number: -1,
                is_socket: false,
            }; MAX_WAYS_BACK],
            count: 0,
        };
        let path = Text::<32>::new(format_args!("{pid}/fd"))?;
        let descriptors = open_at(processes, path.as_c_str(), open_flags::DIRECTORY, 0)?;
        let outcome = ways.look(descriptors);
        close(descriptors);
        outcome.map(|()| ways)
    }

    fn look(&mut self, descriptors: Fd) -> Result<()> {
        each_number(descriptors, |number| {
            let name = Text::<16>::new(format_args!("{number}"))?;
            let link = link_status_at(descriptors, name.as_c_str())?;
            let target = status_at(descriptors, name.as_c_str())?;
            if stays(link, target) {
                return Ok(());
            }
            *self.found.get_mut(self.count).ok_or(Errno::OVERFLOW)? = WayBack {
                number,
                is_socket: target.is_socket(),
            };
            self.count += 1;
            Ok(())
        })
    }

    /// Puts something that leads nowhere in the place of each: a socket whose other end is closed, or the end of such a pipe. `put` is called
    /// with what is put, and with the number.
    pub fn cut(&self, mut put: impl FnMut(Fd, Fd) -> Result<()>) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let (socket, far) = packet_pair()?;
        close(far);
        let outcome = pipe().and_then(|(reader, writer)| {
            close(writer);
            let mut ways = self.found[..self.count].iter();
            let outcome = ways.try_for_each(|way| {
                let dead = if way.is_socket { socket } else { reader };
                put(dead, way.number)
            });
            close(reader);
            outcome
        });
        close(socket);
        outcome
    }
}

/// Whether a descriptor can stay: nothing can be sent through it, or looked up from it. `link` is its entry in `/proc`.
fn stays(link: Status, target: Status) -> bool {
    // What only stands for a path can be neither read nor written.
    let is_open = link.permissions() & 0o600 != 0;
    is_open
        && (target.is_file()
            || target.is_pipe()
            || target.is_character_device()
            || target.is_anonymous())
}

/// Calls `visit` for each descriptor. Unlike a walk through processes, nothing may be left out: an error ends it.
fn each_number(descriptors: Fd, mut visit: impl FnMut(Fd) -> Result<()>) -> Result<()> {
    const NAME: usize = 19;
    let mut buffer = [0u8; 4096];
    loop {
        let length = read_directory(descriptors, &mut buffer)?;
        let mut entries = &buffer[..length];
        if entries.is_empty() {
            return Ok(());
        }
        while entries.len() > NAME {
            let size = usize::from(u16::from_le_bytes([entries[16], entries[17]]));
            if let Some(number) = leading_number(&entries[NAME..]) {
                visit(number as Fd)?;
            }
            entries = entries.get(size.max(NAME)..).unwrap_or(&[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{open, own_pid};

    #[test]
    fn sockets_directories_and_paths_lead_back_and_nothing_else() {
        let (near, far) = packet_pair().unwrap();
        let (reader, writer) = pipe().unwrap();
        let directory = open(c"/usr", open_flags::DIRECTORY, 0).unwrap();
        let path = open(c"/dev/null", open_flags::PATH, 0).unwrap();
        let device = open(c"/dev/null", open_flags::WRONLY, 0).unwrap();
        let file = open(c"/proc/self/exe", open_flags::RDONLY, 0).unwrap();
        let processes = open(c"/proc", open_flags::DIRECTORY, 0).unwrap();
        let ways = WaysBack::of(processes, own_pid()).unwrap();
        let mut cut = std::vec::Vec::new();
        ways.cut(|_, number| {
            cut.push(number);
            Ok(())
        })
        .unwrap();
        let is_cut = |fd: &Fd| cut.contains(fd);
        assert!([near, far, directory, path, processes].iter().all(is_cut));
        assert!(![reader, writer, device, file].iter().any(is_cut));
        for fd in [
            near, far, directory, path, processes, reader, writer, device, file,
        ] {
            close(fd);
        }
    }
}
