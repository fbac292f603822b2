//! The memory limit where there is no cgroup: `RLIMIT_DATA` bounds one process, this bounds all of them together.

use crate::notify::Protected;
use crate::sweep::{Reach, each_process};
use crate::sys::{Fd, Pid, each_line_at, read_file_at, used_on};
use crate::text::{Text, leading_number};

/// How often it looks, in milliseconds.
pub const PERIOD: i32 = 100;

/// How often in a row it may be in doubt over so many bytes. Making a copy of a head of gigabytes takes a second where others compute too,
/// and nobody shall lose a session because the machine is busy.
pub fn patience(bytes: u64) -> u32 {
    const LEAST: u32 = 3;
    const MOST: u32 = 50;
    (bytes >> 28).min(u64::from(MOST)) as u32 + LEAST
}

/// What a look at the memory showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// There is room.
    Fine,
    /// There may be none: of a process that cannot be looked into it is not known what it shares. A standby is one for the
    /// moment between its birth and the host's word that it is one. How many bytes these have.
    Doubtful(u64),
    /// There is none.
    Over,
}

/// Whose memory is looked at.
pub struct Watched<'a, P> {
    /// How the processes of the session are found.
    pub reach: Reach,
    /// `/proc`.
    pub proc_directory: Fd,
    /// The live interpreter.
    pub head: Pid,
    /// The standbys: what they hold beyond the head is the host's to bound, who can look into them.
    pub standbys: &'a P,
}

impl<P: Protected> Watched<'_, P> {
    /// Whether the session holds more than `limit` bytes.
    ///
    /// Resident sizes are quick to read but count shared pages once per process; only when their sum is over the limit are the
    /// exact, slower shares read.
    pub fn look(&self, limit: u64) -> Finding {
        let named = match self.reach {
            Reach::Namespace => temporary_files() + shared_segments(self.proc_directory),
            Reach::Descendants => 0,
        };
        let mut resident = named;
        self.each_counted(|pid| resident += resident_bytes(self.proc_directory, pid).unwrap_or(0));
        if resident <= limit {
            return Finding::Fine;
        }
        let (mut own, mut shared, mut doubtful) = (0, 0, 0);
        self.each_counted(|pid| match shares(self.proc_directory, pid) {
            Some(share) => {
                // The head counts in full: what it shares with its standbys is still its own.
                own += if pid == self.head {
                    share.own_in_full
                } else {
                    share.own
                };
                shared += share.shared;
            }
            // A process that made itself unreadable counts in full.
            None => doubtful += resident_bytes(self.proc_directory, pid).unwrap_or(0),
        });
        // What is mapped and has a name stands in both; to add them would end a session at half its limit.
        let certain = own + shared.max(named);
        if certain > limit {
            Finding::Over
        } else if certain + doubtful > limit {
            Finding::Doubtful(doubtful)
        } else {
            Finding::Fine
        }
    }

    fn each_counted(&self, mut visit: impl FnMut(Pid)) {
        each_process(self.reach, self.proc_directory, |pid| {
            if !self.standbys.is_protected(pid) {
                visit(pid);
            }
        });
    }
}

/// The part of a process's memory that counts as its own: pages shared by n processes count one n-th.
struct Share {
    /// Its heap and the like.
    own: u64,
    /// The same, with every page counted once.
    own_in_full: u64,
    /// Memory that it shares on purpose.
    shared: u64,
}

fn temporary_files() -> u64 {
    [c"/tmp", c"/dev/shm"]
        .into_iter()
        .filter_map(|path| used_on(path).ok())
        .map(|(bytes, _)| bytes)
        .sum()
}

/// System V segments stay when nobody has them mapped, so no process shows them.
fn shared_segments(proc_directory: Fd) -> u64 {
    let mut sum = 0;
    let _ = each_line_at(proc_directory, c"sysvipc/shm", |line| {
        sum += segment_bytes(line).unwrap_or(0)
    });
    sum
}

/// The resident bytes in a line of `sysvipc/shm`. Segments that were made outside of the session, where it has no IPC
/// namespace of its own, show process 0 as their maker.
fn segment_bytes(line: &[u8]) -> Option<u64> {
    const MAKER: usize = 4;
    const RESIDENT: usize = 14;
    let mut fields = line
        .split(|byte| *byte == b' ')
        .filter(|field| !field.is_empty());
    let maker = leading_number(fields.nth(MAKER)?)?;
    let bytes = leading_number(fields.nth(RESIDENT - MAKER - 1)?)?;
    (maker != 0).then_some(bytes)
}

fn resident_bytes(proc_directory: Fd, pid: i32) -> Option<u64> {
    let path = Text::<32>::new(format_args!("{pid}/statm")).ok()?;
    let mut buffer = [0u8; 128];
    let text = read_file_at(proc_directory, path.as_c_str(), &mut buffer).ok()?;
    let pages = leading_number(text.splitn(3, |byte| *byte == b' ').nth(1)?)?;
    Some(pages * 4096)
}

fn shares(proc_directory: Fd, pid: i32) -> Option<Share> {
    let path = Text::<48>::new(format_args!("{pid}/smaps_rollup")).ok()?;
    let mut buffer = [0u8; 2048];
    let text = read_file_at(proc_directory, path.as_c_str(), &mut buffer).ok()?;
    let share = |name: &[u8]| {
        let line = text
            .split(|byte| *byte == b'\n')
            .find(|line| line.starts_with(name))?;
        leading_number(line[name.len()..].trim_ascii_start()).map(|kilobytes| kilobytes * 1024)
    };
    Some(Share {
        own: share(b"Pss_Anon:")?,
        own_in_full: share(b"Anonymous:")?,
        shared: share(b"Pss_Shmem:").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_counts_with_what_is_resident_of_it_if_the_session_made_it() {
        let of = |maker: &str| {
            let line = std::format!(
                "         0          3   600             104857600 {maker:>5}     0      0  1000  1000  1000  1000 1 2 3  4096     0"
            );
            segment_bytes(line.as_bytes())
        };
        assert_eq!([of("2"), of("0")], [Some(4096), None]);
        assert_eq!(
            segment_bytes(b"       key      shmid perms                  size  cpid"),
            None
        );
    }
}
