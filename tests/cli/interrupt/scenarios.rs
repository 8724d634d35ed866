//! The commands that are interrupted, and the tests.

use std::os::unix::fs::symlink;

use nix::errno::Errno;

use super::sweep::{Scenario, Tally};
use super::trace::{Counted, Fault, Plan};
use crate::support::random::Random;
use crate::support::{Test, list, not_run};

const CLAUDE: &str = ".claude/skills/demo";
const CODEX: &str = ".codex/skills/demo";
const OPENCODE: &str = ".opencode/skills/demo";
const AGENTS: &str = ".agents/skills/demo";
const ERRORS: [Errno; 2] = [Errno::ENOSPC, Errno::EIO];

/// Whether tracing is not permitted.
pub fn skipped() -> bool {
    let why = Test::new().why_untraceable();
    why.inspect(|why| not_run(&format!("nothing can be interrupted here: {why}"))).is_some()
}

fn nothing(_: &Test) {}

fn installed(test: &Test) {
    test.ok("skills add sources/v1/demo --claude");
}

fn installed_and_edited(test: &Test) {
    installed(test);
    test.write(".claude/skills/demo/SKILL.md", "edited by hand\n");
    test.write(".claude/skills/demo/notes/mine.md", "my notes\n");
}

fn installed_then_a_new_version_came(test: &Test) {
    test.ok("skills add sources/current/demo --claude");
    test.write_skill("sources/current/demo", 2);
}

fn installed_as_links(test: &Test) {
    test.ok("skills add sources/v1/demo --claude --codex --opencode --link");
}

fn files_deleted(test: &Test) {
    installed(test);
    test.delete(".claude/skills/demo/scripts");
    test.delete(".claude/skills/demo/references/deep/only-1.md");
}

fn receipt_deleted(test: &Test) {
    installed(test);
    test.delete(".claude/skills/demo/.kernels.json");
}

const ADD: Scenario = Scenario {
    name: "skills add where nothing is",
    before: nothing,
    typed: "skills add sources/v1/demo --claude",
    dests: &[CLAUDE],
    edited: None,
    plain_renames: false,
    without_backups: false,
};
const ADD_TO_THREE: Scenario = Scenario {
    name: "skills add for three agents",
    typed: "skills add sources/v1/demo --claude --codex --opencode",
    dests: &[CLAUDE, CODEX, OPENCODE],
    ..ADD
};
const ADD_TO_DEST: Scenario = Scenario {
    name: "skills add --dest over an older version",
    before: |test| drop(test.ok("skills add sources/v1/demo --dest .claude/skills")),
    typed: "skills add sources/v2/demo --dest .claude/skills",
    ..ADD
};
const ADD_OVER_STALE: Scenario = Scenario {
    name: "skills add over an older version",
    before: installed,
    typed: "skills add sources/v2/demo --claude",
    ..ADD
};
const ADD_FORCE_OVER_EDITED: Scenario = Scenario {
    name: "skills add --force over edits",
    before: installed_and_edited,
    typed: "skills add sources/v2/demo --claude --force",
    edited: Some(CLAUDE),
    ..ADD
};
const ADD_FORCE_OVER_FILE: Scenario = Scenario {
    name: "skills add --force over a file",
    before: |test| test.write(CLAUDE, "a file of mine\n"),
    typed: "skills add sources/v2/demo --claude --force",
    edited: Some(CLAUDE),
    ..ADD
};
const ADD_FORCE_OVER_LINK: Scenario = Scenario {
    name: "skills add --force over a link",
    before: |test| symlink("mine", test.project.join(CLAUDE)).unwrap(),
    typed: "skills add sources/v2/demo --claude --force",
    edited: Some(CLAUDE),
    ..ADD
};
const ADD_LINK_BESIDE_AGENTS: Scenario = Scenario {
    name: "skills add --codex where .agents has it",
    before: |test| drop(test.ok("skills add sources/v1/demo --agents")),
    typed: "skills add sources/v2/demo --codex",
    dests: &[CODEX, AGENTS],
    ..ADD
};
const ADD_LINKS: Scenario = Scenario {
    name: "skills add --link for three agents",
    typed: "skills add sources/v1/demo --claude --codex --opencode --link",
    dests: &[CLAUDE, CODEX, OPENCODE],
    ..ADD
};
const ADD_LINKS_OVER_COPIES: Scenario = Scenario {
    name: "skills add --link --force over copies, one of them edited",
    before: |test| {
        test.ok("skills add sources/v1/demo --claude --codex --opencode");
        test.write(".codex/skills/demo/SKILL.md", "edited by hand\n");
    },
    typed: "skills add sources/v2/demo --claude --codex --opencode --link --force",
    edited: Some(CODEX),
    ..ADD_LINKS
};
const UPDATE: Scenario =
    Scenario { name: "skills update", before: installed_then_a_new_version_came, typed: "skills update", ..ADD };
const SYNC: Scenario = Scenario {
    name: "skills sync",
    before: |test| {
        installed_then_a_new_version_came(test);
        test.write("skills.toml", "[skills.demo]\nsource = \"sources/current/demo\"\nagents = [\"claude\"]\n");
    },
    typed: "skills sync",
    ..ADD
};
const REPAIR: Scenario = Scenario { name: "skills add where files are missing", before: files_deleted, ..ADD };
const ADOPT: Scenario = Scenario { name: "skills add where the receipt is missing", before: receipt_deleted, ..ADD };
const REMOVE: Scenario = Scenario { name: "remove", before: installed, typed: "skills remove demo", ..ADD };
const REMOVE_FORCE_EDITED: Scenario = Scenario {
    name: "skills remove --force of edits",
    before: installed_and_edited,
    typed: "skills remove demo --force",
    edited: Some(CLAUDE),
    ..ADD
};
const REMOVE_LINKS: Scenario = Scenario {
    name: "skills remove of a copy and links",
    before: installed_as_links,
    typed: "skills remove demo",
    dests: &[CLAUDE, CODEX, OPENCODE],
    ..ADD
};

const BACKUP: &str = ".claude/.kernels/backups/demo-20260101T000000Z";
const MERGE: Scenario = Scenario {
    name: "skills update --merge",
    before: |test| {
        installed_then_a_new_version_came(test);
        test.write(".claude/skills/demo/notes/mine.md", "my notes\n");
    },
    typed: "skills update --merge",
    edited: Some(CLAUDE),
    ..ADD
};
const RESTORE: Scenario = Scenario {
    name: "skills restore over edits",
    before: |test| {
        installed_and_edited(test);
        test.ok("skills add sources/v2/demo --claude --force");
        let backup = list(&test.at(".claude/.kernels/backups")).remove(0);
        std::fs::rename(backup, test.at(BACKUP)).unwrap();
        test.write(".claude/skills/demo/SKILL.md", "edited again\n");
    },
    typed: "skills restore demo-20260101T000000Z",
    edited: Some(CLAUDE),
    ..ADD
};
const RESTORED: Scenario = Scenario { name: "skills restore keeps the backup", edited: Some(BACKUP), ..RESTORE };
const RESTORE_REMOVED: Scenario = Scenario {
    name: "skills restore of what was removed",
    before: |test| {
        (RESTORE.before)(test);
        test.delete(CLAUDE);
    },
    edited: Some(BACKUP),
    ..RESTORE
};

const fn without_exchange(scenario: Scenario) -> Scenario {
    Scenario { plain_renames: true, ..scenario }
}

fn each(scenarios: &[Scenario], unit: &str, sweep: impl Fn(&Scenario, &mut Tally)) {
    if skipped() {
        return;
    }
    for scenario in scenarios {
        let mut tally = Tally::default();
        sweep(scenario, &mut tally);
        tally.finish(scenario.name, unit);
    }
}

fn kill(scenarios: &[Scenario]) {
    each(scenarios, "kills", Scenario::kill_everywhere);
}

fn kill_then_update(scenarios: &[Scenario]) {
    each(scenarios, "kills before an update", Scenario::kill_then_update);
}

fn kill_the_recovery(scenarios: &[Scenario], first: &[&str]) {
    each(scenarios, "kills of a recovery", |scenario, tally| {
        scenario.kill_the_recovery(first, tally);
    });
}

#[test]
fn killed_adding() {
    kill(&[ADD, ADD_TO_DEST, ADD_OVER_STALE]);
}

#[test]
fn killed_adding_for_three_agents() {
    kill(&[ADD_TO_THREE]);
}

#[test]
fn killed_adding_with_force() {
    let scenarios = [ADD_FORCE_OVER_EDITED, ADD_FORCE_OVER_FILE, ADD_FORCE_OVER_LINK];
    kill(&scenarios);
}

#[test]
fn killed_adding_links() {
    kill(&[ADD_LINKS, ADD_LINK_BESIDE_AGENTS]);
}

#[test]
fn killed_replacing_copies_by_links() {
    kill(&[ADD_LINKS_OVER_COPIES]);
}

#[test]
fn killed_updating_or_repairing() {
    kill(&[UPDATE, SYNC, REPAIR, ADOPT]);
}

#[test]
fn killed_removing() {
    kill(&[REMOVE, REMOVE_FORCE_EDITED, REMOVE_LINKS]);
}

#[test]
fn killed_merging_or_restoring() {
    let scenarios = [MERGE, RESTORE, RESTORED, RESTORE_REMOVED, without_exchange(RESTORE), without_exchange(RESTORED)];
    kill(&scenarios);
    kill_the_recovery(&[RESTORED], &["renameat2"]);
    fail(&[RESTORED], &ERRORS[..1]);
}

#[test]
fn killed_where_no_two_paths_can_be_swapped() {
    let scenarios = [
        without_exchange(ADD_OVER_STALE),
        without_exchange(ADD_FORCE_OVER_EDITED),
        without_exchange(UPDATE),
        without_exchange(REMOVE_FORCE_EDITED),
        without_exchange(ADD_LINK_BESIDE_AGENTS),
    ];
    kill(&scenarios);
}

#[test]
fn killed_adding_then_update_settles_it() {
    kill_then_update(&[ADD, ADD_OVER_STALE, ADD_FORCE_OVER_EDITED, ADD_LINKS]);
}

#[test]
fn killed_removing_then_update_settles_it() {
    kill_then_update(&[REMOVE, REMOVE_FORCE_EDITED]);
}

#[test]
fn killed_between_two_renames_then_update_settles_it() {
    let scenarios = [
        without_exchange(ADD_OVER_STALE),
        without_exchange(ADD_FORCE_OVER_EDITED),
        without_exchange(ADD_LINK_BESIDE_AGENTS),
    ];
    kill_then_update(&scenarios);
}

#[test]
fn killed_at_calls_that_only_look() {
    if skipped() {
        return;
    }
    let mut random = Random::seeded("calls that only look", 1);
    for scenario in [ADD_OVER_STALE, ADD_FORCE_OVER_EDITED, REMOVE] {
        let tally = scenario.kill_at_any_call(&mut |limit| random.below(limit), 40);
        tally.finish(scenario.name, "kills at any call");
    }
}

#[test]
fn killed_while_recovering_from_a_kill() {
    kill_the_recovery(&[ADD_FORCE_OVER_EDITED, ADD_OVER_STALE], &["renameat2"]);
}

/// The first kill leaves a part of the new tree, the second one a part of that.
#[test]
fn killed_while_deleting_what_a_kill_left_half_written() {
    let scenarios = [ADD, ADD_OVER_STALE].map(|scenario| Scenario { without_backups: true, ..scenario });
    kill_the_recovery(&scenarios, &["openat", "fsync"]);
}

#[test]
fn killed_while_recovering_where_no_two_paths_can_be_swapped() {
    let scenarios = [without_exchange(ADD_OVER_STALE), without_exchange(ADD_FORCE_OVER_EDITED)];
    kill_the_recovery(&scenarios, &["renameat"]);
}

#[test]
fn killed_while_recovering_from_a_killed_removal() {
    kill_the_recovery(&[REMOVE_FORCE_EDITED, REMOVE], &["renameat2", "unlinkat"]);
}

fn fail(scenarios: &[Scenario], errors: &[Errno]) {
    each(scenarios, "failures", |scenario, tally| {
        scenario.fail_everywhere(errors, Counted::Changing, 1, tally);
    });
}

#[test]
fn the_disk_fails_while_adding() {
    fail(&[ADD, ADD_OVER_STALE], &ERRORS);
}

#[test]
fn the_disk_fails_while_adding_with_force() {
    fail(&[ADD_FORCE_OVER_EDITED, REPAIR], &ERRORS);
}

#[test]
fn the_disk_fails_while_linking() {
    fail(&[ADD_LINK_BESIDE_AGENTS], &ERRORS);
}

#[test]
fn the_disk_fails_while_removing() {
    fail(&[REMOVE, REMOVE_FORCE_EDITED], &ERRORS);
}

#[test]
fn the_disk_fails_where_no_two_paths_can_be_swapped() {
    let scenarios = [without_exchange(ADD_OVER_STALE), without_exchange(ADD_FORCE_OVER_EDITED)];
    fail(&scenarios, &ERRORS);
}

#[test]
fn a_quota_or_a_permission_stops_it() {
    let errors = [Errno::EACCES, Errno::EDQUOT];
    fail(&[ADD_OVER_STALE], &errors);
}

#[test]
fn looking_at_the_disk_fails() {
    each(&[ADD_OVER_STALE, ADD_FORCE_OVER_EDITED], "failures", |scenario, tally| {
        scenario.fail_everywhere(&[Errno::EIO], Counted::OnDisk, 4, tally);
    });
}

/// Runs a command where symbolic links cannot be created, and returns its output.
fn without_links(test: &Test, typed: &str) -> String {
    let plan = Plan { no_links: true, ..Plan::changing(Fault::None, false) };
    let traced = test.traced(typed, plan);
    assert_eq!(traced.code, Some(0), "{traced:#?}");
    traced.out + &traced.err
}

#[test]
fn add_link_where_no_link_can_be_made_copies() {
    if skipped() {
        return;
    }
    let test = Test::new().furnished();
    let said = without_links(&test, "skills add sources/v1/demo --claude --opencode --link");
    assert!(said.contains("no link can be made here; copied"), "{said}");
    for path in [CLAUDE, OPENCODE] {
        let installed = test.project.join(path);
        assert!(!installed.is_symlink() && installed.join("scripts/run.py").is_file(), "{path}");
    }
    test.ok("skills status");
}

/// The journal and the receipt are waited for; the skill, where a receipt does not say from where to write it again.
#[test]
fn add_waits_only_for_what_cannot_be_written_again() {
    if skipped() {
        return;
    }
    let waits = |typed: &str| {
        let test = Test::new().furnished();
        test.write_skill("sources/v1/demo", 1);
        std::fs::rename(test.project.join("sources/v2"), test.home.join("v2")).unwrap();
        let typed = typed.replace("HOME", test.home.to_str().unwrap());
        let traced = test.traced(&typed, Plan::changing(Fault::None, false));
        assert_eq!(traced.code, Some(0), "{traced:#?}");
        traced.calls.iter().filter(|call| ["fsync", "fdatasync"].contains(&format!("{call:?}").as_str())).count()
    };
    assert!(waits("skills add cuda-kernels --claude") <= 2);
    assert!(waits("skills add sources/v1/demo --claude") <= 2);
    // Four files and three folders, from outside the project.
    assert!(waits("skills add HOME/v2/demo --claude") >= 2 + 4 + 3);
}

#[test]
fn add_codex_beside_agents_where_no_link_can_be_made_lists_it_once() {
    if skipped() {
        return;
    }
    let test = Test::new().furnished();
    let said = without_links(&test, "skills add sources/v1/demo --codex --agents");
    assert!(said.contains("left out"), "{said}");
    assert!(test.project.join(AGENTS).join("SKILL.md").is_file());
    assert!(!test.project.join(CODEX).exists());
    test.ok("skills status");
}
