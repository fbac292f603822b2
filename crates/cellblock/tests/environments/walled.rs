//! Installers work behind walls: what they see, what they reach, and what is taken from them.

use crate::common::{ground, python};
use crate::index::Index;
use crate::shelf::{home, walls, wheel};
use cellblock::env::{
    Cancel, Dirs, Environment, Environments, Error, Failed, Installer, NoRoom, OpenRoom, Order,
    Progress, Requirements, Room, Search, Step, Variables, Walls,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::{env, fs};

const BOTH: [Installer; 2] = [Installer::Pip, Installer::Uv];

/// Environments of their own that are made from an index.
fn environments(index: &Index, installer: Installer, walls: Arc<dyn Walls>) -> Environments {
    Environments::new(variables(index), &fresh_dirs())
        .installer(installer)
        .behind(walls)
}

fn variables(index: &Index) -> Variables {
    let path = env::var("PATH").unwrap_or_default();
    let uv = UV.parent().unwrap().display().to_string();
    Variables::from_process()
        .with("HOME", home())
        .with("PATH", format!("{uv}:{path}"))
        .with("PIP_INDEX_URL", index.url())
        .with("API_TOKEN", "the secret token")
        .without("PIP_FIND_LINKS")
}

fn fresh_dirs() -> Dirs {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Dirs {
        cache: ground().join(format!("cache-{number}")),
        state: ground().join("state"),
    }
}

/// The uv that `cellblock setup` fetched; it is fetched if it was not.
static UV: LazyLock<PathBuf> = LazyLock::new(|| {
    let uv = Dirs::from_process().unwrap().cache.join("tools/uv/bin/uv");
    if !uv.exists() {
        let interpreter = Search::from_process().unwrap().find().unwrap();
        let environments = Environments::from_process().unwrap();
        let nothing = Requirements::new(Vec::<String>::new());
        let made = environments.installer(Installer::Uv).make(
            &interpreter,
            &nothing,
            &Cancel::new(),
            &mut |_| {},
        );
        made.unwrap();
    }
    uv
});

fn make(environments: &Environments, package: &str) -> (Result<Environment, Error>, Vec<Progress>) {
    let search = Search::new(Variables::from_process(), &fresh_dirs());
    let interpreter = search.explicit(python()).find().unwrap();
    let mut reports = Vec::new();
    let wanted = Requirements::new([package]);
    let made = environments.make(&interpreter, &wanted, &Cancel::new(), &mut |progress| {
        reports.push(progress);
    });
    (made, reports)
}

/// Runs a script of its own in every room, before or after what it was opened for.
#[derive(Debug)]
struct Intruder {
    walls: Arc<dyn Walls>,
    script: String,
    says: Arc<Mutex<Vec<String>>>,
}

impl Walls for Intruder {
    fn open(&self, room: &Room) -> Result<Box<dyn OpenRoom>, NoRoom> {
        Ok(Box::new(Intruded {
            room: self.walls.open(room)?,
            python: room.interpreter.executable.clone(),
            script: self.script.clone(),
            says: Arc::clone(&self.says),
        }))
    }
}

struct Intruded {
    room: Box<dyn OpenRoom>,
    python: PathBuf,
    script: String,
    says: Arc<Mutex<Vec<String>>>,
}

impl OpenRoom for Intruded {
    fn directory(&self) -> &Path {
        self.room.directory()
    }

    fn run(
        &mut self,
        order: &Order,
        cancel: &Cancel,
        line: &mut dyn FnMut(&str),
    ) -> Result<(), Failed> {
        self.room.run(order, cancel, line)?;
        let mut intrusion = order.clone();
        intrusion.command = vec![
            self.python.clone().into(),
            "-c".into(),
            self.script.clone().into(),
        ];
        let says = Arc::clone(&self.says);
        self.room.run(&intrusion, cancel, &mut |line| {
            says.lock().unwrap().push(line.to_owned());
        })
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        self.room.read(name)
    }
}

fn intruder(script: String) -> (Arc<dyn Walls>, Arc<Mutex<Vec<String>>>) {
    let says = Arc::default();
    let intruder = Intruder {
        walls: walls(),
        script,
        says: Arc::clone(&says),
    };
    (Arc::new(intruder), says)
}

#[test]
fn an_installer_reaches_the_index_alone_sees_no_file_of_the_users_and_writes_nowhere_else() {
    wheel("plain", "1.0", &[("plain.py", "number = 1")]);
    let (index, other) = (Index::new(), Index::new());
    index.offer("plain", &index.host);
    index.keep("plain");
    let (key, trap) = (home().join(".ssh/id_ed25519"), ground().join("trap"));
    let script = format!(
        r#"
import os, socket, urllib.request
def attempt(action):
    try:
        return str(action())
    except Exception as error:
        return type(error).__name__
def get(address):
    return urllib.request.urlopen(address, timeout=5).status
def connect(host, port):
    return socket.create_connection((host, int(port)), 5)
print('key', attempt(lambda: open({key:?}).read()))
print('home', attempt(lambda: os.listdir({home:?})))
print('token', os.environ.get('API_TOKEN'))
print('beside', attempt(lambda: open({trap:?}, 'w')))
print('index', attempt(lambda: get('{url}plain/')))
print('other', attempt(lambda: get('http://{other}/')))
print('direct', attempt(lambda: connect(*'{other}'.split(':'))) in ('ConnectionRefusedError', 'PermissionError'))
"#,
        home = home(),
        url = index.url(),
        other = other.host,
    );
    for installer in BOTH {
        let (walls, says) = intruder(script.clone());
        let environments = environments(&index, installer, walls);
        let (made, reports) = make(&environments, "plain");
        let made = made.unwrap();
        assert_eq!(made.version_of("plain"), Some("1.0"));
        assert!(!made.installer.contains("outside"), "{}", made.installer);
        assert!(reports.iter().all(|report| report.step != Step::Unwalled));
        let says = says.lock().unwrap();
        let expected = [
            "key FileNotFoundError",
            "home FileNotFoundError",
            "token None",
            "beside FileNotFoundError",
            "index 200",
            "other HTTPError",
            "direct True",
        ];
        assert!(says.len() >= expected.len(), "{says:?}");
        for (line, expected) in says.iter().zip(expected.iter().cycle()) {
            assert_eq!(line, expected, "{installer:?}");
        }
    }
    assert_eq!(other.asked(), [""; 0]);
    assert!(!trap.exists());
}

#[test]
fn an_index_that_leads_to_a_foreign_host_is_told_with_what_would_allow_it() {
    wheel("moved", "1.0", &[("moved.py", "number = 1")]);
    let (index, other) = (Index::new(), Index::new());
    index.offer("moved", &other.host);
    other.keep("moved");
    for installer in BOTH {
        let error = make(&environments(&index, installer, walls()), "moved").0;
        let error = error.unwrap_err();
        let told = format!("may not reach {}", other.host);
        assert!(error.to_string().contains(&told), "{installer:?}: {error}");
        let allow = format!("set CELLBLOCK_INDEX_HOSTS=\"{}\"", other.host);
        let hint = error.hint().unwrap();
        assert!(hint.contains(&allow), "{installer:?}: {hint}");
        assert_eq!(other.asked(), [""; 0]);
    }
    for installer in BOTH {
        let variables = variables(&index).with("CELLBLOCK_INDEX_HOSTS", &other.host);
        let environments = Environments::new(variables, &fresh_dirs())
            .installer(installer)
            .behind(walls());
        let made = make(&environments, "moved").0.unwrap();
        assert_eq!(made.version_of("moved"), Some("1.0"));
    }
}

#[test]
fn an_index_that_does_not_answer_and_one_without_the_package_are_told_apart() {
    let index = Index::new();
    let mut silent = Index::new();
    silent.host = "127.0.0.1:1".to_owned();
    for installer in BOTH {
        let absent = make(&environments(&index, installer, walls()), "absent").0;
        let hint = absent.unwrap_err().hint().unwrap();
        let expected = match installer {
            Installer::Uv => "the index has no package of that name",
            _ => "no release of a package fits",
        };
        assert!(hint.contains(expected), "{installer:?}: {hint}");

        let unreached = make(&environments(&silent, installer, walls()), "absent").0;
        let hint = unreached.unwrap_err().hint().unwrap();
        let expected = "the package index could not be reached";
        assert!(hint.contains(expected), "{installer:?}: {hint}");
    }
}

#[test]
fn a_link_to_a_file_of_the_users_is_not_taken_out_of_the_room() {
    wheel("linked", "1.0", &[("linked.py", "number = 1")]);
    let index = Index::new();
    index.offer("linked", &index.host);
    index.keep("linked");
    let secret = home().join(".ssh/id_ed25519");
    let script = format!(
        "import os\nif os.path.isdir('made') and not os.path.lexists('made/a'): os.symlink({secret:?}, 'made/a')"
    );
    let (walls, _) = intruder(script);
    let environments = environments(&index, Installer::Pip, walls);
    let error = make(&environments, "linked").0.unwrap_err().to_string();
    assert!(error.contains("a link that leads out"), "{error}");
    assert_eq!(fs::read_to_string(secret).unwrap(), "the secret key");
}

#[derive(Debug)]
struct NoWallsHere;

impl Walls for NoWallsHere {
    fn open(&self, _: &Room) -> Result<Box<dyn OpenRoom>, NoRoom> {
        Err(NoRoom::NoWalls("missing: user namespaces".to_owned()))
    }
}

#[test]
fn where_the_walls_are_not_to_be_had_it_is_said_while_and_after_it_is_made() {
    wheel("bare", "1.0", &[("bare.py", "number = 1")]);
    let index = Index::new();
    index.offer("bare", &index.host);
    index.keep("bare");
    for installer in BOTH {
        let environments = environments(&index, installer, Arc::new(NoWallsHere));
        let (made, reports) = make(&environments, "bare");
        let made = made.unwrap();
        let said = reports.iter().find(|report| report.step == Step::Unwalled);
        assert_eq!(
            said.unwrap().message,
            "the installer runs outside of walls: missing: user namespaces"
        );
        assert!(made.installer.ends_with(", outside of walls"), "{made:?}");
    }
}

#[test]
fn what_was_downloaded_once_is_not_downloaded_again() {
    wheel("kept", "1.0", &[("kept.py", "number = 1")]);
    wheel("beside", "1.0", &[("beside.py", "number = 1")]);
    let index = Index::new();
    for name in ["kept", "beside"] {
        index.offer(name, &index.host);
        index.keep(name);
    }
    let times = || {
        let asked = index.asked();
        asked
            .iter()
            .filter(|path| path.starts_with("/kept"))
            .count()
    };
    let environments = environments(&index, Installer::Uv, walls());
    let interpreter = make(&environments, "kept").0.unwrap().interpreter;
    let before = times();
    let both = Requirements::new(["kept", "beside"]);
    let made = environments.make(&interpreter, &both, &Cancel::new(), &mut |_| {});
    assert_eq!(made.unwrap().packages.len(), 2);
    assert_eq!(before, times(), "{:?}", index.asked());
}

#[test]
fn a_proxy_of_the_machine_is_used_and_opens_no_other_host() {
    wheel("proxied", "1.0", &[("proxied.py", "number = 1")]);
    let proxy = Index::new();
    proxy.offer("proxied", "index.invalid");
    proxy.keep("proxied");
    let other = "import urllib.request as u\ntry: print(u.urlopen('http://other.invalid/').status)\nexcept Exception as e: print(e.code)";
    for installer in BOTH {
        let variables = variables(&proxy)
            .with("PIP_INDEX_URL", "http://index.invalid/simple/")
            .with("PIP_TRUSTED_HOST", "index.invalid")
            .with("PIP_PROXY", format!("http://{}", proxy.host));
        let (walls, says) = intruder(other.to_owned());
        let environments = Environments::new(variables, &fresh_dirs())
            .installer(installer)
            .behind(walls);
        let made = make(&environments, "proxied").0.unwrap();
        assert_eq!(made.version_of("proxied"), Some("1.0"));
        let says = says.lock().unwrap();
        assert!(says.iter().all(|line| line == "403"), "{says:?}");
    }
    let asked = proxy.asked();
    assert!(
        asked
            .iter()
            .all(|url| url.starts_with("http://index.invalid")),
        "{asked:?}"
    );
}

#[test]
fn packages_for_a_session_that_lives_come_in_the_same_way() {
    wheel("layered", "1.0", &[("layered.py", "number = 1")]);
    let index = Index::new();
    index.offer("layered", &index.host);
    index.keep("layered");
    for installer in BOTH {
        let (walls, says) = intruder("import os; print(os.getcwd())".to_owned());
        let environments = environments(&index, installer, walls);
        let search = Search::new(Variables::from_process(), &fresh_dirs());
        let interpreter = search.explicit(python()).find().unwrap();
        let wanted = Requirements::new(["layered"]);
        let layer =
            environments.make_layer(&interpreter, &[], &wanted, &Cancel::new(), &mut |_| {});
        let layer = layer.unwrap();
        assert_eq!(
            layer.to_string(),
            "Installed layered 1.0. All variables are as they were."
        );
        assert!(layer.path.unwrap().join("layered.py").exists());
        // One room for all: asking, installing, compiling.
        assert_eq!(*says.lock().unwrap(), ["/workspace"; 3]);
    }
}

#[test]
fn a_cancelled_installer_ends_at_once_and_leaves_nothing() {
    let index = Index::new();
    let dirs = fresh_dirs();
    let (walls, _) = intruder("import time; time.sleep(600)".to_owned());
    let environments = Environments::new(variables(&index), &dirs)
        .installer(Installer::Pip)
        .behind(walls);
    let search = Search::new(Variables::from_process(), &fresh_dirs());
    let interpreter = search.explicit(python()).find().unwrap();
    let cancel = Cancel::new();
    let begun = std::time::Instant::now();
    let made = std::thread::scope(|scope| {
        let maker = scope.spawn(|| {
            let nothing = Requirements::new(Vec::<String>::new());
            environments.make(&interpreter, &nothing, &cancel, &mut |_| {})
        });
        std::thread::sleep(std::time::Duration::from_secs(3));
        cancel.cancel();
        maker.join().unwrap()
    });
    assert!(matches!(made, Err(Error::Cancelled)), "{made:?}");
    assert!(begun.elapsed().as_secs() < 60);
    let left = fs::read_dir(dirs.cache.join("requests")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(
        left.iter()
            .all(|name| name.to_string_lossy().ends_with(".lock")),
        "{left:?}"
    );
}
