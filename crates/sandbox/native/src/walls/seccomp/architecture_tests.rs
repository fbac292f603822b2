//! The filter refuses what is no call of this architecture, and what no rule was written for.

use super::program::FIRST_UNKNOWN;
use super::tests::Verdict::{Killed, Refused};
use super::tests::{BARE, SEALED, decide, is_there, run};
use super::{CHANGES, DENIED, METADATA_CHANGES, OPENS, STARTS};
use crate::arch::AUDIT_ARCHITECTURE;
use crate::sys::nr;

#[test]
fn calls_of_later_kernels_are_not_there() {
    for rules in [SEALED, BARE] {
        for number in [FIRST_UNKNOWN, FIRST_UNKNOWN + 1, 600] {
            assert_eq!(decide(rules, number as usize, [0; 6]), Refused(38));
        }
    }
    let last_known = FIRST_UNKNOWN as usize - 1;
    assert_eq!(last_known, nr::FILE_SETATTR);
}

#[test]
fn calls_that_this_processor_does_not_have_are_refused() {
    let all = DENIED.iter().chain(CHANGES).chain(METADATA_CHANGES);
    for &number in all
        .chain(STARTS)
        .chain(OPENS)
        .filter(|number| !is_there(**number))
    {
        let refused = run(SEALED, AUDIT_ARCHITECTURE, number as u32, [0; 6]);
        assert_eq!(refused, Refused(38), "call {number:#x}");
    }
}

#[test]
fn the_doors_of_other_architectures_are_shut() {
    const I386: u32 = 0x4000_0003;
    const X86_64: u32 = 0xC000_003E;
    const ARM: u32 = 0x4000_0028;
    const AARCH64: u32 = 0xC000_00B7;
    for other in [I386, X86_64, ARM, AARCH64] {
        if other != AUDIT_ARCHITECTURE {
            assert_eq!(run(SEALED, other, 5, [0; 6]), Killed);
        }
    }
    const X32: u32 = 0x4000_0000;
    assert_eq!(
        run(SEALED, AUDIT_ARCHITECTURE, X32 | nr::PTRACE as u32, [0; 6]),
        Refused(38)
    );
}
