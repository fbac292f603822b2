//! `cellblock env`, `--env`, headers of scripts and `%pip`, with packages from a directory.

use crate::snapshot::transcript;
use crate::support::{CELLBLOCK, Ended, Place};
use cellblock::env::{Cancel, Dirs, Environments, Requirements, Search};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// `PATH` with the uv that `cellblock setup` downloads; it is downloaded if there is none.
static PATH_WITH_UV: LazyLock<String> = LazyLock::new(|| {
    let directory = Dirs::from_process().unwrap().cache.join("tools/uv/bin");
    if !directory.join("uv").exists() {
        let interpreter = Search::from_process().unwrap().find().unwrap();
        let environments = Environments::from_process().unwrap();
        let nothing = Requirements::new(Vec::<String>::new());
        let made = environments.make(&interpreter, &nothing, &Cancel::new(), &mut |_| {});
        made.unwrap();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:{}", directory.display())
});

/// A directory of packages, and environments that are made from it.
struct Shop {
    place: Place,
}

impl Shop {
    fn new() -> Shop {
        let place = Place::new();
        fs::create_dir(place.path().join("packages")).unwrap();
        let shop = Shop { place };
        shop.wheel("tiny", "number = 1");
        shop.wheel("other", "number = 2");
        shop
    }

    fn wheel(&self, name: &str, text: &str) {
        let script = r#"
import sys, zipfile
packages, name, text = sys.argv[1:]
if text.startswith("SIZE "):
    text = " " * int(text[5:])
info = f"{name}-1.0.dist-info"
with zipfile.ZipFile(f"{packages}/{name}-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr(f"{name}.py", text)
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", "".join(f"{p},,\n" for p in wheel.namelist()))
"#;
        let made = Command::new("python3")
            .args(["-I", "-c", script])
            .arg(self.place.path().join("packages"))
            .args([name, text])
            .status();
        assert!(made.unwrap().success());
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        self.run_with(arguments, "")
    }

    fn run_with(&self, arguments: &[&str], input: &str) -> Ended {
        let mut command = self.place.command(arguments);
        command
            .env("XDG_CACHE_HOME", self.place.path().join("cache"))
            .env("PATH", &*PATH_WITH_UV)
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", self.place.path().join("packages"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        Ended {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn list(&self) -> Vec<Value> {
        let ended = self.run(&["env", "list", "--json"]);
        assert_eq!(ended.status, 0, "{ended:?}");
        serde_json::from_str(&ended.stdout).unwrap()
    }
}

#[test]
fn an_environment_is_made_used_shown_and_removed() {
    let shop = Shop::new();
    let made = shop.run(&["env", "create", "mine", "tiny"]);
    assert_eq!(made.status, 0, "{made:?}");
    assert!(
        made.stderr.contains("ready: mine with 1 package"),
        "{made:?}"
    );

    let ran = shop.run(&[
        "exec",
        "--env",
        "mine",
        "-c",
        "import tiny; print(tiny.number)",
    ]);
    assert_eq!((ran.status, &ran.stdout[..]), (0, "1\n"), "{ran:?}");

    let [listed] = shop.list().try_into().unwrap();
    assert_eq!(listed["names"][0], "mine");
    assert_eq!(listed["kind"], "environment");
    assert_eq!(listed["packages"][0]["name"], "tiny");
    let table = shop.run(&["env", "list"]);
    assert!(table.stdout.contains("mine"), "{table:?}");
    let shown = shop.run(&["env", "show", "mine"]);
    assert!(shown.stdout.contains("  tiny 1.0\n"), "{shown:?}");

    assert_eq!(shop.run(&["env", "remove", "mine"]).status, 0);
    assert_eq!(shop.list(), [Value::Null; 0]);
    let again = ["exec", "--env", "mine", "-c", "1"];
    insta::assert_snapshot!(transcript(&shop.place, &again, "", &shop.run(&again)));
}

#[test]
fn a_script_brings_what_its_header_names() {
    let shop = Shop::new();
    let script =
        "# /// script\n# dependencies = ['tiny']\n# ///\nimport tiny\nprint(tiny.number)\n";
    fs::write(shop.place.path().join("script.py"), script).unwrap();
    let first = shop.run(&["exec", "script.py"]);
    assert_eq!((first.status, &first.stdout[..]), (0, "1\n"), "{first:?}");
    let again = shop.run(&["exec", "script.py"]);
    assert_eq!((again.status, &again.stderr[..]), (0, ""), "{again:?}");

    fs::write(shop.place.path().join("more.txt"), "other\n").unwrap();
    let code = "print(tiny.number, __import__('other').number)";
    fs::write(
        shop.place.path().join("script.py"),
        format!("{script}{code}\n"),
    )
    .unwrap();
    let both = shop.run(&["exec", "script.py", "--env", "more.txt"]);
    assert_eq!((both.status, &both.stdout[..]), (0, "1\n1 2\n"), "{both:?}");
    let kept = shop.run(&["env", "gc", "--keep", "0", "--json"]);
    assert_eq!(
        serde_json::from_str::<Vec<Value>>(&kept.stdout)
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn pip_at_the_prompt_installs_and_keeps_the_variables() {
    let shop = Shop::new();
    let input = "x = 41\n%pip install tiny\nimport tiny\nprint(x + tiny.number)\n%pip install tiny==9\n%pip list\n";
    let ended = shop.run_with(&["repl", "--stdlib", "--no-journal"], input);
    assert_eq!((ended.status, &ended.stdout[..]), (0, "42\n"), "{ended:?}");
    for said in [
        "Installed tiny 1.0. All variables are as they were.",
        "tiny 1.0 is installed already, and tiny 9 cannot be installed beside it",
        "%pip only installs",
    ] {
        assert!(ended.stderr.contains(said), "{said}: {ended:?}");
    }
}

#[test]
fn a_disk_that_fills_up_is_told_and_nothing_half_made_stays() {
    let shop = Shop::new();
    shop.wheel("large", "SIZE 8000000");
    let cache = shop.place.path().join("cache");
    fs::create_dir(&cache).unwrap();
    // A disk of its own, in namespaces of its own.
    let line = format!(
        "mount -t tmpfs -o size=4m tmpfs {cache} && cd {place} &&
         {CELLBLOCK} env create large large; echo \"status $?\"; {CELLBLOCK} env list --json; ls -A {cache}/cellblock/environments | grep -v lock",
        cache = cache.display(),
        place = shop.place.path().display(),
    );
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", &line])
        .envs(shop.place.variables())
        .env("XDG_CACHE_HOME", &cache)
        .env("PATH", &*PATH_WITH_UV)
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", shop.place.path().join("packages"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "status 3\n[]\n",
        "{said}"
    );
    assert!(said.contains("hint: free some disk space"), "{said}");
}

#[test]
fn what_cannot_be_an_environment_is_refused_at_once() {
    let place = Place::new();
    let shown = [
        &["env", "create", "a/b", "tiny"][..],
        &["env", "create", "x"],
        &["env", "create", "x", "./here"],
        &["env", "create", "x", "--file", "none.txt"],
        &["env", "show", "nobodys"],
        &["exec", "--stdlib", "--env", "x", "-c", "1"],
    ]
    .map(|arguments| place.transcript(arguments));
    insta::assert_snapshot!(shown.concat());
}
