//! Many interruptions of one project without cleaning up between them: `KERNELS_KILLS`, or [`KILLS`].

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::scenarios::skipped;
use super::trace::{Fault, Plan};
use super::world::snapshot;
use crate::support::random::Random;
use crate::support::{Picture, Test, number};

const DESTS: [&str; 3] = [".claude/skills/demo", ".codex/skills/demo", ".opencode/skills/demo"];
const KILLS: usize = 300;
const COMMANDS: [&str; 14] = [
    "skills add sources/v1/demo --claude",
    "skills add sources/v2/demo --claude",
    "skills add sources/v2/demo --codex",
    "skills add sources/v1/demo --claude --codex --opencode",
    "skills add sources/v1/demo --claude --force",
    "skills add sources/v2/demo --claude --codex --force",
    "skills add sources/v1/demo --claude --codex --opencode --link",
    "skills add sources/v2/demo --claude --codex --opencode --link --force",
    "skills add sources/current/demo --claude --codex",
    "skills update",
    "skills update",
    "skills update --force",
    "skills remove demo",
    "skills remove demo --force",
];

/// A user's work: the complete tree after an edit.
struct Edit {
    tree: Picture,
    /// Where it was made, until it is moved.
    at: Option<&'static str>,
}

struct Chain {
    test: Test,
    random: Random,
    /// Trees that a command may put in place.
    shipped: Vec<Picture>,
    edits: Vec<Edit>,
    /// Backups that have been seen; they must stay.
    backups: BTreeSet<PathBuf>,
    kept: BTreeSet<Picture>,
    kills: usize,
    made: usize,
}

impl Chain {
    fn new() -> Self {
        let test = Test::on_disk().furnished();
        let mut shipped = Vec::new();
        for version in ["v1", "v2", "current", "current"] {
            if shipped.len() == 3 * DESTS.len() {
                test.write_skill("sources/current/demo", 2);
            }
            for dest in DESTS {
                let flag = dest[1..].split('/').next().unwrap();
                test.ok(&format!("skills add sources/{version}/demo --{flag}"));
                shipped.push(test.tree(dest).unwrap());
            }
        }
        test.ok("skills remove demo");
        Self {
            test,
            random: Random::seeded("chain", 20_261_121),
            shipped,
            edits: Vec::new(),
            backups: BTreeSet::new(),
            kept: BTreeSet::new(),
            kills: 0,
            made: 0,
        }
    }

    /// Edits one of the installed trees as a user would.
    fn edit(&mut self, n: usize) {
        let dest = *self.random.pick(&DESTS);
        let folder = self.test.project.join(dest);
        if folder.is_symlink() || !folder.is_dir() {
            return;
        }
        // Editing an edited tree replaces the user's earlier work.
        self.edits.retain(|edit| edit.at != Some(dest));
        let file = match self.random.below(3) {
            0 => "SKILL.md".to_owned(),
            1 => format!("notes/{n}.md"),
            _ => "references/guide.md".to_owned(),
        };
        self.test.write(&format!("{dest}/{file}"), format!("edit {n}\n"));
        self.made += 1;
        self.edits.push(Edit { tree: self.test.tree(dest).unwrap(), at: Some(dest) });
    }

    fn command(&mut self, n: usize) -> Result<(), String> {
        let typed = *self.random.pick(&COMMANDS);
        if self.random.below(4) == 0 {
            self.test.write_skill("sources/current/demo", [1, 2][n % 2]);
        }
        let at = self.random.below(50);
        let fault = if self.random.below(2) == 0 { Fault::KillBefore(at) } else { Fault::KillAfter(at) };
        let plain_renames = self.random.below(6) == 0;
        let traced = self.test.traced(typed, Plan::changing(fault, plain_renames));
        self.kills += usize::from(traced.code.is_none());
        let allowed = match traced.code {
            None => traced.hit.is_some(),
            Some(0 | 3) => true,
            Some(1) => traced.err.contains("not installed"),
            Some(_) => false,
        };
        let what = format!("{n}: {typed}, {fault:?} {:?}, renames {plain_renames}", traced.hit);
        if !allowed {
            return Err(format!("{what}: {traced:?}"));
        }
        self.check().map_err(|why| format!("{what}, exit {:?}: {why}\n{}{}", traced.code, traced.out, traced.err))
    }

    /// Every destination is empty or holds a link, a released tree or a user's tree; every edit still exists.
    fn check(&mut self) -> Result<(), String> {
        for dest in DESTS {
            let Some(there) = self.test.tree(dest) else {
                continue;
            };
            let link = self.test.project.join(dest).is_symlink();
            let edited = self.edits.iter().any(|edit| edit.tree == there);
            if !link && !edited && !self.shipped.contains(&there) {
                return Err(format!("{dest} is no whole tree: {there:?}"));
            }
        }
        let areas = self.test.areas();
        let backups: BTreeSet<PathBuf> = areas.backups.iter().cloned().collect();
        // An area keeps the last five of a skill; until then none goes.
        for lost in self.backups.difference(&backups) {
            if backups.iter().filter(|backup| backup.parent() == lost.parent()).count() < 5 {
                return Err(format!("the backup {} is gone", lost.display()));
            }
        }
        for new in backups.difference(&self.backups) {
            self.kept.extend(snapshot(new));
        }
        self.backups = backups;
        for edit in &mut self.edits {
            if edit.at.is_some_and(|dest| self.test.tree(dest).as_ref() == Some(&edit.tree)) {
                continue;
            }
            if self.kept.contains(&edit.tree) {
                edit.at = None;
            } else if !self.test.holds(&edit.tree, &DESTS, true) {
                return Err(format!("an edit is nowhere: {:?}", edit.tree));
            }
        }
        let listed = self.test.listed();
        if listed.iter().any(|name| !["demo", "mine"].contains(&name.as_str())) {
            return Err(format!("agents would list {listed:?}"));
        }
        Ok(())
    }
}

#[test]
fn many_kills_in_one_project_lose_nothing() {
    if skipped() {
        return;
    }
    let mut chain = Chain::new();
    let kills = number("KERNELS_KILLS", KILLS);
    let mut commands = 0;
    while chain.kills < kills {
        if chain.random.below(3) == 0 {
            chain.edit(commands);
        }
        chain.command(commands).unwrap_or_else(|why| panic!("{why}"));
        commands += 1;
        assert!(commands < 20 * kills, "hardly anything is killed");
    }
    chain.test.ok("skills add sources/v2/demo --claude --codex --opencode --force");
    chain.check().unwrap();
    let areas = chain.test.areas();
    assert!(areas.changes.is_empty(), "{:?}", areas.changes);
    assert!(areas.strange.is_empty(), "{:?}", areas.strange);
    for dest in DESTS {
        assert_eq!(chain.test.word(&chain.test.status().unwrap(), dest).unwrap(), "current");
    }
    for edit in &chain.edits {
        let kept = chain.kept.contains(&edit.tree) || chain.test.holds(&edit.tree, &DESTS, false);
        assert!(kept, "{:?}", edit.tree);
    }
    println!(
        "chain: {commands} commands, {} kills, {} edits, {} of them to be found, {} backups",
        chain.kills,
        chain.made,
        chain.edits.len(),
        areas.backups.len()
    );
}
