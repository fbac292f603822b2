//! Bad luck that is worth a name.

use super::common::{builder, eventually, new_directory, open, run, wait};
use super::survivor::{Heard, Survivor};
use super::victims::{Processes, Role, Victims};
use cellblock_host::{Host, PythonChoice};
use cellblock_protocol::{Cell, CellResult, Event, StateOutcome, Status};
use cellblock_session::Preload;
use std::time::Duration;

fn survivor() -> Survivor {
    Survivor::new(super::common::host(), "scene")
}

fn kill(survivor: &Survivor, roles: &[Role]) {
    survivor.processes.find(roles).bury();
}

/// The words of its story, for a session that must live.
fn story(survivor: &mut Survivor) -> Vec<String> {
    match survivor.listen() {
        Heard::Story(words) => words,
        Heard::Ended(reason) => panic!("{reason}"),
    }
}

fn arm(survivor: &Survivor) {
    let checkpoints = wait(survivor.session.checkpoints()).unwrap();
    assert_eq!(
        checkpoints.state,
        cellblock_protocol::CheckpointState::armed()
    );
}

#[test]
fn a_head_killed_fifty_times_in_a_row_is_replaced_fifty_times() {
    let mut survivor = survivor();
    survivor.tell("").unwrap();
    for round in 1..=50 {
        arm(&survivor);
        let victims = survivor.processes.find(&[Role::Head]);
        assert_eq!(victims.len(), 1, "{}", survivor.processes.described());
        victims.kill();
        let mut returns = Vec::new();
        while returns.is_empty() {
            returns = survivor.returns();
            std::thread::yield_now();
        }
        assert_eq!(returns, [2], "round {round}");
    }
    assert_eq!(story(&mut survivor), ["w1"]);
}

#[test]
fn a_session_whose_processes_are_all_killed_says_so_and_its_files_stay() {
    let mut survivor = survivor();
    survivor.tell("").unwrap();
    survivor.tell("").unwrap();
    let path = survivor.session.workspace().join("story");
    kill(&survivor, &[Role::Init]);
    eventually("its processes are gone", || survivor.processes.are_gone());
    let Heard::Ended(reason) = survivor.listen() else {
        panic!("it lives without processes");
    };
    let end = "has ended: its init process died";
    assert!(reason.ends_with(end), "{reason}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "w1\nw2\n");
}

#[test]
fn a_session_that_is_killed_under_a_cell_keeps_the_files_of_the_cells_before() {
    let mut survivor = survivor();
    survivor.tell("").unwrap();
    survivor.tell("").unwrap();
    let victims = survivor.processes.find(&[Role::Init]);
    let path = survivor.session.workspace().join("story");
    let result = struck_in_a_cell(&mut survivor, &victims, "");
    assert_eq!(
        (result.status, result.state.outcome),
        (Status::Crashed, StateOutcome::Ended)
    );
    assert_eq!(std::fs::read_to_string(path).unwrap(), "w1\nw2\nw3\n");
}

/// Runs a cell that tells its word, then sees its `victims` die, and then does the `rest`.
fn struck_in_a_cell(survivor: &mut Survivor, victims: &Victims, rest: &str) -> CellResult {
    let (_, code) = survivor.telling(&format!("input()\n{rest}"));
    let mut running = survivor.session.start(Cell::new(code)).unwrap();
    loop {
        match survivor.bounded("an event", running.next()) {
            Some(Event::InputRequest { call, .. }) => {
                victims.bury();
                running.input(&call, Ok(String::new()));
            }
            Some(Event::Result { result }) => return *result,
            Some(_) => {}
            None => panic!("the events ended without a result"),
        }
    }
}

#[test]
fn a_session_without_any_standby_makes_a_new_one() {
    let mut survivor = survivor();
    survivor.tell("").unwrap();
    arm(&survivor);
    kill(&survivor, &[Role::EveryStandby]);
    std::thread::sleep(Duration::from_millis(50));
    arm(&survivor);
    kill(&survivor, &[Role::Head]);
    assert_eq!(story(&mut survivor), ["w1"]);
}

#[test]
fn a_session_without_head_and_standbys_ends_and_says_so() {
    let mut survivor = survivor();
    survivor.tell("").unwrap();
    arm(&survivor);
    kill(&survivor, &[Role::EveryStandby, Role::Head]);
    eventually("its processes are gone", || survivor.processes.are_gone());
    let Heard::Ended(reason) = survivor.listen() else {
        panic!("it lives without processes");
    };
    let end = "has ended: its process was ended by signal 9";
    assert!(reason.ends_with(end), "{reason}");
}

#[test]
fn what_is_lost_with_a_standby_is_told_by_the_cell_that_needed_it() {
    let mut survivor = survivor();
    survivor.tell("").unwrap();
    arm(&survivor);
    survivor.tell("").unwrap();
    arm(&survivor);
    let victims = survivor.processes.find(&[Role::NewestStandby]);
    let result = struck_in_a_cell(&mut survivor, &victims, "os._exit(1)");
    assert_eq!(result.state.outcome, StateOutcome::Restored);
    assert_eq!(
        result.state.not_restored,
        ["the effects of cell 3: no later checkpoint was there to be woken"]
    );
    assert_eq!(story(&mut survivor), ["w1"]);
}

#[test]
fn more_than_the_history_has_cannot_be_taken_back_and_nothing_changes() {
    let mut survivor = survivor();
    for _ in 0..14 {
        survivor.tell("").unwrap();
    }
    for (count, message) in [
        (
            12,
            "the history does not reach that far: the oldest checkpoint is the one after cell 5",
        ),
        (16, "there are only 15 cells to take back"),
        (usize::MAX, "there are only 15 cells to take back"),
        (0, "`undo` takes back at least one cell"),
    ] {
        let error = wait(survivor.session.undo(count)).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("not_found", message)
        );
    }
    assert_eq!(story(&mut survivor).len(), 14);
}

#[test]
fn a_checkpoint_that_was_lost_cannot_be_gone_back_to() {
    let mut survivor = survivor();
    for _ in 0..3 {
        survivor.tell("").unwrap();
        arm(&survivor);
    }
    // The one after cell 2; those before and after it are left.
    kill(&survivor, &[Role::Standby(2)]);
    std::thread::sleep(Duration::from_millis(50));
    let error = wait(survivor.session.undo(2)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the checkpoint after cell 2 is not there any more: its process has ended, as it does where memory or processes are short (raise the limits `memory` and `processes`)"
    );
    assert_eq!(story(&mut survivor), ["w1", "w2", "w3"]);
    assert_eq!(wait(survivor.session.undo(2)).unwrap().cell, 3);
    assert_eq!(wait(survivor.session.undo(2)).unwrap().cell, 1);
}

#[test]
fn sessions_that_died_while_they_waited_in_the_pool_are_not_handed_out() {
    let directory = new_directory();
    let dirs = cellblock_env::Dirs {
        cache: directory.path().join("cache"),
        state: directory.path().join("state"),
    };
    let host = Host::builder()
        .interpreter(super::common::python())
        .python(PythonChoice::StandardLibrary)
        .preload(Preload::None)
        .dirs(dirs)
        .pool(3)
        .build()
        .unwrap();
    let runtime = wait(host.runtime(&cellblock_protocol::Isolation::default())).unwrap();
    let full = || runtime.pool().ready == 3;
    eventually("the pool is full", full);
    let first = wait(host.session().start()).unwrap();
    eventually("the pool is full again", full);
    let namespace = run(
        &first,
        "import os; print(os.readlink('/proc/self/ns/pid'), end='')",
    )
    .stdout;
    let mine = Processes::of(&namespace);
    for (role, neighbour) in [Role::Init, Role::Head, Role::NewestStandby]
        .iter()
        .zip(mine.neighbours())
    {
        let victims = neighbour.find(&[*role]);
        assert_eq!(victims.len(), 1);
        victims.kill();
    }
    eventually("the dead are dead", || mine.neighbours().len() < 3);
    std::thread::sleep(Duration::from_millis(50));
    for _ in 0..4 {
        let session = wait(host.session().start()).unwrap();
        let result = run(&session, "1 + 1");
        assert_eq!(result.status, Status::Success, "{result:?}");
        wait(session.close());
    }
    wait(first.close());
}

#[test]
fn when_memory_runs_out_the_kernel_takes_the_head_and_not_its_checkpoint() {
    let mut survivor = survivor();
    // The second time, a standby has become the head.
    for _ in 0..2 {
        arm(&survivor);
        assert_eq!(survivor.processes.scores("head"), [500]);
        // A copy is made first, and then makes itself small.
        eventually("the standbys are safe", || {
            let standbys = survivor.processes.scores("standby");
            !standbys.is_empty() && standbys.iter().all(|score| *score == 0)
        });
        kill(&survivor, &[Role::Head]);
        survivor.tell("").unwrap();
    }
}

#[test]
fn closing_a_session_that_is_being_killed_ends() {
    for role in [Role::Head, Role::NewestStandby, Role::Init] {
        let survivor = survivor();
        let victims = survivor.processes.find(&[role]);
        std::thread::scope(|scope| {
            scope.spawn(|| victims.kill());
            survivor.bounded("closing", survivor.session.close());
        });
        eventually("its processes are gone", || survivor.processes.are_gone());
    }
}

#[test]
fn a_session_beside_one_that_is_killed_notices_nothing() {
    let beside = open(builder());
    run(&beside, "x = 'kept'");
    let survivor = survivor();
    kill(&survivor, &[Role::Init, Role::Zygote]);
    assert_eq!(run(&beside, "x").value.unwrap().repr, "'kept'");
    let next = open(builder());
    assert_eq!(run(&next, "1 + 1").value.unwrap().repr, "2");
}

/// A session, a fork of it, a fork of that, and a fork of that one; each with a word of its own.
fn family() -> Vec<Survivor> {
    let mut family = vec![survivor()];
    for _ in 0..3 {
        let parent = family.last_mut().unwrap();
        parent.tell("").unwrap();
        let child = parent.fork();
        family.push(child);
    }
    family.last_mut().unwrap().tell("").unwrap();
    family
}

const STORIES: [&[&str]; 4] = [
    &["w1"],
    &["w1", "w2"],
    &["w1", "w2", "w3"],
    &["w1", "w2", "w3", "w4"],
];

#[test]
fn heads_of_forks_of_forks_die_and_each_comes_back_with_its_own() {
    let mut family = family();
    for round in 0..3 {
        let victims: Vec<_> = family
            .iter()
            .map(|member| {
                arm(member);
                member.processes.find(&[Role::Head])
            })
            .collect();
        victims.iter().for_each(|victims| victims.bury());
        for (member, words) in family.iter_mut().zip(STORIES) {
            assert_eq!(story(member), words, "round {round}");
        }
    }
    // A crash of their own making, from the youngest to the oldest, and a word more from each.
    for (member, words) in family.iter_mut().zip(STORIES).rev() {
        let result = member.tell("os._exit(1)").unwrap();
        assert_eq!(result.state.outcome, StateOutcome::Restored);
        assert_eq!(story(member), words);
        member.tell("").unwrap();
        assert_eq!(story(member).len(), words.len() + 1);
    }
}

#[test]
fn a_fork_ends_with_the_init_of_its_parent_and_says_so_and_the_grandparent_goes_on() {
    let mut family = family();
    let second = family[1].processes.find(&[Role::Init]);
    second.bury();
    for (n, member) in family.iter_mut().enumerate() {
        match (n, member.listen()) {
            (0, Heard::Story(words)) => assert_eq!(words, STORIES[0]),
            (1.., Heard::Ended(reason)) => {
                assert!(
                    reason.ends_with("has ended: its init process died"),
                    "{reason}"
                );
            }
            (n, heard) => panic!("member {n}: {heard:?}"),
        }
    }
    let again = family[0].fork();
    eventually("the dead are gone", || {
        family[1..].iter().all(|member| member.processes.are_gone())
    });
    wait(again.session.close());
}

#[test]
fn closing_a_parent_leaves_its_forks_alone() {
    let mut family = family();
    for member in &family[..2] {
        // Their inits stay, for the forks live below them; nobody waits for that.
        let limit = Duration::from_secs(5);
        let closed = wait(async { tokio::time::timeout(limit, member.session.close()).await });
        assert!(closed.is_ok(), "not closed within {limit:?}");
    }
    for (member, words) in family.iter_mut().zip(STORIES).skip(2) {
        arm(member);
        member.processes.find(&[Role::Head]).bury();
        assert_eq!(story(member), words);
    }
}

#[test]
fn what_a_person_put_there_stays_when_the_head_is_killed_between_two_cells() {
    let mut survivor = survivor();
    survivor.tell("").unwrap();
    arm(&survivor);
    wait(survivor.session.put_file("given", b"by hand".to_vec())).unwrap();
    kill(&survivor, &[Role::Head]);
    assert_eq!(story(&mut survivor), ["w1"]);
    let given = wait(survivor.session.get_file("given")).unwrap();
    assert_eq!(given, b"by hand");
}

#[test]
fn files_that_were_put_back_can_be_put_back_further() {
    let mut survivor = survivor();
    for _ in 0..3 {
        survivor.tell("").unwrap();
        arm(&survivor);
    }
    // Back to the second word, which takes a file along; nobody else has touched it.
    kill(&survivor, &[Role::Head, Role::NewestStandby]);
    let mut returns = Vec::new();
    while returns.last() != Some(&3) {
        // If the head died first, its newest copy was awake for a moment.
        returns.extend(survivor.returns());
        std::thread::yield_now();
    }
    let undone = wait(survivor.session.undo(2)).unwrap();
    assert_eq!((undone.cell, undone.not_restored), (1, Vec::new()));
    assert_eq!(story(&mut survivor), Vec::<String>::new());
}

#[test]
fn a_fork_is_made_although_init_is_late_to_hear_of_it() {
    let mut survivor = survivor();
    survivor.tell("").unwrap();
    arm(&survivor);
    let init = survivor.processes.find(&[Role::Init]);
    let forked = std::thread::scope(|scope| {
        scope.spawn(|| init.hold(Duration::from_millis(300)));
        // By now it stands still, and this is the first that it will hear of.
        std::thread::sleep(Duration::from_millis(100));
        let running = survivor.session.start("time.sleep(0.02)").unwrap();
        std::thread::sleep(Duration::from_millis(10));
        survivor.session.interrupt();
        survivor.bounded("a cell", running.result()).unwrap();
        survivor.bounded("a fork", survivor.session.fork())
    });
    assert_eq!(run(&forked.unwrap(), "story").value.unwrap().repr, "['w1']");
}
