//! Requirements from files and from the headers of scripts.

#![allow(clippy::unwrap_used, reason = "tests")]

use cellblock_env::Requirements;
use std::fs;

#[test]
fn a_requirements_file_is_read_with_what_it_includes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("requirements.txt");
    fs::write(
        &path,
        "# for the report\nnumpy>=2  # arrays\n-r more.txt\n\nrequests[socks] \\\n  ==2.32.*\n",
    )
    .unwrap();
    fs::write(directory.path().join("more.txt"), "pandas\nnumpy>=2\n").unwrap();
    let found = Requirements::from_file(&path).unwrap();
    assert_eq!(found.packages[..2], ["numpy>=2", "pandas"]);
    assert!(found.packages[2].starts_with("requests[socks]"));

    for (bad, why) in [
        ("--index-url https://example.org/simple", "line 1"),
        ("numpy\n-e .", "line 2"),
        ("x @ https://example.org/x.whl", "not from addresses"),
        ("-r requirements.txt", "too deeply"),
        ("-r missing.txt", "missing.txt"),
    ] {
        fs::write(&path, bad).unwrap();
        let error = Requirements::from_file(&path).unwrap_err().to_string();
        assert!(error.contains(why), "{bad}: {error}");
    }
}

#[test]
fn a_pyproject_file_names_the_dependencies_of_a_project() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pyproject.toml");
    fs::write(
        &path,
        "[project]\nname = 'x'\nrequires-python = '>=3.10'\ndependencies = ['b', 'a>1']\n",
    )
    .unwrap();
    assert_eq!(
        Requirements::from_file(&path).unwrap(),
        Requirements::new(["a>1", "b"]).requires_python(Some(">=3.10".to_owned()))
    );
    for (bad, why) in [
        ("[tool.x]\n", "no table [project]"),
        ("[project]\ndynamic = ['dependencies']\n", "dynamic"),
        ("[project\n", "pyproject.toml"),
    ] {
        fs::write(&path, bad).unwrap();
        let error = Requirements::from_file(&path).unwrap_err().to_string();
        assert!(error.contains(why), "{bad}: {error}");
    }
}

#[test]
fn the_header_of_a_script_names_its_dependencies() {
    let script = "#!/usr/bin/env python\n# /// script\n# requires-python = \">=3.10\"\n# dependencies = [\n#   \"tiny\",\n# ]\n# ///\nimport tiny\n";
    assert_eq!(
        Requirements::from_script(script).unwrap(),
        Some(Requirements::new(["tiny"]).requires_python(Some(">=3.10".to_owned())))
    );
    let none = "# /// script\n# dependencies = ['never closed']\nprint(1)\n";
    assert_eq!(Requirements::from_script(none).unwrap(), None);
    assert_eq!(Requirements::from_script("print(1)").unwrap(), None);
    let broken = "# /// script\n# dependencies = [1\n# ///\n";
    let error = Requirements::from_script(broken).unwrap_err().to_string();
    assert!(error.contains("# /// script"), "{error}");
}
