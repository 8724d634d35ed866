//! `.claude` or `.claude/skills` that is a file or a link.

use super::*;

#[test]
fn are_a_file() {
    for path in [".claude", ".claude/skills"] {
        let place = Place::new();
        place.write(path, "a file\n");
        place.refuses("skills add V1 --claude", 1, &[path]);
        place.look();
    }
}

#[test]
fn are_a_link_to_nothing() {
    for path in [".claude", ".claude/skills"] {
        let place = Place::new();
        place.link("nowhere", path);
        place.refuses("skills add V1 --claude", 1, &[path]);
        place.look();
    }
}

#[test]
fn are_a_link_to_themselves() {
    let place = Place::new();
    place.link("skills", ".claude/skills");
    place.refuses("skills add V1 --claude", 1, &[".claude/skills"]);
    place.look();
}

#[test]
fn are_a_link_inside_the_project() {
    for (path, to, real) in
        [(".claude", "shared", "shared/skills/demo"), (".claude/skills", "../shared", "shared/demo")]
    {
        let place = Place::new();
        fs::create_dir(place.at("shared")).unwrap();
        place.link(to, path);
        place.ok("skills add V1 --claude");
        assert!(place.holds_version(real, "1"));
        place.ok("skills status");
        place.ok("skills remove demo");
        assert!(place.at(path).is_symlink());
        assert!(!place.at(real).exists());
    }
}

#[test]
fn are_a_link_that_leaves_the_project() {
    for (path, to) in [(".claude", "../outside/empty"), (".claude/skills", "../../outside/empty")] {
        let place = Place::new();
        place.link(to, path);
        place.refuses("skills add V1 --claude", 3, &[path, "leaves the project"]);
        place.refuses("skills add V1 --claude --force", 3, &[path]);
        place.refuses("skills remove demo --claude", 3, &[path]);
        place.look();
        let before = picture(&place.outside);
        place.run("skills update").expect_any(&[0, 1, 3]);
        assert_unchanged(&before, &place.untouchable());
    }
}

/// An install outside the project, reached through a link in it, does not belong to the project.
#[test]
fn are_a_link_to_installs_outside() {
    let place = Place::new();
    place.run("skills add V1 --dest ../outside/empty").expect(0, &[]);
    fs::remove_file(place.outside.join("empty/demo/SKILL.md")).unwrap();
    place.link("../../outside/empty", ".claude/skills");
    let before = place.untouchable();
    place.run("skills update").expect_any(&[0, 1, 3]);
    place.run("skills remove demo").expect_any(&[1, 3]);
    place.run("skills remove demo --force").expect_any(&[1, 3]);
    assert_unchanged(&before, &place.untouchable());
}
