//! Skills from elsewhere: repositories, archives and sites, honest ones and hostile ones. Repositories lie on this machine,
//! where the home's `url.….insteadOf` leads; sites are on loopback.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::site::{Answer, NEVER, Repository, Site};
use crate::support::{self, Ran, Test, exists, list, picture, snapshot, tree, write_skill};

/// A repository with the skills `review` and `release` in `skills/`.
fn with_repository() -> (Test, Repository) {
    let test = Test::new();
    let repository = Repository::new(&test, "skills");
    for name in ["review", "release"] {
        write_skill(&repository.at("skills").join(name), name, "1");
    }
    repository.commit();
    (test, repository)
}

/// A repository that is the skill `demo`, with these files more.
fn with_demo(files: &[(&str, &str)]) -> (Test, Repository) {
    let test = Test::new();
    let repository = Repository::new(&test, "demo");
    write_skill(&repository.folder, "demo", "1");
    for (path, text) in files {
        repository.write(path, text);
    }
    repository.commit();
    (test, repository)
}

fn lock(test: &Test) -> Value {
    serde_json::from_str(&fs::read_to_string(test.at("skills-lock.json")).unwrap()).unwrap()
}

/// The command is refused with these words, and changes nothing in the project.
#[track_caller]
fn refused(test: &Test, typed: &str, code: i32, words: &[&str]) {
    let before = picture(&test.project);
    test.run(typed).expect(code, words);
    assert!(picture(&test.project) == before, "{typed} changed something");
}

fn packed(test: &Test, name: &str) -> Vec<u8> {
    test.skill(name, "1");
    test.ok(&format!("skills pack ../outside/sources/{name} -o ../{name}.skill"));
    fs::read(test.root().join(format!("{name}.skill"))).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", support::sha256(bytes))
}

#[test]
fn a_skill_of_a_repository_is_shown_agreed_to_installed_and_pinned() {
    let (test, repository) = with_repository();
    let commit = repository.git("rev-parse HEAD");
    refused(&test, "skills add acme/skills --claude", 1, &["several skills: release, review", "-s"]);
    let asks = ["3 files", "tokens", "script scripts/run.py", "--yes", "comes from elsewhere"];
    refused(&test, "skills add acme/skills -s review --claude", 3, &asks);
    refused(&test, "skills add acme/skills -s review --claude --dry-run", 0, &["plan for review 1", "install"]);
    refused(&test, "skills add acme/skills -s nothing --claude -y", 1, &["no skill 'nothing'", "release, review"]);
    let report = test.json("skills add acme/skills -s review --claude -y");
    assert_eq!(report["skills"][0]["skill"]["contents"]["scripts"], json!(["scripts/run.py"]));
    assert_eq!(tree(test.at(".claude/skills/review")), tree(repository.at("skills/review")));
    let entry = &lock(&test)["skills"]["review"];
    assert_eq!(entry["source"], "acme/skills");
    assert_eq!((&entry["sourceType"], &entry["skillPath"]), (&json!("github"), &json!("skills/review/SKILL.md")));
    assert_eq!(entry["commit"], json!(commit));
    // Nothing but `add`, `update` and `sync` needs the repository.
    fs::rename(&repository.folder, repository.folder.with_extension("away")).unwrap();
    test.ok("skills status").expect(0, &["current", "from github:acme/skills/skills/review", "as of the lock"]);
    for typed in ["skills list", "skills diff", "doctor", "skills sync --init", "skills sync --check", "skills sync"] {
        test.ok(typed);
    }
    fs::remove_dir_all(test.at(".claude/skills/review/scripts")).unwrap();
    test.run("skills status").expect(1, &["missing files"]);
    test.run("skills update").expect(1, &["git cannot fetch it", "left as it is"]);
    test.ok("skills remove review");
    assert_eq!(lock(&test)["skills"], json!({}));
}

#[test]
fn what_was_agreed_to_once_is_not_asked_again() {
    let (test, _repository) = with_repository();
    test.ok("skills add acme/skills -s * --claude -y");
    test.ok("skills add acme/skills -s * --codex").expect(0, &["installed"]);
    test.ok("skills add acme/skills/skills/review --global --claude");
    test.ok("skills status").expect(0, &["(user)", "current"]);
}

#[test]
fn folders_branches_tags_commits_and_urls_name_what_is_meant() {
    let (test, repository) = with_repository();
    let first = repository.git("rev-parse HEAD");
    repository.git("tag v1");
    repository.git("checkout -q -b feature/x");
    write_skill(&repository.at("skills/review"), "review", "2");
    repository.commit();
    repository.git("checkout -q main");
    for (n, (source, version)) in [
        ("acme/skills/skills/review".to_owned(), "1"),
        ("acme/skills/skills/review@v1".to_owned(), "1"),
        ("github:acme/skills/skills/review@feature/x".to_owned(), "2"),
        (format!("acme/skills/skills/review@{first}"), "1"),
        ("https://github.com/acme/skills.git/skills/review#feature/x".to_owned(), "2"),
        ("https://github.com/acme/skills/tree/v1/skills/review".to_owned(), "1"),
    ]
    .into_iter()
    .enumerate()
    {
        let report = test.json(&format!("skills add {source} --dest ../there{n} -y"));
        assert_eq!(report["skill"]["version"], version, "{source}: {report}");
    }
    repository.git("tag -a v2 -m x v1");
    test.ok("skills add acme/skills/skills/review@v2 --claude -y");
    assert_eq!(lock(&test)["skills"]["review"]["commit"], json!(first));
    test.ok("skills update").expect(0, &["unchanged"]);
    fs::remove_dir_all(test.at(".claude")).unwrap();
    test.ok("skills sync").expect(0, &["installed"]);
    test.run("skills add acme/skills@review --claude -y")
        .expect(1, &["no branch, tag or commit 'review'", "-s review"]);
    test.run("skills add acme/nothing --claude -y").expect(1, &["github:acme/nothing", "git cannot fetch"]);
    test.run("skills add acme/skills/none --claude -y").expect(1, &["no skill in github:acme/skills/none"]);
    for bad in ["git://example.com/x.git", "file:///etc/x.git", "u@-h:x.git", "https://a:b@example.com/x.git"] {
        test.run(&format!("skills add {bad} --claude -y")).expect(2, &[]);
    }
    // A path stays a path, and a misspelt one is not fetched.
    fs::create_dir(test.at("acme")).unwrap();
    test.run("skills add acme/skills --claude -y").expect(1, &["cannot read a skill from acme/skills"]);
    test.run("skills add ./acme/skills --claude").expect(1, &["cannot read a skill"]);
}

#[test]
fn update_shows_the_difference_first() {
    let (test, repository) = with_repository();
    test.ok("skills add acme/skills -s * --agent claude,codex -y");
    test.ok("skills update").expect(0, &["unchanged"]);
    write_skill(&repository.at("skills/review"), "review", "2");
    let commit = repository.commit();
    let shown = ["scripts/run.py (script)", "-print('1')", "+print('2')"];
    let asks = [&shown[..], &["another state", "--yes"]].concat();
    refused(&test, "skills update", 3, &asks);
    refused(&test, "skills update --check", 1, &shown);
    refused(&test, "skills update --dry-run", 0, &shown);
    test.ok("skills status");
    test.write(".codex/skills/review/references/guide.md", "mine\n");
    test.run("skills update -y").expect(3, &["updated", "was edited", "M references/guide.md"]);
    assert_eq!(lock(&test)["skills"]["review"]["commit"], json!(commit));
    let merge = test.run("skills update -y --merge --conflicts --codex");
    assert!(!merge.expect(1, &["conflicts wait", "-guide 1"]).out.contains("-mine"));
}

#[test]
fn sync_installs_what_is_pinned_whatever_came_since() {
    let (test, repository) = with_repository();
    test.write("skills.toml", "agents = [\"claude\", \"codex\"]\n[skills.review]\nsource = \"github:acme/skills\"\n");
    refused(&test, "skills sync --check", 1, &["missing", "skills-lock.json"]);
    refused(&test, "skills sync", 3, &["--yes"]);
    test.ok("skills sync -y").expect(0, &["installed"]);
    let pinned = lock(&test);
    write_skill(&repository.at("skills/review"), "review", "2");
    repository.commit();
    // Another copy is enough for one that is missing; without any, the pinned commit is fetched.
    fs::remove_dir_all(test.at(".codex")).unwrap();
    test.run("skills status").expect(1, &[".codex/skills/review is missing"]);
    test.ok("skills sync").expect(0, &["installed"]);
    for folder in [".codex", ".claude"] {
        fs::remove_dir_all(test.at(folder)).unwrap();
    }
    test.ok("skills sync").expect(0, &["installed", "review 1", "fetching"]);
    test.ok("skills sync --check");
    assert_eq!(lock(&test), pinned);
    // A digest that is another one.
    let mut forged = pinned.clone();
    forged["skills"]["review"]["tree"] = json!("0".repeat(64));
    test.write("skills-lock.json", forged.to_string());
    test.run("skills status").expect(1, &["pins another state"]);
    let tree = pinned["skills"]["review"]["tree"].as_str().unwrap();
    refused(&test, "skills sync", 1, &["nothing was installed", tree, &"0".repeat(64)]);
    // Another wish than the pin's.
    test.write("skills-lock.json", pinned.to_string());
    test.write("skills.toml", "agents = [\"claude\"]\n[skills.review]\nsource = \"github:acme/skills@main\"\n");
    refused(&test, "skills sync", 3, &["--yes"]);
}

#[test]
fn what_is_removed_is_not_pinned_any_more() {
    for (typed, left) in [
        ("skills remove --all", &[][..]),
        ("skills remove review release", &[]),
        ("skills remove --all --codex", &["release"]),
        ("skills remove review", &["release"]),
        ("skills remove --all --global", &["release", "review"]),
        ("skills remove --all --dry-run", &["release", "review"]),
    ] {
        let (test, _repository) = with_repository();
        test.ok("skills add acme/skills -s review --codex -y");
        test.ok("skills add acme/skills -s release --claude -y");
        test.ok("skills add acme/skills -s * --claude --global -y");
        test.ok(typed);
        let pinned = lock(&test);
        let names: Vec<_> = pinned["skills"].as_object().unwrap().keys().collect();
        assert_eq!(names, left, "{typed}");
        test.run("skills sync").expect(i32::from(left.is_empty()), &[]);
        assert_eq!(exists(test.at(".codex/skills/review")), left.contains(&"review"), "{typed}");
        assert_eq!(exists(test.at(".claude/skills/release")), left.contains(&"release"), "{typed}");
    }
    // A fresh clone has no copy yet.
    let (test, _repository) = with_repository();
    test.ok("skills add acme/skills -s review --claude -y");
    test.ok("skills add acme/skills -s review --claude --global -y");
    fs::remove_dir_all(test.at(".claude")).unwrap();
    test.ok("skills remove review --global");
    assert!(lock(&test)["skills"]["review"].is_object());
}

#[test]
fn a_lock_alone_is_enough() {
    let (test, _repository) = with_repository();
    test.ok("skills add acme/skills -s * --claude -y");
    fs::remove_dir_all(test.at(".claude")).unwrap();
    test.ok("skills sync").expect(0, &["installed"]);
    assert!(exists(test.at(".agents/skills/review/SKILL.md")));
    // As npm's `skills` writes it, with what others know beside it.
    let mut pins = lock(&test);
    for name in ["review", "release"] {
        let entry = pins["skills"][name].as_object_mut().unwrap();
        entry.remove("commit");
        entry.remove("tree");
    }
    pins["skills"]["local"] = json!({"source": "./x", "sourceType": "local", "computedHash": "0"});
    test.write("skills-lock.json", pins.to_string());
    test.ok("skills status");
    fs::remove_dir_all(test.at(".agents")).unwrap();
    test.ok("skills sync").expect(0, &["installed"]);
    let written = lock(&test);
    assert_eq!(written["skills"]["local"], pins["skills"]["local"]);
    assert!(written["skills"]["review"]["commit"].is_string());
    pins["skills"]["review"]["computedHash"] = json!("0");
    test.write("skills-lock.json", pins.to_string());
    fs::remove_dir_all(test.at(".agents")).unwrap();
    test.run("skills sync").expect(1, &["pins 0", "nothing was installed"]);
    for (text, why) in [("{", "is not valid"), (r#"{"version": 2, "skills": {}}"#, "version 1")] {
        test.write("skills-lock.json", text);
        refused(&test, "skills add acme/skills -s review --claude -y --dry-run", 0, &[]);
        test.run("skills sync").expect(1, &["skills-lock.json", why]);
    }
}

#[test]
fn what_a_repository_must_not_have_is_named() {
    for (path, text, why) in [
        ("references/a.md", "x \u{202e}evil", "references/a.md:1:3: U+202E, a bidirectional control"),
        ("references/a.md", "x\ny\u{200b}z", "references/a.md:2:2: U+200B, a zero-width character"),
        ("references/a.md", "x\u{e0041}", "references/a.md:1:2: U+E0041, a Unicode tag"),
        ("references/GUIDE.md", "x", "same name"),
        ("a\\b", "x", "backslash"),
        ("a\u{202e}b", "x", "nobody sees"),
        ("data.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS"),
    ] {
        let (test, _repository) = with_demo(&[(path, text)]);
        refused(&test, "skills add acme/demo --claude -y", 1, &[why, "acme/demo"]);
    }
    let (test, _repository) = with_demo(&[("huge.bin", &"0".repeat(26_000_000))]);
    refused(&test, "skills add acme/demo --claude -y", 1, &["25 MB"]);
    let (test, _repository) = with_demo(&[(".env", "SECRET=1")]);
    test.ok("skills add acme/demo --claude -y").expect(0, &["secret-file"]);
    assert!(!exists(test.at(".claude/skills/demo/.env")));
}

/// What git itself would not add has to be made of objects.
#[test]
fn links_submodules_and_long_names_are_refused() {
    let (test, repository) = with_demo(&[]);
    symlink("/etc/passwd", repository.at("references/link.md")).unwrap();
    repository.commit();
    refused(&test, "skills add acme/demo --claude -y", 1, &["references/link.md is a symbolic link"]);
    fs::remove_file(repository.at("references/link.md")).unwrap();
    let commit = repository.commit();
    repository.git(&format!("update-index --add --cacheinfo 160000,{commit},vendor"));
    repository.git("commit -q -m x");
    refused(&test, "skills add acme/demo --claude -y", 1, &["vendor is a submodule"]);
    repository.git("rm -q --cached vendor");
    // Nine trees, each ten times in the next.
    let blob = repository.git("hash-object -w SKILL.md");
    let mut entry = format!("100644 blob {blob}\tSKILL.md\n");
    for level in 0..9 {
        let mut command = Command::new("sh");
        command.current_dir(&repository.folder).args(["-c", "printf '%s' \"$0\" | git mktree", &entry]);
        let tree = Ran::ok(&mut command).out.trim().to_owned();
        entry = (0..10).fold(String::new(), |all, n| all + &format!("040000 tree {tree}\t{level}-{n}\n"));
        if level == 8 {
            repository
                .git(&format!("update-ref refs/heads/bomb {}", repository.git(&format!("commit-tree -m x {tree}"))));
        }
    }
    refused(&test, "skills add acme/demo@bomb --claude -y", 1, &["lists more than 64 MB of files"]);
    let blob = repository.git("hash-object -w SKILL.md");
    repository.git(&format!("update-index --add --cacheinfo 100644,{blob},{}", "x".repeat(300)));
    repository.git("commit -q -m x");
    refused(&test, "skills add acme/demo --claude -y", 1, &["too long"]);
}

/// A hook, a filter, a program of the user's configuration: none runs.
#[test]
fn nothing_of_a_repository_runs() {
    let (test, repository) = with_demo(&[(".gitattributes", "*.md filter=evil diff=evil merge=evil\n")]);
    let trap = test.root().join("trap");
    let mine = test.root().join("template/hooks/post-checkout");
    crate::support::write(&mine, format!("#!/bin/sh\ntouch {}\n", trap.display()));
    Ran::ok(Command::new("chmod").args(["+x".as_ref(), mine.as_os_str()]));
    for hook in ["post-checkout", "post-merge", "reference-transaction", "pre-auto-gc"] {
        fs::copy(&mine, repository.at(".git/hooks").join(hook)).unwrap();
        fs::copy(&mine, mine.with_file_name(hook)).unwrap();
    }
    let config = fs::read_to_string(test.home.join(".gitconfig")).unwrap();
    let touch = format!("touch {}", trap.display());
    let template = test.root().join("template");
    let more = format!(
        "[filter \"evil\"]\nsmudge = {touch}\nclean = {touch}\nrequired = true\n[core]\nfsmonitor = {touch}\nhooksPath = {0}/hooks\n[init]\ntemplateDir = {0}\n",
        template.display()
    );
    crate::support::write(&test.home.join(".gitconfig"), config + &more);
    test.ok("skills add acme/demo --claude -y");
    assert!(exists(test.at(".claude/skills/demo/.gitattributes")) && !exists(&trap));
    // An address that git rewrites to a program.
    let away = format!("[url \"ext::touch {} \"]\ninsteadOf = https://evil.example/\n", trap.display());
    crate::support::write(&test.home.join(".gitconfig"), away);
    test.run("skills add https://evil.example/x.git --claude -y").expect(1, &["ext", "not allowed"]);
    assert!(!exists(&trap));
    // The environment leads to no other repository.
    let ran =
        Ran::of(test.command().env("GIT_DIR", "/nonexistent").env("GIT_CONFIG_COUNT", "1").args(["skills", "status"]));
    ran.expect(0, &["current"]);
}

#[test]
fn an_archive_of_the_web_is_installed_and_pinned() {
    let (test, site) = (Test::new(), Site::new());
    let bytes = packed(&test, "demo");
    site.put("/demo.skill", bytes.clone());
    let url = site.url("/demo.skill");
    refused(&test, &format!("skills add {url} --claude"), 3, &["--yes", "script"]);
    test.ok(&format!("skills add {url} --claude -y"));
    let receipt: Value =
        serde_json::from_str(&fs::read_to_string(test.at(".claude/skills/demo/.kernels.json")).unwrap()).unwrap();
    assert_eq!(receipt["source"], json!({"kind": "remote", "from": url, "at": sha256(&bytes)}));
    assert_eq!(lock(&test)["skills"]["demo"]["source"], json!(url));
    let before = site.asked().len();
    for typed in ["skills status", "skills list", "skills diff", "doctor", "skills sync --init", "skills sync --check"]
    {
        test.ok(typed);
    }
    assert_eq!(site.asked().len(), before, "{:?}", site.asked());
    test.ok("skills update").expect(0, &["unchanged"]);
}

#[test]
fn a_server_that_lies_is_not_followed() {
    let (test, site, other) = (Test::new(), Site::new(), Site::new());
    let bytes = packed(&test, "demo");
    let url = site.url("/demo.skill");
    let add = format!("skills add {url} --claude -y");
    refused(&test, &add, 1, &["answers 404"]);
    other.put("/demo.skill", bytes.clone());
    for to in [
        "file:///etc/passwd",
        &other.url("/demo.skill"),
        "http://example.com/demo.skill",
        "//example.com/x",
        "ftp://x/y",
    ] {
        site.answer("/demo.skill", Answer { to: Some(to.to_owned()), ..Answer::default() });
        refused(&test, &add, 1, &["redirects to", "only https and the same host"]);
    }
    assert!(other.asked().is_empty());
    site.answer("/demo.skill", Answer { to: Some("/demo.skill".to_owned()), ..Answer::default() });
    refused(&test, &add, 1, &["more than 5 redirections"]);
    site.answer("/demo.skill", Answer { body: bytes.clone(), cut: true, ..Answer::default() });
    refused(&test, &add, 1, &["127.0.0.1"]);
    site.answer("/demo.skill", Answer { body: vec![0; 1 << 20], endless: true, ..Answer::default() });
    refused(&test, &add, 1, &["sends more than 50 MB"]);
    site.put("/demo.skill", "no archive");
    refused(&test, &add, 1, &["is refused"]);
    site.answer("/demo.skill", Answer { to: Some("/moved.skill".to_owned()), ..Answer::default() });
    site.put("/moved.skill", bytes);
    test.ok(&add);
}

#[test]
fn a_slow_server_is_given_up() {
    let (test, site) = (Test::new(), Site::new());
    for path in ["/demo.skill", "/x.git/info/refs?service=git-upload-pack"] {
        site.answer(path, Answer { after: NEVER, ..Answer::default() });
    }
    for path in ["/demo.skill", "/x.git"] {
        let start = Instant::now();
        let mut command = test.command();
        command.env("KERNELS_FETCH_SECONDS", "0.3").args(["skills", "add", &site.url(path), "--claude", "-y"]);
        assert_eq!(Ran::of(&mut command).code, 1);
        assert!(start.elapsed() < NEVER, "{path}");
    }
}

/// The index of a site in its two forms.
#[test]
fn a_sites_index_names_skills_and_their_digests() {
    let (test, site) = (Test::new(), Site::new());
    let url = site.url("");
    refused(&test, &format!("skills add {url} --claude -y"), 1, &["no index of skills", ".git"]);
    let page = "---\nname: page\ndescription: One file. Use when tested.\n---\n# Page\n";
    let flat = archive(&test, "flat.zip", "add('SKILL.md', head.replace('demo', 'flat')); add('a/b.md', 'b')");
    let demo = packed(&test, "demo");
    site.put("/.well-known/agent-skills/page.md", page);
    site.put("/files/flat.zip", flat.clone());
    site.put("/demo.skill", demo.clone());
    let entry = |name: &str, kind: &str, url: &str, bytes: &[u8]| json!({"name": name, "type": kind, "description": "d", "url": url, "digest": sha256(bytes)});
    let put = |demo: &[u8]| {
        let index = json!({"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json", "skills": [
            entry("page", "skill-md", "page.md", page.as_bytes()),
            entry("flat", "archive", "/files/flat.zip", &flat),
            entry("demo", "archive", &site.url("/demo.skill"), demo),
        ]});
        site.put("/.well-known/agent-skills/index.json", index.to_string());
    };
    put(&demo);
    test.ok(&format!("skills add {url} -s * --claude -y"));
    assert!(exists(test.at(".claude/skills/flat/a/b.md")) && exists(test.at(".claude/skills/demo/scripts/run.py")));
    assert_eq!(fs::read_to_string(test.at(".claude/skills/page/SKILL.md")).unwrap(), page);
    assert_eq!(lock(&test)["skills"]["page"]["wellKnownDigest"], json!(sha256(page.as_bytes())));
    test.ok("skills update").expect(0, &["unchanged"]);
    put(b"other");
    let said = [sha256(&demo), sha256(b"other")];
    refused(&test, &format!("skills add {url}#demo --codex -y"), 1, &[&said[0], &said[1], "nothing was installed"]);
    // The older form: files, and no digests.
    let old = Site::new();
    old.put(
        "/docs/.well-known/skills/index.json",
        json!({"skills": [{"name": "page", "description": "d", "files": ["SKILL.md", "a b.md"]}]}).to_string(),
    );
    old.put("/docs/.well-known/skills/page/SKILL.md", page);
    old.put("/docs/.well-known/skills/page/a%20b.md", "b");
    test.ok(&format!("skills add {} --dest ../old -y", old.url("/docs/")));
    assert!(exists(test.root().join("old/page/a b.md")));
    for (files, why) in [(json!(["../x"]), "outside"), (json!([]), "neither"), (json!(["SKILL.md", "skill.md"]), "404")]
    {
        old.put(
            "/docs/.well-known/skills/index.json",
            json!({"skills": [{"name": "page", "files": files}]}).to_string(),
        );
        test.run(&format!("skills add {} --dest ../other -y", old.url("/docs"))).expect(1, &[why]);
    }
    old.put(
        "/docs/.well-known/skills/index.json",
        json!({"skills": [{"name": "../x", "files": ["SKILL.md"]}]}).to_string(),
    );
    test.run(&format!("skills add {} --dest ../other -y", old.url("/docs"))).expect(1, &["no name of a skill"]);
}

/// An archive that Python makes: `entries` are calls with `add(NAME, TEXT)` and `link(NAME, TARGET)`.
fn archive(test: &Test, name: &str, entries: &str) -> Vec<u8> {
    let helpers = "
import io, sys, tarfile, zipfile
path, entries = sys.argv[1:]
if path.endswith('.zip'):
    out = zipfile.ZipFile(path, 'w')
    def add(name, text): out.writestr(name, text)
    def link(name, to):
        info = zipfile.ZipInfo(name)
        info.create_system, info.external_attr = 3, 0o120777 << 16
        out.writestr(info, to)
else:
    out = tarfile.open(path, 'w:gz')
    def add(name, text, kind=tarfile.REGTYPE, to=''):
        info = tarfile.TarInfo(name)
        data = text.encode(errors='surrogateescape')
        info.size, info.type, info.linkname, info.mode = len(data), kind, to, 0o755
        out.addfile(info, io.BytesIO(data))
    def link(name, to): add(name, '', tarfile.SYMTYPE, to)
    def hard(name, to): add(name, '', tarfile.LNKTYPE, to)
    def device(name): add(name, '', tarfile.CHRTYPE)
head = '---\\nname: demo\\ndescription: Does a thing. Use when tested.\\n---\\n# Demo\\n'
exec(entries)
out.close()
";
    let path = test.root().join(name);
    Ran::ok(Command::new("python3").args(["-c", helpers]).arg(&path).arg(entries));
    fs::read(path).unwrap()
}

/// A site whose index offers these bytes as the archive of `demo`.
fn offer(site: &Site, bytes: Vec<u8>) {
    let entry = json!({"name": "demo", "type": "archive", "url": "/demo", "digest": sha256(&bytes)});
    site.put("/demo", bytes);
    site.put("/.well-known/agent-skills/index.json", json!({ "skills": [entry] }).to_string());
}

#[test]
fn archives_of_a_site_have_a_folder_on_top_or_none() {
    for (name, entries) in [
        ("flat.zip", "add('SKILL.md', head); add('a/b.md', 'b')"),
        ("folder.zip", "add('demo/SKILL.md', head); add('demo/a/b.md', 'b')"),
        ("flat.tar.gz", "add('./SKILL.md', head); add('./a/b.md', 'b')"),
        ("folder.tar.gz", "add('demo/SKILL.md', head); add('demo/a/b.md', 'b')"),
        ("long.tar.gz", "add('SKILL.md', head); add('a/b.md', 'b'); add('x' * 200 + '/y', 'z')"),
    ] {
        let (test, site) = (Test::new(), Site::new());
        offer(&site, archive(&test, name, entries));
        test.ok(&format!("skills add {} --claude -y", site.url("")));
        assert_eq!(fs::read_to_string(test.at(".claude/skills/demo/a/b.md")).unwrap(), "b", "{name}");
    }
}

#[test]
fn hostile_archives_are_refused() {
    let (test, site) = (Test::new(), Site::new());
    for (name, entries, why) in [
        ("a.zip", "add('demo/SKILL.md', head); link('demo/link', '/etc/passwd')", "links are refused"),
        ("a.tar.gz", "add('SKILL.md', head); link('link', '/etc/passwd')", "links are refused"),
        ("b.tar.gz", "add('SKILL.md', head); hard('link', '/etc/passwd')", "links are refused"),
        ("c.tar.gz", "add('SKILL.md', head); device('null')", "links are refused"),
        ("d.tar.gz", "add('SKILL.md', head); add('../x', 'x')", "outside the skill"),
        ("e.tar.gz", "add('SKILL.md', head); add('/x', 'x')", "absolute"),
        ("f.tar.gz", "add('SKILL.md', head); add('SKILL.md', head)", "twice"),
        ("g.tar.gz", "add('SKILL.md', head); add('skill.md', head)", "same name"),
        ("h.tar.gz", "add('other/SKILL.md', head)", "is called other"),
        ("i.tar.gz", "add('SKILL.md', head); add('zeros', '0' * 60_000_000)", "MB"),
        ("j.tar.gz", "[add(f'{n}', '') for n in range(1001)]", "more than 1000 entries"),
        ("k.tar.gz", "add('SKILL.md', head); add('a', '\\u202e')", "a:1:1: U+202E"),
        ("l.tar.gz", "add('SKILL.md', head); add('a', '\\udcff\\u202e')", "a:1:2: U+202E"),
    ] {
        offer(&site, archive(&test, name, entries));
        refused(&test, &format!("skills add {} --claude -y", site.url("")), 1, &[why]);
    }
    let bytes = archive(&test, "demo.zip", "add('demo/SKILL.md', head); link('demo/link', '/etc/passwd')");
    site.put("/demo.skill", bytes);
    refused(&test, &format!("skills add {} --claude -y", site.url("/demo.skill")), 1, &["links are refused"]);
    let bytes = archive(&test, "cut.tar.gz", "add('SKILL.md', head)");
    offer(&site, bytes[..bytes.len() / 2].to_vec());
    refused(&test, &format!("skills add {} --claude -y", site.url("")), 1, &["cannot be read"]);
}

/// At whatever time it is killed: no half install, and the next run leaves no temporary folder.
#[test]
fn a_killed_run_leaves_nothing_that_stays() {
    let (test, _repository) = with_repository();
    let site = Site::new();
    site.answer("/slow.skill", Answer { after: NEVER, ..Answer::default() });
    let temporary = test.root().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let command = |source: &str| {
        let mut command = test.command();
        command.env("TMPDIR", &temporary).args(["skills", "add", source, "-s", "review", "--claude", "-y"]);
        command
    };
    Ran::killed_when(&mut command(&site.url("/slow.skill")), || !list(&temporary).is_empty());
    assert_eq!(list(&temporary).len(), 1);
    for delay in [5, 10, 15, 20, 25, 30, 40, 50] {
        Ran::killed_after(&mut command("acme/skills"), Duration::from_millis(delay));
        let there = snapshot(test.at(".claude/skills/review"));
        assert!(
            there.is_empty() || there.contains_key(".kernels.json") && there.contains_key("scripts/run.py"),
            "{there:?}"
        );
    }
    Ran::ok(&mut command("acme/skills"));
    assert_eq!(list(&temporary), Vec::<std::path::PathBuf>::new());
    test.ok("skills status");
    let left: Vec<_> = list(&test.project).into_iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(left, [".claude", ".git", "skills-lock.json"]);
}

#[test]
fn two_adds_at_once_are_both_pinned() {
    let (test, _repository) = with_repository();
    std::thread::scope(|scope| {
        for name in ["review", "release"] {
            let test = &test;
            scope.spawn(move || test.ok(&format!("skills add acme/skills -s {name} --claude -y")));
        }
    });
    assert_eq!(lock(&test)["skills"].as_object().unwrap().len(), 2);
    test.ok("skills status");
}

/// A receipt or a lock of a repository that somebody cloned names no program and no file of this machine.
#[test]
fn a_hostile_receipt_or_lock_leads_nowhere() {
    let (test, _repository) = with_repository();
    test.ok("skills add acme/skills -s review --claude -y");
    let path = ".claude/skills/review/.kernels.json";
    let receipt = fs::read_to_string(test.at(path)).unwrap();
    for from in
        ["ext::sh -c id", "file:///etc/passwd", "-x/y", "https://t@example.com/x.git", "git://example.com/x.git"]
    {
        test.write(path, receipt.replace("github:acme/skills/skills/review", from));
        refused(&test, "skills update -y", 1, &[".kernels.json is damaged", "left as it is"]);
        refused(&test, "skills update review -y", 1, &["left as it is"]);
    }
    test.write(path, receipt);
    let good = lock(&test);
    for (key, value) in
        [("commit", "--upload-pack=id"), ("skillPath", "../../x/SKILL.md"), ("ref", "-x"), ("source", "../x")]
    {
        let mut forged = good.clone();
        forged["skills"]["review"][key] = json!(value);
        test.write("skills-lock.json", forged.to_string());
        test.run("skills sync");
        test.run("skills status");
    }
}

/// What replaces a pinned skill from here is not pinned, and what others wrote beside the pins stays.
#[test]
fn another_source_takes_the_pin_away_and_the_rest_of_the_lock_stays() {
    let (test, _repository) = with_repository();
    test.write("skills-lock.json", "\u{feff}{\"version\": 1, \"lastSelectedAgents\": [\"a\"], \"skills\": {}}\n");
    test.ok("skills add acme/skills -s review --claude -y");
    assert_eq!(lock(&test)["lastSelectedAgents"], json!(["a"]));
    // Another agent's copy of the same, or of another skill, is beside what is pinned.
    test.ok("skills add .claude/skills/review --codex");
    test.ok("skills remove review --codex");
    write_skill(&test.at("mine/review"), "review", "2");
    test.ok("skills add mine/review --codex");
    assert!(lock(&test)["skills"]["review"].is_object());
    test.ok("skills remove review --codex");
    test.ok("skills add mine/review --global");
    test.ok("skills remove review --global");
    assert!(lock(&test)["skills"]["review"].is_object());
    test.ok("skills add mine/review --claude --dry-run").expect(0, &["does not pin review"]);
    test.ok("skills add mine/review --claude")
        .expect(0, &["does not pin review to github:acme/skills/skills/review any more"]);
    assert_eq!(lock(&test), json!({"version": 1, "lastSelectedAgents": ["a"], "skills": {}}));
    test.ok("skills status");
    // The same of a skill that lies elsewhere is none of the lock's.
    test.ok("skills add acme/skills -s release --claude -y");
    fs::remove_dir_all(test.at(".claude/skills/release")).unwrap();
    test.skill("release", "3");
    test.ok("skills add ../outside/sources/release --dest ../elsewhere");
    test.ok("skills remove release --dest ../elsewhere");
    test.ok("skills add ../outside/sources/release --dest vendor");
    test.ok("skills remove release --dest vendor");
    assert!(lock(&test)["skills"]["release"].is_object());
}

#[test]
fn a_lock_that_cannot_be_changed_is_said_and_fails() {
    let (test, _repository) = with_repository();
    test.ok("skills add acme/skills -s review --claude -y");
    let whole = fs::read_to_string(test.at("skills-lock.json")).unwrap();
    test.write("skills-lock.json", format!("<<<<<<< HEAD\n{whole}"));
    test.run("skills remove review")
        .expect(1, &["removed, and skills-lock.json was not changed", "skills-lock.json is not valid"]);
    assert!(!exists(test.at(".claude/skills/review")));
    // What the lock has nothing to do with is not its affair.
    write_skill(&test.at("mine/demo"), "demo", "1");
    for place in ["--claude", "--global", "--dest ../elsewhere"] {
        test.ok(&format!("skills add mine/demo {place}"));
        test.ok(&format!("skills remove demo {place}"));
    }
    // Entries of others, of a kind that is not fetched here.
    let local =
        json!({"version": 1, "skills": {"foo": {"source": "./x", "sourceType": "local", "computedHash": "ab"}}});
    test.write("skills-lock.json", local.to_string());
    test.run("skills sync").expect(1, &["the source of foo is of no kind that kernels fetches", "that pins a skill"]);
    test.write("skills-lock.json", whole.replace("\"tree\"", "\"other\"").replace("Hash\": \"", "Hash\": \"0"));
    test.run("skills sync --yes")
        .expect(1, &["and skills-lock.json pins 0", "the digest of npm's `skills` also covers"]);
}

#[test]
fn a_limit_of_time_beyond_any_clock() {
    let (test, _repository) = with_repository();
    let site = Site::new();
    let mut command = test.command();
    command.env("KERNELS_FETCH_SECONDS", "1e19").args(["skills", "add", &site.url("/x.skill"), "--claude", "-y"]);
    Ran::of(&mut command).expect(1, &["404"]);
}
