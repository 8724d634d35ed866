//! Files that are generated from others and kept in the repository. `UPDATE=1 cargo test --test cli
//! generated` writes them anew.

use std::path::Path;

use crate::support::generated;

#[test]
fn the_page_of_agents_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/agents.md");
    generated(&path, &kernels::agent::table::to_markdown(), "cli generated");
}
