//! Sessions that name an environment.

use crate::packages::{both, dirs, environments, host, wait};
use cellblock::env::{Cancel, Requirements};
use cellblock::{Host, PythonChoice, Session, SessionBuilder, SessionOptions, Status};
use cellblock_test_support::{python, test_directory};
use std::time::Duration;
use std::{fs, thread};

fn number(session: &Session, module: &str) -> String {
    let code = format!("import {module}; {module}.number");
    let result = wait(session.run(code.as_str())).unwrap();
    assert_eq!(result.status, Status::Success, "{result:?}");
    result.value.unwrap().repr
}

#[test]
fn a_session_runs_in_the_environment_that_it_names() {
    host(); // makes the packages
    environments()
        .save_name("mine", &Requirements::new(["tiny"]))
        .unwrap();
    let session = wait(
        SessionBuilder::new()
            .host(host())
            .environment("mine")
            .start(),
    )
    .unwrap();
    assert_eq!(number(&session, "tiny"), "1");

    let file = test_directory().join("wanted.txt");
    fs::write(&file, "tiny\nother\n").unwrap();
    let options = SessionOptions {
        env: Some(file.display().to_string()),
        ..SessionOptions::default()
    };
    let session = wait(host().open(options)).unwrap();
    assert_eq!(number(&session, "other"), "2");

    let builder = SessionBuilder::new()
        .host(host())
        .package("tiny")
        .package("other");
    let session = wait(builder.start()).unwrap();
    assert_eq!(number(&session, "other"), "2");
    let environment = wait(host().environment_of("mine")).unwrap();
    assert_eq!(environment.version_of("tiny"), Some("1.0"));
}

#[test]
fn the_python_of_an_environment_is_let_go_when_nobody_asks_for_it() {
    host();
    let host = Host::builder()
        .interpreter(python())
        .python(PythonChoice::StandardLibrary)
        .dirs(dirs())
        .environments(environments())
        .keep_warm(Duration::from_millis(400))
        .build()
        .unwrap();
    let own = wait(host.session().start()).unwrap();
    let other = host.session().package("tiny").start();
    let other = wait(other).unwrap();
    assert_eq!(wait(host.warm()).len(), 2);
    while wait(host.warm()).len() == 2 {
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(wait(host.warm()), [own.python()]);
    // Its sessions live on, and can be forked.
    assert_eq!(number(&other, "tiny"), "1");
    assert_eq!(number(&wait(other.fork()).unwrap(), "tiny"), "1");
}

#[test]
fn an_environment_that_is_not_there_is_named() {
    let missing = SessionBuilder::new().host(host()).environment("nobodys");
    let error = wait(missing.start()).unwrap_err().to_string();
    assert!(
        error.starts_with("there is no environment `nobodys`"),
        "{error}"
    );
    let missing = SessionBuilder::new()
        .host(host())
        .environment("./nobodys.txt");
    let error = wait(missing.start()).unwrap_err().to_string();
    assert!(error.contains("./nobodys.txt"), "{error}");
}

#[test]
fn one_environment_for_two_at_once_is_made_once() {
    host();
    let environments = environments();
    let interpreter = host().environment().interpreter.clone();
    let wanted = Requirements::new(["tiny>0.1", "other>0.1"]);
    let made = both(|| {
        let mut builds = 0;
        let environment =
            environments.make(&interpreter, &wanted, &Cancel::new(), &mut |progress| {
                builds += usize::from(progress.message.starts_with("installing"));
            });
        (environment.unwrap().prefix, builds)
    });
    assert_eq!(made[0].0, made[1].0);
    assert!(made[0].1 + made[1].1 <= 1);
}
