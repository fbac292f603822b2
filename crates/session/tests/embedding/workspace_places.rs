//! The path at which code finds the workspace.

use crate::support::{Python, runtime_builder, wait};
use cellblock_protocol::{
    Cell, Isolation, Rung, SessionOptions, Spawn, StateOutcome, WorkspacePlace,
};
use cellblock_session::{Error, Refusal, Runtime};

fn runtime_at(place: &str) -> Runtime {
    let place = WorkspacePlace::new(place).unwrap();
    wait(runtime_builder().workspace_at(place).start()).unwrap()
}

fn session_at(runtime: &Runtime) -> Python {
    Python(wait(runtime.open(SessionOptions::default())).unwrap())
}

const WHO: &str = "import os, pwd; me = pwd.getpwuid(os.getuid()); (os.getcwd(), me.pw_name, me.pw_dir, os.environ['HOME'])";

#[test]
fn code_works_at_the_place_that_was_chosen() {
    for (place, name, home) in [
        ("/home/user", "user", "/home/user"),
        ("/home/ada", "ada", "/home/ada"),
        ("/mnt/data", "user", "/tmp"),
        ("/a/b/c", "user", "/tmp"),
    ] {
        let runtime = runtime_at(place);
        let session = session_at(&runtime);
        assert_eq!(
            session.value(WHO),
            format!("('{place}', '{name}', '{place}', '{home}')")
        );
        assert_eq!(session.workspace_at().to_str(), Some(place));
        session.good("open('a', 'w').write('1'); import os");
        assert!(session.workspace().join("a").is_file());
        assert_eq!(session.value("os.path.exists('/workspace')"), "False");
        let stat = wait(session.paths().stat(&format!("{place}/a"))).unwrap();
        assert_eq!((stat.path, stat.bytes), (format!("{place}/a"), 1));
    }
}

#[test]
fn undo_crashes_and_forks_keep_the_place() {
    let runtime = runtime_at("/home/user");
    let session = session_at(&runtime);
    session.good("open('a', 'w').write('1'); file = open('/home/user/a', 'a+')");
    let crash = session.run("open('a', 'w').write('22'); import os; os.kill(os.getpid(), 9)");
    assert_eq!(crash.state.outcome, StateOutcome::Restored);
    assert_eq!(session.value("open('/home/user/a').read()"), "'1'");
    let fork = Python(wait(session.fork()).unwrap());
    assert_eq!(fork.value("import os; os.getcwd()"), "'/home/user'");
    fork.good("file.write('fork'); file.flush()");
    assert_eq!(fork.value("open('/home/user/a').read()"), "'1fork'");
    assert_eq!(session.value("open('a').read()"), "'1'");
    wait(session.undo(1)).unwrap();
    assert_eq!(session.value("import os; os.getcwd()"), "'/home/user'");
}

#[test]
fn processes_beside_the_interpreter_begin_at_the_place() {
    let runtime = runtime_at("/home/ada");
    let session = session_at(&runtime);
    let command = Spawn::shell("pwd; echo $HOME; id -un; echo ~ada");
    let process = wait(session.spawn(command)).unwrap();
    let output = wait(process.output());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "/home/ada\n/home/ada\nada\n/home/ada\n");
}

#[test]
fn a_place_inside_the_python_is_refused_in_words() {
    let prefix = crate::support::interpreter().prefixes[0].clone();
    let Ok(place) = WorkspacePlace::new(format!("{}/x", prefix.display())) else {
        // The interpreter of the system: its directories are never a place.
        return;
    };
    let error = wait(runtime_builder().workspace_at(place).start()).unwrap_err();
    assert!(
        error.to_string().contains("one would cover the other"),
        "{error}"
    );
}

#[test]
fn a_rung_without_a_view_has_no_place_to_choose() {
    let isolation = Isolation {
        rung: Some(Rung::None),
        ..Isolation::default()
    };
    let place = WorkspacePlace::new("/home/user").unwrap();
    let builder = runtime_builder().isolation(isolation).workspace_at(place);
    let error = wait(builder.start()).unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Refused(Refusal::WorkspacePlace {
                rung: Rung::None,
                ..
            })
        ) && error.to_string().contains("the rung must be `full`"),
        "{error}"
    );
}

#[test]
fn a_cell_may_move_on_and_the_next_session_begins_at_the_place_again() {
    let runtime = runtime_at("/mnt/data");
    let session = session_at(&runtime);
    session.good(Cell::new("import os; os.chdir('/tmp')"));
    assert_eq!(session.value("os.getcwd()"), "'/tmp'");
    let other = session_at(&runtime);
    assert_eq!(other.value("import os; os.getcwd()"), "'/mnt/data'");
}
