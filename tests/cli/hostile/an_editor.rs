//! An editor that writes into installs while commands replace or remove them: every edit that it was told is written
//! lies in the install or in a backup afterwards. `KERNELS_ATTACKS` is the number of runs of each random test.

use super::*;

const AGENTS: [&str; 3] = ["claude", "codex", "opencode"];

fn dest(test: &Test, agent: &str) -> PathBuf {
    test.at(&format!(".{agent}/skills/demo"))
}

/// How often each attack is made.
pub fn attacks() -> usize {
    number("KERNELS_ATTACKS", 12)
}

/// One line more in a file that is there, as editors and shells append.
pub fn append(file: &Path, line: &str) -> bool {
    let opened = File::options().append(true).open(file);
    opened.and_then(|mut file| file.write_all(line.as_bytes())).is_ok()
}

/// Whether a line is in this file of an install or of one of its backups.
pub fn is_kept(install: &Path, file: &str, line: &str) -> bool {
    let host = install.parent().and_then(Path::parent).unwrap();
    let mut trees = list(&host.join(".kernels/backups"));
    trees.push(install.to_path_buf());
    trees.iter().any(|tree| fs::read_to_string(tree.join(file)).is_ok_and(|text| text.contains(line)))
}

/// A line is appended to every install that is there, before and after each call of a command that can change
/// something: behind its plan, between two installs' turns, and between a tree's check and its move.
#[test]
fn appends_at_each_call() {
    if skipped() {
        return;
    }
    let agents = &AGENTS[..2];
    let add = "skills add sources/demo --claude --codex --force";
    for (typed, stops_for_edits) in [("skills remove demo", true), ("skills update", true), (add, false)] {
        let test = Test::hostile();
        test.write_skill("sources/demo", 1);
        test.ok("skills add sources/demo --claude --codex");
        test.write_skill("sources/demo", 2);
        test.keep();
        let (mut edits, mut noticed) = (0, 0);
        for at in 0.. {
            test.reset();
            let (mut stops, mut saved) = (0, Vec::<&str>::new());
            let ran = test.watched(typed, Plan::changing(Fault::None, false), &mut || {
                if stops == at {
                    let edit = |agent: &&&str| append(&dest(&test, agent).join("SKILL.md"), "my edit\n");
                    saved.extend(agents.iter().filter(edit));
                }
                stops += 1;
            });
            assert!(matches!(ran.code, Some(0 | 3)), "{typed}, {at}: {ran:#?}");
            for agent in &saved {
                assert!(is_kept(&dest(&test, agent), "SKILL.md", "my edit"), "{typed}, {at}: {agent}'s edit is lost");
            }
            for agent in agents {
                assert!(area(&test.at(&format!(".{agent}"))).iter().all(|entry| entry == "backups" || entry == "base"));
            }
            edits += saved.len();
            noticed += usize::from(ran.code == Some(3) && ran.err.contains("M SKILL.md"));
            if stops <= at {
                break;
            }
        }
        assert!(edits > 0 && (noticed > 0) == stops_for_edits, "{typed}: {edits} edits, {noticed} noticed");
        println!("{typed}: {edits} edits, of which {noticed} runs took notice");
    }
}

/// Lines that an editor was told are written, and where each is until it has been seen in a backup.
struct Edits {
    test: Test,
    live: Vec<(&'static str, String)>,
    made: usize,
    random: Random,
}

impl Edits {
    /// One edit of one install, in one of the ways of editors.
    fn edit(test: &Test, agent: &'static str, way: usize, line: String) -> Option<(&'static str, String)> {
        let folder = dest(test, agent);
        let saved = match way {
            0 => append(&folder.join("SKILL.md"), &line),
            1 => append(&folder.join("references/3.md"), &line),
            2 => File::create_new(folder.join(format!("notes-{}.md", line.trim())))
                .is_ok_and(|mut file| file.write_all(line.as_bytes()).is_ok()),
            _ => {
                let (file, swap) = (folder.join("SKILL.md"), folder.join(".SKILL.md.swp"));
                let text = fs::read_to_string(&file).unwrap_or_default() + &line;
                !text.starts_with("edit") && fs::write(&swap, text).is_ok() && fs::rename(&swap, &file).is_ok()
            }
        };
        saved.then_some((agent, line))
    }

    /// Runs a command, with edits at random moments of it.
    fn run(&mut self, typed: &str, number: usize) {
        let plan: Vec<_> = (0..3)
            .map(|n| {
                let (agent, pause) = (*self.random.pick(&AGENTS), self.random.below(12_000) as u64);
                (Duration::from_micros(pause), agent, self.random.below(4), format!("edit-{number}-{n}\n"))
            })
            .collect();
        let test = &self.test;
        let saved: Vec<_> = thread::scope(|scope| {
            let editor = scope.spawn(move || {
                let edits = plan.into_iter().filter_map(|(pause, agent, way, line)| {
                    thread::sleep(pause);
                    Self::edit(test, agent, way, line)
                });
                edits.collect::<Vec<_>>()
            });
            let ran = test.run(typed);
            // `update` does not know the sources, which lie outside the project.
            let failed = ["not installed", "outside the project"].iter().any(|why| ran.err.contains(why));
            assert!((failed && ran.code == 1) || [0, 3].contains(&ran.code), "{typed}: {ran:#?}");
            editor.join().unwrap()
        });
        self.made += saved.len();
        self.live.extend(saved);
        let text = |tree: &Path| -> String {
            picture(tree).values().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect()
        };
        for agent in &AGENTS {
            let here = text(&dest(&self.test, agent));
            let kept: String =
                list(&self.test.at(&format!(".{agent}/.kernels/backups"))).iter().map(|b| text(b)).collect();
            // What a backup holds was kept; backups are five at most.
            self.live.retain(|(at, line)| at != agent || !kept.contains(line));
            let lost = self.live.iter().find(|(at, line)| at == agent && !here.contains(line));
            assert!(lost.is_none(), "run {number}, {typed}: {lost:?} is lost");
        }
    }
}

#[test]
fn beside_add_update_and_remove() {
    let random = Random::seeded("an editor", 20_261_123);
    let mut edits = Edits { test: Test::hostile(), live: Vec::new(), made: 0, random };
    let agents = "--claude --codex --opencode";
    for number in 0..attacks() * 4 {
        let version = ["1", "2"][number % 2];
        write_skill(&edits.test.at("sources/demo"), version);
        let force = *edits.random.pick(&["", " --force"]);
        let last = list(&edits.test.at(".claude/.kernels/backups")).pop();
        let typed = match edits.random.below(6) {
            4 => "skills update --merge".to_owned(),
            5 => last.map_or("skills list".to_owned(), |backup| format!("skills restore {}", backup.display())),
            0 => format!("skills add sources/demo {agents}{force}"),
            1 => format!("skills update{force}"),
            2 => format!("skills remove demo{force}"),
            _ => format!("skills add V{version} {agents} --force"),
        };
        edits.run(&typed, number);
    }
    assert!(edits.made > attacks() / 2, "{} edits are too few", edits.made);
    println!("{} edits beside {} runs, none lost", edits.made, attacks() * 4);
}
