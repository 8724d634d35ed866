//! Concurrent processes in one test: adds, removes, status, and an editor.

use super::*;

#[test]
fn two_adds_of_different_versions() {
    let test = Test::hostile();
    for _ in 0..15 {
        all_at_once(&test, &["V1", "V2"]);
    }
}

#[test]
fn eight_adds_of_different_versions() {
    let test = Test::hostile();
    for _ in 0..6 {
        all_at_once(&test, &["V1", "V2", "V1", "V2", "V1", "V2", "V1", "V2"]);
    }
}

/// In an empty test and over each other: all succeed, and one complete tree results.
fn all_at_once(test: &Test, versions: &[&str]) {
    let run = |version: &&str| test.run(&format!("skills add {version} --claude"));
    thread::scope(|scope| {
        let runs: Vec<_> = versions.iter().map(|v| scope.spawn(move || run(v))).collect();
        for ran in runs {
            ran.join().unwrap().expect(0, &[]);
        }
    });
    let whole = ["1", "2"].iter().any(|version| test.holds_version(CLAUDE, version));
    assert!(whole, "{:?}", picture(&test.at(CLAUDE)).keys());
    assert!(test.backups().is_empty(), "{:?}", test.backups());
    test.assert_no_change_waits();
    test.is_unedited();
}

#[test]
fn add_and_remove() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    thread::scope(|scope| {
        let adding = scope.spawn(|| {
            for n in 0..40 {
                let version = ["V1", "V2"][n % 2];
                test.run(&format!("skills add {version} --claude")).expect(0, &[]);
            }
        });
        let removing = scope.spawn(|| {
            for _ in 0..40 {
                let ran = test.run("skills remove demo --claude");
                let late = ran.code == 1 && ran.err.contains("not installed");
                assert!(ran.code == 0 || late, "{ran:#?}");
            }
        });
        adding.join().unwrap();
        removing.join().unwrap();
    });
    let whole = ["1", "2"].iter().any(|version| test.holds_version(CLAUDE, version));
    assert!(whole || !test.at(CLAUDE).exists());
    assert!(test.backups().is_empty(), "{:?}", test.backups());
    test.ok("skills add V1 --claude");
    test.assert_no_change_waits();
}

#[test]
fn status_never_calls_a_tree_edited_that_is_being_replaced() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..30 {
                let version = ["V1", "V2"][n % 2];
                test.run(&format!("skills add {version} --claude")).expect(0, &[]);
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let report = test.json("skills status");
            assert_eq!(report["installs"][0]["state"], "unchecked", "{report:#}");
        }
    });
}

/// An editor makes new files in the tree, and rewrites one the way editors do, while the tree
/// is being replaced: every file that the editor made is in test or in a backup.
#[test]
fn add_force_and_an_editor() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
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
                let file = File::create_new(test.at(CLAUDE).join(&name));
                if file.and_then(|mut file| file.write_all(text.as_bytes())).is_ok() {
                    saved.push((name, text));
                }
                let swap = test.at(CLAUDE).join("SKILL.md.swp");
                if fs::write(&swap, skill_md("demo", "v3")).is_ok() {
                    let _ = fs::rename(&swap, test.at(CLAUDE).join("SKILL.md"));
                }
                thread::sleep(Duration::from_micros(500));
            }
            saved
        });
        // The last five backups stay: look at each before it goes.
        let mut kept = BTreeMap::new();
        for n in 0..40 {
            let version = ["V1", "V2"][n % 2];
            // Without --force it may be refused because of an edit, which then stays.
            test.run(&format!("skills add {version} --claude")).expect_any(&[0, 3]);
            test.run(&format!("skills add {version} --claude --force")).expect_any(&[0, 3]);
            for tree in test.backups() {
                kept.extend(picture(&tree));
            }
        }
        done.store(true, Ordering::Relaxed);
        (editor.join().unwrap(), kept)
    });
    let (saved, mut kept) = saved;
    kept.extend(picture(&test.at(CLAUDE)));
    for (name, text) in &saved {
        let kept = kept.get(Path::new(name)).is_some_and(|(_, bytes)| bytes == text.as_bytes());
        assert!(kept, "{name} of {} is lost", saved.len());
    }
    test.ok("skills add V1 --claude --force");
    test.assert_no_change_waits();
}
