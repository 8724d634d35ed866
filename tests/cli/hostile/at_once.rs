//! Concurrent processes in one place: adds, removes, status, and an editor.

use super::*;

#[test]
fn two_adds_of_different_versions() {
    let place = Place::new();
    for _ in 0..15 {
        all_at_once(&place, &["V1", "V2"]);
    }
}

#[test]
fn eight_adds_of_different_versions() {
    let place = Place::new();
    for _ in 0..6 {
        all_at_once(&place, &["V1", "V2", "V1", "V2", "V1", "V2", "V1", "V2"]);
    }
}

/// In an empty place and over each other: all succeed, and one complete tree results.
fn all_at_once(place: &Place, versions: &[&str]) {
    let run = |version: &&str| place.run(&format!("skills add {version} --claude"));
    thread::scope(|scope| {
        let runs: Vec<_> = versions.iter().map(|v| scope.spawn(move || run(v))).collect();
        for ran in runs {
            ran.join().unwrap().expect(0, &[]);
        }
    });
    let whole = ["1", "2"].iter().any(|version| place.holds_version(CLAUDE, version));
    assert!(whole, "{:?}", picture(&place.at(CLAUDE)).keys());
    assert!(place.backups().is_empty(), "{:?}", place.backups());
    place.assert_no_change_waits();
    place.ok("skills status");
}

#[test]
fn add_and_remove() {
    let place = Place::new();
    place.ok("skills add V1 --claude");
    thread::scope(|scope| {
        let adding = scope.spawn(|| {
            for n in 0..40 {
                let version = ["V1", "V2"][n % 2];
                place.run(&format!("skills add {version} --claude")).expect(0, &[]);
            }
        });
        let removing = scope.spawn(|| {
            for _ in 0..40 {
                let ran = place.run("skills remove demo --claude");
                let late = ran.code == 1 && ran.err.contains("not installed");
                assert!(ran.code == 0 || late, "{ran:#?}");
            }
        });
        adding.join().unwrap();
        removing.join().unwrap();
    });
    let whole = ["1", "2"].iter().any(|version| place.holds_version(CLAUDE, version));
    assert!(whole || !place.at(CLAUDE).exists());
    assert!(place.backups().is_empty(), "{:?}", place.backups());
    place.ok("skills add V1 --claude");
    place.assert_no_change_waits();
}

#[test]
fn status_never_calls_a_tree_edited_that_is_being_replaced() {
    let place = Place::new();
    place.ok("skills add V1 --claude");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..30 {
                let version = ["V1", "V2"][n % 2];
                place.run(&format!("skills add {version} --claude")).expect(0, &[]);
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let ran = place.run("skills status --json");
            let report: Value = serde_json::from_str(&ran.out).unwrap();
            let state = report["installs"][0]["state"].as_str().unwrap_or("none");
            assert_eq!(state, "current", "{ran:#?}");
        }
    });
}

/// An editor makes new files in the tree, and rewrites one the way editors do, while the tree
/// is being replaced: every file that the editor made is in place or in a backup.
#[test]
fn add_force_and_an_editor() {
    let place = Place::new();
    place.ok("skills add V1 --claude");
    let done = AtomicBool::new(false);
    let saved = thread::scope(|scope| {
        let editor = scope.spawn(|| {
            let mut saved = Vec::new();
            for n in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("edit-{n}.md");
                let text = format!("edit {n}\n");
                let file = File::create_new(place.at(CLAUDE).join(&name));
                if file.and_then(|mut file| file.write_all(text.as_bytes())).is_ok() {
                    saved.push((name, text));
                }
                let swap = place.at(CLAUDE).join("SKILL.md.swp");
                if fs::write(&swap, skill_md("demo", "3")).is_ok() {
                    let _ = fs::rename(&swap, place.at(CLAUDE).join("SKILL.md"));
                }
                thread::sleep(Duration::from_micros(500));
            }
            saved
        });
        for n in 0..40 {
            let version = ["V1", "V2"][n % 2];
            // Without --force it may be refused because of an edit, which then stays.
            place.run(&format!("skills add {version} --claude")).expect_any(&[0, 3]);
            place.run(&format!("skills add {version} --claude --force")).expect_any(&[0, 3]);
        }
        done.store(true, Ordering::Relaxed);
        editor.join().unwrap()
    });
    let mut trees = place.backups();
    trees.push(place.at(CLAUDE));
    for (name, text) in &saved {
        let kept = trees.iter().any(|tree| fs::read_to_string(tree.join(name)).is_ok_and(|t| t == *text));
        assert!(kept, "{name} of {} is lost", saved.len());
    }
    println!("{} edits in {} trees", saved.len(), trees.len());
    place.ok("skills add V1 --claude --force");
    place.assert_no_change_waits();
}
