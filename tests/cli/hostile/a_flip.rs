//! Another process exchanges a folder of the project and a link that leads outside, all the time: nothing is written
//! outside, whatever the command says.

use std::os::unix::fs::symlink;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;

#[test]
fn of_the_skills_folder_or_the_one_above() {
    let mut done = 0;
    for n in 0..an_editor::attacks() * 2 {
        let test = Test::hostile();
        let (path, to) = [(".claude/skills", "folder"), (".claude", "ignored")][n % 2];
        fs::create_dir_all(test.outside().join("ignored/skills")).unwrap();
        fs::create_dir_all(test.at(".claude/skills")).unwrap();
        let link = test.at("the-other");
        symlink(test.outside().join(to), &link).unwrap();
        let before = test.untouchable();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = renameat_with(CWD, &link, CWD, test.at(path), RenameFlags::EXCHANGE);
                    // Long enough for a look at the folder, short enough to hit between two calls.
                    for _ in 0..(n % 7) * 400 {
                        std::hint::spin_loop();
                    }
                }
            });
            let typed = ["skills add V1 --claude", "skills add cuda-kernels --claude", "skills remove demo --force"];
            for _ in 0..3 {
                for typed in typed {
                    let ran = test.run(typed);
                    ran.expect_any(&[0, 1, 3]);
                    done += usize::from(ran.code == 0);
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_unchanged(&before, &test.untouchable());
    }
    println!("{done} commands did what they were to do");
}
