//! Compiles `native/` to the shared object that the binary carries: without standard library and without libc, so that it
//! loads into any Python and runs between `fork` and `exec`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let source = Path::new("native/src");
    println!("cargo::rerun-if-changed=native/src");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(standalone)");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        // The crate itself says what is wrong, in one message.
        return;
    }
    let out =
        PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("cellblock-native.so");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args([
        "--crate-name",
        "cellblock_native",
        "--crate-type",
        "cdylib",
        "--edition",
        "2024",
        "--cfg",
        "standalone",
    ]);
    command.args([
        "-C",
        "opt-level=2",
        "-C",
        "panic=abort",
        "-C",
        "relocation-model=pic",
        "-C",
        "strip=symbols",
    ]);
    // Ours are the only symbols it needs; executed, it starts at `_start`.
    let link = "-nostdlib -nostartfiles -Wl,-Bsymbolic -Wl,-e,_start -Wl,--no-undefined -Wl,-z,noexecstack -Wl,-z,now";
    for flag in link.split(' ') {
        command.arg("-C").arg(format!("link-arg={flag}"));
    }
    if let Ok(target) = std::env::var("TARGET") {
        command.args(["--target", &target]);
    }
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        command.arg("-C").arg(option);
    }
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("aarch64") {
        // Otherwise atomic operations are calls of functions that ask libc what the processor can do.
        command.args(["-C", "target-feature=-outline-atomics"]);
    }
    command.arg("-o").arg(&out).arg(source.join("lib.rs"));
    match command.status() {
        Ok(status) if status.success() => {}
        outcome => {
            println!(
                "cargo::error=could not compile crates/sandbox/native with rustc: {outcome:?}"
            );
        }
    }
}
