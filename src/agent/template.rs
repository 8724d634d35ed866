//! A folder in a row of the table, with a home or an environment variable in front.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A folder with `~` and `${NAME:-default}` in front, as `agents.toml` writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Template(String);

impl Template {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// As written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a project's folder.
    pub(crate) fn is_relative(&self) -> bool {
        !self.0.starts_with(['~', '$', '/'])
    }

    /// The folder, or `None` where it depends on an unset variable or an unknown home. An `XDG_`
    /// variable that is not absolute counts as unset, as its specification says.
    pub(crate) fn resolve(&self, home: Option<&Path>, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let Some((head, tail)) = self.0.strip_prefix("${").and_then(|rest| rest.split_once('}')) else {
            return expand_home(&self.0, home);
        };
        let (name, default) = match head.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (head, None),
        };
        let set = variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
            .filter(|path| !name.starts_with("XDG_") || path.is_absolute());
        let base = match (set, default) {
            (Some(base), _) => base,
            (None, Some(default)) => expand_home(default, home)?,
            (None, None) => return None,
        };
        Some(match tail.strip_prefix('/') {
            Some(tail) => base.join(tail),
            None => base,
        })
    }
}

fn expand_home(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    match text.strip_prefix('~') {
        Some(rest) => Some(home?.join(rest.trim_start_matches('/'))),
        None => Some(PathBuf::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resolve(text: &str, variables: &[(&str, &str)]) -> Option<String> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        let path = Template(text.to_owned()).resolve(Some(Path::new("/home/u")), &find)?;
        Some(path.display().to_string())
    }

    #[test]
    fn variables_replace_their_default() {
        let codex = "${CODEX_HOME:-~/.codex}/skills";
        assert_eq!(resolve(codex, &[]).unwrap(), "/home/u/.codex/skills");
        assert_eq!(resolve(codex, &[("CODEX_HOME", "")]).unwrap(), "/home/u/.codex/skills");
        assert_eq!(resolve(codex, &[("CODEX_HOME", "/c d")]).unwrap(), "/c d/skills");
        let xdg = "${XDG_CONFIG_HOME:-~/.config}/opencode/skills";
        assert_eq!(resolve(xdg, &[("XDG_CONFIG_HOME", "/x")]).unwrap(), "/x/opencode/skills");
        let relative = resolve(xdg, &[("XDG_CONFIG_HOME", "x")]).unwrap();
        assert_eq!(relative, "/home/u/.config/opencode/skills");
        assert_eq!(resolve("${GEMINI_CLI_HOME:-~}/.gemini", &[]).unwrap(), "/home/u/.gemini");
        assert_eq!(resolve("${OPENCODE_CONFIG_DIR}/skills", &[]), None);
    }

    #[test]
    fn without_a_home_only_what_needs_none_resolves() {
        let find = |name: &str| (name == "CODEX_HOME").then(|| "/c".into());
        let codex = Template("${CODEX_HOME:-~/.codex}/skills".to_owned());
        assert_eq!(codex.resolve(None, &find), Some("/c/skills".into()));
        assert_eq!(codex.resolve(None, &|_| None), None);
        assert_eq!(Template("~/.x".to_owned()).resolve(None, &|_| None), None);
    }

    proptest! {
        #[test]
        fn no_value_of_a_variable_makes_it_panic(value in "\\PC{0,40}") {
            let template = Template("${X:-~/.x}/skills".to_owned());
            let path = template.resolve(Some(Path::new("/h")), &|_| Some((&value).into())).unwrap();
            prop_assert!(path.ends_with("skills"));
        }
    }
}
