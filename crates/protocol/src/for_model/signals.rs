//! The names of Linux signals.

/// The name of a Linux signal, such as `SIGSEGV` for 11.
///
/// The numbers are those of x86-64 and AArch64, the only machines that have all the walls.
pub fn signal_name(signal: i32) -> String {
    let known = usize::try_from(signal)
        .ok()
        .and_then(|at| NAMES.get(at.checked_sub(1)?));
    known.map_or_else(|| format!("signal {signal}"), |name| format!("SIG{name}"))
}

const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
