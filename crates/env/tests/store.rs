//! Environments by their lock: shared, listed, removed, kept within a budget; layers for sessions that live.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::{fs, time::Instant};

use cellblock_env::{
    Cancel, Environments, Error, Installer, Kind, Layer, Package, Requirements, Status, Step,
};
use common::{Scratch, interpreter, make, output};

fn shelf() -> (Scratch, Environments) {
    let scratch = Scratch::new();
    scratch.wheel("tiny", &[("tiny.py", "number = 1")]);
    scratch.wheel("other", &[("other.py", "number = 2")]);
    let environments = scratch.environments().installer(Installer::Pip);
    (scratch, environments)
}

fn layer(environments: &Environments, there: &[Package], wanted: &[&str]) -> Result<Layer, Error> {
    let wanted = Requirements::checked(wanted).unwrap();
    environments.make_layer(&interpreter(), there, &wanted, &Cancel::new(), &mut |_| {})
}

fn package(name: &str) -> Package {
    Package {
        name: name.to_owned(),
        version: "1.0".to_owned(),
    }
}

#[test]
fn requests_that_lead_to_one_lock_share_one_environment() {
    let (scratch, environments) = shelf();
    let first = make(&environments, &Requirements::new(["tiny"])).0.unwrap();
    let wanted = Requirements::new(["tiny>=0.5"]);
    let (second, reports) = make(&environments, &wanted);
    assert_eq!(second.unwrap(), first);
    assert!(reports.iter().all(|report| report.step < Step::Install));
    assert_eq!(scratch.leftovers().len(), 1);

    // Without an installer: the answer is remembered.
    let (again, reports) = make(&environments.clone().installer(Installer::Uv), &wanted);
    assert_eq!(again.unwrap(), first);
    assert_eq!(reports, []);
    let begun = Instant::now();
    for _ in 0..20 {
        environments.status(&interpreter(), &wanted);
    }
    eprintln!("a hit takes {:?}", begun.elapsed() / 20);
}

#[test]
fn to_remove_one_of_two_names_leaves_the_other_what_it_has() {
    let (scratch, environments) = shelf();
    let wanted = Requirements::new(["tiny"]);
    environments.name("mine", &wanted).unwrap();
    environments.name("yours", &wanted).unwrap();
    let made = make(&environments, &wanted).0.unwrap();
    assert!(environments.remove("yours").unwrap().is_none());
    assert!(environments.named("yours").is_err());
    assert_eq!(environments.stored("mine").unwrap().path, made.prefix);
    assert!(environments.remove("mine").unwrap().is_some());
    assert_eq!(scratch.leftovers(), [""; 0]);
}

#[test]
fn a_named_environment_is_listed_used_and_removed() {
    let (scratch, environments) = shelf();
    let wanted = Requirements::new(["tiny"]);
    environments.name("mine", &wanted).unwrap();
    assert_eq!(environments.named("mine").unwrap(), wanted);
    let made = make(&environments, &wanted).0.unwrap();

    let [listed] = environments.list().try_into().unwrap();
    assert_eq!(
        (listed.kind, &listed.names[..]),
        (Kind::Environment, &["mine".to_owned()][..])
    );
    assert_eq!((&listed.path, listed.bytes), (&made.prefix, made.bytes));
    assert_eq!(listed.packages, [package("tiny")]);
    assert_eq!(
        environments.stored(&listed.id[..6]).unwrap().path,
        made.prefix
    );

    let held = environments.hold(&made).unwrap();
    assert!(environments.stored("mine").unwrap().in_use);
    assert!(matches!(
        environments.remove("mine"),
        Err(Error::InUse { .. })
    ));
    drop(held);
    environments.remove("mine").unwrap();
    assert_eq!(scratch.leftovers(), [""; 0]);
    assert_eq!(
        environments.status(&interpreter(), &wanted),
        Status::Missing
    );
    let error = environments.named("mine").unwrap_err().to_string();
    assert_eq!(error, "there is no environment `mine`");
    for bad in ["", "a/b", "../x", ".hidden", "a b"] {
        assert!(
            matches!(environments.name(bad, &wanted), Err(Error::BadName { .. })),
            "{bad}"
        );
    }
}

#[test]
fn over_the_budget_the_least_recently_used_goes_and_never_one_in_use() {
    let (scratch, environments) = shelf();
    let first = make(&environments, &Requirements::new(["tiny"])).0.unwrap();
    let second = make(&environments, &Requirements::new(["other"]))
        .0
        .unwrap();
    let used = |path: &std::path::Path, seconds| {
        let file = fs::File::create(format!("{}.used", path.display())).unwrap();
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
        "what was left half-made goes"
    );

    let held = environments.hold(&second).unwrap();
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
    let (scratch, environments) = shelf();
    let found = layer(&environments, &[package("tiny")], &["tiny", "other"]).unwrap();
    assert_eq!(found.packages, [package("other")]);
    assert_eq!(found.there, [package("tiny")]);
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
    // Remembered: no installer is asked.
    let offline = environments.clone().installer(Installer::Uv);
    assert_eq!(
        layer(&offline, &[package("tiny")], &["tiny", "other"]).unwrap(),
        found
    );

    let nothing = layer(&environments, &[package("tiny")], &["tiny"]).unwrap();
    assert_eq!((nothing.path, nothing.packages), (None, vec![]));

    let conflict = layer(&environments, &[package("tiny")], &["tiny==3.0"]).unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "tiny 1.0 is installed already, and tiny 3.0 cannot be installed beside it"
    );
    let _ = scratch;
}

#[test]
fn without_an_index_what_is_there_works_and_what_is_not_says_so() {
    let (mut scratch, environments) = shelf();
    let here = Requirements::new(["tiny"]);
    let made = make(&environments, &here).0.unwrap();
    scratch.variables = scratch
        .variables
        .without("PIP_NO_INDEX")
        .with("PIP_FIND_LINKS", "/no/such/place")
        .with("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        .with("PIP_RETRIES", "1");
    let offline = scratch.environments().installer(Installer::Pip);
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
fn an_index_that_never_answers_is_given_up_and_told() {
    let (mut scratch, _) = shelf();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/simple", silent.local_addr().unwrap());
    scratch.variables = scratch
        .variables
        .without("PIP_NO_INDEX")
        .with("PIP_FIND_LINKS", "/no/such/place")
        .with("PIP_INDEX_URL", address)
        .with("PIP_DEFAULT_TIMEOUT", "1")
        .with("PIP_RETRIES", "1");
    let environments = scratch.environments().installer(Installer::Pip);
    let (made, _) = make(&environments, &Requirements::new(["tiny"]));
    let error = made.unwrap_err();
    assert!(error.to_string().contains("timed out"), "{error}");
    assert!(error.hint().unwrap().contains("could not be reached"));
    assert_eq!(scratch.leftovers(), [""; 0]);
}

#[test]
fn a_set_for_another_python_is_refused_at_once() {
    let (_scratch, environments) = shelf();
    let wanted = Requirements::new(["tiny"]).for_python(Some(">=3.99".to_owned()));
    let (made, reports) = make(&environments, &wanted);
    let version = interpreter().version;
    assert_eq!(
        made.unwrap_err().to_string(),
        format!("Python >=3.99 is asked for, and this one is {version}")
    );
    assert_eq!(reports, []);
}

#[test]
fn a_room_that_a_killed_process_left_goes_with_the_garbage() {
    let scratch = Scratch::new();
    let requests = scratch.path("cache/cellblock/requests");
    let room = requests.join(".request.json.partial-4/room");
    fs::create_dir_all(&room).unwrap();
    let busy = requests.join(".busy.json.partial-5");
    fs::create_dir(&busy).unwrap();
    let lock = fs::File::create(requests.join("busy.json.lock")).unwrap();
    lock.lock().unwrap();
    scratch.environments().collect_garbage(u64::MAX).unwrap();
    assert!(!room.exists());
    assert!(busy.exists(), "somebody is at work there");
}
