//! Limits of output: what a cell prints beyond them is cut, and the result says so.

use super::*;

fn small() -> Python {
    limited(Limits {
        output_kept: 1000,
        output_spilled: 5000,
        ..Limits::default()
    })
}

fn cut(kept: u64, left_out: u64) -> Option<Cut> {
    Some(Cut { kept, left_out })
}

/// Everything that can be read of a stream, page by page.
fn pages(session: &Python, cell: u64, stream: Stream, from: u64) -> String {
    let mut text = String::new();
    loop {
        let page = wait(session.read_output(cell, stream, from + text.len() as u64, 333)).unwrap();
        if page.is_empty() {
            return text;
        }
        assert!(page.len() <= 333);
        text.push_str(&page);
    }
}

#[test]
fn l_a_megabyte_of_each_stream_is_kept_by_default() {
    let result = session().good("print('x' * 1_499_999)");
    assert_eq!(
        (result.stdout.len(), result.output.len(), result.truncated),
        (
            1_000_000,
            1_000_000,
            Truncated::any(cut(1_000_000, 500_000), None, cut(1_000_000, 500_000))
        )
    );
    assert_eq!(result.usage.stdout_bytes, 1_500_000);
}

#[test]
fn l_the_rest_is_read_by_pages_from_where_the_result_ends() {
    let session = small();
    let result = session.good("for n in range(500): print(n)");
    let whole: String = (0..500).map(|n| format!("{n}\n")).collect();
    assert_eq!(result.stdout, whole[..1000]);
    let Truncated {
        stdout: Some(Cut { kept, left_out }),
        ..
    } = result.truncated.unwrap()
    else {
        panic!("not cut")
    };
    assert_eq!((kept, left_out), (1000, whole.len() as u64 - 1000));
    assert_eq!(pages(&session, 1, Stream::Stdout, kept), whole[1000..]);
    assert_eq!(pages(&session, 1, Stream::Stdout, 0), whole);
}

#[test]
fn l_each_stream_can_be_read_and_both_in_true_order() {
    let session = small();
    let result = session.good(
        "import sys
for n in range(200):
    print('out', n)
    print('err', n, file=sys.stderr)",
    );
    let out: String = (0..200).map(|n| format!("out {n}\n")).collect();
    let err: String = (0..200).map(|n| format!("err {n}\n")).collect();
    let both: String = (0..200).map(|n| format!("out {n}\nerr {n}\n")).collect();
    let expected = Truncated::any(
        cut(1000, out.len() as u64 - 1000),
        cut(1000, err.len() as u64 - 1000),
        cut(1000, both.len() as u64 - 1000),
    );
    assert_eq!(result.truncated, expected);
    assert_eq!(pages(&session, 1, Stream::Stdout, 0), out);
    assert_eq!(pages(&session, 1, Stream::Stderr, 0), err);
    assert_eq!(pages(&session, 1, Stream::Output, 0), both);
}

#[test]
fn l_a_page_never_splits_a_character() {
    let session = small();
    let result = session.good("print('世' * 1000, end='', flush=True)");
    assert_eq!(
        (result.stdout.as_str(), result.truncated),
        (
            "世".repeat(333).as_str(),
            Truncated::any(cut(999, 2001), None, cut(999, 2001))
        )
    );
    assert_eq!(pages(&session, 1, Stream::Stdout, 999), "世".repeat(667));
    assert_eq!(
        wait(session.read_output(1, Stream::Stdout, 0, 4)).unwrap(),
        "世"
    );
}

#[test]
fn l_what_is_over_the_spill_limit_is_counted_and_gone() {
    let session = small();
    let result = session.good("print('x' * 99_999)");
    assert_eq!(
        result.truncated,
        Truncated::any(cut(1000, 99_000), None, cut(1000, 99_000))
    );
    assert_eq!(pages(&session, 1, Stream::Stdout, 0).len(), 5000);
}

#[test]
fn l_the_outputs_of_earlier_cells_stay_readable() {
    let session = small();
    for n in 1..=5 {
        session.good(&format!("print('{n}' * 1999)"));
    }
    for n in 1..=5 {
        assert_eq!(
            pages(&session, n, Stream::Output, 0),
            n.to_string().repeat(1999) + "\n"
        );
    }
    let error = wait(session.read_output(6, Stream::Output, 0, 10)).unwrap_err();
    assert_eq!(error.code(), "not_found");
}

#[test]
fn l_an_earlier_output_can_be_read_while_a_cell_runs() {
    let session = small();
    session.good("print('first')");
    let mut running = session.start("input()");
    running.next();
    assert_eq!(pages(&session, 1, Stream::Output, 0), "first\n");
    session.interrupt();
}

#[test]
fn l_the_next_cell_can_read_what_was_left_out() {
    let session = small();
    session.good("for n in range(500): print(n)");
    let whole: String = (0..500).map(|n| format!("{n}\n")).collect();
    let read = |code: &str| session.value(&format!("read_output({code})"));
    assert_eq!(
        read("1, offset=1000, length=9"),
        format!("{:?}", &whole[1000..1009]).replace('"', "'")
    );
    assert_eq!(
        session.value("len(read_output(cell=1, stream='stdout', offset=0, length=10**6))"),
        whole.len().to_string()
    );
    assert_eq!(read("1, stream='stderr'"), "''");
    assert_eq!(session.run("read_output(99)").status, Status::Failure);
}

#[test]
fn l_a_flood_of_output_is_bounded_and_the_cell_goes_on() {
    let session = session();
    let result = session.good("line = 'x' * 1023\nfor _ in range(200 << 10): print(line)\n'done'");
    assert_eq!(result.value.unwrap().repr, "'done'");
    assert_eq!(
        (result.stdout.len(), result.usage.stdout_bytes),
        (1_000_000, 200 << 20)
    );
    let end = wait(session.read_output(1, Stream::Stdout, 64_000_000 - 10, 100)).unwrap();
    assert_eq!(end.len(), 10);
}
