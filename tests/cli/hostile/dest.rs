//! `--dest` with something that is not a folder for skills.

use super::*;

#[test]
fn is_a_tilde() {
    let test = Test::hostile();
    test.refuses("skills add V1 --dest ~", 1, &["~"]);
    test.refuses("skills add V1 --dest ~/x", 1, &["~/x", "$HOME/x"]);
}

#[test]
fn is_empty() {
    let test = Test::hostile();
    for json in [&[][..], &["--json"]] {
        let mut command = test.command();
        command.args(test.words("skills add V1 --dest")).arg("").args(json);
        Ran::of(&mut command).expect_any(&[1, 2]);
    }
    assert_eq!(list(&test.project).len(), 1);
}

#[test]
fn is_a_skill() {
    let test = Test::hostile();
    test.refuses("skills add V1 --dest ../outside/v2/demo", 1, &["v2/demo", "skill"]);
}

#[test]
fn is_no_folder() {
    let test = Test::hostile();
    test.write("file", "x");
    test.link("nowhere", "dangling");
    for (dest, word) in [
        ("file", "file"),
        ("file/below", "file"),
        ("dangling", "dangling"),
        ("/dev/null", "/dev/null"),
        ("/dev/null/x", "/dev/null"),
        ("/proc", "/proc"),
        ("/proc/self", "/proc"),
        ("/sys/kernel", "/sys"),
    ] {
        test.refuses(&format!("skills add V1 --dest {dest}"), 1, &[word]);
    }
}

#[test]
fn has_dots_and_is_not_there() {
    let test = Test::hostile();
    test.run("skills add V1 --dest ./a/../b/./c").expect_any(&[0, 1]);
    test.run("skills add V1 --dest ../project/dest//").expect(0, &[]);
    assert!(test.holds_version("dest/demo", "1"));
    test.ok("skills remove demo --dest dest");
    assert!(!test.at("dest").exists());
}
