//! A package's public API: the names in the `__all__` of its `__init__.py`.

use std::collections::BTreeSet;

use serde::Serialize;

/// How the API would change.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Api {
    /// The names of what is to be published; `None` if `__all__` is not a list of names.
    pub(crate) names: Option<Vec<String>>,
    pub(crate) gained: Vec<String>,
    /// Names that users have today and would lose.
    pub(crate) lost: Vec<String>,
}

impl Api {
    pub(super) fn of(ours: Option<Vec<String>>, theirs: Option<&[String]>) -> Self {
        let (Some(new), Some(old)) = (&ours, theirs) else {
            return Self { names: ours, ..Self::default() };
        };
        let without = |all: &[String], known: &[String]| -> Vec<String> {
            let known: BTreeSet<&String> = known.iter().collect();
            all.iter().filter(|name| !known.contains(name)).cloned().collect()
        };
        Self { gained: without(new, old), lost: without(old, new), names: ours }
    }
}

/// The names of `__all__ = [...]`, in its order; `None` if it has anything but names.
pub(super) fn names(python: &str) -> Option<Vec<String>> {
    let at = python.match_indices("__all__").map(|(at, _)| at).find(|at| *at == 0 || python[..*at].ends_with('\n'))?;
    let (before, list) = python[at + "__all__".len()..].split_once('=')?;
    // `+=` adds to a list that is not visible here; `: list[str] =` declares one.
    if !(before.trim().is_empty() || before.trim().starts_with(':')) {
        return None;
    }
    let list = list.trim_start().strip_prefix(['[', '('])?;
    let mut names = Vec::new();
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
        let first = rest.chars().next()?;
        match first {
            ']' | ')' => return Some(names),
            '#' => rest = rest.split_once('\n')?.1,
            '"' | '\'' => {
                let (name, after) = rest[1..].split_once(first)?;
                names.push(name.to_owned());
                rest = after;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn names_are_read_and_nothing_is_guessed() {
        let all = |text: &str| names(text).map(|names| names.join(" "));
        assert_eq!(all("x = 1\n__all__ = [\n  \"a\",  # c\n  'b',\n]\n").as_deref(), Some("a b"));
        assert_eq!(all("__all__: list[str] = (\"a\",)").as_deref(), Some("a"));
        assert_eq!(all("__all__ = [*layers, \"a\"]"), None);
        assert_eq!(all("__all__ += [\"a\"]"), None);
        assert_eq!(all("print('__all__ = []')"), None);
    }
}
