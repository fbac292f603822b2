//! Environments that one machine makes and another takes.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
};

use cellblock_env::{
    Cancel, EnvironmentArchives, Environments, InstallStep, MadeEnvironment, Requirements,
};
use common::{Scratch, interpreter, make, output};

/// Archives in memory.
#[derive(Debug, Default)]
struct Shelf(Mutex<BTreeMap<String, Vec<u8>>>);

impl EnvironmentArchives for Shelf {
    fn fetch(&self, name: &str, out: &mut dyn Write) -> io::Result<bool> {
        match self.0.lock().unwrap().get(name) {
            Some(archive) => out.write_all(archive).map(|()| true),
            None => Ok(false),
        }
    }

    fn offer(&self, made: MadeEnvironment) {
        let mut archive = Vec::new();
        made.write(&mut archive).unwrap();
        let mut shelf = self.0.lock().unwrap();
        for name in made.names() {
            shelf.insert(name.clone(), archive.clone());
        }
    }
}

impl Shelf {
    fn change(&self, change: impl Fn(&mut Vec<u8>)) {
        self.0.lock().unwrap().values_mut().for_each(change);
    }
}

/// A machine of its own: other directories, and wheels only if it has an index.
fn machine(shelf: &Arc<Shelf>, has_wheels: bool) -> (Scratch, Environments) {
    let scratch = Scratch::new();
    if has_wheels {
        scratch.wheel(
            "tiny",
            &[("tiny.py", "number = 1\ndef main(): print(number)")],
        );
    }
    let environments = scratch.environments();
    let archives: Arc<dyn EnvironmentArchives> = Arc::<Shelf>::clone(shelf);
    environments.exchange_with(archives);
    (scratch, environments)
}

#[test]
fn an_environment_is_made_once_and_taken_by_a_machine_without_an_index() {
    let shelf = Arc::<Shelf>::default();
    let wanted = Requirements::new(["tiny"]);
    let (_first, environments) = machine(&shelf, true);
    let made = make(&environments, &wanted).0.unwrap();
    let (second, environments) = machine(&shelf, false);
    let (taken, reports) = make(&environments, &wanted);
    let taken = taken.unwrap();
    assert_eq!(taken.packages, made.packages);
    assert_eq!(taken.installer, made.installer);
    assert_ne!(taken.prefix, made.prefix);
    assert!(
        reports
            .iter()
            .all(|report| report.step == InstallStep::Prepare)
    );
    let number = output(&taken.python, &["-c", "import tiny; print(tiny.number)"]);
    assert_eq!(number, "1");
    // Its scripts name this machine's Python, not the other's.
    assert_eq!(output(&taken.prefix.join("bin/tiny"), &[]), "1");
    let script = fs::read_to_string(taken.prefix.join("bin/tiny")).unwrap();
    assert!(!script.contains(made.prefix.to_str().unwrap()), "{script}");
    // The lock is known: the next request starts nothing.
    assert_eq!(make(&environments, &wanted).1, []);
    assert_eq!(second.leftovers().len(), 1);
}

#[test]
fn another_request_with_the_same_lock_takes_the_same_archive() {
    let shelf = Arc::<Shelf>::default();
    let (_first, environments) = machine(&shelf, true);
    make(&environments, &Requirements::new(["tiny"])).0.unwrap();
    let (_second, environments) = machine(&shelf, true);
    let (taken, reports) = make(&environments, &Requirements::new(["tiny>=0.5"]));
    taken.unwrap();
    assert!(
        reports
            .iter()
            .all(|report| report.step < InstallStep::Install),
        "{reports:?}"
    );
}

#[test]
fn a_layer_is_taken_too() {
    let shelf = Arc::<Shelf>::default();
    let wanted = Requirements::new(["tiny"]);
    let layer = |environments: &Environments| {
        let layer =
            environments.make_layer(&interpreter(), &[], &wanted, &Cancel::new(), &mut |_| {});
        layer.unwrap()
    };
    let (_first, environments) = machine(&shelf, true);
    let made = layer(&environments);
    let (_second, environments) = machine(&shelf, false);
    let taken = layer(&environments);
    assert_eq!(taken.packages, made.packages);
    assert!(taken.path.unwrap().join("tiny.py").is_file());
}

/// Takes an archive that was changed, on a machine that can make the environment itself. Returns what it says.
fn made_in_spite_of(change: impl Fn(&mut Vec<u8>)) -> String {
    let shelf = Arc::<Shelf>::default();
    let wanted = Requirements::new(["tiny"]);
    let (_first, environments) = machine(&shelf, true);
    make(&environments, &wanted).0.unwrap();
    shelf.change(change);
    let (second, environments) = machine(&shelf, true);
    let (made, reports) = make(&environments, &wanted);
    let made = made.unwrap();
    assert_eq!(
        output(&made.python, &["-c", "import tiny; print(tiny.number)"]),
        "1"
    );
    assert!(
        reports
            .iter()
            .any(|report| report.step == InstallStep::Install)
    );
    // Nothing of the archive is left.
    assert_eq!(second.leftovers().len(), 1);
    let refusals = reports.iter().map(|report| report.message.as_str());
    let mut refusals = refusals.filter(|message| message.contains("cannot be used"));
    refusals.next().unwrap_or_default().to_owned()
}

fn replace(archive: &mut Vec<u8>, from: &str, to: &str) {
    let place = archive
        .windows(from.len())
        .position(|part| part == from.as_bytes());
    let place = place.unwrap();
    archive.splice(place..place + from.len(), to.bytes());
}

#[test]
fn half_an_archive_is_refused_and_the_environment_made() {
    let told = made_in_spite_of(|archive| archive.truncate(archive.len() / 2));
    assert!(
        told.contains("it is not whole") || told.contains("within a file"),
        "{told}"
    );
}

#[test]
fn an_archive_with_a_link_that_leads_out_is_refused() {
    let link = "{\"entry\":\"link\",\"path\":\"passwords\",\"target\":\"/etc/passwd\"}\n";
    let told = made_in_spite_of(|archive| {
        let first = archive.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        archive.splice(first..first, link.bytes());
        let text = String::from_utf8_lossy(&archive[archive.len() - 60..]).into_owned();
        let count = text
            .rsplit_once("\"entries\":")
            .unwrap()
            .1
            .trim_end_matches("}\n");
        let more = (count.parse::<u64>().unwrap() + 1).to_string();
        let at = archive.len() - 2 - count.len();
        archive.splice(at..at + count.len(), more.bytes());
    });
    assert!(told.contains("leads out"), "{told}");
}

#[test]
fn an_archive_whose_packages_are_not_those_of_its_lock_is_refused() {
    let told = made_in_spite_of(|archive| replace(archive, "tiny==1.0", "tiny==9.0"));
    assert!(told.contains("not those of its lock"), "{told}");
}

#[test]
fn what_is_taken_has_no_set_user_id_bits_and_is_readable() {
    let shelf = Arc::<Shelf>::default();
    let wanted = Requirements::new(["tiny"]);
    let (_first, environments) = machine(&shelf, true);
    make(&environments, &wanted).0.unwrap();
    let (_second, environments) = machine(&shelf, false);
    let taken = make(&environments, &wanted).0.unwrap();
    let mode = |path: &str| {
        let metadata = taken.prefix.join(path).metadata().unwrap();
        metadata.permissions().mode() & 0o7777
    };
    assert_eq!(mode("bin/tiny"), 0o755);
    assert_eq!(mode("pyvenv.cfg"), 0o644);
}
