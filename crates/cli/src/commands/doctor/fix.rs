//! `cellblock doctor --fix`: changes what stands in the way, after a person agreed.

use super::apparmor::{self, Profile};
use crate::failure::Usage;
use crate::terminal::Console;

/// Whether a person is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consent {
    Ask,
    Given,
}

/// Installs a profile of AppArmor for this program, where AppArmor refuses it user namespaces.
pub(super) fn fix(consent: Consent, console: &Console) -> anyhow::Result<()> {
    if !apparmor::is_restricted() {
        console.say("There is nothing to fix: AppArmor does not refuse user namespaces here.");
        return Ok(());
    }
    let profile = Profile::of_this_program()?;
    console.say(&format!(
        "AppArmor refuses user namespaces to programs without a profile. This file would be written and loaded, as root:\n\n{}\n\n{}",
        profile.file.display(),
        profile.text
    ));
    if consent == Consent::Ask {
        match console.confirm("Install it? [y/N] ") {
            Some(true) => {}
            Some(false) => return Ok(()),
            None => {
                return Err(Usage::hinted(
                    "there is no terminal to ask for consent at".to_owned(),
                    "add --yes to install it without a question",
                ));
            }
        }
    }
    profile.install(console)
}
