//! Environments by their lock: shared, listed, removed, kept within a budget; layers for running sessions.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::{fs, time::Instant};

use cellblock_env::{
    Cancel, EnvironmentStatus, Environments, Error, InstallStep, Layer, Package, Requirements,
    StoredKind,
};
use common::{Scratch, interpreter, make, output};

fn packages() -> (Scratch, Environments) {
    let scratch = Scratch::new();
    scratch.wheel("tiny", &[("tiny.py", "number = 1")]);
    scratch.wheel("other", &[("other.py", "number = 2")]);
    let environments = scratch.environments();
    (scratch, environments)
}

fn layer(
    environments: &Environments,
    installed: &[Package],
    wanted: &[&str],
) -> Result<Layer, Error> {
    let wanted = Requirements::parse(wanted).unwrap();
    environments.make_layer(
        &interpreter(),
        installed,
        &wanted,
        &Cancel::new(),
        &mut |_| {},
    )
}

fn package(name: &str) -> Package {
    Package {
        name: name.to_owned(),
        version: "1.0".to_owned(),
    }
}

#[test]
fn requests_that_lead_to_one_lock_share_one_environment() {
    let (scratch, environments) = packages();
    let first = make(&environments, &Requirements::new(["tiny"])).0.unwrap();
    let wanted = Requirements::new(["tiny>=0.5"]);
    let (second, reports) = make(&environments, &wanted);
    assert_eq!(second.unwrap(), first);
    assert!(
        reports
            .iter()
            .all(|report| report.step < InstallStep::Install)
    );
    assert_eq!(scratch.leftovers().len(), 1);

    // The lock is saved: no installer is started.
    let (again, reports) = make(&environments, &wanted);
    assert_eq!(again.unwrap(), first);
    assert_eq!(reports, []);
    let begun = Instant::now();
    for _ in 0..20 {
        environments.status(&interpreter(), &wanted);
    }
    eprintln!("a hit takes {:?}", begun.elapsed() / 20);
}

#[test]
fn removing_one_of_two_names_keeps_the_environment_of_the_other() {
    let (scratch, environments) = packages();
    let wanted = Requirements::new(["tiny"]);
    environments.save_name("mine", &wanted).unwrap();
    environments.save_name("yours", &wanted).unwrap();
    let made = make(&environments, &wanted).0.unwrap();
    assert!(environments.remove("yours").unwrap().is_none());
    assert!(environments.requirements_named("yours").is_err());
    assert_eq!(environments.find("mine").unwrap().path, made.prefix);
    assert!(environments.remove("mine").unwrap().is_some());
    assert_eq!(scratch.leftovers(), [""; 0]);
}

#[test]
fn a_named_environment_is_listed_used_and_removed() {
    let (scratch, environments) = packages();
    let wanted = Requirements::new(["tiny"]);
    environments.save_name("mine", &wanted).unwrap();
    assert_eq!(environments.requirements_named("mine").unwrap(), wanted);
    let made = make(&environments, &wanted).0.unwrap();

    let [listed] = environments.list().try_into().unwrap();
    assert_eq!(
        (listed.kind, &listed.names[..]),
        (StoredKind::Environment, &["mine".to_owned()][..])
    );
    assert_eq!((&listed.path, listed.bytes), (&made.prefix, made.bytes));
    assert_eq!(listed.packages, [package("tiny")]);
    assert_eq!(
        environments.find(&listed.id[..6]).unwrap().path,
        made.prefix
    );

    let held = environments.mark_in_use(&made).unwrap();
    assert!(environments.find("mine").unwrap().in_use);
    assert!(matches!(
        environments.remove("mine"),
        Err(Error::InUse { .. })
    ));
    drop(held);
    environments.remove("mine").unwrap();
    assert_eq!(scratch.leftovers(), [""; 0]);
    assert_eq!(
        environments.status(&interpreter(), &wanted),
        EnvironmentStatus::Missing
    );
    let error = environments
        .requirements_named("mine")
        .unwrap_err()
        .to_string();
    assert_eq!(error, "there is no environment `mine`");
    for bad in ["", "a/b", "../x", ".hidden", "a b"] {
        assert!(
            matches!(
                environments.save_name(bad, &wanted),
                Err(Error::BadName { .. })
            ),
            "{bad}"
        );
    }
}

#[test]
fn over_the_budget_the_least_recently_used_goes_and_never_one_in_use() {
    let (scratch, environments) = packages();
    let first = make(&environments, &Requirements::new(["tiny"])).0.unwrap();
    let second = make(&environments, &Requirements::new(["other"]))
        .0
        .unwrap();
    let used = |path: &std::path::Path, seconds| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let locks = scratch.path("cache/cellblock/locks/environments");
        let file = fs::File::create(locks.join(format!("{name}.used"))).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_modified(time).unwrap();
    };
    let later = first.made + 1000;
    used(&first.prefix, later + 2000);
    used(&second.prefix, later);
    let half = fs::canonicalize(scratch.path("cache/cellblock/environments")).unwrap();
    fs::create_dir(half.join(".python-x.partial-1")).unwrap();

    assert_eq!(environments.collect_garbage(u64::MAX).unwrap(), []);
    assert!(
        !half.join(".python-x.partial-1").exists(),
        "an unfinished directory is removed"
    );

    let held = environments.mark_in_use(&second).unwrap();
    used(&second.prefix, later);
    let gone = environments.collect_garbage(first.bytes).unwrap();
    assert_eq!(
        gone.iter().map(|s| &s.path).collect::<Vec<_>>(),
        [&first.prefix]
    );
    drop(held);
    let gone = environments.collect_garbage(0).unwrap();
    assert_eq!(
        gone.iter().map(|s| &s.path).collect::<Vec<_>>(),
        [&second.prefix]
    );
    assert_eq!(environments.list(), []);
}

#[test]
fn a_layer_brings_only_what_is_missing_and_changes_no_version() {
    let (scratch, environments) = packages();
    let found = layer(&environments, &[package("tiny")], &["tiny", "other"]).unwrap();
    assert_eq!(found.packages, [package("other")]);
    assert_eq!(found.already_installed, [package("tiny")]);
    let path = found.path.clone().unwrap();
    assert!(path.join("other.py").exists() && !path.join("tiny.py").exists());
    let import = "import sys; sys.path.append(sys.argv[1]); import other; print(other.number, other.__cached__)";
    let said = output(
        &interpreter().executable,
        &["-I", "-B", "-c", import, path.to_str().unwrap()],
    );
    let (number, cached) = said.split_once(' ').unwrap();
    assert_eq!(number, "2");
    assert!(fs::exists(cached).unwrap(), "no byte code");
    // The lock is saved: no index is asked.
    fs::remove_dir_all(scratch.path("wheels")).unwrap();
    assert_eq!(
        layer(&environments, &[package("tiny")], &["tiny", "other"]).unwrap(),
        found
    );
    fs::create_dir(scratch.path("wheels")).unwrap();
    scratch.wheel("tiny", &[("tiny.py", "number = 1")]);

    let nothing = layer(&environments, &[package("tiny")], &["tiny"]).unwrap();
    assert_eq!((nothing.path, nothing.packages), (None, vec![]));

    let conflict = layer(&environments, &[package("tiny")], &["tiny==3.0"]).unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "tiny 1.0 is installed already, and tiny 3.0 cannot be installed beside it"
    );
}

#[test]
fn without_an_index_existing_environments_work_and_others_fail_with_a_hint() {
    let (mut scratch, environments) = packages();
    let here = Requirements::new(["tiny"]);
    let made = make(&environments, &here).0.unwrap();
    scratch.variables = scratch
        .variables
        .without("PIP_NO_INDEX")
        .with("PIP_FIND_LINKS", "/no/such/place")
        .with("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        .with("PIP_RETRIES", "1");
    let offline = scratch.environments();
    assert_eq!(make(&offline, &here).0.unwrap(), made);
    let error = make(&offline, &Requirements::new(["other"])).0.unwrap_err();
    assert!(
        error.to_string().contains("could not find the packages"),
        "{error}"
    );
    assert!(
        error.hint().unwrap().contains("could not be reached"),
        "{error}"
    );
    assert_eq!(scratch.leftovers().len(), 1);
}

#[test]
fn an_index_that_never_answers_is_a_clear_error() {
    let (mut scratch, _) = packages();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/simple", silent.local_addr().unwrap());
    scratch.variables = scratch
        .variables
        .without("PIP_NO_INDEX")
        .with("PIP_FIND_LINKS", "/no/such/place")
        .with("PIP_INDEX_URL", address)
        .with("PIP_DEFAULT_TIMEOUT", "1")
        .with("PIP_RETRIES", "1");
    let environments = scratch.environments();
    let (made, _) = make(&environments, &Requirements::new(["tiny"]));
    let error = made.unwrap_err();
    assert!(error.hint().unwrap().contains("could not be reached"));
    assert_eq!(scratch.leftovers(), [""; 0]);
}

#[test]
fn a_set_for_another_python_is_refused_at_once() {
    let (_scratch, environments) = packages();
    let wanted = Requirements::new(["tiny"]).requires_python(Some(">=3.99".to_owned()));
    let (made, reports) = make(&environments, &wanted);
    let version = interpreter().version;
    assert_eq!(
        made.unwrap_err().to_string(),
        format!("Python >=3.99 is asked for, and this one is {version}")
    );
    assert_eq!(reports, []);
}

#[test]
fn no_lock_lies_where_sessions_look() {
    let (scratch, environments) = packages();
    let made = make(&environments, &Requirements::new(["tiny"])).0.unwrap();
    let _in_use = environments.mark_in_use(&made);
    assert_eq!(scratch.leftovers().len(), 1, "{:?}", scratch.leftovers());
}

#[test]
fn a_staging_directory_that_a_killed_process_left_is_removed_with_the_garbage() {
    let scratch = Scratch::new();
    let requests = scratch.path("cache/cellblock/requests");
    let staging = requests.join(".request.json.partial-4/install");
    fs::create_dir_all(&staging).unwrap();
    let busy = requests.join(".busy.json.partial-5");
    fs::create_dir(&busy).unwrap();
    let locks = scratch.path("cache/cellblock/locks/requests");
    fs::create_dir_all(&locks).unwrap();
    let lock = fs::File::create(locks.join("busy.json.lock")).unwrap();
    lock.lock().unwrap();
    scratch.environments().collect_garbage(u64::MAX).unwrap();
    assert!(!staging.exists());
    assert!(busy.exists(), "a process works there");
}
