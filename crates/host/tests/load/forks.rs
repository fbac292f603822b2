//! Fork after fork, and many at once.

use super::census::Census;
use super::{alone, scaled, scene, wait};
use cellblock_protocol::{StateOutcome, Status};
use cellblock_session::Session;
use std::time::Instant;

async fn value(session: &Session, code: &str) -> String {
    let result = session.run(code).await.unwrap();
    assert_eq!(result.status, Status::Success, "{result:?}");
    result.value.unwrap().repr
}

#[test]
fn fork_after_fork_leaves_everything_as_it_was() {
    let _alone = alone();
    let count = scaled(25, 500);
    let (host, directory) = scene();
    let before = Census::settled(directory.path());
    let session = wait("opening", host.session().start()).unwrap();
    let begun = Instant::now();
    let mut level = None;
    wait("forks", async {
        session.run("x = 0").await.unwrap();
        for round in 1..=count {
            session
                .run("x += 1\nopen('x', 'w').write(str(x))")
                .await
                .unwrap();
            let fork = session
                .fork()
                .await
                .unwrap_or_else(|error| panic!("fork {round}: {error}"));
            let code = "x += 1000\nopen('x', 'w').write('of the fork')\nx";
            assert_eq!(value(&fork, code).await, (round + 1000).to_string());
            let crash = fork.run("x = None; import os; os._exit(1)").await.unwrap();
            assert_eq!(crash.state.outcome, StateOutcome::Restored, "{crash:?}");
            let state = value(&fork, "x, open('x').read()").await;
            assert_eq!(state, format!("({}, 'of the fork')", round + 1000));
            fork.run("import os; os.remove('x')").await.unwrap();
            fork.close().await;
            drop(fork);
            let state = value(&session, "x, open('x').read()").await;
            assert_eq!(state, format!("({round}, '{round}')"));
            if round == 12 {
                // The history is full, and nothing is in the making.
                session.checkpoints().await.unwrap();
                level = Some(Census::settled(directory.path()));
            }
        }
    });
    println!("{count} forks, each with a crash, in {:?}", begun.elapsed());
    wait("the last checkpoint", session.checkpoints()).unwrap();
    level.unwrap().assert_unchanged(directory.path());
    wait("the end", session.run("import os; os.remove('x')")).unwrap();
    wait("closing", session.close());
    drop(session);
    before.assert_unchanged(directory.path());
}

#[test]
fn a_large_family_lives_at_once_and_nothing_is_left_of_it() {
    let _alone = alone();
    let count = scaled(12, 50);
    let (host, directory) = scene();
    let before = Census::settled(directory.path());
    let mut family = vec![wait("opening", host.session().start()).unwrap()];
    wait("forks", async {
        family[0].run("me = 0; line = [0]").await.unwrap();
        for n in 1..count {
            // Each is a fork of someone earlier: some have many children, some many ancestors.
            let parent = if n % 4 == 0 { n / 4 } else { n - n % 4 };
            let fork = family[parent].fork().await.unwrap();
            fork.run(format!("me = {n}; line = line + [{n}]"))
                .await
                .unwrap();
            family.push(fork);
        }
        for (n, member) in family.iter().enumerate() {
            let state = value(member, "me, line[0], line[-1]").await;
            assert_eq!(state, format!("({n}, 0, {n})"));
        }
        // Parents before children, every other one after a crash.
        for (n, member) in family.iter().enumerate() {
            if n % 2 == 0 {
                let crash = member.run("import os; os._exit(1)").await.unwrap();
                assert_eq!(crash.state.outcome, StateOutcome::Restored);
                assert_eq!(value(member, "me").await, n.to_string());
            }
            member.close().await;
        }
    });
    drop(family);
    before.assert_unchanged(directory.path());
}
