//! The command at a real terminal.

use crate::support::{CELLBLOCK, Place};
use portable_pty::{Child, CommandBuilder, PtySize, native_pty_system};
use std::io::{Read as _, Write};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A person at a terminal, as far as one can be had.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    screen: Receiver<Vec<u8>>,
    /// All that came.
    pub raw: String,
    /// How much of it, without escapes, was waited for already.
    seen: usize,
}

impl Terminal {
    pub fn open(place: &Place, arguments: &[&str]) -> Terminal {
        Terminal::open_with(place, arguments, &[])
    }

    /// With more variables in its environment.
    pub fn open_with(place: &Place, arguments: &[&str], more: &[(&str, &str)]) -> Terminal {
        let size = PtySize {
            rows: 40,
            cols: 120,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(CELLBLOCK);
        command.args(arguments);
        for (name, value) in place.variables() {
            command.env(name, value);
        }
        for (name, value) in more {
            command.env(name, value);
        }
        command.cwd(place.path());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let keyboard = pair.master.take_writer().unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, screen) = channel();
        thread::spawn(move || {
            // Held until the end: closing it would hang up.
            let _master = pair.master;
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal {
            child,
            keyboard,
            screen,
            raw: String::new(),
            seen: 0,
        }
    }

    pub fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    pub fn type_line(&mut self, line: &str) {
        self.keys(&format!("{line}\r"));
    }

    /// Waits until the screen shows a text, after what was waited for before.
    pub fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let plain = plain(&self.raw);
            if let Some(at) = plain[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            match self
                .screen
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.raw.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!(
                    "{text:?} did not come; the screen shows {:?}",
                    &plain[self.seen..]
                ),
            }
        }
    }

    /// All that came, without escapes.
    pub fn plain(&self) -> String {
        plain(&self.raw)
    }

    pub fn ended(&mut self) -> u32 {
        let deadline = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "it does not end; the screen shows {:?}",
                self.raw
            );
            thread::sleep(Duration::from_millis(10));
        };
        // Until the terminal is closed; a process that was left behind may keep it open.
        while let Ok(bytes) = self.screen.recv_timeout(Duration::from_secs(5)) {
            self.raw.push_str(&String::from_utf8_lossy(&bytes));
        }
        status.exit_code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// A screen's text without escapes and carriage returns.
fn plain(raw: &str) -> String {
    let mut plain = String::new();
    let mut rest = raw.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => drop(rest.by_ref().find(char::is_ascii_alphabetic)),
            '\r' => {}
            c => plain.push(c),
        }
    }
    plain
}
