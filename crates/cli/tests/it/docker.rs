//! `--backend docker`. What needs an engine and an image has them from `tests/with-docker`.

use crate::fake_model::FakeModel;
use crate::snapshot::transcript;
use crate::support::{Ended, Place};
use std::env;

/// The image, where the test command brought one. Without, in continuous integration, a test fails.
fn image() -> Option<String> {
    let image = env::var("CELLBLOCK_TEST_IMAGE").ok();
    if image.is_none() {
        let why =
            "left out: no container engine; run the tests with `tests/with-docker cargo test …`";
        assert!(env::var_os("CI").is_none(), "{why}");
        println!("{why}");
    }
    image
}

fn exec(place: &Place, image: &str, code: &str) -> Ended {
    place.exec(code, &["--backend", "docker", "--image", image])
}

#[test]
fn a_snippet_runs_in_a_container_with_the_same_manners() {
    let Some(image) = image() else { return };
    let place = Place::new();
    let ended = exec(&place, &image, "import os\nprint(os.getcwd())\n6 * 7");
    let expected = Ended {
        status: 0,
        stdout: "/workspace\n42\n".into(),
        stderr: String::new(),
    };
    assert_eq!(ended, expected);
    assert_eq!(exec(&place, &image, "import os; os._exit(7)").status, 7);
    assert_eq!(exec(&place, &image, "1/0").status, 1);
}

/// The packages come from the index, for the Python of the image.
#[test]
fn packages_are_installed_for_the_python_of_the_image() {
    let Some(image) = image() else { return };
    let place = Place::new();
    std::fs::write(place.path().join("requirements.txt"), "tinydb\n").unwrap();
    let code = "import tinydb\nprint(tinydb.__file__)";
    let ended = place.run([
        "exec",
        "--backend",
        "docker",
        "--image",
        &image,
        "--env",
        "requirements.txt",
        "-c",
        code,
    ]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let from = "/run/cellblock/packages/";
    assert!(ended.stdout.starts_with(from), "{}", ended.stdout);
}

#[test]
fn a_model_gets_the_packages_that_it_names_in_a_container() {
    let Some(image) = image() else { return };
    let model = FakeModel::saying([
        "<pip-dependencies-to-install>tinydb</pip-dependencies-to-install>\n<execution-code>\nimport tinydb\nprint(tinydb.__name__)\n</execution-code>",
        "It is there.",
    ]);
    let ended = Place::new().run([
        "ask",
        "--stdlib",
        "--approve",
        "never",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        "xml",
        "--backend",
        "docker",
        "--image",
        &image,
        "Is tinydb there?",
    ]);
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (0, "It is there.\n"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("\ntinydb\n"), "{}", ended.stderr);
}

#[test]
fn a_question_is_answered_with_code_that_ran_in_a_container() {
    let Some(image) = image() else { return };
    let model = FakeModel::saying([
        "```python\nimport os\nprint(os.path.exists('/.dockerenv'))\n```",
        "It is a container.",
    ]);
    let ended = Place::new().run([
        "ask",
        "--stdlib",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        "markdown",
        "--backend",
        "docker",
        "--image",
        &image,
        "Where are you?",
    ]);
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (0, "It is a container.\n"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("True"), "{}", ended.stderr);
}

#[test]
fn a_session_in_a_container_is_restored_from_its_journal_into_another() {
    let Some(image) = image() else { return };
    let place = Place::new();
    let begin = place.exec(
        "x = 42\nopen('notes', 'w').close()",
        &["--journal", "--backend", "docker", "--image", &image],
    );
    assert_eq!(begin.status, 0, "{}", begin.stderr);
    let ended = place.run(["sessions", "restore", "last", "--check"]);
    assert_eq!(ended.status, 0, "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn without_an_engine_the_message_says_what_to_do() {
    let place = Place::new();
    let shown = ["unix:///no/such/socket", "tcp://engine.example:2375"].map(|address| {
        let arguments = ["exec", "--stdlib", "--backend", "docker", "-c", "1"];
        seen_with(&place, &arguments, "DOCKER_HOST", address)
    });
    insta::assert_snapshot!(shown.concat());
}

#[test]
fn a_secret_on_the_command_line_is_refused_and_one_in_a_variable_is_not() {
    let place = Place::new();
    let shown = ["5ecret", "env:API_TOKEN", "env:NO_SUCH_TOKEN"].map(|secret| {
        let code = "import os; print('5ecret' in str(os.environ))";
        let credential = format!("localhost:1 Authorization: Bearer {secret}");
        let mut arguments = vec!["exec", "--stdlib", "-c", code];
        arguments.extend(["--allow-net", "localhost:1", "--credential", &credential]);
        seen_with(&place, &arguments, "API_TOKEN", "5ecret")
    });
    insta::assert_snapshot!(shown.concat());
}

/// What a person sees of a command with one more variable of the environment.
fn seen_with(place: &Place, arguments: &[&str], name: &str, value: &str) -> String {
    let output = place.command(arguments).env(name, value).output().unwrap();
    let ended = Ended {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    transcript(place, arguments, "", &ended)
}
