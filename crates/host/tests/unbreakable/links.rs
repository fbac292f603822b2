//! Going back follows no link: what stood in the way of a path is replaced, or the path is named as not restored.

use crate::support::{Python, builder, is_root, open, session, wait};
use cellblock_protocol::{Isolation, Rung};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const DIE: &str = "import os; os.kill(os.getpid(), 9)";

/// A directory of the user's with a directory `other` in it that no cell touches.
fn given() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("other/e")).unwrap();
    fs::write(directory.path().join("other/e/f"), "precious").unwrap();
    fs::write(directory.path().join("other/e/g"), "precious too").unwrap();
    directory
}

fn in_given(directory: &Path, rung: Rung) -> Python {
    open(
        builder()
            .workspace(directory)
            .isolation(Isolation::on(rung)),
    )
}

/// On `landlock`, a session of root's cannot write to files of root's.
fn rungs() -> Vec<Rung> {
    let landlock = (!is_root()).then_some(Rung::Landlock);
    [Some(Rung::Full), landlock].into_iter().flatten().collect()
}

fn texts(directory: &Path, names: &[&str]) -> Vec<String> {
    let read = |name: &&str| fs::read_to_string(directory.join(name));
    let text = |name| read(name).unwrap_or_else(|error| error.kind().to_string());
    names.iter().map(text).collect()
}

/// What a second cell puts in the way of `d/e/f`, which the first one made.
const DETOURS: [&str; 6] = [
    "import os, shutil; shutil.rmtree('d'); os.symlink('other', 'd')",
    "import os, shutil; shutil.rmtree('d/e'); os.symlink('../other/e', 'd/e')",
    "import os; os.remove('d/e/f'); os.symlink('../../other/e/f', 'd/e/f')",
    "import os; os.rename('d', 'moved'); os.symlink('other', 'd')",
    "import os; os.rename('d', 'moved'); os.symlink('other', 'd'); os.rename('moved', 'again')",
    "import os; os.remove('d/e/f'); os.link('other/e/f', 'd/e/f')",
];

#[test]
fn a_file_of_the_user_s_that_a_link_leads_to_is_not_overwritten() {
    for rung in rungs() {
        for (detour, by_crash) in DETOURS.iter().flat_map(|one| [(one, false), (one, true)]) {
            let directory = given();
            let session = in_given(directory.path(), rung);
            session.good("import os; os.makedirs('d/e'); open('d/e/f', 'w').write('by the cell')");
            let not_restored = if by_crash {
                session.run(format!("{detour}\n{DIE}")).state.not_restored
            } else {
                session.good(detour);
                wait(session.undo(1)).unwrap().not_restored
            };
            let names = ["other/e/f", "other/e/g", "d/e/f"];
            assert_eq!(
                texts(directory.path(), &names),
                ["precious", "precious too", "by the cell"],
                "{rung:?} {detour} {not_restored:?}"
            );
            assert!(
                !fs::symlink_metadata(directory.path().join("d"))
                    .unwrap()
                    .is_symlink()
            );
            assert_eq!(not_restored, Vec::<String>::new(), "{rung:?} {detour}");
        }
    }
}

#[test]
fn a_link_that_the_user_put_in_the_way_stays_and_what_is_behind_it_is_told() {
    let directory = given();
    let session = in_given(directory.path(), Rung::Full);
    session.good("import os; os.makedirs('d/e'); open('d/e/f', 'w').write('by the cell')");
    session.good("import shutil; shutil.rmtree('d')");
    std::os::unix::fs::symlink("other", directory.path().join("d")).unwrap();
    let undone = wait(session.undo(1)).unwrap();
    assert_eq!(texts(directory.path(), &["other/e/f"]), ["precious"]);
    for path in ["d/e", "d/e/f"] {
        let is_told = |line: &String| line.starts_with(&format!("{path}: "));
        assert!(undone.not_restored.iter().any(is_told), "{undone:?}");
    }
}

#[test]
fn the_directory_of_another_session_that_a_link_leads_to_is_not_written() {
    // The woken interpreter is the code's: it can put a link there while files are put back.
    let session = session();
    session.good("import os; os.makedirs('d/e'); open('d/e/f', 'w').write('by the cell')");
    session.good("import shutil; shutil.rmtree('d'); os.symlink('/etc', 'd')");
    let undone = wait(session.undo(1)).unwrap();
    assert_eq!(undone.not_restored, Vec::<String>::new());
    assert_eq!(session.value("open('d/e/f').read()"), "'by the cell'");
}

#[test]
fn names_of_one_file_are_names_of_one_file_again() {
    let session = session();
    session.good("import os\nopen('a', 'w').write('one')\nos.link('a', 'b')\nos.mkdir('d')\nos.link('a', 'd/c')");
    let names = "os.path.samefile('a', 'b'), os.path.samefile('a', 'd/c'), os.stat('a').st_nlink, open('d/c').read()";
    let whole = "(True, True, 3, 'one')";
    for ending in [
        "os.remove('b')",
        "os.remove('a'); os.remove('b')",
        "os.remove('a'); os.remove('b'); os.remove('d/c')",
        "os.remove('a'); open('a', 'w').write('two')",
        "open('b', 'w').write('two'); os.remove('b')",
        "os.rename('a', 'e'); open('e', 'w').write('two')",
        "os.link('a', 'f')",
        "import shutil; shutil.rmtree('d'); os.mkdir('b.new')",
    ] {
        let crashed = session.run(format!("{ending}\nos._exit(3)").as_str());
        assert_eq!(crashed.state.not_restored, Vec::<String>::new(), "{ending}");
        assert_eq!(session.value(names), whole, "{ending}");
        assert_eq!(session.value("sorted(os.listdir())"), "['a', 'b', 'd']");
    }
    session.good("open('b', 'w').write('three')");
    assert_eq!(session.value("open('a').read()"), "'three'");
}
