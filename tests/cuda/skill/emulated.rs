//! The skill's launchers of rope and of gated activations belong to no project of kernels/, so no card verifies them. Their
//! threads do not talk to each other (rope's without the norm), so a plain compiler can run them, one after another.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{copied, run};
use crate::support::root;

/// What a statement that begins so becomes, as far as its last parenthesis.
const STATEMENTS: [(&str, &str); 8] = [
    ("asm volatile(\"ld.global.L1", "std::memcpy(pack.word, at, 16);"),
    ("asm volatile(\"st.global.v4", "std::memcpy(at, pack.word, 16);"),
    ("asm(\"ex2.approx", "y = exp2f(x);"),
    ("asm(\"rcp.approx", "y = 1.0f / x;"),
    // fp16, and a hyperbolic tangent, are not emulated.
    ("asm(\"{\\n\\t.reg .f16", "std::abort();"),
    ("asm(\"cvt.rn.f16x2", "std::abort();"),
    ("asm(\"tanh.approx", "std::abort();"),
    ("kernel<<<", ""),
];

fn emulated(text: &str) -> String {
    let mut text = text.to_owned();
    for (beginning, becomes) in STATEMENTS {
        while let Some(start) = text.find(beginning) {
            let end = start + text[start..].find(");\n").unwrap() + 2;
            let statement = &text[start..end];
            let becomes = match statement.strip_prefix("kernel<<<") {
                // kernel<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(a);
                Some(rest) => format!("emulate(kernel, {}, a);", rest.split(", 0, ").next().unwrap()),
                None => becomes.to_owned(),
            };
            text.replace_range(start..end, &becomes);
        }
    }
    text
}

fn emulate(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            emulate(&path);
        } else if let Ok(text) = fs::read_to_string(&path) {
            fs::write(&path, emulated(&text)).unwrap();
        }
    }
}

#[test]
fn the_launchers_of_gated_and_rope_compute_what_they_say() {
    let folder = copied(&["rms_norm", "gated", "rope"]);
    let sources = folder.path().join("kernel_src");
    emulate(&sources);
    let here = root().join("tests/cuda/skill/emulated");
    let check = folder.path().join("check");
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-O1", "-w", "-fsanitize=address", "-I"]).arg(&here).arg("-I").arg(&sources);
    let (compiled, said) = run(compiler.arg("-o").arg(&check).arg(here.join("check.cpp")));
    assert!(compiled, "{said}");
    let (right, said) = run(&mut Command::new(&check));
    assert!(right && said.contains(" 0 failed"), "{said}");
}
