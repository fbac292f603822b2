//! Many cells over many sessions, not one lost or mixed up.

use super::census::Census;
use super::{alone, scaled, scene, wait};
use cellblock_host::Host;
use cellblock_protocol::{StateOutcome, Status};
use std::time::Instant;

/// One in so many cells crashes.
const CRASHES: usize = 40;

#[test]
fn every_cell_of_every_session_has_its_own_answer() {
    let _alone = alone();
    let (sessions, cells) = scaled((20, 1_000), (50, 10_000));
    let (host, directory) = scene();
    let before = Census::settled(directory.path());
    let begun = Instant::now();
    let answered = wait("cells", async {
        let one = |me| tokio::spawn(converse(host.clone(), me, cells / sessions));
        let tasks: Vec<_> = (0..sessions).map(one).collect();
        let mut answered = 0;
        for task in tasks {
            answered += task.await.unwrap();
        }
        answered
    });
    println!(
        "{answered} cells over {sessions} sessions in {:?}",
        begun.elapsed()
    );
    assert_eq!(answered, cells);
    before.assert_unchanged(directory.path());
}

/// A session whose cells count, print and write; now and then one dies. Returns how many had their answer.
async fn converse(host: Host, me: usize, cells: usize) -> usize {
    let session = host
        .session()
        .variable("me", me)
        .setup("seen = []")
        .start()
        .await
        .unwrap();
    let mut kept: Vec<usize> = Vec::new();
    for n in 1..=cells {
        let dies = (n + me).is_multiple_of(CRASHES);
        let end = if dies { "import os; os._exit(9)" } else { "" };
        let code = format!(
            "seen.append({n})\nopen('last', 'w').write(str({n}))\nprint(me, {n}, flush=True)\n{end}\n(me, len(seen), sum(seen), open('last').read())"
        );
        let result = session.run(code).await.unwrap();
        assert_eq!(
            (result.cell, result.stdout.as_str()),
            (n as u64, format!("{me} {n}\n").as_str()),
            "session {me}"
        );
        assert_eq!(result.session, session.id());
        if dies {
            assert_eq!(
                (result.status, result.exit_code, result.state.outcome),
                (Status::Crashed, Some(9), StateOutcome::Restored)
            );
            continue;
        }
        kept.push(n);
        let expected = format!(
            "({me}, {}, {}, '{n}')",
            kept.len(),
            kept.iter().sum::<usize>()
        );
        assert_eq!(
            (result.status, result.value.map(|value| value.repr)),
            (Status::Success, Some(expected)),
            "session {me} cell {n}"
        );
        assert_eq!(
            result.state.checkpoint,
            cellblock_protocol::CheckpointState::armed(),
            "session {me} cell {n}"
        );
    }
    let state = session.run("import os; state = sorted(os.listdir()), open('last').read(), seen[-3:]; os.remove('last'); state").await.unwrap();
    let last = kept.last().unwrap();
    let expected = format!("(['last'], '{last}', {:?})", &kept[kept.len() - 3..]);
    assert_eq!(state.value.unwrap().repr, expected, "session {me}");
    session.close().await;
    cells
}
