//! Lists the guest's modules, so that the binary carries them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> std::io::Result<()> {
    let package = Path::new("guest/cellblock_guest");
    println!("cargo::rerun-if-changed={}", package.display());
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut names: Vec<String> = fs::read_dir(package)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".py"))
        .collect();
    names.sort();
    let mut table = String::from("pub(crate) static MODULES: &[(&str, &str)] = &[\n");
    for name in names {
        let path = root.join(package).join(&name);
        let _ = writeln!(table, "    ({name:?}, include_str!({path:?})),");
    }
    table.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("guest_modules.rs"), table)
}
