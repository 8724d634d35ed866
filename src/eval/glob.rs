//! Patterns of paths: `*` stands for any characters, `/` too, and `?` for one.

/// Whether the whole path matches.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
    let (mut at, mut here) = (0, 0);
    // Where the last `*` stands, and how much of the path it has taken.
    let mut star = None;
    while here < path.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, here));
                at += 1;
            }
            Some(c) if *c == '?' || *c == path[here] => {
                at += 1;
                here += 1;
            }
            _ => match star {
                Some((begun, taken)) => {
                    star = Some((begun, taken + 1));
                    at = begun + 1;
                    here = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_takes_folders_too() {
        for (pattern, path, is) in [
            ("*.cu", "a/b.cu", true),
            ("src/**", "src/a/b", true),
            ("src/*.cu", "other/src/a.cu", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b", "xxaxxb", true),
            ("*a*b", "xxaxxbc", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, path), is, "{pattern} {path}");
        }
    }
}
