//! A skill as a plugin or an extension: a folder for a repository, with the skill in `skills/NAME` and the files of
//! layouts.toml. All layouts fit into one folder.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::frontmatter::Document;
use super::path::RelPath;
use super::source::Skill;
use super::tree::{Entry, Tree};

/// The layouts, and what installs from them.
pub(crate) const LAYOUTS: [(&str, &str); 4] = [
    ("claude-plugin", "for Claude Code, a plugin and a marketplace: `claude plugin marketplace add`"),
    ("codex-plugin", "for Codex, a plugin and a marketplace: `codex plugin marketplace add`"),
    ("gemini-extension", "for Gemini CLI: `gemini extensions install`"),
    ("gh", "nothing beside the skill: `gh skill install` and npm's `skills` look into skills"),
];

/// By layout and path, JSON with `$name` and the like.
type Files = BTreeMap<String, BTreeMap<String, String>>;

/// The files of a folder in these layouts.
pub(crate) fn tree(skill: &Skill, layouts: &[String], owner: Option<&str>) -> Result<Tree> {
    let header = Document::parse(skill.text()).with_context(|| skill.name.clone())?;
    let say = |what: &str| match what {
        "name" => Ok(Some(skill.name.clone())),
        "description" => Ok(header.text("description").map(|text| text.trim().to_owned())),
        "license" => Ok(header.text("license").map(str::to_owned)),
        "version" => {
            let version = skill.version.clone();
            version.map(Some).context("a plugin has a version: write `version` into the metadata of SKILL.md")
        }
        _ => {
            let owner = owner.or_else(|| header.metadata("author")).map(str::to_owned);
            owner.map(Some).context("a plugin says whose it is: --owner NAME, or `author` in the metadata of SKILL.md")
        }
    };
    let mut tree = Tree::default();
    for (path, entry) in skill.tree.iter() {
        tree.insert(RelPath::parse(&format!("skills/{}/{path}", skill.name))?, entry.clone())?;
    }
    let files: Files = toml::from_str(include_str!("layouts.toml"))?;
    for (path, text) in layouts.iter().filter_map(|name| files.get(name)).flatten() {
        let value = filled(&serde_json::from_str(text)?, &say)?.unwrap_or_default();
        let content = format!("{value:#}\n").into_bytes().into();
        tree.insert(RelPath::parse(path)?, Entry { executable: false, content })?;
    }
    Ok(tree)
}

/// A value with what `$…` stands for; none where that is not said.
fn filled(value: &Value, say: &dyn Fn(&str) -> Result<Option<String>>) -> Result<Option<Value>> {
    Ok(Some(match value {
        Value::String(text) => match text.strip_prefix('$') {
            Some(what) => return Ok(say(what)?.map(Value::String)),
            None => value.clone(),
        },
        Value::Array(all) => {
            Value::Array(all.iter().filter_map(|one| filled(one, say).transpose()).collect::<Result<_>>()?)
        }
        Value::Object(all) => {
            let mut object = Map::new();
            for (key, one) in all {
                object.extend(filled(one, say)?.map(|one| (key.clone(), one)));
            }
            Value::Object(object)
        }
        other => other.clone(),
    }))
}
