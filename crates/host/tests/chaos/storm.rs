//! Head, standbys, init and zygote killed at random, at any moment, one or several.

use super::common::{is_long, new_directory, new_host, within};
use super::survivor::{Heard, Survivor, SurvivorState};
use super::victims::{Role, Victims};
use cellblock_host::Host;
use cellblock_test_support::{Dice, seed};
use std::thread;
use std::time::Duration;

/// When the killing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Nothing is going on, and a checkpoint of the newest state is there.
    Idle,
    /// A cell runs.
    Cell,
    /// A cell has just ended, and its checkpoint is being taken.
    Arming,
    /// Cells are being taken back.
    Undo(usize),
    /// The head has just died by itself.
    Crash,
    /// A cell waits for the answer of a tool.
    Call,
    /// A fork is being made.
    Fork,
}

/// What is done to a session, and when.
#[derive(Clone, Debug)]
struct Strike {
    moment: Moment,
    roles: Vec<Role>,
    after: Duration,
    /// Who stands still meanwhile, as on a machine that has no time for it, and for how long.
    held: Option<(Role, Duration)>,
}

impl Strike {
    fn thrown(dice: &mut Dice) -> Strike {
        let moment = match dice.below(14) {
            0 | 1 => Moment::Idle,
            2..=4 => Moment::Cell,
            5..=7 => Moment::Arming,
            8 | 9 => Moment::Undo(1 + dice.below(3)),
            10 => Moment::Crash,
            11 => Moment::Call,
            _ => Moment::Fork,
        };
        let mut roles: Vec<Role> = (0..=dice.below(3)).map(|_| role(dice)).collect();
        roles.dedup();
        Strike {
            moment,
            roles,
            after: dice.pause(Duration::from_millis(12)),
            held: dice
                .one_in(3)
                .then(|| (role(dice), dice.pause(Duration::from_millis(60)))),
        }
    }
}

fn role(dice: &mut Dice) -> Role {
    match dice.below(24) {
        0..=10 => Role::Head,
        11..=14 => Role::NewestStandby,
        15 | 16 => Role::Standby(dice.below(4)),
        17..=19 => Role::EveryStandby,
        20 => Role::Init,
        _ => Role::Zygote,
    }
}

#[test]
fn whoever_is_killed_whenever_a_session_goes_on_or_says_that_it_ended() {
    let seed = seed("chaos");
    let dice = Dice::new(seed);
    let directory = new_directory();
    let host = new_host(directory.path());
    let rounds = if is_long() { 4000 } else { 60 };
    thread::scope(|scope| {
        for part in 0..4 {
            let (host, dice) = (&host, dice.part(part));
            scope.spawn(move || {
                weather(
                    host,
                    dice,
                    rounds,
                    part,
                    &format!("CELLBLOCK_SEED={seed} part {part}"),
                )
            });
        }
    });
}

/// Strikes a session again and again. The last parts strike a fork of a fork, whose parents must not notice.
fn weather(host: &Host, mut dice: Dice, rounds: usize, part: u64, label: &str) {
    let mut ancestors: Vec<Survivor> = Vec::new();
    if part >= 2 {
        let mut first = Survivor::new(host, label);
        first.tell("").unwrap();
        let second = first.fork();
        ancestors = vec![first, second];
    }
    let newcomer = || match ancestors.last() {
        Some(parent) => parent.fork(),
        None => Survivor::new(host, label),
    };
    let mut survivor = newcomer();
    for round in 0..rounds {
        let strike = Strike::thrown(&mut dice);
        survivor.plan = format!("round {round}: {strike:?}");
        if !endure(&mut survivor, &strike) {
            assert_gone(&survivor);
            survivor = newcomer();
        }
    }
    for mut ancestor in ancestors {
        let expected = Survivor::story(&ancestor.kept);
        match ancestor.listen() {
            Heard::Story(words) => assert_eq!(words, expected, "{label}: a parent"),
            Heard::Ended(reason) => panic!("{label}: a parent ended with its fork: {reason}"),
        }
        ancestor.bounded("closing", ancestor.session.close());
    }
    survivor.bounded("closing", survivor.session.close());
    assert_gone(&survivor);
}

/// Of a session that is over nothing is left, or only until the kernel has cleaned up.
fn assert_gone(survivor: &Survivor) {
    let gone = within(Duration::from_secs(5), || survivor.processes.are_gone());
    assert!(
        gone,
        "{}: {}: of a session that is over is left: {}",
        survivor.label,
        survivor.plan,
        survivor.processes.described()
    );
}

/// Strikes once and looks what is left; whether the session lives.
fn endure(survivor: &mut Survivor, strike: &Strike) -> bool {
    if survivor.tell("").is_err() {
        panic!(
            "{}: {}: it had ended before anything was done to it",
            survivor.label, survivor.plan
        );
    }
    survivor
        .bounded("a list of checkpoints", survivor.session.checkpoints())
        .unwrap();
    survivor.returns();
    let before = survivor.kept.clone();
    let victims = survivor.processes.find(&strike.roles);
    thread::scope(|scope| {
        if let Some((role, time)) = strike.held {
            let held = survivor.processes.find(&[role]);
            scope.spawn(move || held.hold(time));
        }
        happen(survivor, strike, &victims);
    });
    let new: Vec<SurvivorState> = survivor
        .kept
        .iter()
        .filter(|kept| !before.contains(kept))
        .cloned()
        .collect();
    // A signal is sent before it arrives.
    if victims.takes_init {
        assert_gone(survivor);
    }
    let heard = survivor.listen();
    let returns = survivor.returns();
    let context = format!(
        "{}: {} ({} processes killed)\nbefore: {before:?}\nkept since: {new:?}\nsaid to have gone back to: {returns:?}\nheard: {heard:?}",
        survivor.label,
        survivor.plan,
        victims.len()
    );
    let story = match heard {
        Heard::Ended(reason) => {
            assert!(
                may_end(strike, &victims),
                "it ended without need\n{context}"
            );
            assert!(
                reason.contains("has ended: ") && reason.len() > 20,
                "no reason\n{context}"
            );
            // Its variables are lost. What its cells wrote is the user's.
            let file = std::fs::read_to_string(survivor.session.workspace().join("story")).unwrap();
            let words: Vec<String> = file.split_whitespace().map(str::to_owned).collect();
            let is_whole = words.starts_with(&Survivor::story(&before));
            assert!(
                is_whole || matches!(strike.moment, Moment::Undo(_)),
                "its file has only {words:?}\n{context}"
            );
            return false;
        }
        Heard::Story(story) => story,
    };
    assert!(!victims.takes_init, "it lives without its init\n{context}");
    let all = survivor.kept.clone();
    // It may have gone back before or after the cells of this round were kept.
    let up_to = |kept: &[SurvivorState], cell: u64| -> Vec<SurvivorState> {
        kept.iter()
            .filter(|kept| kept.cell <= cell)
            .cloned()
            .collect()
    };
    let looks: Vec<SurvivorState> = all
        .iter()
        .filter(|kept| !before.contains(kept) && !new.contains(kept))
        .cloned()
        .collect();
    let mut possible = vec![all.clone()];
    for cell in &returns {
        possible.push([up_to(&before, *cell), new.clone(), looks.clone()].concat());
        possible.push([up_to(&all, *cell), looks.clone()].concat());
    }
    if let (Moment::Undo(_), Some(cell)) = (strike.moment, undone(&survivor.plan)) {
        possible.retain(|_| false);
        for cell in returns.iter().chain([&cell]) {
            possible.push([up_to(&before, *cell), looks.clone()].concat());
        }
    }
    possible.iter_mut().for_each(|kept| kept.dedup());
    let found = possible
        .into_iter()
        .find(|kept| Survivor::story(kept) == story);
    survivor.kept =
        found.unwrap_or_else(|| panic!("something was lost and it was not told\n{context}"));
    if !victims.takes_standbys && !matches!(strike.moment, Moment::Undo(_)) {
        assert!(
            story.starts_with(&Survivor::story(&before)),
            "more was lost than the cell that ran\n{context}"
        );
    }
    true
}

/// A session ends only when there is nothing to go on with.
fn may_end(strike: &Strike, victims: &Victims) -> bool {
    let head_dies = victims.takes_head || matches!(strike.moment, Moment::Undo(_) | Moment::Crash);
    victims.takes_init
        || head_dies && victims.takes_every_standby
        || matches!(strike.moment, Moment::Undo(_)) && victims.takes_standbys
}

/// The thing itself.
fn happen(survivor: &mut Survivor, strike: &Strike, victims: &Victims) {
    let after = strike.after;
    let pause = || thread::sleep(after);
    match strike.moment {
        Moment::Idle => {
            pause();
            victims.kill();
        }
        Moment::Arming => {
            let _ = survivor.tell("");
            pause();
            victims.kill();
        }
        Moment::Cell => {
            thread::scope(|scope| {
                scope.spawn(|| {
                    pause();
                    victims.kill();
                });
                let _ = survivor.tell("time.sleep(0.015)");
            });
        }
        Moment::Crash => {
            thread::scope(|scope| {
                scope.spawn(|| {
                    pause();
                    victims.kill();
                });
                let _ = survivor.tell("os._exit(1)");
            });
        }
        Moment::Call => call(survivor, || {
            pause();
            victims.kill();
        }),
        Moment::Fork => {
            let forked = thread::scope(|scope| {
                scope.spawn(|| {
                    pause();
                    victims.kill();
                });
                survivor.bounded("a fork", survivor.session.fork())
            });
            match forked {
                Ok(session) => meet(survivor, session, victims),
                Err(error) => survivor.plan += &format!("; not forked: {error}"),
            }
        }
        Moment::Undo(count) => {
            let undone = thread::scope(|scope| {
                scope.spawn(|| {
                    pause();
                    victims.kill();
                });
                survivor.bounded("an undo", survivor.session.undo(count))
            });
            match undone {
                Ok(undone) => {
                    survivor.expect_whole_files(&undone.not_restored);
                    survivor.plan += &format!("; undone to {}", undone.cell);
                }
                Err(error) => {
                    let expected = matches!(error.code(), "ended" | "refused" | "not_found");
                    assert!(expected, "{}: {}: {error}", survivor.label, survivor.plan);
                    survivor.plan += &format!("; not undone: {error}");
                }
            }
        }
    }
}

/// A fork that was made while its parent was struck has all that its parent had, or is over with it. A parent that lost its newest
/// checkpoint too may have gone back to an older one first, and then the fork begins there.
fn meet(survivor: &Survivor, session: cellblock_session::Session, victims: &Victims) {
    let look = survivor.bounded("a look into a fork", session.run("print(*story)"));
    let story = match look {
        Ok(result) if result.status == cellblock_protocol::Status::Success => Some(result.stdout),
        // Its parent's init is its ancestor, and its end.
        Ok(_) | Err(_) if victims.takes_init => None,
        other => panic!("{}: {}: {other:?}", survivor.label, survivor.plan),
    };
    let expected = Survivor::story(&survivor.kept);
    let is_whole = story.as_ref().is_none_or(|story| {
        let words: Vec<&str> = story.split_whitespace().collect();
        let may_be_older = victims.takes_head && victims.takes_standbys;
        words == expected
            || may_be_older
                && expected.iter().zip(&words).all(|(a, b)| a == b)
                && words.len() < expected.len()
    });
    assert!(
        is_whole,
        "{}: {}\nexpected: {expected:?}\nfork: {story:?}",
        survivor.label, survivor.plan
    );
    survivor.bounded("closing a fork", session.close());
}

/// The cell that a successful undo went back to, as the plan says.
fn undone(plan: &str) -> Option<u64> {
    plan.rsplit_once("; undone to ")?.1.parse().ok()
}

/// A cell that asks a tool for something, which is answered after `meanwhile`.
fn call(survivor: &mut Survivor, meanwhile: impl FnOnce()) {
    use cellblock_protocol::{Cell, Event, ToolSpec};
    let tool = ToolSpec {
        name: "wait".to_owned(),
        description: "Waits.".to_owned(),
        parameters: serde_json::json!({"type": "object", "properties": {}})
            .as_object()
            .unwrap()
            .clone(),
    };
    if survivor
        .bounded("giving a tool", survivor.session.set_tools(vec![tool]))
        .is_err()
    {
        return;
    }
    let (word, code) = survivor.telling("tools.wait()");
    let mut running = survivor
        .session
        .start(Cell::new(code).timeout(Duration::from_secs(10)))
        .unwrap();
    let mut meanwhile = Some(meanwhile);
    let outcome = loop {
        match survivor.bounded("an event of a cell", running.next()) {
            Some(Event::ToolCall { call, .. }) => {
                if let Some(meanwhile) = meanwhile.take() {
                    meanwhile();
                }
                running.tool_result(&call, Ok(serde_json::Value::Null));
            }
            Some(Event::Restored { checkpoint }) => survivor.told.push(checkpoint),
            Some(Event::Result { result }) => break Ok(*result),
            Some(Event::Error { code, message }) => {
                assert_eq!(code, "ended", "{}: {message}", survivor.label);
                return;
            }
            Some(_) => {}
            None => panic!(
                "{}: {}: the events ended without a result",
                survivor.label, survivor.plan
            ),
        }
    };
    survivor.note(&outcome, Some(word));
}
