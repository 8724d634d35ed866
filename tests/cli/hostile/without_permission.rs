//! Folders and files without write or read permission.

use super::*;

/// A test owned by `nobody`, and the program run as `nobody`; as the current user
/// if that is not root.
pub struct AsNobody(Test, PathBuf);

impl AsNobody {
    pub fn new() -> Self {
        let test = Test::hostile();
        let mut copy = PathBuf::from(program());
        if geteuid().is_root() {
            fs::set_permissions(test.root(), Permissions::from_mode(0o755)).unwrap();
            // Other users may lack access to the build folder.
            copy = test.root().join("kernels");
            if fs::hard_link(program(), &copy).is_err() {
                // Copied by a child process: a concurrent fork of this one would keep the file open for writing.
                let copied = Command::new("cp").arg(program()).arg(&copy).status();
                assert!(copied.unwrap().success());
            }
            for folder in [&test.project, &test.home, &test.outside()] {
                give(folder);
            }
        }
        Self(test, copy)
    }

    #[track_caller]
    pub fn run(&self, typed: &str) -> Ran {
        let mut command = self.0.command_of(&self.1);
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        Ran::of(command.args(self.0.words(typed)))
    }

    pub fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.0.at(path), Permissions::from_mode(mode)).unwrap();
    }
}

impl Drop for AsNobody {
    fn drop(&mut self) {
        open_up(&self.0.project);
        open_up(&self.0.outside());
    }
}

fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    for below in list(path) {
        give(&below);
    }
}

fn open_up(path: &Path) {
    if path.is_symlink() {
        return;
    }
    if path.is_dir() {
        let _ = fs::set_permissions(path, Permissions::from_mode(0o755));
    }
    for below in list(path) {
        open_up(&below);
    }
}

#[test]
fn to_the_project() {
    let nobody = AsNobody::new();
    nobody.mode("", 0o555);
    nobody.run("skills add V1 --claude").expect(1, &[".claude", "ermission"]);
    nobody.run("skills add V1 --claude --json").expect(1, &[".claude"]);
    assert!(!nobody.0.at(".claude").exists());
}

#[test]
fn to_the_project_where_a_manifest_is_to_be() {
    let nobody = AsNobody::new();
    nobody.run("skills add cuda-kernels --claude").expect(0, &[]);
    nobody.mode("", 0o555);
    nobody.run("skills sync --init").expect(1, &["cannot write", "skills.toml", "ermission"]);
}

#[test]
fn to_the_agents_folder_but_to_its_skills() {
    let nobody = AsNobody::new();
    nobody.run("skills add V1 --claude").expect(0, &[]);
    nobody.mode(".claude", 0o555);
    nobody.run("skills add V2 --claude").expect(0, &[]);
    assert!(nobody.0.holds_version(CLAUDE, "2"));
    nobody.0.assert_no_change_waits();
    nobody.run("skills remove demo").expect(0, &[]);
}

#[test]
fn to_the_skills_folder() {
    let nobody = AsNobody::new();
    nobody.run("skills add V1 --claude").expect(0, &[]);
    nobody.mode(".claude/skills", 0o555);
    for typed in ["skills add V2 --claude", "skills remove demo"] {
        nobody.run(typed).expect(1, &[".claude/skills", "ermission"]);
        assert!(nobody.0.holds_version(CLAUDE, "1"));
        nobody.0.assert_no_change_waits();
    }
    nobody.mode(".claude/skills", 0o755);
    nobody.run("skills add V2 --claude").expect(0, &[]);
}

#[test]
fn to_look_into_the_skills_folder() {
    let nobody = AsNobody::new();
    nobody.run("skills add V1 --claude").expect(0, &[]);
    nobody.mode(".claude/skills", 0o000);
    nobody.run("skills add V2 --claude").expect_any(&[1, 3]);
    nobody.run("skills status --json").expect_any(&[0, 1]);
    nobody.run("skills remove demo").expect_any(&[1, 3]);
    nobody.mode(".claude/skills", 0o755);
    assert!(nobody.0.holds_version(CLAUDE, "1"));
}

#[test]
fn to_a_file_of_the_install() {
    let nobody = AsNobody::new();
    nobody.run("skills add V1 --claude").expect(0, &[]);
    let file = format!("{CLAUDE}/references/3.md");
    nobody.mode(&file, 0o000);
    for typed in ["skills add V2 --claude", "skills add V2 --claude --force"] {
        nobody.run(typed).expect(3, &[CLAUDE, "ermission"]);
    }
    nobody.run("skills status --json").expect(1, &["unreadable"]);
    nobody.mode(&file, 0o644);
    assert!(nobody.0.holds_version(CLAUDE, "1"));
}

#[test]
fn to_the_receipt() {
    let nobody = AsNobody::new();
    nobody.run("skills add V1 --claude").expect(0, &[]);
    nobody.mode(&format!("{CLAUDE}/.kernels.json"), 0o000);
    nobody.run("skills add V2 --claude").expect_any(&[0, 1, 3]);
    nobody.run("skills add V2 --claude --force").expect_any(&[0, 1, 3]);
    nobody.run("skills status --json").expect_any(&[0, 1]);
}

#[test]
fn to_a_file_of_the_source() {
    let nobody = AsNobody::new();
    let file = nobody.0.outside().join("v1/demo/references/3.md");
    fs::set_permissions(&file, Permissions::from_mode(0o000)).unwrap();
    nobody.run("skills add V1 --claude").expect(1, &["references/3.md", "ermission"]);
    assert!(!nobody.0.at(".claude").exists());
}

#[test]
fn by_an_odd_umask() {
    for umask in ["077", "0177", "0100", "0222", "0777"] {
        let nobody = AsNobody::new();
        let mut command = nobody.0.command_of("/bin/sh");
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(&nobody.1);
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.args(nobody.0.words("skills add V1 --claude"));
        let ran = Ran::of(&mut command);
        ran.expect_any(&[0, 1]);
        if ran.code == 0 {
            nobody.run("skills status").expect(1, &["unchecked"]);
            nobody.run("skills add V2 --claude").expect(0, &[]);
            nobody.run("skills remove demo").expect(0, &[]);
        }
        assert!(!nobody.0.at(".claude").exists(), "umask {umask}: {ran:#?}");
    }
}

/// A folder in the old tree that cannot be deleted must not block later commands.
#[test]
fn to_delete_the_old_tree() {
    let nobody = AsNobody::new();
    nobody.run("skills add V1 --claude").expect(0, &[]);
    nobody.mode(&format!("{CLAUDE}/references"), 0o555);
    nobody.run("skills add V2 --claude").expect(0, &[]);
    nobody.0.assert_no_change_waits();
    nobody.mode(&format!("{CLAUDE}/references"), 0o555);
    nobody.run("skills remove demo").expect(0, &[]);
    nobody.run("skills add V1 --claude").expect(0, &[]);
    nobody.0.assert_no_change_waits();
}

/// A script run as root leaves files owned by root in the tree.
#[test]
fn to_delete_what_root_left_in_the_old_tree() {
    if !geteuid().is_root() {
        println!("SKIPPED: only root can leave something of root's");
        return;
    }
    let nobody = AsNobody::new();
    for version in ["v1", "v2"] {
        write(&nobody.0.outside().join(version).join("demo/scripts/x.py"), "");
    }
    nobody.run("skills add V1 --claude").expect(0, &[]);
    let cache = format!("{CLAUDE}/scripts/__pycache__");
    nobody.0.write(&format!("{cache}/x.cpython-312.pyc"), b"\xcb\x0d\r\ncompiled");
    chown(nobody.0.at(&cache), Some(0), Some(0)).unwrap();
    nobody.run("skills add V2 --claude").expect_any(&[0, 1]);
    assert!(nobody.0.holds_version(CLAUDE, "2"));
    nobody.run("skills add V1 --claude").expect(0, &[]);
    assert!(nobody.0.holds_version(CLAUDE, "1"));
    nobody.run("skills remove demo").expect(0, &[]);
}
