//! `skills add x.skill` with archives that have false headers, are too large, or point elsewhere.

use super::*;

const FILE: u32 = 0o100_644;

/// One entry to write, valid or not.
#[derive(Clone)]
struct Entry {
    name: Vec<u8>,
    mode: u32,
    /// The stored bytes.
    data: Vec<u8>,
    deflated: bool,
    flags: u16,
    /// The unpacked size in the headers.
    claims: u32,
    crc: u32,
}

fn entry(name: impl AsRef<[u8]>, content: &[u8]) -> Entry {
    Entry {
        name: name.as_ref().to_vec(),
        mode: FILE,
        data: content.to_vec(),
        deflated: false,
        flags: 0x800,
        claims: u32::try_from(content.len()).unwrap(),
        crc: crc32(content),
    }
}

fn skill() -> Entry {
    entry("demo/SKILL.md", skill_md("demo", "v1").as_bytes())
}

fn deflated(name: &str, content: &[u8]) -> Entry {
    let level = flate2::Compression::best();
    let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), level);
    packer.write_all(content).unwrap();
    Entry { data: packer.finish().unwrap(), deflated: true, ..entry(name, content) }
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn zip(entries: &[Entry]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let offset = u32::try_from(file.len()).unwrap();
        let mut common = Vec::new();
        common.extend(20_u16.to_le_bytes());
        common.extend(entry.flags.to_le_bytes());
        common.extend((if entry.deflated { 8_u16 } else { 0 }).to_le_bytes());
        common.extend([0, 0, 0x21, 0x50]);
        common.extend(entry.crc.to_le_bytes());
        common.extend(u32::try_from(entry.data.len()).unwrap().to_le_bytes());
        common.extend(entry.claims.to_le_bytes());
        common.extend(u16::try_from(entry.name.len()).unwrap().to_le_bytes());
        common.extend([0, 0]);
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend(&entry.name);
        file.extend(&entry.data);
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((entry.mode << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(&entry.name);
    }
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    let (at, size) = (file.len(), directory.len());
    file.extend(&directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend(count);
    file.extend(count);
    file.extend(u32::try_from(size).unwrap().to_le_bytes());
    file.extend(u32::try_from(at).unwrap().to_le_bytes());
    file.extend([0, 0]);
    file
}

#[track_caller]
fn is_refused(bytes: &[u8], words: &[&str]) {
    let test = Test::hostile();
    test.write("x.skill", bytes);
    let words: Vec<&str> = words.iter().copied().chain(["x.skill"]).collect();
    test.refuses("skills add x.skill --claude", 1, &words);
    test.refuses("skills add x.skill --claude --force", 1, &words);
    test.run("skills validate x.skill --json").expect(1, &[]);
    test.run("skills show x.skill").expect(1, &["x.skill"]);
    test.run("skills pack x.skill -o y.skill").expect(1, &["x.skill"]);
    assert_eq!(list(&test.project).len(), 2, "{:?}", list(&test.project));
    assert!(!Path::new("/tmp/kernels-escaped").exists());
}

#[track_caller]
fn is_admitted(bytes: &[u8]) {
    let test = Test::hostile();
    test.write("x.skill", bytes);
    test.ok("skills add x.skill --claude --dry-run");
}

#[test]
fn that_is_sound_is_installed() {
    let test = Test::hostile();
    let script = Entry { mode: 0o100_755, ..deflated("demo/run.sh", b"#!/bin/sh\n") };
    test.write("x.skill", zip(&[skill(), script]));
    test.ok("skills add x.skill --claude");
    assert_eq!(fs::read_to_string(test.at(CLAUDE).join("SKILL.md")).unwrap(), skill_md("demo", "v1"));
    let mode = fs::metadata(test.at(CLAUDE).join("run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn with_names_that_leave_it() {
    for (name, word) in [
        (&b"/tmp/kernels-escaped"[..], "absolute"),
        (b"../kernels-escaped", ".."),
        (b"demo/../../kernels-escaped", ".."),
        (b"demo/./x", "'.'"),
        (b"demo//x", "empty component"),
        (b"demo\\..\\x", "backslash"),
        (b"C:\\x", "absolute"),
        (b"C:/x", "absolute"),
        (b"\\\\host\\x", "absolute"),
        (b"demo/a\0b", "control character"),
        (b"demo/a\nb", "control character"),
        (b"demo/\xff", "not UTF-8"),
        (b"", "empty"),
        (b"/", "empty"),
        (b"demo/..", ".."),
        (b"..", ".."),
    ] {
        is_refused(&zip(&[skill(), entry(name, b"x")]), &[word]);
    }
}

#[test]
fn with_links_and_devices() {
    for mode in [0o120_777, 0o010_644, 0o020_644, 0o060_644, 0o140_644] {
        let link = Entry { mode, ..entry("demo/link", b"/etc/passwd") };
        is_refused(&zip(&[skill(), link]), &["demo/link", "links are refused"]);
    }
}

#[test]
fn with_the_same_name_twice() {
    let twice = "the same name is there twice";
    is_refused(&zip(&[skill(), skill()]), &[twice]);
    for (names, words) in [
        (["a", "a"], twice),
        (["a", "A"], "'a' and 'A' are the same name"),
        (["dir/x", "Dir/y"], "'dir' and 'Dir' are the same name"),
        (["SKILL.md", "skill.MD"], "'SKILL.md' and 'skill.MD' are the same name"),
        (["caf\u{e9}", "cafe\u{301}"], "are the same name"),
        (["a", "a/b"], "is there twice"),
        (["a/b", "a"], "is there twice"),
    ] {
        let top = if names[0] == "SKILL.md" { vec![] } else { vec![skill()] };
        let entries = names.map(|name| entry(format!("demo/{name}"), skill_md("demo", "v1").as_bytes()));
        is_refused(&zip(&[&top[..], &entries].concat()), &[words]);
    }
    is_refused(&zip(&[skill(), entry("Demo/a", b"1")]), &["Demo/a"]);
}

#[test]
fn with_too_many_files() {
    let mut entries = vec![skill()];
    entries.extend((0..1_000).map(|n| entry(format!("demo/{n}"), b"")));
    is_refused(&zip(&entries), &["1000"]);
    entries.pop();
    is_admitted(&zip(&entries));
}

#[test]
fn with_too_many_bytes() {
    let zeros = vec![0; 26_000_000];
    is_refused(&zip(&[skill(), deflated("demo/big", &zeros)]), &["25 MB"]);
    let half: Vec<u8> = vec![0; 13_000_000];
    let two = [skill(), deflated("demo/a", &half), deflated("demo/b", &half)];
    is_refused(&zip(&two), &["25 MB"]);
    let full = vec![0; 25_000_000 - skill().data.len()];
    is_admitted(&zip(&[skill(), deflated("demo/full", &full)]));
    is_refused(&zip(&[skill(), deflated("demo/full", &full), entry("demo/more", b"x")]), &["25 MB"]);
}

#[test]
fn with_headers_that_lie() {
    let zeros = vec![0; 26_000_000];
    for claims in [0, 10, 1_000, u32::MAX - 1] {
        let bomb = Entry { claims, ..deflated("demo/big", &zeros) };
        is_refused(&zip(&[skill(), bomb]), &[]);
    }
    let wrong = Entry { crc: 1, ..entry("demo/a", b"content") };
    is_refused(&zip(&[skill(), wrong]), &["demo/a"]);
    let garbage = Entry { data: vec![0xff; 100], ..deflated("demo/a", b"content") };
    is_refused(&zip(&[skill(), garbage]), &["demo/a"]);
}

#[test]
fn with_entries_that_share_bytes() {
    let bytes = zip(&[skill(), entry("demo/aa", b"content"), entry("demo/bb", b"content")]);
    // The last entry of the central directory points to the bytes of the first.
    let at = bytes.windows(4).rposition(|four| four == b"PK\x01\x02").unwrap();
    let mut bytes = bytes;
    bytes[at + 42..at + 46].copy_from_slice(&0_u32.to_le_bytes());
    is_refused(&bytes, &[]);
}

#[test]
fn that_is_encrypted() {
    let secret = Entry { flags: 0x801, ..entry("demo/secret", &[7; 40]) };
    is_refused(&zip(&[skill(), secret]), &[]);
}

#[test]
fn without_one_folder_on_top() {
    is_refused(&zip(&[entry("SKILL.md", b"x")]), &["SKILL.md"]);
    is_refused(&zip(&[skill(), entry("README.md", b"x")]), &["README.md"]);
    is_refused(&zip(&[skill(), entry("other/SKILL.md", b"x")]), &["other"]);
    is_refused(&zip(&[]), &["no file"]);
    let folder = Entry { mode: 0o040_755, ..entry("demo/", b"") };
    is_refused(&zip(&[folder]), &["no file"]);
    // The folder must have the skill's name.
    let text = skill_md("demo", "v1");
    is_refused(&zip(&[entry("other/SKILL.md", text.as_bytes())]), &["demo"]);
    is_refused(&zip(&[entry(".kernels/SKILL.md", text.as_bytes())]), &[]);
}

#[test]
fn that_is_cut_or_noise() {
    let whole = zip(&[skill(), deflated("demo/a", &[b'a'; 500])]);
    for cut in [0, 1, 3, 4, 30, 60, whole.len() / 2, whole.len() - 23, whole.len() - 1] {
        is_refused(&whole[..cut], &[]);
    }
    let mut random = Random::seeded("noise", 1);
    let noise: Vec<u8> = (0..5_000).map(|_| random.below(256) as u8).collect();
    is_refused(&noise, &[]);
    is_refused(&[&noise[..], b"PK\x05\x06", &[0xff; 18]].concat(), &[]);
}

/// Corrupts every byte of the headers in turn: the archive is refused or installed completely.
#[test]
fn with_any_byte_broken() {
    let test = Test::hostile();
    let whole = zip(&[skill(), entry("demo/a", b"content")]);
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        test.write("x.skill", bytes);
        test.run("skills add x.skill --claude --dry-run").expect_any(&[0, 1]);
    }
    assert_eq!(list(&test.project).len(), 2);
}

#[test]
fn with_a_receipt_and_files_of_the_area_in_it() {
    let test = Test::hostile();
    let receipt = entry("demo/.kernels.json", b"{\"format\": 99}");
    test.write("x.skill", zip(&[skill(), receipt]));
    test.ok("skills add x.skill --claude");
    test.is_unedited();
}
