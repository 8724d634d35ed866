//! `--dest` with something that is not a folder for skills.

use super::*;

#[test]
fn is_a_tilde() {
    let place = Place::new();
    place.refuses("skills add V1 --dest ~", 1, &["~"]);
    place.refuses("skills add V1 --dest ~/x", 1, &["~/x", "$HOME/x"]);
}

#[test]
fn is_empty() {
    let place = Place::new();
    for json in [&[][..], &["--json"]] {
        let mut command = place.command();
        command.args(place.words("skills add V1 --dest")).arg("").args(json);
        finish(&mut command).expect_any(&[1, 2]);
    }
    assert_eq!(list(&place.project).len(), 1);
}

#[test]
fn is_a_skill() {
    let place = Place::new();
    place.refuses("skills add V1 --dest ../outside/v2/demo", 1, &["v2/demo", "skill"]);
}

#[test]
fn is_no_folder() {
    let place = Place::new();
    place.write("file", "x");
    place.link("nowhere", "dangling");
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
        place.refuses(&format!("skills add V1 --dest {dest}"), 1, &[word]);
    }
}

#[test]
fn has_dots_and_is_not_there() {
    let place = Place::new();
    place.run("skills add V1 --dest ./a/../b/./c").expect_any(&[0, 1]);
    place.run("skills add V1 --dest ../project/dest//").expect(0, &[]);
    assert!(place.holds_version("dest/demo", "1"));
    place.ok("skills remove demo --dest dest");
    assert!(!place.at("dest").exists());
}
