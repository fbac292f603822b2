//! `/proc/PID/stat`. This is the only place where it is parsed.

use super::text::{Text, leading_number};
use super::{Errno, Fd, Pid, Result, read_file_at};

/// A buffer of this size holds every field that is asked for.
pub const STAT_BYTES: usize = 512;

/// The fields of a `stat` file that come after the name of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat<'a> {
    state: u8,
    fields: &'a [u8],
}

impl<'a> ProcessStat<'a> {
    /// Parses the text of a `stat` file. The name of the program is in brackets and may hold anything, also brackets: the last one ends it.
    pub fn parse(text: &'a [u8]) -> Option<ProcessStat<'a>> {
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let fields = &text[end + 1..];
        let state = *fields.iter().find(|byte| **byte != b' ')?;
        Some(ProcessStat { state, fields })
    }

    /// The state of the thread: a letter, as in `proc(5)`.
    pub fn state(&self) -> u8 {
        self.state
    }

    /// The id of the parent process.
    pub fn parent(&self) -> Option<Pid> {
        self.number(4).map(|parent| parent as Pid)
    }

    /// The kernel's flags of the thread.
    pub fn flags(&self) -> Option<u64> {
        self.number(9)
    }

    /// The processor time of the process and of children that it waited for, in user and kernel mode, in ticks.
    pub fn cpu_ticks(&self) -> u64 {
        let ticks = (14..=17).filter_map(|field| self.number(field));
        ticks.fold(0, u64::saturating_add)
    }

    /// When the process was started, in ticks since the machine was started.
    pub fn started(&self) -> Option<u64> {
        self.number(22)
    }

    /// A field, numbered as in `proc(5)`: the state is the third.
    fn number(&self, field: usize) -> Option<u64> {
        const STATE: usize = 3;
        let mut fields = self.fields.split(|byte| *byte == b' ');
        let mut fields = fields.by_ref().filter(|field| !field.is_empty());
        leading_number(fields.nth(field - STATE)?)
    }
}

/// Reads `ID/stat` below a directory of `/proc`. Fails with `PROTO` if the text is no `stat` file.
pub fn read_stat(directory: Fd, id: Pid, buffer: &mut [u8; STAT_BYTES]) -> Result<ProcessStat<'_>> {
    let path = Text::<32>::new(format_args!("{id}/stat"))?;
    let text = read_file_at(directory, path.as_c_str(), buffer)?;
    ProcessStat::parse(text).ok_or(Errno::PROTO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_cannot_choose_its_fields_by_its_name() {
        let text = b"77 (a) S 1 2 3) R 42 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 678 9";
        let stat = ProcessStat::parse(text).unwrap();
        assert_eq!(stat.state(), b'R');
        assert_eq!(
            [
                stat.parent().map(|parent| parent as u64),
                stat.flags(),
                stat.started()
            ],
            [Some(42), Some(4_194_560), Some(12345)]
        );
        assert_eq!(stat.cpu_ticks(), 5 + 6 + 7 + 8);
    }

    #[test]
    fn a_text_that_is_cut_off_has_no_fields() {
        assert_eq!(ProcessStat::parse(b"77 (a"), None);
        let short = ProcessStat::parse(b"77 (a) S 1 2").unwrap();
        assert_eq!((short.parent(), short.started()), (Some(1), None));
    }

    #[test]
    fn a_process_is_not_older_than_its_start() {
        let processes = crate::walls::mounts::open_proc().unwrap();
        let started = |pid| {
            let mut buffer = [0; STAT_BYTES];
            read_stat(processes, pid, &mut buffer)
                .unwrap()
                .started()
                .unwrap()
        };
        let now = crate::sys::boot_ticks();
        assert!((1..=now).contains(&started(crate::sys::own_pid())));
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        assert!(started(child.id() as Pid) >= now);
        child.wait().unwrap();
        crate::sys::close(processes);
    }
}
