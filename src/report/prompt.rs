//! A question on the terminal: rows to select with the space bar.

use std::fmt::Write as _;
use std::io::{self, Read as _, Stdin, Stdout, Write as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::style;

enum Key {
    Up,
    Down,
    Left,
    Right,
    Space,
    Enter,
    Cancel,
}

/// The terminal in raw mode, read key by key; the previous mode is restored on drop.
struct Keys {
    stdin: Stdin,
    before: Termios,
}

impl Keys {
    fn new() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut now = before.clone();
        // Without ISIG, Ctrl-C arrives as a key and leaves time to restore the terminal.
        now.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        tcsetattr(&stdin, OptionalActions::Drain, &now)?;
        Ok(Self { stdin, before })
    }

    /// The keys of one read: an arrow's three bytes arrive together; a lone escape byte is the Escape key.
    fn read(&mut self) -> io::Result<Vec<Key>> {
        let mut bytes = [0; 64];
        let length = self.stdin.read(&mut bytes)?;
        let (mut rest, mut keys) = (&bytes[..length], Vec::new());
        if rest.is_empty() {
            keys.push(Key::Cancel);
        }
        while let [first, after @ ..] = rest {
            rest = after;
            keys.push(match (*first, after) {
                (b'\x1b', [b'[' | b'O', arrow, after @ ..]) => {
                    rest = after;
                    match arrow {
                        b'A' => Key::Up,
                        b'B' => Key::Down,
                        b'C' => Key::Right,
                        b'D' => Key::Left,
                        _ => continue,
                    }
                }
                (b'k', _) => Key::Up,
                (b'j', _) => Key::Down,
                (b' ', _) => Key::Space,
                (b'\r' | b'\n', _) => Key::Enter,
                // Escape, Ctrl-C, Ctrl-D
                (b'\x1b' | b'\x03' | b'\x04', _) => Key::Cancel,
                _ => continue,
            });
        }
        Ok(keys)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.stdin, OptionalActions::Drain, &self.before);
    }
}

/// Waits for an answer; anything but `y` or `yes` is no.
pub(crate) fn confirm(question: &str) -> io::Result<bool> {
    let mut stdout = io::stdout();
    write!(stdout, "{} {question} [y/N] ", style::good("?"))?;
    stdout.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Waits for Enter and leaves the answer in `selected`, one flag per row; returns false if the user cancelled.
pub(crate) fn select(question: &str, rows: &[String], help: &str, selected: &mut [bool]) -> io::Result<bool> {
    let mut keys = Keys::new()?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{} {question}", style::good("?"))?;
    let mut at = 0;
    loop {
        let lines = draw(&mut stdout, rows, help, selected, at)?;
        let pressed = keys.read()?;
        write!(stdout, "\x1b[{lines}A\r\x1b[J")?;
        for key in pressed {
            match key {
                Key::Up => at = at.checked_sub(1).unwrap_or(rows.len() - 1),
                Key::Down => at = (at + 1) % rows.len(),
                Key::Right => selected.fill(true),
                Key::Left => selected.fill(false),
                Key::Space => selected[at] = !selected[at],
                Key::Enter => return Ok(true),
                Key::Cancel => return Ok(false),
            }
        }
    }
}

/// Prints the rows that fit, including that of the cursor, and the help; returns the number of lines.
fn draw(stdout: &mut Stdout, rows: &[String], help: &str, selected: &[bool], at: usize) -> io::Result<usize> {
    let height = tcgetwinsize(&*stdout).map_or(24, |size| usize::from(size.ws_row));
    let fitting = rows.len().min(height.saturating_sub(3).max(1));
    let first = (at + 1).saturating_sub(fitting);
    let mut text = String::new();
    for (row, label) in rows.iter().enumerate().skip(first).take(fitting) {
        let pointer = if row == at { ">" } else { " " };
        let mark = if selected[row] { style::good("[x]") } else { "[ ]".to_owned() };
        let _ = writeln!(text, "{pointer} {mark} {label}");
    }
    let _ = writeln!(text, "{}", style::faint(help));
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(fitting + 1)
}
