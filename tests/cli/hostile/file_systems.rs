//! Mounts in a private namespace: read-only, full, other devices, overlays.

use super::*;

/// Runs a script in a mount namespace of its own, in the project; `$P` is the project, `$K` the
/// program, `$V1` and `$V2` the skills, `$SEEN` a folder to copy results to. Returns that
/// folder, or `None` if mounting is not permitted.
fn privately(test: &Test, script: &str) -> Option<PathBuf> {
    let seen = test.root().join("seen");
    fs::create_dir(&seen).unwrap();
    let unshare = |script: &str| {
        let mut command = test.command_of("unshare");
        command.arg(if geteuid().is_root() { "-m" } else { "-rm" });
        command.args(["sh", "-c", script]);
        command.env("P", &test.project).env("K", program()).env("SEEN", &seen);
        command.env("V1", test.source("v1")).env("V2", test.source("v2"));
        command.output()
    };
    let probe = "mount --make-rprivate / && mount -t tmpfs none \"$SEEN\"";
    match unshare(probe) {
        Ok(output) if output.status.success() => {}
        other => {
            not_run(&format!("no mount is permitted here: {other:?}"));
            return None;
        }
    }
    let script = format!(
        "set -e; mount --make-rprivate /\n\
         try() {{ name=$1; shift; code=0; \"$K\" \"$@\" >\"$SEEN/$name.out\" 2>\"$SEEN/$name.err\" || code=$?; \
         echo $code >\"$SEEN/$name.code\"; }}\n{script}"
    );
    let output = unshare(&script).unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(seen)
}

#[track_caller]
fn expect(seen: &Path, name: &str, codes: &[i32], words: &[&str]) {
    let text = |end: &str| fs::read_to_string(seen.join(format!("{name}.{end}"))).unwrap();
    let ran = Ran { code: text("code").trim().parse().unwrap(), out: text("out"), err: text("err") };
    assert!(!ran.err.contains("panicked"), "{ran:#?}");
    ran.expect_any(codes);
    ran.expect(ran.code, words);
}

fn is_version(seen: &Path, path: &str, test: &Test, version: &str) -> bool {
    // A mount has another mode than the folder below it.
    let [there, source] = [seen.join(path), test.source(&format!("v{version}"))].map(|folder| {
        let mut all = picture(&folder);
        all.retain(|path, _| !["", ".kernels.json"].iter().any(|name| path == Path::new(name)));
        all
    });
    there == source
}

#[test]
fn read_only() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    let before = picture(&test.project);
    let seen = privately(
        &test,
        "mount --bind \"$P\" \"$P\"; mount -o remount,bind,ro \"$P\"; cd \"$P\"\n\
         try add skills add \"$V2\" --claude; try fresh skills add \"$V2\" --codex\n\
         try remove skills remove demo; try update skills update; try status skills status\n\
         try pack skills pack \"$V1\" -o x.skill",
    );
    let Some(seen) = seen else { return };
    expect(&seen, "add", &[1], &[".claude", "ead-only"]);
    expect(&seen, "fresh", &[1], &[".codex", "ead-only"]);
    expect(&seen, "remove", &[1], &[".claude", "ead-only"]);
    expect(&seen, "update", &[1], &["outside the project"]);
    expect(&seen, "status", &[1], &["unchecked"]);
    expect(&seen, "pack", &[1], &["x.skill", "ead-only"]);
    assert_unchanged(&before, &picture(&test.project));
}

#[test]
fn full() {
    let test = Test::hostile();
    write(&test.outside().join("v2/demo/big"), vec![b'x'; 60_000]);
    let seen = privately(
        &test,
        &format!(
            "mount -t tmpfs -o size=200k none \"$P\"; cd \"$P\"\n\
         try first skills add \"$V1\" --claude; cp -a .claude \"$SEEN/before\"\n\
         ! dd if=/dev/zero of=filler bs=4k >/dev/null 2>&1\n\
         try full skills add \"$V2\" --claude; cp -a .claude \"$SEEN/after\"\n\
         try fresh skills add \"$V1\" --codex; ls -A >\"$SEEN/ls\"\n\
         try remove skills remove demo; mkdir \"$SEEN/removed\"; test ! -e {CLAUDE} || cp -a {CLAUDE} \"$SEEN/removed/demo\"\n\
         rm filler\n\
         try again skills add \"$V2\" --claude; cp -a .claude \"$SEEN/again\""
        ),
    );
    let Some(seen) = seen else { return };
    expect(&seen, "first", &[0], &[]);
    expect(&seen, "full", &[1], &[".claude", "full"]);
    expect(&seen, "fresh", &[1], &[".codex", "full"]);
    assert!(!fs::read_to_string(seen.join("ls")).unwrap().contains(".codex"));
    assert_unchanged(&picture(&seen.join("before")), &picture(&seen.join("after")));
    // Removing needs a journal, so it may be refused; it never leaves half of a tree.
    expect(&seen, "remove", &[0, 1], &[]);
    let removed = fs::read_to_string(seen.join("remove.code")).unwrap().trim() == "0";
    assert_eq!(seen.join("removed/demo").exists(), !removed);
    assert!(removed || is_version(&seen, "removed/demo", &test, "1"));
    expect(&seen, "again", &[0], &[]);
    assert!(is_version(&seen, "again/skills/demo", &test, "2"));
    assert!(area(&seen.join("again")).is_empty());
}

#[test]
fn another_one_for_the_skills_folder() {
    let test = Test::hostile();
    let seen = privately(
        &test,
        "mkdir -p \"$P/.claude/skills\"; mount -t tmpfs none \"$P/.claude/skills\"; cd \"$P\"\n\
         try add skills add \"$V1\" --claude; echo mine >.claude/skills/demo/mine.md\n\
         try refused skills add \"$V2\" --claude; try force skills add \"$V2\" --claude --force\n\
         cp -a .claude \"$SEEN/tree\"\n\
         try remove skills remove demo; ls -A .claude .claude/skills >\"$SEEN/ls\"",
    );
    let Some(seen) = seen else { return };
    expect(&seen, "add", &[0], &[]);
    expect(&seen, "refused", &[3], &[CLAUDE]);
    expect(&seen, "force", &[0], &[]);
    assert!(is_version(&seen, "tree/skills/demo", &test, "2"));
    let backups = list(&seen.join("tree/skills/.kernels/backups"));
    assert!(backups[0].join("mine.md").exists());
    expect(&seen, "remove", &[0], &[]);
}

#[test]
fn another_one_for_the_skill_itself() {
    let test = Test::hostile();
    let seen = privately(
        &test,
        &format!(
            "cd \"$P\"; try first skills add \"$V1\" --claude; cp -a {CLAUDE} kept\n\
             mount -t tmpfs none {CLAUDE}; cp -a kept/. {CLAUDE}/; rm -r kept\n\
             try add skills add \"$V2\" --claude; try remove skills remove demo\n\
             cp -a .claude \"$SEEN/tree\""
        ),
    );
    let Some(seen) = seen else { return };
    expect(&seen, "add", &[1], &[CLAUDE]);
    expect(&seen, "remove", &[1], &[CLAUDE]);
    assert!(is_version(&seen, "tree/skills/demo", &test, "1"));
    assert!(area(&seen.join("tree")).is_empty());
}

/// A container whose image contains the project: a folder of a lower layer cannot be renamed. The
/// message says how to make it movable, and then everything works.
#[test]
fn layered() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    let seen = privately(
        &test,
        &format!(
            "mkdir \"$SEEN/t\"; mount -t tmpfs none \"$SEEN/t\"; mkdir \"$SEEN/t/u\" \"$SEEN/t/w\"\n\
             layers=lowerdir=$P,upperdir=$SEEN/t/u,workdir=$SEEN/t/w\n\
             mount -t overlay overlay -o \"$layers,redirect_dir=off\" \"$P\" \
             || mount -t overlay overlay -o \"$layers,userxattr\" \"$P\" \
             || {{ echo no >\"$SEEN/no\"; exit 0; }}\n\
             cd /; cd \"$P\"\n\
             try add skills add \"$V2\" --claude; cp -a .claude \"$SEEN/tried\"\n\
             try remove skills remove demo; cp -a .claude \"$SEEN/kept\"\n\
             cp -a {CLAUDE} {CLAUDE}.new; rm -r {CLAUDE}; mv {CLAUDE}.new {CLAUDE}\n\
             try again skills add \"$V2\" --claude; cp -a .claude \"$SEEN/added\"\n\
             echo mine >{CLAUDE}/mine.md; try force skills add \"$V1\" --claude --force\n\
             cp -a .claude \"$SEEN/forced\""
        ),
    );
    let Some(seen) = seen else { return };
    if seen.join("no").exists() {
        return not_run("no overlay can be mounted here");
    }
    for name in ["add", "remove"] {
        expect(&seen, name, &[1], &[CLAUDE, "layer", "cp -a"]);
    }
    for tree in ["tried", "kept"] {
        assert!(is_version(&seen, &format!("{tree}/skills/demo"), &test, "1"));
        assert!(area(&seen.join(tree)).is_empty());
    }
    expect(&seen, "again", &[0], &[]);
    assert!(is_version(&seen, "added/skills/demo", &test, "2"));
    expect(&seen, "force", &[0], &[]);
    assert!(is_version(&seen, "forced/skills/demo", &test, "1"));
    let backups = list(&seen.join("forced/.kernels/backups"));
    assert!(backups[0].join("mine.md").exists());
}
