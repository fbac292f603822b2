//! The directories of a user.

use std::path::PathBuf;

use cellblock_env::{Dirs, Variables};

#[test]
fn the_xdg_variables_are_followed() {
    let variables = Variables::default()
        .with("HOME", "/home/me")
        .with("XDG_CACHE_HOME", "/fast")
        .with("XDG_STATE_HOME", "/safe");
    assert_eq!(
        Dirs::new(&variables).unwrap(),
        Dirs {
            cache: "/fast/cellblock".into(),
            state: "/safe/cellblock".into()
        }
    );
}

#[test]
fn without_them_or_with_relative_ones_it_is_below_home() {
    let below_home = Dirs {
        cache: "/home/me/.cache/cellblock".into(),
        state: "/home/me/.local/state/cellblock".into(),
    };
    let variables = Variables::default().with("HOME", "/home/me");
    assert_eq!(Dirs::new(&variables).unwrap(), below_home);
    let relative = variables
        .with("XDG_CACHE_HOME", "here")
        .with("XDG_STATE_HOME", "");
    assert_eq!(Dirs::new(&relative).unwrap(), below_home);
}

#[test]
fn without_home_the_password_database_is_asked() {
    if std::env::var_os("HOME").is_some() {
        // The standard library asks it only in a process without HOME.
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "without_home_the_password_database_is_asked"])
            .env_remove("HOME")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let uid = rustix::process::geteuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let home = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields[2] == uid)
        .map(|fields| PathBuf::from(fields[5]).join(".cache/cellblock"));
    let found = Dirs::new(&Variables::default()).ok().map(|dirs| dirs.cache);
    assert_eq!(found, home);
}
