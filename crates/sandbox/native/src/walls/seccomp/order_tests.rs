//! A filter in groups decides as the list of its rules does, and faster.

use super::program::{FIRST_UNKNOWN, Program};
use super::tests::{BARE, SEALED, interpret};
use super::*;
use crate::arch::AUDIT_ARCHITECTURE;
use std::vec::Vec;

/// Every combination of rules that a session can have, and more.
fn all_rules() -> impl Iterator<Item = Rules> {
    let choices = 1 << 9;
    (0..choices).map(|bits: u32| {
        let pick = |bit: u32| bits & (1 << bit) != 0;
        let base = if pick(0) { SEALED } else { BARE };
        Rules {
            signals: if pick(1) {
                Signals::NotifyInit
            } else {
                Signals::Free
            },
            starts: if pick(2) {
                Starts::NotifyInit
            } else {
                Starts::Free
            },
            forks: if pick(3) {
                Forks::NotifyInit
            } else {
                Forks::Forbidden
            },
            changes: if pick(4) {
                Changes::NotifyInit
            } else {
                Changes::Free
            },
            blocks: if pick(5) {
                Blocks::ByWriting
            } else {
                Blocks::ByReserving
            },
            metadata: if pick(6) {
                Metadata::ByInit
            } else {
                Metadata::Free
            },
            ids: if pick(7) { Ids::OnlyOwn } else { Ids::Free },
            memory: if pick(8) {
                KernelMemory::CountedByInit
            } else {
                KernelMemory::CountedByCgroup
            },
            ..base
        }
    })
}

fn both(rules: Rules) -> (Program, Program) {
    let mut list = Program::new();
    list.build(rules);
    let groups = list.in_groups().expect("a filter in groups");
    (list, groups)
}

/// Values that rules compare arguments with, all their bits and none.
fn arguments_that_matter(list: &Program) -> Vec<u64> {
    let compared = list.instructions[..list.length]
        .iter()
        .map(|instruction| u64::from(instruction.value));
    let mut values: Vec<u64> = compared.chain([0, u64::MAX, 1 << 32]).collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[test]
fn every_call_is_decided_as_by_the_list() {
    for rules in [SEALED, BARE] {
        let (list, groups) = both(rules);
        let values = arguments_that_matter(&list);
        for number in 0..FIRST_UNKNOWN + 2 {
            for &value in &values {
                for position in 0..6 {
                    let mut arguments = [0; 6];
                    arguments[position] = value;
                    let decide =
                        |program| interpret(program, 0, AUDIT_ARCHITECTURE, number, arguments).0;
                    assert_eq!(
                        decide(&list),
                        decide(&groups),
                        "call {number}, {arguments:x?}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_combination_of_rules_can_be_put_in_groups() {
    for rules in all_rules() {
        let (list, groups) = both(rules);
        for number in 0..FIRST_UNKNOWN + 2 {
            for arguments in [[0; 6], [u64::MAX; 6]] {
                let decide =
                    |program| interpret(program, 0, AUDIT_ARCHITECTURE, number, arguments).0;
                assert_eq!(decide(&list), decide(&groups), "call {number}");
            }
        }
    }
}

#[test]
fn few_instructions_decide_a_call() {
    let steps =
        |program: &Program, number| interpret(program, 0, AUDIT_ARCHITECTURE, number, [0; 6]).1;
    let (list, groups) = both(SEALED);
    let total = |program| {
        (0..FIRST_UNKNOWN)
            .map(|number| steps(program, number))
            .sum::<usize>()
    };
    assert!(
        total(&groups) * 4 < total(&list),
        "{} instructions for all calls, {} by the list",
        total(&groups),
        total(&list)
    );
}

#[test]
fn a_filter_that_is_no_list_of_rules_is_refused() {
    let mut program = Program::new();
    program.begin();
    program.add(LOAD, argument(0), 0, 0);
    program.answer(ALLOW);
    assert!(program.in_groups().is_err());
}
