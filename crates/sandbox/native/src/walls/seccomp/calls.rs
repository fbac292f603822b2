//! The system calls that the filter refuses, or sends to init.

use crate::sys::nr;

/// Refused with "operation not permitted".
pub(super) const DENIED: &[usize] = &[
    // Mounts and roots.
    nr::MOUNT,
    nr::UMOUNT2,
    nr::PIVOT_ROOT,
    nr::CHROOT,
    nr::MOVE_MOUNT,
    nr::OPEN_TREE,
    nr::OPEN_TREE_ATTR,
    nr::FSOPEN,
    nr::FSCONFIG,
    nr::FSMOUNT,
    nr::FSPICK,
    nr::MOUNT_SETATTR,
    nr::QUOTACTL,
    nr::QUOTACTL_FD,
    nr::SWAPON,
    nr::SWAPOFF,
    // Other processes' memory and descriptors.
    nr::PROCESS_VM_READV,
    nr::PROCESS_VM_WRITEV,
    nr::PROCESS_MADVISE,
    nr::PROCESS_MRELEASE,
    nr::PIDFD_GETFD,
    nr::KCMP,
    nr::MOVE_PAGES,
    nr::MIGRATE_PAGES,
    nr::MBIND,
    nr::SET_MEMPOLICY,
    // Kernel interfaces with a long history of holes.
    nr::BPF,
    nr::PERF_EVENT_OPEN,
    nr::USERFAULTFD,
    nr::IO_URING_SETUP,
    nr::IO_URING_ENTER,
    nr::IO_URING_REGISTER,
    nr::KEYCTL,
    nr::ADD_KEY,
    nr::REQUEST_KEY,
    nr::FANOTIFY_INIT,
    nr::MEMFD_SECRET,
    nr::MODIFY_LDT,
    nr::VHANGUP,
    nr::PERSONALITY,
    nr::LOOKUP_DCOOKIE,
    nr::USELIB,
    nr::USTAT,
    nr::SYSFS,
    nr::NFSSERVCTL,
    // The machine itself.
    nr::KEXEC_LOAD,
    nr::KEXEC_FILE_LOAD,
    nr::INIT_MODULE,
    nr::FINIT_MODULE,
    nr::DELETE_MODULE,
    nr::REBOOT,
    nr::ACCT,
    nr::SYSLOG,
    nr::SETTIMEOFDAY,
    nr::CLOCK_SETTIME,
    nr::CLOCK_ADJTIME,
    nr::ADJTIMEX,
    nr::IOPL,
    nr::IOPERM,
    // Opening by handle goes around every directory.
    nr::OPEN_BY_HANDLE_AT,
    nr::NAME_TO_HANDLE_AT,
    // A shorter slice than others have: the host's thread that holds a session to its disk limit must run first.
    nr::SCHED_SETATTR,
];

/// Refused where there is no namespace for them. Not only the calls that find an object: its number can be guessed.
pub(super) const IPC: &[usize] = &[
    nr::SHMGET,
    nr::SHMAT,
    nr::SHMCTL,
    nr::SEMGET,
    nr::SEMOP,
    nr::SEMTIMEDOP,
    nr::SEMCTL,
    nr::MSGGET,
    nr::MSGSND,
    nr::MSGRCV,
    nr::MSGCTL,
    nr::MQ_OPEN,
    nr::MQ_UNLINK,
    nr::MQ_TIMEDSEND,
    nr::MQ_TIMEDRECEIVE,
    nr::MQ_NOTIFY,
    nr::MQ_GETSETATTR,
];

/// Sent to init, which refuses what would hit itself or a standby (`init/notify.rs`).
pub(super) const NOTIFIED: &[usize] = &[
    nr::KILL,
    nr::TKILL,
    nr::TGKILL,
    nr::RT_SIGQUEUEINFO,
    nr::RT_TGSIGQUEUEINFO,
    nr::PIDFD_OPEN,
    nr::SETPRIORITY,
    nr::IOPRIO_SET,
];

/// Sent to init only when they name another process: the first argument is not 0.
pub(super) const NOTIFIED_FOR_OTHERS: &[usize] = &[
    nr::PRLIMIT64,
    nr::SCHED_SETAFFINITY,
    nr::SCHED_SETPARAM,
    nr::SCHED_SETSCHEDULER,
];

/// What starts a process or a thread; `clone3` is not there.
pub const STARTS: &[usize] = &[nr::CLONE, nr::FORK, nr::VFORK];

/// These open files; sent to init when it is for writing.
pub const OPENS: &[usize] = &[nr::OPENAT, nr::OPEN];

/// What changes or removes the contents of a file that was not opened for it, or the time from which init knows that it is as it was.
pub const CHANGES: &[usize] = &[
    nr::CREAT,
    nr::TRUNCATE,
    nr::UNLINK,
    nr::UNLINKAT,
    nr::RENAME,
    nr::RENAMEAT,
    nr::RENAMEAT2,
    nr::UTIME,
    nr::UTIMES,
    nr::FUTIMESAT,
    nr::UTIMENSAT,
];

/// What changes a file, but not its contents; a second name too: what is written under one name is seen under the other.
pub const METADATA_CHANGES: &[usize] = &[
    nr::CHMOD,
    nr::FCHMODAT,
    nr::FCHMODAT2,
    nr::CHOWN,
    nr::LCHOWN,
    nr::FCHOWNAT,
    nr::FCHMOD,
    nr::FCHOWN,
    nr::FSETXATTR,
    nr::FREMOVEXATTR,
    nr::SETXATTR,
    nr::LSETXATTR,
    nr::REMOVEXATTR,
    nr::LREMOVEXATTR,
    nr::LINK,
    nr::LINKAT,
];

/// What reads extended attributes.
pub const ATTRIBUTE_READS: &[usize] = &[
    nr::GETXATTR,
    nr::LGETXATTR,
    nr::FGETXATTR,
    nr::LISTXATTR,
    nr::LLISTXATTR,
    nr::FLISTXATTR,
];

/// What Landlock does not look at: init does these itself where a session sees the host's files. Before version 3 it does not look at
/// `truncate` either. A second name is not among them: Landlock judges where it may be.
pub fn is_unseen_by_landlock(number: usize) -> bool {
    let is_time = matches!(
        number,
        nr::UTIME | nr::UTIMES | nr::FUTIMESAT | nr::UTIMENSAT | nr::TRUNCATE
    );
    let is_name = matches!(number, nr::LINK | nr::LINKAT);
    is_time || METADATA_CHANGES.contains(&number) && !is_name || ATTRIBUTE_READS.contains(&number)
}

/// What Landlock does not look at, and programs can do without: newer ways to do the same, hearing of names in a
/// directory, and the list of the machine's mounts, which is closed with `/proc`.
pub(super) const INVISIBLE_TO_LANDLOCK: &[usize] = &[
    nr::SETXATTRAT,
    nr::REMOVEXATTRAT,
    nr::GETXATTRAT,
    nr::LISTXATTRAT,
    nr::FILE_GETATTR,
    nr::FILE_SETATTR,
    nr::INOTIFY_INIT,
    nr::INOTIFY_INIT1,
    nr::INOTIFY_ADD_WATCH,
    nr::STATMOUNT,
    nr::LISTMOUNT,
];

/// Requests that change flags of a file which is only open for reading: `FS_IOC_SETFLAGS`, `FS_IOC_SETVERSION` and the old one of ext4,
/// `FS_IOC_FSSETXATTR`, `FS_IOC_ENABLE_VERITY`. Many file systems do not know them, so programs can do without.
pub(super) const FILE_FLAGS: &[u32] = &[
    0x4008_6602,
    0x4008_7602,
    0x4008_6604,
    0x401C_5820,
    0x4080_6685,
];

/// Requests that reserve blocks for any file, as `fallocate` does: `FS_IOC_RESVSP`, `FS_IOC_RESVSP64`, `FS_IOC_ZERO_RANGE`, and two that
/// XFS had until Linux 5.17.
pub(super) const RESERVES: &[u32] = &[
    0x4030_5828,
    0x4030_582A,
    0x4030_5839,
    0x4030_580A,
    0x4030_5824,
];
