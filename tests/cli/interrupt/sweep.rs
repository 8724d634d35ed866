//! Kills a command at each of its system calls, or makes the call fail, and checks the guarantees.
//!
//! The next command depends only on the state of the disk, so it is run once
//! for each state. A single-threaded command is traced beforehand, with a snapshot of the
//! disk at every call. Of the kills that leave the same state (an fsync changes nothing, and nothing changes
//! between two calls) only one is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nix::errno::Errno;

use super::trace::{Counted, Fault, Plan, Traced};
use super::world::State;
use crate::support::{Picture, Test, list};

/// A command and its starting state.
#[derive(Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    /// The preparation.
    pub before: fn(&Test),
    /// The arguments after `kernels skills`.
    pub typed: &'static str,
    /// Every path that the command may change.
    pub dests: &'static [&'static str],
    /// The destination that holds a user's edits or files.
    pub edited: Option<&'static str>,
    /// The file system cannot swap two paths.
    pub plain_renames: bool,
    /// Nothing that it leaves may lie among the backups.
    pub without_backups: bool,
}

/// The command after the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The same command.
    Same,
    /// `update`, as the note of `status` says.
    Update,
}

/// How a scenario starts, and how it ends without a fault.
pub struct Course {
    before: Standing,
    after: Standing,
    edits: Option<Picture>,
    /// With several threads, the order of calls varies.
    several_threads: bool,
}

/// The contents of the destinations.
struct Standing {
    trees: BTreeMap<&'static str, Option<Picture>>,
    words: BTreeMap<&'static str, Option<String>>,
    rest: Picture,
}

impl Standing {
    fn of(test: &Test, scenario: &Scenario) -> Self {
        let status = test.status().unwrap();
        let each = |path: &&'static str| (*path, test.tree(path));
        Self {
            trees: scenario.dests.iter().map(each).collect(),
            words: scenario.dests.iter().map(|path| (*path, test.word(&status, path))).collect(),
            rest: test.rest(scenario.dests),
        }
    }
}

/// All failures of one sweep, to report them together.
#[derive(Default)]
pub struct Tally {
    pub runs: usize,
    /// The kills that were made; the others leave the same states.
    kills: usize,
    failures: Vec<String>,
}

impl Tally {
    fn check(&mut self, what: impl Fn() -> String, result: Result<(), String>) {
        self.runs += 1;
        self.kills += 1;
        if let Err(why) = result {
            self.failures.push(format!("{}:\n    {why}", what()));
        }
    }

    pub fn finish(self, name: &str, unit: &str) {
        println!("{name}: {} {unit}, {} of them made", self.runs, self.kills);
        let count = self.failures.len();
        let shown: Vec<_> = self.failures.into_iter().take(8).collect();
        assert!(count == 0, "{name}: {count} of {} {unit} broke the promise\n  {}", self.runs, shown.join("\n  "));
    }
}

impl Scenario {
    /// Prepares the project, saves it, and runs the command without a fault.
    pub fn start(&self, test: &Test) -> Course {
        (self.before)(test);
        test.keep();
        let before = Standing::of(test, self);
        let edits = self.edited.and_then(|path| test.tree(path));
        let undisturbed = test.traced(self.typed, Plan::changing(Fault::None, self.plain_renames));
        assert_eq!(undisturbed.code, Some(0), "{}: {undisturbed:#?}", self.name);
        let after = Standing::of(test, self);
        let course = Course { before, after, edits, several_threads: undisturbed.several_threads };
        course.settled(self, test).unwrap_or_else(|why| panic!("{}: {why}", self.name));
        course
    }

    /// Kills the command before and after every call that changes something, and runs it again.
    pub fn kill_everywhere(&self, tally: &mut Tally) {
        let (test, course) = self.begin();
        self.kill_each(&test, &course, Next::Same, "", &mut BTreeSet::new(), tally);
    }

    /// The same, and runs `update`.
    pub fn kill_then_update(&self, tally: &mut Tally) {
        let (test, course) = self.begin();
        self.kill_each(&test, &course, Next::Update, "", &mut BTreeSet::new(), tally);
    }

    /// `checked` are the states from which `next` was already verified.
    fn kill_each(
        &self,
        test: &Test,
        course: &Course,
        next: Next,
        earlier: &str,
        checked: &mut BTreeSet<State>,
        tally: &mut Tally,
    ) {
        let left = (!course.several_threads).then(|| self.left_by_each_kill(test));
        let faults = (0..).flat_map(|at| [Fault::KillBefore(at), Fault::KillAfter(at)]);
        for (number, fault) in faults.enumerate() {
            match left.as_ref().map(|left| left.get(number)) {
                Some(None) => break,
                Some(Some(left)) if checked.contains(left) => {
                    tally.runs += 1;
                    continue;
                }
                _ => {}
            }
            test.reset();
            let traced = test.traced(self.typed, Plan::changing(fault, self.plain_renames));
            if traced.hit.is_none() && course.several_threads {
                break;
            }
            let result = course.after_kill(self, test, &traced, next, checked);
            let what = || format!("{}, {earlier}{fault:?} {:?}", self.name, traced.hit);
            tally.check(what, result);
        }
    }

    /// The state of the disk before and after every call that changes something.
    fn left_by_each_kill(&self, test: &Test) -> Vec<State> {
        test.reset();
        let mut states = Vec::new();
        let plan = Plan::changing(Fault::None, self.plain_renames);
        test.watched(self.typed, plan, &mut || states.push(test.disk()));
        assert!(states.len() > 2, "{}: {states:?}", self.name);
        states
    }

    fn begin(&self) -> (Test, Course) {
        let test = Test::new().furnished();
        let course = self.start(&test);
        (test, course)
    }

    /// Kills the command at a sample of all its calls, including those that only read.
    pub fn kill_at_any_call(&self, pick: &mut dyn FnMut(usize) -> usize, times: usize) -> Tally {
        let (test, course) = self.begin();
        test.reset();
        let plan = |fault| Plan { fault, counted: Counted::Every, plain_renames: self.plain_renames, no_links: false };
        let calls = test.traced(self.typed, plan(Fault::None)).calls.len();
        let mut tally = Tally::default();
        let mut checked = BTreeSet::new();
        for _ in 0..times {
            test.reset();
            let plan = plan(Fault::KillAfter(pick(calls)));
            let traced = test.traced(self.typed, plan);
            if traced.hit.is_some() && traced.code.is_none() {
                let result = course.after_kill(self, &test, &traced, Next::Same, &mut checked);
                tally.check(|| format!("{}, {plan:?} {:?}", self.name, traced.hit), result);
            }
        }
        tally
    }

    /// Kills the command at the calls that `first` picks by name, and then the same command, which
    /// cleans up first, at every call.
    pub fn kill_the_recovery(&self, first: &[&str], tally: &mut Tally) {
        let (test, course) = self.begin();
        let plan = |fault| Plan::changing(fault, self.plain_renames);
        test.reset();
        let calls = test.traced(self.typed, plan(Fault::None)).calls;
        let points: Vec<usize> = (calls.iter().enumerate())
            .filter(|(_, call)| first.contains(&format!("{call:?}").as_str()))
            .map(|(at, _)| at)
            .collect();
        assert!(!points.is_empty(), "{}: {calls:?}", self.name);
        let mut checked = BTreeSet::new();
        for point in points {
            self.rewind(&test);
            test.traced(self.typed, plan(Fault::KillAfter(point)));
            test.keep();
            let earlier = format!("KillAfter({point}), ");
            self.kill_each(&test, &course, Next::Same, &earlier, &mut checked, tally);
        }
    }

    /// Restores the start of the scenario.
    fn rewind(&self, test: &Test) {
        fs::remove_dir_all(&test.project).unwrap();
        test.furnish();
        (self.before)(test);
        test.keep();
    }

    /// Makes each call fail, or one call in `every`.
    pub fn fail_everywhere(&self, errors: &[Errno], counted: Counted, every: usize, tally: &mut Tally) {
        let (test, course) = self.begin();
        let mut checked = BTreeSet::new();
        for error in errors {
            for at in (0..).step_by(every) {
                test.reset();
                let plan = Plan {
                    fault: Fault::Fail(at, *error),
                    counted,
                    plain_renames: self.plain_renames,
                    no_links: false,
                };
                let traced = test.traced(self.typed, plan);
                let Some(hit) = traced.hit else {
                    break;
                };
                let changing = hit.changing;
                let result = course.after_failure(self, &test, &traced, changing, &mut checked);
                tally.check(|| format!("{}, {error} at {at} {hit:?}", self.name), result);
            }
        }
    }
}

impl Course {
    /// What must hold at the instant of the kill, and after the next command.
    fn after_kill(
        &self,
        scenario: &Scenario,
        test: &Test,
        traced: &Traced,
        next: Next,
        checked: &mut BTreeSet<State>,
    ) -> Result<(), String> {
        if traced.code.is_some() {
            return Err(format!("it was to be killed: {traced:?}"));
        }
        self.whole(scenario, test, scenario.plain_renames)?;
        let left = test.disk();
        if checked.contains(&left) {
            return Ok(());
        }
        self.told(scenario, test)?;
        match next {
            Next::Same => self.finish_with_the_same(scenario, test)?,
            Next::Update => self.finish_with_update(scenario, test)?,
        }
        checked.insert(left);
        Ok(())
    }

    fn after_failure(
        &self,
        scenario: &Scenario,
        test: &Test,
        traced: &Traced,
        changing: bool,
        checked: &mut BTreeSet<State>,
    ) -> Result<(), String> {
        let said = || format!("exit {:?}, {:?} {}", traced.code, traced.signal, traced.err);
        if traced.err.contains("panicked") || traced.out.contains("panicked") {
            return Err(said());
        }
        // 127: the program could not even be loaded.
        let codes: &[i32] = if changing { &[0, 1] } else { &[0, 1, 3, 127] };
        if !traced.code.is_some_and(|code| codes.contains(&code)) {
            return Err(said());
        }
        let failed = traced.code != Some(0);
        let names_a_path = traced.err.contains(test.project.to_str().unwrap_or_default())
            || traced.err.contains("sources/")
            || traced.err.contains(".claude");
        if changing && failed && !names_a_path {
            return Err(format!("no path is named: {}", said()));
        }
        let left = test.disk();
        let known = checked.contains(&left);
        self.whole(scenario, test, false)
            .and_then(|()| if known { Ok(()) } else { self.told(scenario, test) })
            .map_err(|why| format!("{why}; {}", said()))?;
        if !failed && changing {
            // Only the clean-up may have failed, and is left to the next command.
            self.done(scenario, test).map_err(|why| format!("{why}; yet {}", said()))?;
        }
        if !known {
            self.finish_with_the_same(scenario, test).map_err(|why| format!("{why}; it had said: {}", said()))?;
            checked.insert(left);
        }
        Ok(())
    }

    /// Every destination holds the old tree or the new one, nothing else has changed, and the
    /// user's edits still exist. Only a `gap` between two renames may leave a destination empty,
    /// with the complete old tree in the area.
    fn whole(&self, scenario: &Scenario, test: &Test, gap: bool) -> Result<(), String> {
        for path in scenario.dests {
            let there = test.tree(path);
            let old = &self.before.trees[path];
            if there == *old || there == self.after.trees[path] {
                continue;
            }
            let kept = || old.as_ref().is_some_and(|old| test.holds(old, &[], true));
            if !(gap && there.is_none() && kept()) {
                return Err(format!("{path} is neither the old tree nor the new one: {there:?}"));
            }
        }
        self.untouched(scenario, test)?;
        match &self.edits {
            Some(edits) if !test.holds(edits, scenario.dests, true) => Err("the user's edits are nowhere".to_owned()),
            _ => Ok(()),
        }
    }

    /// `status` finishes what was interrupted and reports which tree is in place. Afterwards everything is as it was, so
    /// that the next command finds what the kill left.
    fn told(&self, scenario: &Scenario, test: &Test) -> Result<(), String> {
        test.put_aside();
        let told = self.told_by_status(scenario, test);
        test.bring_back();
        told
    }

    fn told_by_status(&self, scenario: &Scenario, test: &Test) -> Result<(), String> {
        let status = test.status()?;
        self.whole(scenario, test, false)?;
        for path in scenario.dests {
            // The state of a link depends on the tree that it leads to.
            if test.project.join(path).is_symlink() {
                continue;
            }
            let there = test.tree(path);
            let state = test.word(&status, path);
            let right = [&self.before, &self.after]
                .iter()
                .any(|standing| there == standing.trees[path] && state == standing.words[path]);
            if !right && there.is_some() {
                return Err(format!("skills status calls {path} {state:?}"));
            }
        }
        if status["interrupted"].as_array().is_none_or(|all| !all.is_empty()) {
            return Err(format!("status lists {}: {:?}", status["interrupted"], test.areas()));
        }
        self.clean(scenario, test).map_err(|why| format!("{why}; after status"))
    }

    fn untouched(&self, scenario: &Scenario, test: &Test) -> Result<(), String> {
        let rest = test.rest(scenario.dests);
        if rest != self.before.rest && rest != self.after.rest {
            let changed: Vec<_> = rest
                .iter()
                .filter(|(path, node)| self.before.rest.get(*path) != Some(node))
                .map(|(path, _)| path)
                .chain(self.before.rest.keys().filter(|path| !rest.contains_key(*path)))
                .collect();
            return Err(format!("something else was touched: {changed:?}"));
        }
        let listed = test.listed();
        if listed.iter().any(|name| !["demo", "mine"].contains(&name.as_str())) {
            return Err(format!("agents would list {listed:?}"));
        }
        if !list(&test.home).is_empty() {
            return Err("something was written to the home".to_owned());
        }
        Ok(())
    }

    fn finish_with_the_same(&self, scenario: &Scenario, test: &Test) -> Result<(), String> {
        let ran = test.run(scenario.typed);
        let gone = self.after.trees.values().all(Option::is_none);
        let nothing_left = gone && ran.code == 1 && ran.err.contains("not installed");
        let restored = ran.code == 1 && ran.err.contains("no backup");
        if ran.code != 0 && !nothing_left && !restored {
            return Err(format!("the same command again: {ran:?}"));
        }
        if nothing_left {
            let update = test.run("skills update");
            if update.code != 0 {
                return Err(format!("update: {update:?}"));
            }
        }
        self.settled(scenario, test).map_err(|why| format!("{why}; after the same command again: {ran:?}"))
    }

    fn finish_with_update(&self, scenario: &Scenario, test: &Test) -> Result<(), String> {
        let ran = test.run("skills update");
        // Exit code 3: an edited tree is not touched, but the pending change is completed or undone.
        let codes: &[i32] = if self.edits.is_some() { &[0, 3] } else { &[0] };
        if !codes.contains(&ran.code) {
            return Err(format!("update: {ran:?}"));
        }
        self.clean(scenario, test)
            .and_then(|()| self.whole_at_rest(scenario, test))
            .map_err(|why| format!("{why}; after update: {ran:?}"))
    }

    fn whole_at_rest(&self, scenario: &Scenario, test: &Test) -> Result<(), String> {
        for path in scenario.dests {
            let there = test.tree(path);
            if there != self.before.trees[path] && there != self.after.trees[path] {
                // An update may have installed the current version, which is complete too.
                let status = test.status()?;
                let state = test.word(&status, path);
                if state.as_deref() != Some("current") {
                    return Err(format!("{path} is {state:?}: {there:?}"));
                }
            }
        }
        Ok(())
    }

    /// The command has completed and cleaned up.
    fn settled(&self, scenario: &Scenario, test: &Test) -> Result<(), String> {
        self.done(scenario, test)?;
        self.clean(scenario, test)
    }

    fn done(&self, scenario: &Scenario, test: &Test) -> Result<(), String> {
        for path in scenario.dests {
            let there = test.tree(path);
            if there != self.after.trees[path] {
                return Err(format!("{path} is not as it was to be: {there:?}"));
            }
        }
        Ok(())
    }

    /// No change is pending, and the edits are complete wherever they may be.
    fn clean(&self, scenario: &Scenario, test: &Test) -> Result<(), String> {
        self.untouched(scenario, test)?;
        let areas = test.areas();
        if !areas.changes.is_empty() {
            return Err(format!("left behind: {:?}", areas.changes));
        }
        if !areas.strange.is_empty() {
            return Err(format!("left behind: {:?}", areas.strange));
        }
        if areas.gitignores.iter().any(|text| text != "*\n") {
            return Err(format!("a .gitignore says {:?}", areas.gitignores));
        }
        match &self.edits {
            Some(edits) if !test.holds(edits, scenario.dests, false) => {
                Err("the user's edits are neither in place nor in a backup".to_owned())
            }
            None if scenario.without_backups && !areas.backups.is_empty() => {
                Err(format!("backups of nobody's edits: {:?}", areas.backups))
            }
            _ => Ok(()),
        }
    }
}
