//! `kernels build --torch` with a cross compiler: the variant for servers of aarch64, GH200 and GB200.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Architecture, Object as _, ObjectSection as _};

use super::build_torch::Project;
use crate::support::{Ran, cuda, not_run};

/// Debian's cross compiler, and the loader of its programs, run by qemu.
struct Cross {
    root: PathBuf,
}

impl Cross {
    fn compile(&self, command: &mut Command) -> Ran {
        let compiler = self.root.join("usr/bin/aarch64-linux-gnu-g++");
        Ran::of(self.with_libraries(command).env("CXX", compiler))
    }

    /// The programs' own.
    fn with_libraries<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("LD_LIBRARY_PATH", self.root.join("usr/lib/x86_64-linux-gnu"))
    }

    /// What the loader cannot resolve in a library: libraries and symbols.
    fn unresolved(&self, library: &Path) -> Vec<String> {
        let lib = self.root.join("usr/aarch64-linux-gnu/lib");
        let said = self
            .with_libraries(&mut Command::new(self.root.join("usr/bin/qemu-aarch64")))
            .args([
                "-U",
                "LD_LIBRARY_PATH",
                "-E",
                "LD_TRACE_LOADED_OBJECTS=1",
                "-E",
                "LD_WARN=1",
                "-E",
                "LD_BIND_NOW=1",
            ])
            .arg(lib.join("ld-linux-aarch64.so.1"))
            .arg("--library-path")
            .arg(&lib)
            .arg(library)
            .output()
            .unwrap();
        let said = [said.stdout, said.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert!(said.contains("libc.so.6 => "), "{said}");
        let name = |line: &str| match line.trim().strip_prefix("undefined symbol: ") {
            Some(symbol) => symbol.split_whitespace().next().map(str::to_owned),
            None => line.trim().strip_suffix(" => not found").map(str::to_owned),
        };
        said.lines().filter_map(name).collect()
    }
}

fn section(library: &Path, name: &str) -> (Architecture, Vec<u8>) {
    let bytes = fs::read(library).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    (file.architecture(), file.section_by_name(name).unwrap().data().unwrap().to_vec())
}

#[test]
fn a_cross_compiler_makes_the_variant_of_its_processor_with_the_same_machine_code_for_the_card() {
    let root = match cuda::debian("aarch64") {
        Ok(root) => root,
        Err(why) => return not_run(&format!("the variant for aarch64: {why}")),
    };
    let (cross, project) = (Cross { root }, Project::new());
    let here = Ran::of(&mut project.command("--arch 90 --json")).json();
    let build = || cross.compile(&mut project.command("--arch 90 --json"));
    let there = build().json();
    assert_eq!(there["variant"], "torch-stable-abi211-cu130-aarch64-linux", "{there:#}");
    assert_eq!(build().json()["unchanged"], true);
    // The two lie beside each other, and hold the same for the card.
    let library = |report: &serde_json::Value| PathBuf::from(report["library"].as_str().unwrap());
    let ((cpu, kernels), (_, same)) = (section(&library(&there), ".nv_fatbin"), section(&library(&here), ".nv_fatbin"));
    assert_eq!(cpu, Architecture::Aarch64);
    assert!(kernels.len() > 1000 && kernels == same);
    // It loads: what is neither Python's nor torch's nor CUDA's is in the system's libraries.
    let foreign = |name: &String| {
        !["Py", "_Py", "aoti_torch_", "torch_", "cuda", "__cuda", "libtorch", "libc10", "libcudart"]
            .iter()
            .any(|known| name.starts_with(known))
    };
    let all = cross.unresolved(&library(&there));
    assert!(all.iter().any(|name| name.starts_with("Py")), "{all:?}");
    assert_eq!(all.into_iter().filter(foreign).collect::<Vec<_>>(), [""; 0]);
    // Launchers are loaded here.
    let mut command = project.test.command();
    command.args(["build", concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/geglu")]).env("CUDA_HOME", cuda::home());
    cross.compile(&mut command).expect(1, &["compiles for aarch64", "unset CXX", "kernels build --torch"]);
}
