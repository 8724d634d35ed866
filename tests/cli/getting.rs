//! `install.sh`, from a server on loopback with releases good and bad; and what pages say about getting the program.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use super::support::yaml::yaml;
use super::support::{KERNELS, Ran, Test, snapshot, tree, write};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A program that prints `kernels 1.2.3`; the installer looks whether what it replaces is a program.
static PROGRAM: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::TempDir::new().unwrap();
    let source = folder.path().join("kernels.c");
    write(&source, "#include <stdio.h>\nint main(void) { puts(\"kernels 1.2.3 (abc)\"); return 0; }\n");
    let program = folder.path().join("kernels");
    Ran::ok(Command::new("cc").arg(&source).arg("-o").arg(&program));
    fs::read(program).unwrap()
});

/// Releases in a folder, and a server of it that ends with the process. A file FILE.to redirects, FILE.cut cuts an answer.
struct Releases {
    test: Test,
    root: PathBuf,
    url: String,
}

impl Releases {
    fn new() -> Self {
        let test = Test::new();
        let root = test.outside();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = root.clone();
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(stream, &served)));
        Self { test, root, url }
    }

    fn archive(&self, version: &str) -> PathBuf {
        let name = format!("kernels-{version}-{}-unknown-linux-gnu.tar.gz", std::env::consts::ARCH);
        self.root.join(format!("releases/download/v{version}/{name}"))
    }

    /// A release as `./package` writes it, whose program is one byte string.
    fn release(&self, version: &str, program: &[u8]) -> PathBuf {
        let archive = self.archive(version);
        let name = archive.file_name().unwrap().to_str().unwrap();
        let folder = name.strip_suffix(".tar.gz").unwrap();
        let (stage, to) = (self.root.join("stage"), archive.parent().unwrap());
        write(&stage.join(folder).join("kernels"), program);
        fs::create_dir_all(to).unwrap();
        let pack =
            format!("tar -czf {to}/{name} {folder} && cd {to} && sha256sum {name} >{name}.sha256", to = to.display());
        Ran::ok(self.test.command_of("sh").current_dir(&stage).args(["-c", &pack]));
        archive
    }

    fn good(&self, version: &str) -> PathBuf {
        self.release(version, &of_version(version))
    }

    /// The installer with programs of the test's first in PATH.
    fn command(&self, typed: &str) -> Command {
        let mut command = self.test.command_of("sh");
        command.arg(Path::new(ROOT).join("install.sh")).args(typed.split(' ').filter(|word| !word.is_empty()));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.test.root().join("bin").display()));
        command
    }

    fn run(&self, typed: &str) -> Ran {
        Ran::of(self.command(&format!("--from {} {typed}", self.url)).arg("--version").arg("1.2.3"))
    }

    fn fake(&self, name: &str, script: &str) {
        executable(&self.test.root().join("bin").join(name), format!("#!/bin/sh\n{script}\n").as_bytes());
    }

    fn installed(&self) -> PathBuf {
        self.test.home.join(".local/bin/kernels")
    }
}

fn of_version(version: &str) -> Vec<u8> {
    let at = PROGRAM.windows(5).position(|bytes| bytes == b"1.2.3").unwrap();
    let mut program = PROGRAM.clone();
    program[at..at + 5].copy_from_slice(version.as_bytes());
    program
}

fn executable(path: &Path, bytes: &[u8]) {
    write(path, bytes);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn answer(mut stream: TcpStream, root: &Path) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let request = lines.next().unwrap().unwrap();
    lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
    let path = root.join(request.split(' ').nth(1).unwrap().trim_start_matches('/'));
    let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", path.display()));
    if let Ok(to) = fs::read_to_string(beside("to")) {
        let _ = write!(stream, "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    let (status, body) = fs::read(&path).map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let sent = if beside("cut").exists() { body.len() / 2 } else { body.len() };
    if !request.starts_with("HEAD") {
        let _ = stream.write_all(&body[..sent]);
    }
}

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
    executable(&program, &of_version("0.9.0"));
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
    executable(&theirs, &of_version("0.9.0"));
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    // The Hub's library has a script of this name, uv makes a link.
    let made: [&dyn Fn(); 4] = [
        &|| executable(&program, b"#!/bin/sh\necho kernels 0.17.2\n"),
        &|| symlink(&theirs, &program).unwrap(),
        &|| symlink("nowhere", &program).unwrap(),
        &|| executable(&program, &fs::read("/bin/true").unwrap()),
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

/// The steps of action.yml with these inputs, as GitHub's runner runs them, with the program of a release on loopback.
fn action(releases: &Releases, with: &[(&str, &str)]) -> Ran {
    let action = yaml(&fs::read_to_string(Path::new(ROOT).join("action.yml")).unwrap());
    let input = |name: &str| {
        let given = with.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned());
        given.unwrap_or_else(|| action["inputs"][name]["default"].as_str().unwrap().to_owned())
    };
    let (paths, temp) = (releases.test.root().join("paths"), releases.test.root().join("temp"));
    write(&paths, "");
    // A runner empties it before each job.
    let _ = fs::remove_dir_all(&temp);
    let mut all = Ran { code: 0, out: String::new(), err: String::new() };
    for step in action["runs"]["steps"].as_array().unwrap().iter().filter(|step| step["run"].is_string()) {
        let script = step["run"].as_str().unwrap();
        assert!(step["shell"] == "bash" && !script.contains("${{"), "{step}");
        let mut command = releases.test.command_of("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]).env("GITHUB_PATH", &paths);
        for (name, value) in step["env"].as_object().into_iter().flatten() {
            let value = match value.as_str().unwrap().trim_start_matches("${{ ").split([' ', '}']).next().unwrap() {
                "inputs.from" => releases.url.clone(),
                "github.action_path" => ROOT.to_owned(),
                "runner.temp" => value.as_str().unwrap().replace("${{ runner.temp }}", temp.to_str().unwrap()),
                "github.token" => String::new(),
                other => input(other.strip_prefix("inputs.").unwrap()),
            };
            command.env(name, value);
        }
        command.env("PATH", format!("{}:/usr/bin:/bin", fs::read_to_string(&paths).unwrap().trim()));
        let ran = Ran::of(&mut command);
        all = Ran { code: ran.code, out: all.out + &ran.out, err: all.err + &ran.err };
        if all.code != 0 {
            break;
        }
    }
    all
}

#[test]
fn the_actions_steps_install_the_program_and_check_projects() {
    let releases = Releases::new();
    let (test, version) = (&releases.test, env!("CARGO_PKG_VERSION"));
    // What would be fetched is not; all else is this program's.
    let script = format!(
        "#!/bin/sh\ncase $1 in --version) echo 'kernels {version}' ;; toolchain) echo fetched $2 ;; *) exec '{KERNELS}' \"$@\" ;; esac\n"
    );
    releases.release(version, script.as_bytes());
    test.ok("init demo --op blank");
    fs::rename(test.at("demo"), test.at("a demo")).unwrap();
    test.ok("init minus --op blank --dest ./-x");
    // There is no nvcc here, and no project passes.
    let said = action(&releases, &[("projects", "a demo\n  -x \n")]);
    said.expect(
        1,
        &[&format!("installed kernels {version}"), "checked: SHA-256", "fetched install", "no CUDA compiler"],
    );
    said.expect(1, &["demo a demo\n", "minus -x\n", "verify   all  skipped"]);
    let junit = fs::read_to_string(test.at("kernels.xml")).unwrap();
    assert_eq!(junit.matches("<testsuite ").count(), 2, "{junit}");
    // Inputs are words, never code; what must be there is required, and a typing mistake leaves nothing out.
    let strange = [("projects", "$(touch made)\n'; touch made; '")];
    action(&releases, &strange).expect(2, &["$(touch made) is not a kernel project"]);
    assert!(!test.at("made").exists());
    let all = [
        ("projects", "a demo"),
        ("require-card", "yes"),
        ("junit", "out.xml"),
        ("signers", "nobody"),
        ("python", "no"),
    ];
    action(&releases, &all).expect(1, &["--require-card"]);
    assert!(test.at("out.xml").is_file());
    action(&releases, &[("attested", "true")]).expect(1, &["the attestation cannot be checked"]);
    action(&releases, &[("version", "9.9.9")]).expect(1, &["kernels-9.9.9-", "404"]);
    // The pinned compiler is what is kept from run to run.
    let text = fs::read_to_string(Path::new(ROOT).join("action.yml")).unwrap();
    assert_eq!(text.matches(kernels::toolchain::Toolchain::PINNED).count(), 2);
    let inputs = yaml(&text)["inputs"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let page = fs::read_to_string(Path::new(ROOT).join("docs/ci.md")).unwrap();
    assert!(inputs.iter().all(|name| page.contains(&format!("`{name}`"))), "docs/ci.md lacks one of {inputs:?}");
}

/// The crate `kernels` on crates.io is somebody else's.
#[test]
fn no_page_and_no_help_names_the_crate_of_somebody_else() {
    let tops = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "AGENTS.md",
        "docs",
        "src",
        "skills",
        "scaffold",
        "python",
        "release",
        ".github",
        "install.sh",
        "action.yml",
        "examples",
    ];
    let mut read = 0;
    for (path, text) in tops.iter().flat_map(|top| {
        let path = Path::new(ROOT).join(top);
        let files =
            if path.is_dir() { tree(&path) } else { [(String::new(), fs::read_to_string(&path).unwrap())].into() };
        files.into_iter().map(move |(file, text)| (format!("{top}/{file}"), text))
    }) {
        read += 1;
        for line in text.lines() {
            let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || "`\"'()".contains(c)).collect();
            let cargo =
                words.windows(2).any(|pair| pair[0] == "cargo" && matches!(pair[1], "install" | "binstall" | "add"));
            let named = words.iter().any(|word| word.split('@').next() == Some("kernels"));
            let ours = words.iter().any(|word| matches!(*word, "--path" | "--git" | "--manifest-path"));
            assert!(!(cargo && named && !ours), "{path}: {line}: this crate is somebody else's");
            assert!(!line.contains("crates.io/crates/kernels"), "{path}: {line}");
        }
    }
    assert!(read > 300, "{read} files");
}

#[test]
fn binstall_finds_what_package_makes() {
    let manifest: toml::Table = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).unwrap().parse().unwrap();
    let binstall = &manifest["package"]["metadata"]["binstall"];
    let rendered = |key: &str| {
        let values = [
            ("{ repo }", "https://x/y"),
            ("{ version }", "1.2.3"),
            ("{ target }", "T"),
            ("{ bin }", "kernels"),
            ("{ binary-ext }", ""),
        ];
        values.iter().fold(binstall[key].as_str().unwrap().to_owned(), |text, (name, value)| text.replace(name, value))
    };
    let archive = Releases::new().archive("1.2.3");
    let url = format!("https://x/y/releases/{}", archive.to_str().unwrap().split_once("/releases/").unwrap().1);
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    assert_eq!(rendered("pkg-url").replace('T', &target), url);
    assert_eq!(rendered("bin-dir"), "kernels-1.2.3-T/kernels");
}
