//! Fonts for plots with Chinese, Japanese or Korean text.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Cancel, Variables, dirs::short_name, program};

/// How to get a font with CJK glyphs.
pub const CJK_FONT_HINT: &str = "install a font with Chinese glyphs (on Debian and Ubuntu: apt-get install fonts-noto-cjk or fonts-wqy-zenhei)";

/// The beginnings of the names of well-known font files, in lower case without `-`, `_` and blanks, and
/// the families in them; best first.
const KNOWN_FONTS: [(&str, &str); 16] = [
    ("notosanscjk", "Noto Sans CJK JP"),
    ("notosanssc", "Noto Sans SC"),
    ("notosanshans", "Noto Sans SC"),
    ("notoserifcjk", "Noto Serif CJK JP"),
    ("sourcehansans", "Source Han Sans"),
    ("sourcehanserif", "Source Han Serif"),
    ("wqyzenhei", "WenQuanYi Zen Hei"),
    ("wqymicrohei", "WenQuanYi Micro Hei"),
    ("droidsansfallback", "Droid Sans Fallback"),
    ("simhei", "SimHei"),
    ("simsun", "SimSun"),
    ("msyh", "Microsoft YaHei"),
    ("arphic", "AR PL UMing CN"),
    ("uming", "AR PL UMing CN"),
    ("ukai", "AR PL UKai CN"),
    ("unifont", "Unifont"),
];

const MAX_DEPTH: usize = 6;
const MAX_DIRECTORIES: usize = 2000;

/// A font file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Font {
    /// The font's file.
    pub path: PathBuf,
    /// The font's family, as in matplotlib's `font.sans-serif`.
    pub family: String,
}

/// A font with Chinese, Japanese and Korean glyphs, if this machine has one. fontconfig is asked where it is
/// installed; else the usual directories are searched for well-known names.
pub fn cjk_font(variables: &Variables) -> Option<Font> {
    ask_fontconfig(variables).unwrap_or_else(|| search(&directories(variables)))
}

/// A text that changes when fonts are installed or removed. Made from the times of the font directories.
pub(crate) fn font_fingerprint(variables: &Variables) -> String {
    let mut times = Vec::new();
    for root in directories(variables) {
        walk(&root, &mut |path, kind| {
            if kind == EntryKind::Directory
                && let Ok(metadata) = fs::metadata(path)
            {
                times.extend_from_slice(path.as_os_str().as_bytes());
                times.extend_from_slice(&metadata.mtime().to_le_bytes());
                times.extend_from_slice(&metadata.mtime_nsec().to_le_bytes());
            }
        });
    }
    short_name([times.as_slice()])
}

/// fontconfig's answer; `None` if fontconfig is not installed or fails.
fn ask_fontconfig(variables: &Variables) -> Option<Option<Font>> {
    let program = variables.programs("fc-list").into_iter().next()?;
    let mut command = variables.command(program);
    command.args([":lang=zh", "--format", "%{file}\t%{family[0]}\n"]);
    let mut fonts = Vec::new();
    let limit = Some(Duration::from_secs(10));
    let ended = program::run(command, limit, &Cancel::new(), &mut |_, line| {
        if let Some((path, family)) = line.split_once('\t') {
            fonts.push(Font {
                path: path.into(),
                family: family.to_owned(),
            });
        }
    })
    .ok()?;
    if !ended.status.success() {
        return None;
    }
    // matplotlib reads outline fonts only; the best-known family comes first.
    fonts.retain(|font| is_outline(&font.path));
    fonts.sort_by_key(|font| (rank(&font.path).unwrap_or(usize::MAX), font.path.clone()));
    Some(fonts.into_iter().next())
}

fn search(directories: &[PathBuf]) -> Option<Font> {
    let mut best: Option<(usize, PathBuf)> = None;
    for root in directories {
        walk(root, &mut |path, kind| {
            if kind == EntryKind::File
                && is_outline(path)
                && let Some(rank) = rank(path)
                && best
                    .as_ref()
                    .is_none_or(|best| (rank, path) < (best.0, &best.1))
            {
                best = Some((rank, path.to_owned()));
            }
        });
    }
    let (rank, path) = best?;
    let (_, family) = KNOWN_FONTS.get(rank)?;
    Some(Font {
        path,
        family: (*family).to_owned(),
    })
}

fn rank(path: &Path) -> Option<usize> {
    let name = path.file_stem()?.to_string_lossy().to_lowercase();
    let name: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .collect();
    KNOWN_FONTS
        .iter()
        .position(|(known, _)| name.starts_with(known))
}

fn is_outline(path: &Path) -> bool {
    path.extension().is_some_and(|extension| {
        let extension = extension.to_string_lossy().to_lowercase();
        matches!(extension.as_str(), "ttf" | "ttc" | "otf")
    })
}

/// The font directories, which matplotlib searches too.
fn directories(variables: &Variables) -> Vec<PathBuf> {
    let home = variables.absolute_path("HOME");
    let data = variables
        .absolute_path("XDG_DATA_HOME")
        .or_else(|| Some(home.as_ref()?.join(".local/share")));
    [
        "/usr/share/fonts",
        "/usr/local/share/fonts",
        "/usr/X11R6/lib/X11/fonts",
    ]
    .into_iter()
    .map(PathBuf::from)
    .chain(data.map(|data| data.join("fonts")))
    .chain(home.map(|home| home.join(".fonts")))
    .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    File,
    Directory,
}

/// Visits a directory and everything below it, in a fixed order, with limits on depth and number.
fn walk(root: &Path, visit: &mut dyn FnMut(&Path, EntryKind)) {
    let mut remaining = MAX_DIRECTORIES;
    let mut pending = vec![(root.to_owned(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        visit(&directory, EntryKind::Directory);
        remaining -= 1;
        if remaining == 0 {
            return;
        }
        let mut below: Vec<_> = entries.filter_map(Result::ok).collect();
        below.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
        for entry in below {
            let path = entry.path();
            // Links are followed: distributions link font directories. The depth bounds a loop.
            let is_directory = match entry.file_type() {
                Ok(kind) if kind.is_symlink() => path.is_dir(),
                Ok(kind) => kind.is_dir(),
                Err(_) => continue,
            };
            if !is_directory {
                visit(&path, EntryKind::File);
            } else if depth < MAX_DEPTH {
                pending.push((path, depth + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_well_known_font_is_found_by_its_file_name() {
        let home = tempfile::tempdir().unwrap();
        let fonts = home.path().join(".fonts/truetype/wqy");
        fs::create_dir_all(&fonts).unwrap();
        let directories = [home.path().join(".fonts")];
        fs::write(fonts.join("DejaVuSans.ttf"), "").unwrap();
        fs::write(fonts.join("wqy-zenhei.txt"), "").unwrap();
        assert_eq!(search(&directories), None);

        fs::write(fonts.join("wqy-zenhei.ttc"), "").unwrap();
        assert_eq!(
            search(&directories),
            Some(Font {
                path: fonts.join("wqy-zenhei.ttc"),
                family: "WenQuanYi Zen Hei".to_owned()
            })
        );

        fs::write(fonts.join("NotoSansCJK-Regular.ttc"), "").unwrap();
        assert_eq!(search(&directories).unwrap().family, "Noto Sans CJK JP");
    }

    #[test]
    fn fontconfig_is_asked_where_it_is_installed() {
        use std::os::unix::fs::PermissionsExt;
        let bin = tempfile::tempdir().unwrap();
        let program = bin.path().join("fc-list");
        let lines = "/a/bitmap.pcf.gz\\tBits\\n/b/Own.ttf\\tOwn\\n/c/SimHei.ttf\\tSimHei\\n";
        fs::write(&program, format!("#!/bin/sh\nprintf '{lines}'\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let variables = Variables::default().with("PATH", bin.path());
        assert_eq!(
            cjk_font(&variables),
            Some(Font {
                path: "/c/SimHei.ttf".into(),
                family: "SimHei".to_owned()
            })
        );

        fs::write(&program, "#!/bin/sh\n").unwrap();
        assert_eq!(cjk_font(&variables), None);
    }
}
