//! The target `pipe` of `crates/fuzz`, with choices that libFuzzer looks for.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    cellblock_fuzz::pipe(bytes);
});
