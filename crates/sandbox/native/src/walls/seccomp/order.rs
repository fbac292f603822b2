//! The rules of a filter in the order of the calls' numbers, in groups, so that few comparisons lead to the rules of a call.
//!
//! When a filter is installed, the kernel runs it once for each number that it knows. With one comparison for each rule that takes longer than
//! the rest of the installation, and it is time that every session waits for at its start.

use super::program::{
    ALLOW, Instruction, JUMP_EQUAL, JUMP_GREATER_EQUAL, MAX_INSTRUCTIONS, Program,
};
use crate::sys::{Errno, Result};

/// The most rules of a filter.
const MAX_RULES: usize = 300;
/// A group is closed when it has this many instructions. There are about as many groups as instructions in one, so it takes as long to find the group
/// as to find the rule in it.
const GROUP_INSTRUCTIONS: usize = 24;

/// Instructions about one call: a comparison with its number, and what is skipped if the call is another.
#[derive(Clone, Copy, Default)]
struct Rule {
    number: u32,
    begin: usize,
    length: usize,
}

impl Program {
    /// The same filter in groups. Only rules about the same call can contradict each other, and these stay in their order.
    pub(super) fn in_groups(&self) -> Result<Program> {
        let mut rules = [Rule::default(); MAX_RULES];
        let rules = self.rules(&mut rules)?;
        rules.sort_unstable_by_key(|rule| (rule.number, rule.begin));
        let mut ordered = Program::new();
        ordered.begin();
        let mut rest: &[Rule] = rules;
        while !rest.is_empty() {
            let (group, others) = rest.split_at(length_of_group(rest));
            if let Some(next) = others.first() {
                let instructions: usize = group.iter().map(|rule| rule.length).sum();
                let skipped = u8::try_from(instructions + 1).map_err(|_| Errno::OVERFLOW)?;
                ordered.add(JUMP_GREATER_EQUAL, next.number, skipped, 0);
            }
            for rule in group {
                self.instructions[rule.begin..rule.begin + rule.length]
                    .iter()
                    .for_each(|instruction| ordered.push(*instruction));
            }
            ordered.answer(ALLOW);
            rest = others;
        }
        Ok(ordered)
    }

    /// The rules of this filter, which has one after the other between its first checks and the answer to everything else.
    fn rules<'a>(&self, rules: &'a mut [Rule]) -> Result<&'a mut [Rule]> {
        let mut first_checks = Program::new();
        first_checks.begin();
        let (mut at, mut count) = (first_checks.length, 0);
        if self.length > MAX_INSTRUCTIONS {
            return Err(Errno::OVERFLOW);
        }
        while at + 1 < self.length {
            let Instruction {
                code: JUMP_EQUAL,
                if_true: 0,
                if_false,
                value,
            } = self.instructions[at]
            else {
                return Err(Errno::INVAL);
            };
            let length = 1 + usize::from(if_false);
            *rules.get_mut(count).ok_or(Errno::OVERFLOW)? = Rule {
                number: value,
                begin: at,
                length,
            };
            (at, count) = (at + length, count + 1);
        }
        Ok(&mut rules[..count])
    }
}

/// How many of the rules, which are ordered by number, are in the first group. All rules about a call are in one.
fn length_of_group(rules: &[Rule]) -> usize {
    let mut instructions = 0;
    for (index, rule) in rules.iter().enumerate() {
        let is_first_of_call = index == 0 || rules[index - 1].number != rule.number;
        if is_first_of_call && instructions >= GROUP_INSTRUCTIONS {
            return index;
        }
        instructions += rule.length;
    }
    rules.len()
}
