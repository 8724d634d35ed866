//! A thousand interruptions of one project without cleaning up between them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::random::Random;
use super::scenarios::skipped;
use super::trace::{Fault, Plan};
use super::world::{Snapshot, World, snapshot};

const DESTS: [&str; 3] = [".claude/skills/demo", ".codex/skills/demo", ".opencode/skills/demo"];
const KILLS: usize = 1_000;
const COMMANDS: [&str; 12] = [
    "add sources/v1/demo --claude",
    "add sources/v2/demo --claude",
    "add sources/v2/demo --codex",
    "add sources/v1/demo --claude --codex --opencode",
    "add sources/v1/demo --claude --force",
    "add sources/v2/demo --claude --codex --force",
    "add sources/v1/demo --claude --codex --opencode --link",
    "add sources/v2/demo --claude --codex --opencode --link --force",
    "update",
    "update --force",
    "remove demo",
    "remove demo --force",
];

/// A user's work: the complete tree after an edit.
struct Edit {
    tree: Snapshot,
    /// Where it was made, until it is moved.
    at: Option<&'static str>,
}

struct Chain {
    world: World,
    random: Random,
    /// Trees that a command may put in place.
    shipped: Vec<Snapshot>,
    edits: Vec<Edit>,
    /// Backups that have been seen; they must stay.
    backups: BTreeSet<PathBuf>,
    kept: BTreeSet<Snapshot>,
    kills: usize,
    made: usize,
}

impl Chain {
    fn new() -> Self {
        let world = World::on_disk();
        let mut shipped = Vec::new();
        for version in ["v1", "v2"] {
            for dest in DESTS {
                let flag = dest[1..].split('/').next().unwrap();
                world.ok(&format!("add sources/{version}/demo --{flag}"));
                shipped.push(world.at(dest).unwrap());
            }
        }
        world.ok("remove demo");
        Self {
            world,
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
        let folder = self.world.project.join(dest);
        if folder.is_symlink() || !folder.is_dir() {
            return;
        }
        // Editing an edited tree replaces the user's earlier work.
        self.edits.retain(|edit| edit.at != Some(dest));
        let file = match self.random.below(3) {
            0 => "SKILL.md".to_owned(),
            1 => format!("notes/{n}.md"),
            _ => "references/deep/a.md".to_owned(),
        };
        self.world.write(&format!("{dest}/{file}"), format!("edit {n}\n"));
        self.made += 1;
        self.edits.push(Edit { tree: self.world.at(dest).unwrap(), at: Some(dest) });
    }

    fn command(&mut self, n: usize) -> Result<(), String> {
        let typed = *self.random.pick(&COMMANDS);
        let at = self.random.below(50);
        let fault = if self.random.below(2) == 0 { Fault::KillBefore(at) } else { Fault::KillAfter(at) };
        let plain_renames = self.random.below(6) == 0;
        let traced = self.world.traced(typed, Plan::changing(fault, plain_renames));
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
            let Some(there) = self.world.at(dest) else {
                continue;
            };
            let link = self.world.project.join(dest).is_symlink();
            let edited = self.edits.iter().any(|edit| edit.tree == there);
            if !link && !edited && !self.shipped.contains(&there) {
                return Err(format!("{dest} is no whole tree: {there:?}"));
            }
        }
        let areas = self.world.areas();
        let backups: BTreeSet<PathBuf> = areas.backups.iter().cloned().collect();
        if let Some(lost) = self.backups.difference(&backups).next() {
            return Err(format!("the backup {} is gone", lost.display()));
        }
        for new in backups.difference(&self.backups) {
            self.kept.extend(snapshot(new));
        }
        self.backups = backups;
        for edit in &mut self.edits {
            if edit.at.is_some_and(|dest| self.world.at(dest).as_ref() == Some(&edit.tree)) {
                continue;
            }
            if self.kept.contains(&edit.tree) {
                edit.at = None;
            } else if !self.world.holds(&edit.tree, &DESTS, true) {
                return Err(format!("an edit is nowhere: {:?}", edit.tree));
            }
        }
        let listed = self.world.listed();
        if listed.iter().any(|name| !["demo", "mine"].contains(&name.as_str())) {
            return Err(format!("agents would list {listed:?}"));
        }
        Ok(())
    }
}

#[test]
fn a_thousand_kills_in_one_project_lose_nothing() {
    if skipped() {
        return;
    }
    let mut chain = Chain::new();
    let mut commands = 0;
    while chain.kills < KILLS {
        if chain.random.below(3) == 0 {
            chain.edit(commands);
        }
        chain.command(commands).unwrap_or_else(|why| panic!("{why}"));
        commands += 1;
        assert!(commands < 20 * KILLS, "hardly anything is killed");
    }
    chain.world.ok("add sources/v2/demo --claude --codex --opencode --force");
    chain.check().unwrap();
    let areas = chain.world.areas();
    assert!(areas.changes.is_empty(), "{:?}", areas.changes);
    assert!(areas.strange.is_empty(), "{:?}", areas.strange);
    for dest in DESTS {
        assert_eq!(chain.world.word(&chain.world.status().unwrap(), dest).unwrap(), "current");
    }
    for edit in &chain.edits {
        assert!(chain.world.holds(&edit.tree, &DESTS, false), "{:?}", edit.tree);
    }
    println!(
        "chain: {commands} commands, {} kills, {} edits, {} of them to be found, {} backups",
        chain.kills,
        chain.made,
        chain.edits.len(),
        areas.backups.len()
    );
}
