//! The real default environment, in the user's own cache: made once, then shared with everything else that
//! runs on this machine. The first run needs the package index.

#![allow(clippy::unwrap_used, reason = "it is all tests")]

mod common;

use std::{fs, path::Path};

use cellblock_env::{
    Cancel, DEFAULT_PACKAGES, Environment, EnvironmentStatus, default_environment,
    default_environment_status,
};
use common::{interpreter, output};

fn environment() -> Environment {
    default_environment(&interpreter(), &Cancel::new(), &mut |_| {}).unwrap()
}

#[test]
fn every_default_package_can_be_imported_from_byte_code() {
    let environment = environment();
    for package in DEFAULT_PACKAGES {
        assert!(environment.version_of(package).is_some(), "{package}");
    }
    let code = "
import numpy, pandas, scipy.stats, matplotlib.pyplot, networkx, sklearn.linear_model, pydantic, requests
import bs4, lxml.etree, openpyxl
import os, sys
for module in list(sys.modules.values()):
    file = getattr(module, '__file__', None) or ''
    if file.startswith(sys.prefix) and file.endswith('.py') and not os.path.exists(module.__cached__):
        print(file)
";
    assert_eq!(output(&environment.python, &["-I", "-B", "-c", code]), "");
    let base = "import sys; print(sys.base_prefix)";
    assert_eq!(
        Path::new(&output(&environment.python, &["-I", "-c", base])),
        environment.base_prefix
    );
}

#[test]
fn matplotlib_finds_its_list_of_fonts() {
    let environment = environment();
    let config = environment.matplotlib_config.unwrap();
    let lists: Vec<_> = fs::read_dir(&config)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    let [list] = lists.as_slice() else {
        panic!("{lists:?}");
    };
    // A session has a copy that it may write to. A search would write the list anew.
    let copy = tempfile::tempdir().unwrap();
    let copied = copy.path().join(list.file_name().unwrap());
    fs::copy(list, &copied).unwrap();
    let before = fs::metadata(&copied).unwrap().modified().unwrap();
    let code = format!(
        "import os; os.environ['MPLCONFIGDIR'] = {:?}
import matplotlib.font_manager as fonts
print(os.path.exists(fonts.findfont('DejaVu Sans')))",
        copy.path()
    );
    let found = output(&environment.python, &["-I", "-B", "-c", &code]);
    assert_eq!(
        found, "True",
        "matplotlib's own fonts are where they are now"
    );
    assert_eq!(fs::metadata(&copied).unwrap().modified().unwrap(), before);
    assert_eq!(fs::read_dir(copy.path()).unwrap().count(), 1);
}

#[test]
fn its_status_is_ready_once_it_was_made() {
    let made = environment();
    assert_eq!(
        default_environment_status(&interpreter()).unwrap(),
        EnvironmentStatus::Ready(Box::new(made))
    );
}
