//! Settings that name hosts, directories and passwords.

use super::*;

#[test]
fn without_settings_the_default_index_is_used() {
    let mut hosts = DEFAULT_INDEX_HOSTS.to_vec();
    hosts.sort();
    assert_eq!(PackageSources::default().hosts(), hosts);
    let named = PackageSources {
        default_index: Some(format!("https://{}/simple", DEFAULT_INDEX_HOSTS[0])),
        ..PackageSources::default()
    };
    assert_eq!(named.hosts(), hosts);
}

#[test]
fn settings_name_hosts_and_directories() {
    let mut sources = PackageSources {
        default_index: Some("https://me:secret@Index.example:8443/simple".to_owned()),
        ..PackageSources::default()
    };
    sources.add("own=https://two.example/x, /usr\nfile:///usr/lib");
    sources.add_variables(&Variables::default().with(EXTRA_HOSTS_VARIABLE, "files.example:444"));
    assert_eq!(
        sources.hosts(),
        ["files.example:444", "index.example:8443", "two.example"]
    );
    let paths = ["/usr", "/usr/lib"].map(PathBuf::from);
    assert_eq!(sources.readable_paths().unwrap(), paths);
}

#[test]
fn a_home_and_the_directories_above_it_are_never_readable() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    let wheels = home.join("wheels");
    fs::create_dir_all(&wheels).unwrap();
    let readable = |path: &Path| {
        let mut sources = PackageSources::default();
        sources.add(&wheels.display().to_string());
        sources.add(&path.display().to_string());
        sources.add_variables(&Variables::default().with("HOME", &home));
        sources.readable_paths()
    };
    for path in [Path::new("/"), directory.path(), &home] {
        let error = readable(path).unwrap_err().to_string();
        let expected = format!("packages names {}, ", path.display());
        assert!(error.contains(&expected), "{error}");
    }
    assert_eq!(readable(&wheels).unwrap(), std::slice::from_ref(&wheels));
}

#[test]
fn without_an_index_no_host_is_reached() {
    let mut sources = PackageSources {
        no_index: true,
        ..PackageSources::default()
    };
    sources.add("https://links.example/");
    assert_eq!(sources.hosts(), [""; 0]);
}

#[test]
fn uvs_configuration_names_hosts_and_directories() {
    let text = "
        [[index]]
        url = 'https://one.example/simple'
        default = true
        [[index]]
        url = 'https://two.example/simple'
        [pip]
        find-links = ['/usr', 'https://links.example/']
    ";
    let mut sources = PackageSources::default();
    UvSettings(vec![text.parse().unwrap()]).add_to(&mut sources);
    assert_eq!(
        sources.hosts(),
        ["links.example", "one.example", "two.example"]
    );
    assert_eq!(sources.readable_paths().unwrap(), [PathBuf::from("/usr")]);
}

#[test]
fn passwords_for_other_hosts_are_left_out() {
    let text = "# mine\nmachine git.example login me password secret\nmacdef init\nmachine x\n\n\
        machine Index.example\n  login you\n  password p4ss\ndefault login all password all\n";
    let hosts = ["index.example:8443".to_owned()];
    assert_eq!(
        netrc_entries(text, &hosts),
        "machine Index.example\nlogin you\npassword p4ss\n"
    );
}
