//! What docs/own-operation.md says, done: its commands, and its files.

use std::fs;
use std::path::PathBuf;

use super::{Test, write};

/// A project after the page's first three steps, and how many lines and files its reader wrote by hand.
pub fn own_operation(test: &Test) -> (PathBuf, usize, usize) {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/own-operation.md")).unwrap();
    let blocks = |language: &str| -> Vec<String> {
        let fence = format!("```{language}\n");
        let fences = page.split(&fence).skip(1);
        fences.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
    };
    let one = |language: &str| match &blocks(language)[..] {
        [block] => block.clone(),
        all => panic!("{} blocks of {language}", all.len()),
    };
    let commands = &blocks("sh")[0];
    assert_eq!(commands.lines().count(), 3, "{commands}");
    let root = test.at("my-kernels");
    test.ok(commands.lines().next().unwrap().strip_prefix("kernels ").unwrap());
    let add = commands.lines().last().unwrap().strip_prefix("kernels ").unwrap();
    test.run_in(&root, add).expect(0, &["added to"]);
    test.run_in(&root, "check --strict").expect(0, &["clean"]);

    let (kernel, reference, operations) = (one("cuda"), one("python"), one("toml"));
    write(&root.join("kernel_src/relu2_up/relu2_up.cu"), &kernel);
    write(&root.join("kernel_src/relu2_up/reference.py"), &reference);
    let file = fs::read_to_string(root.join("kernel.toml")).unwrap();
    let (before, behind) = file.split_once("# -------- relu2_up --------\n").unwrap();
    let (_, cases) = behind.split_once("[[cases]]").unwrap();
    let head = "# -------- relu2_up --------";
    write(&root.join("kernel.toml"), format!("{before}{head}\n{operations}\n[[cases]]{cases}"));
    let lines = [kernel, reference, operations].map(|text| text.lines().count());
    (root, lines.iter().sum(), lines.len())
}
