use crate::support::Place;

#[test]
fn every_shell_gets_a_script_that_names_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = Place::new().run(["completions", shell]);
        assert_eq!((ended.status, &ended.stderr[..]), (0, ""));
        for command in ["doctor", "tools", "call"] {
            assert!(ended.stdout.contains(command), "{shell}: {command}");
        }
    }
}
