//! Files that are generated from others and kept in the repository. `UPDATE=1 cargo test --test cli
//! generated` writes them anew.

use std::fs;
use std::path::Path;

fn check(file: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, expected).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == expected,
        "{file} is not what it is generated from; run: UPDATE=1 cargo test --test cli generated"
    );
}

#[test]
fn the_page_of_agents_is_the_table() {
    check("docs/agents.md", &kernels::agent::table::to_markdown());
}
