//! Lines as a tree, by their indentation and brackets.

use super::scan::{Language, Line};

/// Lines at one level of indentation, with all that is below them.
pub(super) struct Group {
    /// The line above that opens them; `None` for the whole file.
    pub(super) opener: Option<usize>,
    pub(super) items: Vec<Item>,
}

/// A statement or an element, from its first line to its last.
pub(super) struct Item {
    /// Blank lines and comments before it.
    pub(super) lead: Vec<usize>,
    pub(super) parts: Vec<Part>,
}

/// A line of an item, or the lines below it.
pub(super) enum Part {
    Line(usize),
    Group(Group),
}

/// The lines of a file.
pub(super) struct Tree<'a> {
    pub(super) lines: &'a [Line<'a>],
    pub(super) language: Language,
}

impl Tree<'_> {
    /// All of the file.
    pub(super) fn whole(&self) -> Group {
        let all: Vec<usize> = (0..self.lines.len()).collect();
        self.group(&all, None)
    }

    /// Divides lines into items.
    fn group(&self, all: &[usize], opener: Option<usize>) -> Group {
        let is_code = |line: &Line| !line.continues && !line.text.trim().is_empty();
        let indents = all.iter().map(|at| &self.lines[*at]).filter(|line| is_code(line)).map(Line::indent);
        let base = indents.min().unwrap_or(0);
        let (mut items, mut lead, mut at) = (Vec::new(), Vec::new(), 0);
        while at < all.len() {
            if self.lines[all[at]].is_lead(self.language) {
                lead.push(all[at]);
                at += 1;
                continue;
            }
            let (parts, end) = self.item(all, at, base);
            items.push(Item { lead: std::mem::take(&mut lead), parts });
            at = end;
        }
        if !lead.is_empty() {
            items.push(Item { lead, parts: Vec::new() });
        }
        Group { opener, items }
    }

    /// The item that begins at a line, and where the next one begins.
    fn item(&self, all: &[usize], begin: usize, base: usize) -> (Vec<Part>, usize) {
        let mut parts = vec![Part::Line(all[begin])];
        let (mut opener, mut inner) = (all[begin], Vec::new());
        let mut balance = self.lines[opener].balance;
        let mut decorated = self.lines[opener].text.trim_start().starts_with('@');
        let mut at = begin + 1;
        while at < all.len() {
            // Blank lines belong to what follows them.
            let ahead = all[at..].iter().find(|at| !self.lines[**at].text.trim().is_empty()).copied();
            let Some(ahead) = ahead.map(|ahead| &self.lines[ahead]) else { break };
            let text = ahead.text.trim_start();
            if ahead.continues || ahead.indent() > base {
                inner.push(all[at]);
            } else if decorated && balance == 0
                || balance > 0 && text.starts_with([')', ']', '}'])
                || text.starts_with("else:")
            {
                self.close(&mut parts, opener, &mut inner);
                decorated = decorated && text.starts_with('@');
                opener = all[at];
                parts.push(Part::Line(opener));
            } else {
                break;
            }
            balance += self.lines[all[at]].balance;
            at += 1;
        }
        self.close(&mut parts, opener, &mut inner);
        (parts, at)
    }

    fn close(&self, parts: &mut Vec<Part>, opener: usize, inner: &mut Vec<usize>) {
        // The lines of a string that starts on its first line are the item's own.
        let own = inner.iter().take_while(|at| self.lines[**at].continues).count();
        parts.extend(inner.drain(..own).map(Part::Line));
        if !inner.is_empty() {
            parts.push(Part::Group(self.group(inner, Some(opener))));
            inner.clear();
        }
    }

    /// The lines of a group.
    pub(super) fn print(&self, group: &Group, out: &mut String) {
        let line = |at: &usize, out: &mut String| {
            out.push_str(&self.lines[*at].text);
            out.push('\n');
        };
        for item in &group.items {
            item.lead.iter().for_each(|at| line(at, out));
            for part in &item.parts {
                match part {
                    Part::Line(at) => line(at, out),
                    Part::Group(group) => self.print(group, out),
                }
            }
        }
    }
}

/// Removes an item. A comment over several lines stays with those that are left.
pub(super) fn remove(items: &mut Vec<Item>, at: usize) {
    let removed = items.remove(at);
    if let Some(next) = items.get_mut(at)
        && next.lead.is_empty()
    {
        next.lead = removed.lead;
    }
}
