//! `kernels skills add` on a terminal: it asks, with the agents found here selected.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::site::Repository;
use crate::support::{Test, exists, write_skill};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const LIMIT: Duration = Duration::from_secs(120);

/// `kernels` on a pseudo-terminal.
struct Terminal {
    child: Child,
    keys: File,
    screen: String,
    printed: Receiver<Vec<u8>>,
}

impl Terminal {
    fn open(test: &Test, typed: &str) -> Self {
        Self::open_with(test, typed, None)
    }

    fn open_with(test: &Test, typed: &str, variable: Option<(&str, &str)>) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs: OwnedFd = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap().into();
        let end = || Stdio::from(theirs.try_clone().unwrap());
        let child = test
            .command()
            .args(typed.split(' '))
            .env("TERM", "xterm-256color")
            .envs(variable)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let keys = File::from(ours);
        let mut reader = keys.try_clone().unwrap();
        let (send, printed) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut bytes) {
                if send.send(bytes[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys, screen: String::new(), printed }
    }

    fn wait_for(&mut self, text: &str) {
        let give_up = Instant::now() + LIMIT;
        while !self.screen.contains(text) {
            let left = give_up.saturating_duration_since(Instant::now());
            match self.printed.recv_timeout(left) {
                Ok(bytes) => self.screen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(why) => panic!("{why}: no {text:?} on the screen:\n{}", self.screen),
            }
        }
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
    }

    fn exit_code(&mut self) -> i32 {
        let give_up = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < give_up, "still running:\n{}", self.screen);
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn enter_installs_into_the_agents_found_here() {
    let test = Test::new();
    fs::create_dir(test.home.join(".codex")).unwrap();
    let mut terminal = Terminal::open(&test, "skills add");
    terminal.wait_for("esc cancels");
    terminal.press(b"\r");
    terminal.wait_for("installed");
    assert_eq!(terminal.exit_code(), 0);
    assert!(exists(test.project.join(".codex/skills/cuda-kernels/SKILL.md")));
    assert!(!exists(test.project.join(".claude")));
    assert!(terminal.screen.contains('\u{1b}'), "no colour on a terminal");
}

#[test]
fn space_selects_another_agent() {
    let test = Test::new();
    let mut terminal = Terminal::open(&test, "skills add");
    terminal.wait_for("esc cancels");
    terminal.press(b" \r");
    terminal.wait_for("installed");
    assert_eq!(terminal.exit_code(), 0);
    assert!(exists(test.project.join(".claude/skills/cuda-kernels/SKILL.md")));
}

#[test]
fn escape_and_control_c_and_choosing_nothing_change_nothing() {
    for keys in [b"\x1b".as_slice(), b"\x03", b"\r"] {
        let test = Test::new();
        let mut terminal = Terminal::open(&test, "skills add");
        terminal.wait_for("esc cancels");
        terminal.press(keys);
        terminal.wait_for("nothing was changed");
        assert_eq!(terminal.exit_code(), 1, "{keys:?}");
        assert!(!exists(test.project.join(".claude")));
    }
}

#[test]
fn json_and_quiet_never_ask() {
    for flag in ["--json", "--quiet"] {
        let test = Test::new();
        let mut terminal = Terminal::open(&test, &format!("skills add {flag}"));
        terminal.wait_for("say where to");
        assert_eq!(terminal.exit_code(), 2);
    }
}

#[test]
fn what_comes_from_elsewhere_is_shown_and_asked_for() {
    let test = Test::new();
    let repository = Repository::new(&test, "demo");
    write_skill(&repository.folder, "demo", "1");
    let skill_md = fs::read_to_string(repository.at("SKILL.md")).unwrap();
    repository.write("SKILL.md", skill_md.replace("---\n#", "allowed-tools: Bash Read\n---\n#"));
    repository.commit();
    for (typed, code) in [("n\n", 1), ("\n", 1), ("y\n", 0)] {
        assert!(!exists(test.at(".claude")));
        let mut terminal = Terminal::open(&test, "skills add acme/demo --claude");
        terminal.wait_for("Install 1 skill? [y/N]");
        for word in ["3 files", "tokens", "scripts/run.py", "asks for tools:", "Bash Read"] {
            assert!(terminal.screen.contains(word), "no {word:?}:\n{}", terminal.screen);
        }
        terminal.press(typed.as_bytes());
        terminal.wait_for(if code == 0 { "installed" } else { "nothing was changed" });
        assert_eq!(terminal.exit_code(), code);
    }
    repository.write("scripts/run.py", "#!/bin/sh\nevil\n");
    repository.commit();
    for (typed, code) in [("n\n", 1), ("y\n", 0)] {
        let mut terminal = Terminal::open(&test, "skills update");
        terminal.wait_for("Update demo? [y/N]");
        assert!(terminal.screen.contains("(script)") && terminal.screen.contains("+evil"), "{}", terminal.screen);
        terminal.press(typed.as_bytes());
        assert_eq!(terminal.exit_code(), code);
        let there = fs::read_to_string(test.at(".claude/skills/demo/scripts/run.py")).unwrap();
        assert_eq!(there.contains("evil"), code == 0);
    }
}

/// With colours or without.
#[test]
fn a_difference_controls_no_terminal() {
    let test = Test::new();
    write_skill(&test.at("demo"), "demo", "1");
    test.ok("skills add demo --claude");
    test.write(".claude/skills/demo/SKILL.md", "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[8mhidden\n");
    for colours in [false, true] {
        let mut terminal = Terminal::open_with(&test, "skills diff", (!colours).then_some(("NO_COLOR", "1")));
        terminal.wait_for("hidden");
        assert_eq!(terminal.exit_code(), 0);
        let screen = &terminal.screen;
        assert!(
            !screen.contains("\u{1b}]") && !screen.contains("\u{1b}[2J") && !screen.contains("\u{1b}[8m"),
            "{screen}"
        );
    }
}
