//! Whatever cells do to a directory of the user's, going back makes it what it was, or says what it could not; and nothing else changes.

use crate::support::{Python, builder, is_root, open, wait};
use cellblock_protocol::{Isolation, Rung, StateOutcome};
use cellblock_test_support::{Dice, seed};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PLAY: &str = include_str!("play.py");

/// Everything of a directory that going back must restore.
type Tree = BTreeMap<PathBuf, String>;

fn tree(directory: &Path) -> Tree {
    let mut found = Tree::new();
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            let what = if stat.is_dir() {
                open.push(path.clone());
                "directory".to_owned()
            } else if stat.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else {
                format!("{:o} {}", stat.mode(), fs::read_to_string(&path).unwrap())
            };
            found.insert(path.strip_prefix(directory).unwrap().to_owned(), what);
        }
    }
    found
}

/// What differs from how it was, without what was told.
fn untold(before: &Tree, after: &Tree, told: &[String]) -> Vec<String> {
    let is_told = |path: &Path| {
        let line = format!("{}: ", path.display());
        path.ancestors().any(|above| {
            told.iter()
                .any(|one| one.starts_with(&format!("{}: ", above.display())))
        }) || told.iter().any(|one| one.starts_with(&line))
    };
    let mut paths: Vec<&PathBuf> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    let differs = |path: &&PathBuf| before.get(*path) != after.get(*path) && !is_told(path);
    let short = |what: Option<&String>| what.map(|text| text.chars().take(40).collect::<String>());
    let line = |path: &PathBuf| {
        let (was, is) = (short(before.get(path)), short(after.get(path)));
        format!("{}: {was:?} is {is:?}", path.display())
    };
    paths.into_iter().filter(differs).map(line).collect()
}

/// A home with a workspace, and a directory beside it that nothing may change.
struct Scene {
    home: TempDir,
    session: Python,
    beside: Tree,
}

impl Scene {
    fn new(rung: Rung) -> Scene {
        let home = tempfile::tempdir().unwrap();
        let place = |name: &str| home.path().join(name);
        fs::create_dir_all(place("workspace/canary/deep/b")).unwrap();
        fs::create_dir_all(place("workspace/a/b")).unwrap();
        fs::create_dir_all(place("beside/a/b")).unwrap();
        for name in [
            "workspace/canary/a",
            "workspace/canary/deep/b/c",
            "workspace/a/b/c",
            "workspace/a/c",
            "workspace/b",
            "beside/a/b/c",
            "beside/a/a",
            "beside/b",
        ] {
            fs::write(place(name), format!("precious {name}")).unwrap();
        }
        fs::hard_link(place("workspace/b"), place("workspace/canary/second")).unwrap();
        symlink("canary/deep", place("workspace/c")).unwrap();
        let session = open(
            builder()
                .workspace(place("workspace"))
                .isolation(Isolation::on(rung)),
        );
        session.good(PLAY);
        let beside = tree(&place("beside"));
        Scene {
            home,
            session,
            beside,
        }
    }

    fn tree(&self) -> Tree {
        assert_eq!(tree(&self.home.path().join("beside")), self.beside);
        tree(&self.home.path().join("workspace"))
    }

    fn play(&self, dice: &mut Dice) -> String {
        let outside = self.home.path().join("beside/a");
        format!(
            "play({}, {:?})",
            dice.number(),
            outside.display().to_string()
        )
    }
}

fn goes_back(rung: Rung, name: &str, rounds: u64) {
    const DIE: &str = "os.kill(os.getpid(), 9)";
    let dice = Dice::new(seed(name));
    let mut changed = 0;
    for round in 0..rounds {
        let mut dice = dice.part(round);
        let scene = Scene::new(rung);
        let mut trees = vec![scene.tree()];
        for turn in 0..12 {
            let (before, not_restored, what) = match dice.number() % 4 {
                0 => {
                    let code = format!("{}\n{DIE}", scene.play(&mut dice));
                    let result = scene.session.run(code.as_str());
                    assert_eq!(result.state.outcome, StateOutcome::Restored, "{result:?}");
                    (trees.last().unwrap(), result.state.not_restored, code)
                }
                1 if trees.len() > 1 => {
                    let count = 1 + dice.number() as usize % (trees.len() - 1).min(4);
                    trees.truncate(trees.len() - count);
                    let undone = wait(scene.session.undo(count)).unwrap();
                    let what = format!("undo {count}");
                    (trees.last().unwrap(), undone.not_restored, what)
                }
                _ => {
                    scene.session.good(&scene.play(&mut dice));
                    let now = scene.tree();
                    changed += usize::from(trees.last() != Some(&now));
                    trees.push(now);
                    continue;
                }
            };
            let after = scene.tree();
            assert_eq!(
                untold(before, &after, &not_restored),
                Vec::<String>::new(),
                "round {round}, turn {turn}: {what}; told: {not_restored:?}"
            );
            // From here on that is how things stand.
            *trees.last_mut().unwrap() = after;
        }
    }
    assert!(changed > rounds as usize, "the cells changed too little");
}

fn rounds() -> u64 {
    if std::env::var_os("CELLBLOCK_LONG").is_some() {
        200
    } else {
        12
    }
}

#[test]
fn a_random_tree_is_what_it_was_or_the_difference_is_told() {
    goes_back(Rung::Full, "random trees", rounds());
}

#[test]
fn a_random_tree_is_what_it_was_where_there_are_no_namespaces_too() {
    // Sessions of root's run as someone there who may not write to root's files.
    if !is_root() {
        goes_back(Rung::Landlock, "random trees without namespaces", rounds());
    }
}
