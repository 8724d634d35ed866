//! Finds the first error in compiler output. nvcc's front end, the host compiler and ptxas have different formats.

/// The first error of a compiler.
#[derive(Clone, Debug, Default, Eq, PartialEq, PartialOrd, Ord)]
pub(super) struct Diagnosis {
    /// File and line, if the message has them.
    pub(super) place: Option<(String, usize)>,
    pub(super) message: String,
}

impl Diagnosis {
    pub(super) fn missing_header(&self) -> Option<&str> {
        self.message.strip_suffix(": No such file or directory")
    }
}

/// Parses compiler output. `is_ours` is true for files of the skill; a location in one of these is preferred.
pub(super) fn first(said: &str, is_ours: impl Fn(&str) -> bool) -> Option<Diagnosis> {
    let lines: Vec<&str> = said.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some((place, message)) = front_end(line).or_else(|| host(line)).or_else(|| ptxas(line)) else {
            continue;
        };
        let ours = |place: &Option<(String, usize)>| place.as_ref().is_some_and(|(file, _)| is_ours(file));
        let mut place = place;
        if !ours(&place) {
            // An error in a header: the location in our file is in the include or instantiation lines around it.
            let before = lines[..at].iter().filter_map(|line| included_from(line)).rfind(|(file, _)| is_ours(file));
            let behind = lines[at + 1..].iter().filter_map(|line| instantiated(line)).find(|(file, _)| is_ours(file));
            if let Some(found) = before.or(behind) {
                place = Some(found);
            }
        }
        return Some(Diagnosis { place, message });
    }
    None
}

/// `a.cu(3): error: …`, `a.cu(3): error #177-D: …`, `a.cu(3): catastrophic error: …`
fn front_end(line: &str) -> Option<(Option<(String, usize)>, String)> {
    let (at, end) = [": error", ": catastrophic error"]
        .iter()
        .filter_map(|word| line.find(&format!("){word}")).map(|at| (at, at + 1 + word.len())))
        .min()?;
    let (file, number) = line[..at].rsplit_once('(')?;
    let number = number.parse().ok()?;
    let (number_of_error, message) = line[end..].split_once(": ")?;
    if !number_of_error.trim().is_empty() && !number_of_error.trim().starts_with('#') {
        return None;
    }
    Some((Some((file.to_owned(), number)), message.trim().to_owned()))
}

/// `a.cpp:3:9: error: …`, `a.cpp:3:9: fatal error: …`
fn host(line: &str) -> Option<(Option<(String, usize)>, String)> {
    let (at, end) = [": error: ", ": fatal error: "]
        .iter()
        .filter_map(|word| line.find(word).map(|at| (at, at + word.len())))
        .min()?;
    let mut parts = line[..at].rsplit(':');
    let last = parts.next()?.parse::<usize>().ok()?;
    let rest = line[..at].rsplit_once(':')?.0;
    let (file, number) = match rest.rsplit_once(':') {
        Some((file, number)) if number.parse::<usize>().is_ok() => (file, number.parse().unwrap_or(last)),
        _ => (rest, last),
    };
    Some((Some((file.to_owned(), number)), line[end..].trim().to_owned()))
}

/// `ptxas a.ptx, line 12; error   : …`, `ptxas error   : …`, `nvcc fatal   : …`
fn ptxas(line: &str) -> Option<(Option<(String, usize)>, String)> {
    let rest =
        ["ptxas", "nvcc", "nvlink", "cicc", "fatbinary"].iter().find_map(|program| line.strip_prefix(program))?;
    let (head, message) = rest.split_once(" : ")?;
    let head = head.trim_end();
    if !head.ends_with("error") && !head.ends_with("fatal") {
        return None;
    }
    let place = head.split_once(", line ").and_then(|(file, rest)| {
        let number = rest.split(';').next()?.trim().parse().ok()?;
        Some((file.trim().to_owned(), number))
    });
    Some((place, message.trim().to_owned()))
}

/// `In file included from a.cu:3:`, `                 from b.h:12,`
fn included_from(line: &str) -> Option<(String, usize)> {
    let rest =
        line.trim_start().strip_prefix("In file included from ").or_else(|| line.trim_start().strip_prefix("from "))?;
    let rest = rest.trim_end_matches([',', ':']);
    let mut parts = rest.splitn(2, ':');
    let file = parts.next()?;
    let number = parts.next()?.split(':').next()?.parse().ok()?;
    Some((file.to_owned(), number))
}

/// `    detected during instantiation of "…" at line 12 of a.cu`
fn instantiated(line: &str) -> Option<(String, usize)> {
    let (_, rest) = line.rsplit_once("at line ")?;
    let (number, file) = rest.split_once(" of ")?;
    Some((file.trim().to_owned(), number.parse().ok()?))
}

/// Maps a PTX line to its source location, by `.loc` and `.file`.
pub(super) fn source_of(ptx: &str, line: usize) -> Option<(String, usize)> {
    let before: Vec<&str> = ptx.lines().take(line).collect();
    let mut words = before.iter().rev().find_map(|line| line.trim_start().strip_prefix(".loc"))?.split_whitespace();
    let (file, number) = (words.next()?, words.next()?.parse().ok()?);
    let name = ptx.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(".file")?.trim_start();
        let rest = rest.strip_prefix(file)?.trim_start().strip_prefix('"')?;
        rest.split_once('"').map(|(name, _)| name.to_owned())
    })?;
    Some((name, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_found_in_every_form() {
        for (said, file, line, message) in [
            (
                "a.md(3): error: identifier \"x\" is undefined\n    x = 3;\n    ^\n",
                "a.md",
                3,
                "identifier \"x\" is undefined",
            ),
            (
                "a.md(7): error #177-D: variable \"y\" was declared but never referenced\n",
                "a.md",
                7,
                "variable \"y\" was declared but never referenced",
            ),
            (
                "a.md: In function 'int f()':\na.md:9:3: error: 'z' was not declared in this scope\n",
                "a.md",
                9,
                "'z' was not declared in this scope",
            ),
            ("In file included from a.md:4:\n/usr/x.h:8:2: error: #error no\n", "a.md", 4, "#error no"),
            ("/x/y.h(8): error: no\n   detected during instantiation of \"f\" at line 5 of a.md\n", "a.md", 5, "no"),
        ] {
            let found = first(said, |file| file == "a.md").unwrap();
            assert_eq!(found.place, Some((file.to_owned(), line)), "{said}");
            assert_eq!(found.message, message);
        }
        assert_eq!(first("a.md(3): warning #177-D: x\n", |_| true), None);
    }

    #[test]
    fn a_missing_header_is_named() {
        let said = "a.md:1:10: fatal error: cutlass/cutlass.h: No such file or directory\n";
        let found = first(said, |_| true).unwrap();
        assert_eq!(found.missing_header(), Some("cutlass/cutlass.h"));
    }

    #[test]
    fn ptxas_lines_lead_back_to_the_source() {
        let said = "ptxas /tmp/x.ptx, line 4; error   : Feature 'cp.async' requires .target sm_80 or higher\n";
        let found = first(said, |_| false).unwrap();
        assert_eq!(found.place, Some(("/tmp/x.ptx".to_owned(), 4)));
        let ptx = ".version 9.0\n.loc 1 23 5\n// begin inline asm\ncp.async x;\n.file 1 \"a.md\"\n";
        assert_eq!(source_of(ptx, 4), Some(("a.md".to_owned(), 23)));
    }
}
