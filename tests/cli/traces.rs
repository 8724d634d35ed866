//! Traces that hold nothing.

use crate::support::Test;

#[test]
fn skills_generate_from_a_file_that_is_empty() {
    let test = Test::new();
    for text in ["", "\n", "\u{feff}", " \n\t\n", "{", "{\n"] {
        test.write("empty.jsonl", text);
        test.run("skills generate --from empty.jsonl --digest").expect(1, &["empty.jsonl holds no step of a trace"]);
    }
}
