//! Isolation: the rungs and walls that a session asks for, and how a result names them.

use cellblock_protocol::*;
use serde_json::{Value, json};

fn read(value: Value) -> Result<Isolation, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

#[test]
fn rungs_are_ordered() {
    assert!(Rung::None < Rung::Landlock && Rung::Landlock < Rung::Full);
}

#[test]
fn nobody_falls_below_landlock_without_asking() {
    assert_eq!(Isolation::default().lowest(), Rung::Landlock);
    assert_eq!(Isolation::on(Rung::None).lowest(), Rung::None);
}

#[test]
fn a_name_or_an_object_says_which_walls() {
    assert_eq!(read(json!("full")), Ok(Isolation::on(Rung::Full)));
    assert_eq!(read(json!("none")), Ok(Isolation::on(Rung::None)));
    assert_eq!(
        read(json!({"rung": "full", "without": ["seccomp", "network"]})),
        Ok(Isolation::on(Rung::Full)
            .without(Wall::Seccomp)
            .without(Wall::Network))
    );
    assert_eq!(
        read(json!({"without": ["disk"]})),
        Ok(Isolation::default().without(Wall::Disk))
    );
}

#[test]
fn its_text_is_what_results_carry() {
    assert_eq!(Isolation::on(Rung::Full).to_string(), "full");
    assert_eq!(
        Isolation::on(Rung::Full)
            .without(Wall::Seccomp)
            .without(Wall::Network)
            .to_string(),
        "full without network, seccomp"
    );
}

#[test]
fn isolation_survives_the_journey() {
    for isolation in [
        Isolation::default(),
        Isolation::on(Rung::Landlock),
        Isolation::default().without(Wall::ProcessCount),
        Isolation::on(Rung::Full).without(Wall::Signals),
    ] {
        assert_eq!(
            read(serde_json::to_value(&isolation).unwrap()),
            Ok(isolation)
        );
    }
}

#[test]
fn a_wrong_wall_is_answered_with_the_walls_there_are() {
    assert_eq!(
        read(json!("medium")),
        Err("`isolation`: expected full, landlock, none, or {\"rung\": …, \"without\": […]}, got \"medium\"".to_owned())
    );
    assert_eq!(
        read(json!({"without": ["moat"]})),
        Err("`isolation.without`: expected walls out of files, processes, network, ipc, hostname, landlock, seccomp, privileges, signals, environment, memory, process_count, disk, output, got \"moat\"".to_owned())
    );
    assert_eq!(
        read(json!({"rungs": "full"})),
        Err("unknown field `isolation.rungs`; the fields are rung, without".to_owned())
    );
}

#[test]
fn a_walls_name_is_its_json() {
    for wall in Wall::ALL {
        assert_eq!(serde_json::to_value(wall).unwrap(), json!(wall.name()));
        assert_eq!(wall.name().parse(), Ok(wall));
        assert!(!wall.stops().is_empty());
    }
}
