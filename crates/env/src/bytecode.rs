//! Byte code for every module, so that no session ever compiles one.

use std::path::Path;

use crate::{
    Error, Progress, Step,
    install::{MADE, Report},
    workroom::Workroom,
};

/// Compiles what is below `packages`, in the room. Test suites inside packages are left out: they are half of all
/// files, and nobody imports them.
///
/// The byte code names the files as they will be called once the environment is in place, and is valid
/// whatever their times become (`unchecked-hash`), because nothing in an environment ever changes.
pub(crate) fn compile(
    room: &mut Workroom<'_>,
    packages: &Path,
    target: &Path,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let job = room.job();
    let mut command = job.python(&job.interpreter.executable);
    // Without `site`: a package may bring a `.pth` file, which is code that Python runs when it starts.
    command
        .args(["-I", "-S", "-c", include_str!("python/compile.py")])
        .arg(packages)
        .arg(MADE)
        .arg(target);
    room.run("Python", "compile the byte code", command, &mut |line| {
        let mut numbers = line.split('/').map_while(|part| part.parse().ok());
        if let (Some(done), Some(total)) = (numbers.next(), numbers.next()) {
            report(Progress::new(
                Step::Compile,
                done,
                Some(total),
                format!("compiled {done} of {total} files"),
            ));
        }
    })?;
    Ok(())
}
