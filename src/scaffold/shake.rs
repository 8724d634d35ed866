//! Removes operations from a file of the scaffold.
//!
//! Lines form a tree by their indentation. An item that mentions an unwanted name is dropped: a function, an element of a list,
//! a declaration or a check of a test. Then helpers and imports are dropped that nothing mentions any more. The comments `[of
//! NAME ...]`, `[else]` and `[end of]` mark what this cannot detect: lines for when all of these names are wanted, or not.

use std::collections::BTreeSet;

use super::scan::{Language, Line, Word, scan};
use super::tree::{Group, Item, Part, Tree, remove};

/// The file without what mentions an unwanted operation, function or layer. `used`: names that another file imports from this
/// one.
pub(super) fn shake(text: &str, language: Language, unwanted: &BTreeSet<String>, used: &[String]) -> String {
    let text = marked(text, unwanted);
    if unwanted.is_empty() {
        return text;
    }
    let mut file = File { lines: scan(&text, language), language, unwanted: unwanted.clone() };
    let mut top = Tree { lines: &file.lines, language }.whole();
    let outside = |item| {
        let own = file.defined(None, item);
        file.uses(item).into_iter().filter(move |name| !own.contains(name))
    };
    let before: BTreeSet<String> = top.items.iter().flat_map(outside).collect();
    loop {
        let known = file.unwanted.len();
        file.drop_mentions(&mut top);
        if file.unwanted.len() == known {
            break;
        }
    }
    while file.drop_unused(&mut top, &before, used) {}
    let mut out = String::with_capacity(text.len());
    Tree { lines: &file.lines, language }.print(&top, &mut out);
    out
}

/// The text without marks, and without the lines of marked regions that do not apply.
pub(super) fn marked(text: &str, unwanted: &BTreeSet<String>) -> String {
    let mut open: Vec<bool> = Vec::new();
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let words = line.trim();
        let mark = words.strip_prefix("# [").or(words.strip_prefix("// [")).and_then(|mark| mark.strip_suffix(']'));
        match mark.map(|mark| (mark, mark.strip_prefix("of "))) {
            Some((_, Some(names))) => open.push(names.split(' ').all(|name| !unwanted.contains(name))),
            Some(("else", _)) => open.iter_mut().last().into_iter().for_each(|last| *last = !*last),
            Some(("end of", _)) => drop(open.pop()),
            _ if open.iter().all(|kept| *kept) => out.push_str(line),
            _ => {}
        }
    }
    out
}

struct File<'a> {
    lines: Vec<Line<'a>>,
    language: Language,
    unwanted: BTreeSet<String>,
}

impl File<'_> {
    /// Drops what mentions an unwanted name. Returns whether the item that contains the group must be dropped as well.
    fn drop_mentions(&mut self, group: &mut Group) -> bool {
        let (mut must_go, mut dropped) = (false, false);
        let mut at = 0;
        while at < group.items.len() {
            if !self.is_unwanted(&mut group.items[at]) {
                at += 1;
            } else if self.may_go(group, at) {
                let names = self.defined(group.opener, &group.items[at]);
                // In C++, parameters may have the names of operations.
                if self.language == Language::Python {
                    self.unwanted.extend(names);
                }
                remove(&mut group.items, at);
                dropped = true;
            } else {
                must_go = true;
                at += 1;
            }
        }
        let is_left = |item: &Item| !self.is_body(group) || self.is_check(item);
        let is_table = group
            .opener
            .is_some_and(|opener| self.lines[opener].text.contains(" = [") && self.lines[opener].indent() == 0);
        must_go || dropped && !is_table && group.opener.is_some() && !group.items.iter().any(is_left)
    }

    fn is_unwanted(&mut self, item: &mut Item) -> bool {
        let mut unwanted = false;
        for part in &mut item.parts {
            unwanted |= match part {
                Part::Group(group) => self.drop_mentions(group),
                Part::Line(at) => {
                    self.imports(*at).is_none() && self.lines[*at].mentions(&self.unwanted, self.language)
                }
            };
        }
        if let [Part::Line(at)] = item.parts[..] {
            return unwanted || !self.shorten(at, |file, name| !file.unwanted.contains(name));
        }
        unwanted
    }

    /// Whether an item can be dropped from the item that contains it: at the top level, in a literal, in a block of
    /// declarations, or as a check that defines nothing.
    fn may_go(&self, group: &Group, at: usize) -> bool {
        let Some(opener) = group.opener else { return true };
        let text = self.lines[opener].text.trim();
        match self.language {
            Language::Cpp => text.starts_with("extern \"C\"") || text.starts_with("STABLE_TORCH_LIBRARY"),
            Language::Python if self.is_body(group) => self.is_check(&group.items[at]),
            Language::Python => {
                let before = text.trim_end_matches(['(', '[', '{']);
                // An element that is a tuple is dropped as a whole.
                before.len() < text.len()
                    && !before.is_empty()
                    && !before.ends_with(|c: char| c.is_alphanumeric() || "_)]".contains(c))
            }
        }
    }

    /// Whether a group is the body of a Python function.
    fn is_body(&self, group: &Group) -> bool {
        self.language == Language::Python && group.opener.is_some_and(|opener| self.lines[opener].text.ends_with(':'))
    }

    /// Whether a statement checks or yields something, and defines nothing.
    fn is_check(&self, item: &Item) -> bool {
        const CHECKS: [&str; 4] = ["yield ", "with pytest.raises(", "assert", "for "];
        matches!(item.parts.first(), Some(Part::Line(at)) if CHECKS.iter().any(|word| self.lines[*at].text.trim_start().starts_with(word)))
    }

    /// Drops what was used before and is not used any more. Returns whether there was any.
    fn drop_unused(&mut self, top: &mut Group, before: &BTreeSet<String>, elsewhere: &[String]) -> bool {
        let mut used: Vec<String> = top.items.iter().flat_map(|item| self.uses(item)).collect();
        used.extend_from_slice(elsewhere);
        used.sort();
        let mut changed = false;
        let mut at = 0;
        while at < top.items.len() {
            let own = self.uses(&top.items[at]);
            let is_unused = |name: &str| {
                let count = used.partition_point(|used| used.as_str() <= name)
                    - used.partition_point(|used| used.as_str() < name);
                before.contains(name) && count <= own.iter().filter(|own| *own == name).count()
            };
            changed |= self.drop_within(&mut top.items[at], &is_unused);
            let names = self.defined(None, &top.items[at]);
            if !names.is_empty() && names.iter().all(|name| is_unused(name)) {
                remove(&mut top.items, at);
                changed = true;
            } else {
                at += 1;
            }
        }
        changed
    }

    /// The same for declarations in a block, and for the names of an import.
    fn drop_within(&mut self, item: &mut Item, is_unused: &dyn Fn(&str) -> bool) -> bool {
        let mut changed = false;
        for part in &mut item.parts {
            match part {
                Part::Line(at) => {
                    let length = self.lines[*at].text.len();
                    self.shorten(*at, |_, name| !is_unused(name));
                    changed |= self.lines[*at].text.len() < length;
                }
                Part::Group(group) if self.may_go(group, 0) && !self.is_body(group) => {
                    let there = group.items.len();
                    for at in (0..there).rev() {
                        let names = self.defined(group.opener, &group.items[at]);
                        if !names.is_empty() && names.iter().all(|name| is_unused(name)) {
                            remove(&mut group.items, at);
                        }
                    }
                    changed |= group.items.len() < there;
                }
                Part::Group(_) => {}
            }
        }
        changed
    }

    /// The names that an item defines for others.
    fn defined(&self, opener: Option<usize>, item: &Item) -> Vec<String> {
        let is_code = |part: &&Part| matches!(part, Part::Line(at) if !self.lines[*at].text.starts_with('@') && !self.lines[*at].text.starts_with(')'));
        let Some(Part::Line(at)) = item.parts.iter().find(is_code) else { return Vec::new() };
        if let Some((_, names)) = self.imports(*at) {
            return names.iter().map(|name| (*name).to_owned()).collect();
        }
        let text = self.lines[*at].text.trim_start();
        let in_import = opener.is_some_and(|opener| self.lines[opener].text.ends_with("import ("));
        let word =
            |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_owned();
        let name = match self.language {
            Language::Python if in_import => Some(word(text)),
            Language::Python => {
                let after = ["def ", "class ", "import "].iter().find_map(|keyword| text.strip_prefix(keyword));
                let after = after.map(|rest| word(rest.rsplit(" as ").next().unwrap_or(rest)));
                after.or_else(|| {
                    text.split_once(" = ").map(|(name, _)| word(name)).filter(|_| self.lines[*at].indent() == 0)
                })
            }
            Language::Cpp => {
                let after =
                    ["using binding::", "struct ", "class "].iter().find_map(|keyword| text.strip_prefix(keyword));
                let called = || text.split_once('(').filter(|_| !text.contains('.') && !text.starts_with("STABLE"));
                let last =
                    |text: &str| text.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
                after.map(word).or_else(|| called().and_then(|(before, _)| last(before)))
            }
        };
        name.into_iter().filter(|name| !name.is_empty() && name != "_").collect()
    }

    /// The text of a line `from X import a, b` before the names, and the names.
    fn imports(&self, at: usize) -> Option<(&str, Vec<&str>)> {
        let text = &*self.lines[at].text;
        let (from, names) = text.split_once(" import ").filter(|(from, _)| from.starts_with("from "))?;
        (!names.starts_with('(')).then(|| (from, names.split(", ").collect()))
    }

    /// Drops names of an import. Returns whether any is left; true for a line that is not an import.
    fn shorten(&mut self, at: usize, wanted: impl Fn(&Self, &str) -> bool) -> bool {
        let Some((from, names)) = self.imports(at) else { return true };
        let kept: Vec<&str> = names.iter().copied().filter(|name| wanted(self, name)).collect();
        if kept.is_empty() {
            return false;
        }
        if kept.len() < names.len() {
            self.lines[at].text = format!("{from} import {}", kept.join(", ")).into();
        }
        true
    }

    /// The names that an item uses, once per use.
    fn uses(&self, item: &Item) -> Vec<String> {
        let mut names = Vec::new();
        for part in &item.parts {
            match part {
                Part::Line(at) if self.imports(*at).is_some() || self.lines[*at].text.starts_with("import ") => {}
                Part::Line(at) => {
                    let words = self.lines[*at].words.iter();
                    names.extend(
                        words.filter_map(
                            |word| if let Word::Name(name) = word { Some((*name).to_owned()) } else { None },
                        ),
                    );
                }
                Part::Group(group) => names.extend(group.items.iter().flat_map(|item| self.uses(item))),
            }
        }
        names
    }
}
