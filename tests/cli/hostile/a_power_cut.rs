//! What a power cut leaves of files that were not waited for: empty files, zeros, nothing. They are damaged, not edited,
//! and `update` writes them again.

use super::*;

const SKILL: &str = ".claude/skills/cuda-kernels";

#[test]
fn of_an_install_shows_as_damaged_and_update_repairs_it() {
    let test = Test::hostile();
    test.ok("skills add cuda-kernels --claude");
    let whole = picture(&test.at(SKILL));
    let length = fs::metadata(test.at(SKILL).join("SKILL.md")).unwrap().len();
    test.write(&format!("{SKILL}/SKILL.md"), vec![0; usize::try_from(length).unwrap()]);
    test.write(&format!("{SKILL}/references/troubleshooting.md"), "");
    fs::remove_dir_all(test.at(SKILL).join("scripts")).unwrap();
    test.run("skills status").expect(1, &["damaged", "0 SKILL.md", "0 references/troubleshooting.md", "D scripts/"]);
    test.run("doctor").expect(1, &["damaged", "`kernels skills update` repairs it"]);
    test.run("skills update").expect(0, &["repaired"]);
    let mut mended = picture(&test.at(SKILL));
    let mut whole = whole;
    for picture in [&mut mended, &mut whole] {
        picture.remove(Path::new(".kernels.json"));
    }
    assert_eq!(mended, whole);
    assert!(area(&test.at(".claude")).is_empty(), "what holds nothing is no backup");
    // One edit, and nothing is repaired unasked.
    test.write(&format!("{SKILL}/SKILL.md"), "");
    test.write(&format!("{SKILL}/references/troubleshooting.md"), "mine\n");
    test.run("skills update").expect(3, &["M references/troubleshooting.md"]);
}
