//! Shows the Python that sessions would use and the default environment, and makes it with `make`:
//! `cargo run -p cellblock-env --example environment -- make`. With `--until-eof` the end of standard input
//! stops the making.

use std::{process::ExitCode, time::Instant};

use cellblock_env::{
    CJK_FONT_HINT, Cancel, EnvironmentStatus, Environments, Error, Requirements, Search, Variables,
    cjk_font,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Error> {
    let has = |name: &str| arguments.iter().any(|argument| argument == name);

    let started = Instant::now();
    let interpreter = Search::from_process()?.find()?;
    println!(
        "Python {} at {} ({:.2?})",
        interpreter.version,
        interpreter.executable.display(),
        started.elapsed()
    );

    let environments = Environments::from_process()?;
    let wanted = Requirements::default_set();
    let started = Instant::now();
    let status = environments.status(&interpreter, &wanted);
    let word = match status {
        EnvironmentStatus::Ready(_) => "ready",
        EnvironmentStatus::Missing => "missing",
        EnvironmentStatus::Building => "being made",
    };
    println!(
        "the default environment is {word} ({:.2?})",
        started.elapsed()
    );

    if has("make") {
        let cancel = Cancel::new();
        if has("--until-eof") {
            let guard = cancel.on_drop();
            std::thread::spawn(move || {
                let _ = std::io::read_to_string(std::io::stdin());
                drop(guard);
            });
        }
        let started = Instant::now();
        let environment = environments.make(&interpreter, &wanted, &cancel, &mut |progress| {
            eprintln!(
                "{:6.2?} {:3.0} % {}",
                started.elapsed(),
                progress.fraction() * 100.0,
                progress.message
            );
        })?;
        println!(
            "{} with {} packages, {} MB, made by {} ({:.2?})",
            environment.prefix.display(),
            environment.packages.len(),
            environment.bytes / 1_000_000,
            environment.installer,
            started.elapsed()
        );
    }
    match cjk_font(&Variables::from_process()) {
        Some(font) => println!("CJK font: {} in {}", font.family, font.path.display()),
        None => println!("no CJK font: {CJK_FONT_HINT}"),
    }
    Ok(())
}
