//! The command `cellblock`.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[cfg(target_os = "linux")]
mod agent_run;
#[cfg(target_os = "linux")]
mod app;
#[cfg(target_os = "linux")]
mod args;
#[cfg(target_os = "linux")]
mod cell_run;
#[cfg(target_os = "linux")]
mod commands;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
mod failure;
#[cfg(target_os = "linux")]
mod kept_workspaces;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod python_syntax;
#[cfg(target_os = "linux")]
mod terminal;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    app::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!(
        "error: Cellblock needs Linux: its walls are made of namespaces, Landlock and seccomp, which {} does not have\n\
         hint: run it in a Linux virtual machine or container (on macOS for example with Lima, on Windows with WSL 2)",
        std::env::consts::OS
    );
    std::process::ExitCode::from(3)
}
