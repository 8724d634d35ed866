//! `install.sh`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::releases::{ROOT, Releases, of_version};
use crate::support::{Ran, executable, snapshot, write};

#[test]
fn a_release_is_installed_and_replaces_an_older_one_in_one_rename() {
    let releases = Releases::new();
    let program = releases.installed();
    releases.good("1.2.3");
    releases.run("").expect(
        0,
        &[
            &format!("installed kernels 1.2.3 (abc) as {}\n", program.display()),
            "checked: SHA-256; the attestation was not, because http://127.0.0.1:",
            "is not in PATH: export PATH=",
        ],
    );
    let before = program.metadata().unwrap();
    assert_eq!(before.mode() & 0o777, 0o755);
    // The latest, where neither is named; a `v` may stand before a version.
    releases.good("2.0.0");
    write(&releases.root.join("releases/latest.to"), format!("{}/releases/tag/v2.0.0", releases.url));
    write(&releases.root.join("releases/tag/v2.0.0"), "");
    let latest = Ran::of(&mut releases.command(&format!("--from {}/", releases.url)));
    latest.expect(0, &["installed kernels 2.0.0 (abc)", ", in place of kernels 1.2.3 (abc)"]);
    assert_ne!(program.metadata().unwrap().ino(), before.ino(), "the program was written over, not renamed");
    assert_eq!(fs::read_dir(program.parent().unwrap()).unwrap().count(), 1, "something was left beside it");
    Ran::of(&mut releases.command(&format!("--from {} --version v1.2.3 --to here", releases.url)))
        .expect(0, &[&format!("as {}", releases.test.at("here/kernels").display())]);
    // A copy of a release names that release.
    let stamp = |url: &str, version: &str| {
        Ran::of(Command::new(Path::new(ROOT).join("release/installer")).args([url, version]).stdin(Stdio::null()))
    };
    let script = releases.test.at("install.sh");
    write(&script, stamp(&releases.url, "2.0.0").expect(0, &[]).out.clone());
    Ran::of(releases.test.command_of("sh").arg(&script)).expect(0, &["installed kernels 2.0.0", "in place of"]);
    for (url, version) in [("https://x/'; touch a; '", "1.2.3"), ("https://x/y", "1'"), ("ftp://x", "1.2.3")] {
        stamp(url, version).expect(2, &["release/installer"]);
    }
}

#[test]
fn what_is_not_the_release_is_not_installed() {
    let releases = Releases::new();
    let program = releases.installed();
    executable(&program, of_version("0.9.0"));
    let before = snapshot(&releases.test.home);
    let refused = |says: &[&str]| {
        releases.run("").expect(1, says);
        assert_eq!(snapshot(&releases.test.home), before, "{says:?}");
    };
    refused(&["404", "could not be downloaded", "Nothing was installed"]);
    let archive = releases.good("1.2.3");
    let sum = PathBuf::from(format!("{}.sha256", archive.display()));
    let right = fs::read(&sum).unwrap();
    for text in ["", "0123  x\n", &"0".repeat(64)] {
        write(&sum, text);
        refused(&["is damaged or was changed: its SHA-256 is "]);
    }
    fs::remove_file(&sum).unwrap();
    refused(&["404", ".sha256 could not be downloaded"]);
    // Without a program that adds it up, nothing would equal nothing.
    write(&sum, "");
    let others = releases.test.root().join("others");
    fs::create_dir(&others).unwrap();
    for tool in fs::read_dir("/usr/bin").unwrap().flatten() {
        if !["sha256sum", "shasum"].iter().any(|name| tool.file_name() == *name) {
            symlink(tool.path(), others.join(tool.file_name())).unwrap();
        }
    }
    let mut without = releases.command(&format!("--from {} --version 1.2.3", releases.url));
    Ran::of(without.env("PATH", &others)).expect(1, &["sha256sum and shasum are missing"]);
    assert_eq!(snapshot(&releases.test.home), before);
    write(&sum, right);
    let cut = PathBuf::from(format!("{}.cut", archive.display()));
    write(&cut, "");
    refused(&["could not be downloaded"]);
    fs::remove_file(cut).unwrap();
    // Archives with a right checksum, and something else in them.
    releases.release("1.2.3", &of_version("1.2.4"));
    refused(&["is not that version: it says kernels 1.2.4"]);
    releases.release("1.2.3", b"\x7fELF, not");
    refused(&["does not run here"]);
    let other = releases.good("1.2.4");
    fs::copy(other, &archive).unwrap();
    Ran::ok(
        releases
            .test
            .command_of("sh")
            .current_dir(archive.parent().unwrap())
            .args(["-c", "for f in *.gz; do sha256sum $f >$f.sha256; done"]),
    );
    refused(&["has no kernels-1.2.3-"]);
    // Stopped after the new program was written beside the old one.
    releases.good("1.2.3");
    for (signal, left) in [("TERM", 0), ("KILL", 1)] {
        releases.fake("chmod", &format!("kill -{signal} $PPID"));
        assert_ne!(releases.run("").code, 0);
        assert_eq!(fs::read(&program).unwrap(), of_version("0.9.0"));
        assert_eq!(fs::read_dir(program.parent().unwrap()).unwrap().count(), 1 + left, "{signal}");
    }
}

#[test]
fn a_kernels_of_somebody_else_stays() {
    let releases = Releases::new();
    releases.good("1.2.3");
    let program = releases.installed();
    let theirs = releases.test.home.join("theirs");
    executable(&theirs, of_version("0.9.0"));
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    // The Hub's library has a script of this name, uv makes a link.
    let made: [&dyn Fn(); 4] = [
        &|| executable(&program, b"#!/bin/sh\necho kernels 0.17.2\n"),
        &|| symlink(&theirs, &program).unwrap(),
        &|| symlink("nowhere", &program).unwrap(),
        &|| executable(&program, fs::read("/bin/true").unwrap()),
    ];
    for make in made {
        make();
        let before = snapshot(&releases.test.home);
        releases.run("").expect(3, &["is not this program: remove it, or name another folder with --to"]);
        assert_eq!(snapshot(&releases.test.home), before);
        fs::remove_file(&program).unwrap();
    }
    fs::create_dir(&program).unwrap();
    releases.run("").expect(3, &["is not this program"]);
    assert_eq!(fs::read_dir(&program).unwrap().count(), 0);
}

/// Answers as github.com would, from the server on loopback.
const CURL: &str = r#"for word; do
  shift
  case $word in https://github.com/o/r/*) word=URL/${word#https://github.com/o/r/} ;; =https) word==http ;; esac
  set -- "$@" "$word"
done
exec /usr/bin/curl "$@""#;

#[test]
fn the_attestation_is_checked_where_gh_can() {
    let releases = Releases::new();
    releases.good("1.2.3");
    releases.fake("curl", &CURL.replace("URL", &releases.url));
    let run = |typed: &str| {
        let typed = format!("--from https://github.com/o/r --version 1.2.3 {typed}");
        let ran = Ran::of(&mut releases.command(&typed));
        let there = releases.installed().exists();
        assert_eq!(there, ran.code == 0, "{ran:#?}");
        let _ = fs::remove_file(releases.installed());
        ran
    };
    let gh = |version: &str, verify: &str| {
        let script = format!("case $1 in --version) echo 'gh version {version} (2026)' ;; *) {verify} ;; esac");
        releases.fake("gh", &script);
    };
    let right = "shift 3; [ \"$*\" = '--repo o/r --signer-workflow o/r/.github/workflows/release.yml' ]";
    gh("2.67.0", right);
    run("--attested").expect(0, &["checked: SHA-256, the attestation of o/r\n"]);
    gh("2.101.3", "echo nothing attests it >&2; exit 1");
    run("").expect(1, &["has no valid attestation of o/r: nothing attests it", "Nothing was installed"]);
    let cases = [("2.101.3", "exit 4", "gh is not logged in"), ("2.66.1", "exit 0", "gh is older than 2.67")];
    for (version, verify, why) in cases {
        gh(version, verify);
        run("").expect(0, &[&format!("checked: SHA-256; the attestation was not, because {why}")]);
        run("--attested").expect(1, &["the attestation cannot be checked", why]);
    }
    fs::remove_file(releases.test.root().join("bin/gh")).unwrap();
    releases.fake("gh", "exit 127");
    run("--attested").expect(1, &["the program gh is not here"]);
}

#[test]
fn systems_without_a_release_and_wrong_usage_are_said_before_anything_is_fetched() {
    let releases = Releases::new();
    let cases = [
        ("uname", "echo sparc64", "there is no release for sparc64"),
        ("uname", "[ $1 = -m ] && echo x86_64 || echo Plan9", "there is no release for Plan9"),
        ("getconf", "exit 1", "needs glibc 2.28 or later, and this system has another C library"),
        ("getconf", "echo glibc 2.27", "and this system has glibc 2.27"),
    ];
    for (name, script, says) in cases {
        releases.fake(name, script);
        releases.run("").expect(1, &[says]);
        fs::remove_file(releases.test.root().join("bin").join(name)).unwrap();
    }
    for libc in ["2.28", "2.41.9000"] {
        releases.fake("getconf", &format!("echo glibc {libc}"));
        releases.run("").expect(1, &["404"]);
    }
    // macOS has archives of its own name.
    releases.fake("uname", "[ $1 = -m ] && echo arm64 || echo Darwin");
    releases.run("").expect(1, &["kernels-1.2.3-aarch64-apple-darwin.tar.gz could not be downloaded"]);
    for (typed, says) in [
        ("", "names no repository"),
        ("--from", "--from needs a value"),
        ("--from http://example.com/o/r", "only https"),
        ("--from https://x/$(id)", "is not the address"),
        ("--from https://x/y --version ../1", "is not a version"),
        ("--frm x", "unknown argument --frm"),
    ] {
        Ran::of(&mut releases.command(typed)).expect(2, &[says]);
    }
    Ran::of(&mut releases.command("--help")).expect(0, &["--to FOLDER", "Exit codes"]);
    assert!(!releases.installed().exists());
}

/// `curl … | sh` runs what has arrived.
#[test]
fn a_copy_of_the_script_that_was_cut_off_does_nothing() {
    let releases = Releases::new();
    releases.good("1.2.3");
    let script = Ran::ok(Command::new(Path::new(ROOT).join("release/installer")).args([&releases.url, "1.2.3"])).out;
    let piped = |text: &str| {
        let mut child = releases
            .test
            .command_of("sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        child.wait().unwrap();
    };
    let last = script.trim_end().rfind('\n').unwrap();
    let lines = script.match_indices('\n').map(|(at, _)| at);
    // To the last brace, whose absence is an error.
    for end in lines.filter(|at| *at < last).chain(last..script.trim_end().len()) {
        piped(&script[..end]);
        assert!(!releases.test.home.join(".local").exists(), "{:?}", &script[..end]);
    }
    piped(&script);
    assert!(releases.installed().exists());
}
