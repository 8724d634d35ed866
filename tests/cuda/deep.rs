//! `kernels skills validate --deep`: each kind of outdated text is found, with its rule and line, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Ran, Test, cuda, exists, not_run, snapshot, write};
use serde_json::Value;

const HEADER: &str =
    "---\nname: demo\ndescription: Does a thing. Use when tested.\n---\n# Demo\n\n[guide](references/guide.md)\n";

/// A script with command-line flags.
const SCRIPT: &str = "#!/usr/bin/env python3\nimport argparse\n\nfrom common import WIDTH\n\n\ndef main():\n    parser = argparse.ArgumentParser()\n    \
    parser.add_argument(\"--rows\", \"-r\", type=int, default=WIDTH)\n    parser.add_argument(\"--graph\", action=argparse.BooleanOptionalAction)\n    \
    print(parser.parse_args())\n\n\nif __name__ == \"__main__\":\n    main()\n";

/// A skill with this text as its SKILL.md. The text's first line is line 1.
fn skill(test: &Test, guide: &str) -> PathBuf {
    let folder = test.project.join("demo");
    write(&folder.join("SKILL.md"), HEADER);
    write(&folder.join("references/guide.md"), guide);
    write(&folder.join("scripts/run.py"), SCRIPT);
    write(&folder.join("scripts/common.py"), "WIDTH = 4\n");
    folder
}

/// `kernels` with nvcc, and with a Python whose packages are `packages/` of the project.
fn command(test: &Test, arguments: &[&str]) -> Command {
    let cache = test.root().join("cache");
    if !cache.exists() {
        cuda::share_objects(&cache);
    }
    let mut command = test.command();
    command
        .env("CUDA_HOME", cuda::home())
        .env("KERNELS_CACHE", cache)
        .env("PYTHONPATH", "packages")
        .args(["skills", "validate", "--deep", "demo"])
        .args(arguments);
    command
}

/// Without nvcc, for what needs none.
fn plain(test: &Test, arguments: &[&str]) -> Command {
    let mut command = command(test, arguments);
    command.env("CUDA_HOME", test.root().join("nothing"));
    command
}

fn report(mut command: Command) -> Value {
    let ran = Ran::of(command.arg("--json"));
    let report = ran.json();
    let valid = report["skills"][0]["valid"].as_bool().unwrap();
    assert_eq!(ran.code, i32::from(!valid), "{ran:#?}");
    report["skills"][0].clone()
}

/// `file:line rule` of each finding.
fn found(report: &Value) -> Vec<String> {
    let of = |finding: &Value| {
        format!("{}:{} {}", finding["file"].as_str().unwrap(), finding["line"], finding["rule"].as_str().unwrap())
    };
    report["findings"].as_array().unwrap().iter().map(of).collect()
}

/// The one finding of a guide.
#[track_caller]
fn one(report: &Value, place: &str, words: &[&str]) {
    assert_eq!(found(report), [format!("references/{place}")], "{report:#}");
    let message = report["findings"][0]["message"].as_str().unwrap();
    for word in words {
        assert!(message.contains(word), "no {word:?} in {message}");
    }
}

const GOOD: &str = r#"# Guide

See [below](#whole-files), [the skill](../SKILL.md#demo) and <a id="here"></a>[here](#here).

```cuda
__global__ void fill(float* out) { out[threadIdx.x] = 1.0f; }
```

<!-- harness body
__global__ void body(float* out, const float* in, int n) {
  {{block}}
}
-->

1. A fence in a list:

   ```cuda harness=body arch=80 unknown=attribute
   int i = threadIdx.x;
   if (i < n) out[i] = in[i];
   ```

~~~cuda arch=90a
__global__ void wait() { asm volatile("wgmma.fence.sync.aligned;"); }
~~~

## Whole files

```cuda
// file: csrc/vec.cuh  -- what both need
#pragma once
#include "../limits.h"
__device__ inline float twice(float x) { return kScale * x; }
```

```cpp
// file: limits.h
#pragma once
constexpr float kScale = 2.0f;
```

```cuda
// file: csrc/twice.cu
#include "vec.cuh"
__global__ void apply(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
```

```cpp
#include "limits.h"
float host() { return kScale; }
```

```toml
# file: build.toml
[general]
name = "my-norm"
edition = 5
version = 1
license = "Apache-2.0"
backends = ["cuda"]

[general.hub]
repo-id = "me/my-norm"

[torch]
src = []

[kernel.twice]
backend = "cuda"
depends = ["torch"]
src = ["csrc/twice.cu", "csrc/vec.cuh", "limits.h"]
```

```toml
[project]
name = "anything"
```

```python
import os.path
import json as j
from common import WIDTH
from fancy import lazy, plain
import fancy.below

try:
    import triton
except ImportError:
    triton = None
...
```

```json
{"a": [1, 2]}
```

```yaml
a: [1, 2]
```

```bash
kernels init my-norms --op rms_norm && cd my-norms   # a comment
kernels build <DIR> --arch CC
python scripts/run.py --rows 4 -r 5 --no-graph | tee out.txt
nvcc -O3 -std=c++17 -gencode arch=compute_90,code=sm_90 -Xcompiler -fPIC -shared -o lib.so norm.cu
python3 - <<'EOF'
import sys
print(sys.argv)
EOF
```

```console
$ kernels skills status
current
```

`kernels bench --record` needs a card; `kernels >= 0.12` is the Hub's library.

```text
kernels no-such-command
```
"#;

fn packages(test: &Test) {
    let fancy = test.project.join("packages/fancy");
    write(
        &fancy.join("__init__.py"),
        "plain = 1\n\n\ndef __getattr__(name):\n    if name == 'lazy':\n        return 2\n    raise AttributeError(name)\n",
    );
    write(&fancy.join("below.py"), "x = 1\n");
}

#[test]
fn a_good_skill_is_clean_and_says_what_was_checked() {
    let test = Test::new();
    skill(&test, GOOD);
    packages(&test);
    let before = snapshot(test.project.join("demo"));
    let report = report(command(&test, &["--strict"]));
    assert_eq!(found(&report), [""; 0], "{report:#}");
    let deep = &report["deep"];
    for (what, number) in [
        ("cuda block", 5),
        ("cpp block", 2),
        ("python block", 2),
        ("Python file", 2),
        ("toml block", 2),
        ("json block", 1),
        ("yaml block", 1),
        ("shell block", 2),
        ("kernels command", 4),
        ("script run", 1),
        ("nvcc command", 1),
        ("link", 4),
    ] {
        assert_eq!(deep["checked"][what], number, "{what}: {deep:#}");
    }
    assert_eq!(deep["tools"]["nvcc"], "13.0.88");
    assert_eq!(deep["not_looked_at"]["text"], 1);
    assert_eq!(deep["not_checked"].as_array().unwrap().len(), 0);
    let ran = Ran::of(&mut command(&test, &[]));
    ran.expect(0, &["checked: ", "5 cuda blocks", "nvcc 13.0.88", "demo: valid"]);
    assert_eq!(snapshot(test.project.join("demo")), before);
}

#[test]
fn an_archive_is_checked_as_its_folder_is() {
    let test = Test::new();
    skill(&test, "[x](#none)\n\n```bash\nkernels none\npython scripts/run.py --none\n```\n");
    let folder = report(plain(&test, &[]));
    assert_eq!(found(&folder).len(), 3, "{folder:#}");
    test.ok("skills pack demo");
    let project = &test.project;
    fs::rename(project.join("demo"), project.join("gone")).unwrap();
    fs::rename(project.join("demo.skill"), project.join("demo")).unwrap();
    let archive = report(plain(&test, &[]));
    assert_eq!(archive["findings"], folder["findings"]);
    assert_eq!(archive["deep"], folder["deep"]);
}

#[test]
fn cuda_that_does_not_compile_is_named_with_architecture_and_line() {
    let test = Test::new();
    for (guide, place, words) in [
        // For one architecture: an intrinsic and an instruction of sm_80.
        (
            "text\n\n```cuda\n__global__ void sum(int* x) {\n  x[0] = __reduce_add_sync(~0u, x[0]);\n}\n```\n",
            "guide.md:5 cuda",
            &["the cuda block of line 3", "for sm_75:", "__reduce_add_sync"][..],
        ),
        (
            "```cuda\n__global__ void copy() {\n  int x;\n  x = 1;\n  asm volatile(\"cp.async.wait_group 0;\" ::\"r\"(x));\n}\n```\n",
            "guide.md:5 cuda",
            &["for sm_75:", "sm_80"][..],
        ),
        // For all architectures; a warning is an error.
        (
            "```cuda\n__global__ void f() {\n  int unused;\n}\n```\n",
            "guide.md:3 cuda",
            &["for sm_75, sm_80 and sm_90:", "unused"][..],
        ),
        // In the surrounding code and in the block; CRLF and tildes.
        (
            "<!-- harness h\r\n__global__ void f(int* p) {\r\n  {{block}}\r\n  p[0] = y;\r\n}\r\n-->\r\n~~~cuda harness=h arch=90\r\nint x = 1;\r\np[1] = x;\r\n~~~\r\n",
            "guide.md:4 cuda",
            &["for sm_90:", "\"y\" is undefined"][..],
        ),
        (
            "- item\n\n  <!-- harness h\n  __global__ void f(int* p) {\n    {{block}}\n  }\n  -->\n\n  ```cuda harness=h arch=90\n  int x = 1;\n  p[x] = z;\n  ```\n",
            "guide.md:11 cuda",
            &["\"z\" is undefined"][..],
        ),
        // A mistake in a file is found by compiling what includes it.
        (
            "```cuda arch=90\n// file: a.cuh\n#pragma once\n#include \"b.cuh\"\n__device__ inline int a() { return b(); }\n```\n\n\
             ```cuda arch=90\n// file: b.cuh\n#pragma once\n#include \"a.cuh\"\n__device__ inline int b() { return c(); }\n```\n",
            "guide.md:12 cuda",
            &["\"c\" is undefined"][..],
        ),
        ("```cuda arch=90\n#include \"none.cuh\"\n```\n", "guide.md:2 cuda", &["none.cuh"][..]),
        (
            "```cpp\nint f() { return g(); }\n```\n",
            "guide.md:2 cpp",
            &["the cpp block of line 1 does not compile:", "g"][..],
        ),
    ] {
        skill(&test, guide);
        one(&report(command(&test, &[])), place, words);
    }
}

#[test]
fn a_header_that_no_file_includes_is_compiled_alone() {
    let test = Test::new();
    let guide = "```cuda arch=90\n// file: a.cuh\n__device__ inline int a() { return b; }\n```\n";
    skill(&test, guide);
    one(&report(command(&test, &[])), "guide.md:3 cuda", &["(a.cuh)"]);
}

/// `<!-- files PAGE.md -->`
#[test]
fn a_page_may_stand_on_the_files_of_another() {
    let test = Test::new();
    let uses = "```cuda arch=90\n// file: csrc/b.cu\n#include \"a.cuh\"\n__global__ void b() { a(); }\n```\n";
    let folder = skill(&test, uses);
    let shared = "```cuda arch=90\n// file: lib/a.cuh\n#pragma once\n__device__ inline void a() {}\n```\n";
    write(&folder.join("references/shared.md"), shared);
    one(&report(command(&test, &[])), "guide.md:3 cuda", &["a.cuh"]);
    skill(&test, &format!("<!-- files shared.md -->\n\n{uses}"));
    let clean = report(command(&test, &[]));
    assert_eq!(found(&clean), [""; 0], "{clean:#}");
    assert_eq!(clean["deep"]["checked"]["cuda block"], 2);
    // A header that is missing in the other page is that page's mistake, not a missing library.
    write(&folder.join("references/shared.md"), shared.replace("#pragma once", "#include \"gone.cuh\""));
    let forgotten = report(command(&test, &[]));
    assert_eq!(found(&forgotten), ["references/shared.md:3 cuda"; 2], "{forgotten:#}");
    skill(&test, "<!-- files none.md -->\n");
    one(&report(plain(&test, &[])), "guide.md:1 fence", &["none.md"]);
}

#[test]
fn a_library_that_is_not_here_leaves_its_block_unchecked() {
    let test = Test::new();
    skill(&test, "```cuda arch=90\n#include <cutlass/cutlass.h>\n```\n");
    let report = report(command(&test, &[]));
    assert_eq!(found(&report), [""; 0]);
    let unchecked = &report["deep"]["not_checked"][0];
    assert_eq!(unchecked["what"], "cuda block");
    assert_eq!(unchecked["places"][0], "references/guide.md:1");
    assert!(unchecked["reason"].as_str().unwrap().contains("<cutlass/cutlass.h>"));
    one(&self::report(command(&test, &["--strict"])), "guide.md:1 unchecked", &["cutlass"]);
}

#[test]
fn fences_and_harnesses_that_make_no_sense_are_found() {
    let test = Test::new();
    for (guide, place, word) in [
        ("text\n\n```text\nnever closed\n", "guide.md:3 fence", "never closed"),
        ("- a\n\n  ~~~\n  b\n\nc\n", "guide.md:3 fence", "never closed"),
        ("a\n\n    ```cuda\n    x\n    ```\n", "guide.md:3 fence", "indented"),
        ("```cuda harness=none\nx\n```\n", "guide.md:1 fence", "no harness none"),
        ("```cuda arch=ninety\nint x;\n```\n", "guide.md:1 fence", "arch="),
        ("```python harness=h\nx = 1\n```\n", "guide.md:1 fence", "harness="),
        ("<!-- harness h\nint x;\n{{block}}\n-->\n", "guide.md:1 fence", "no block"),
        ("<!-- harness h\nint x;\n-->\n", "guide.md:1 fence", "{{block}}"),
        ("```cpp\n// file: ../x.h\n```\n", "guide.md:2 fence", "outside"),
        ("```cpp\n// file: a$(touch\tx).cpp\nint x;\n```\n", "guide.md:2 fence", "shell"),
        ("```toml\n# file: a.toml\n```\n```toml\n# file: a.toml\n```\n", "guide.md:5 fence", "twice"),
    ] {
        skill(&test, guide);
        let report = report(plain(&test, &[]));
        one(&report, place, &[word]);
    }
}

#[test]
fn toml_json_and_yaml_are_held_against_what_reads_them() {
    let test = Test::new();
    for (guide, place, words) in [
        ("```toml\na = 1\nb = \n```\n", "guide.md:3 toml", &["not TOML"][..]),
        (
            "```toml\n[general]\nname = \"my-op\"\nedition = 5\nversion = 1\nlicense = \"MIT\"\nbackends = [\"cuda\"]\nspeed = 9\n\n[torch]\nsrc = []\n```\n",
            "guide.md:8 toml",
            &["speed", "build-toml/schema"][..],
        ),
        ("```json\n{\"a\": 1,\n \"b\": }\n```\n", "guide.md:3 json", &["not JSON"][..]),
        ("```yaml\na: 1\nb: ]\n```\n", "guide.md:3 yaml", &["not YAML"][..]),
    ] {
        skill(&test, guide);
        let report = report(plain(&test, &[]));
        let first = found(&report).into_iter().next();
        assert_eq!(first, Some(format!("references/{place}")), "{report:#}");
        let message = report["findings"][0]["message"].as_str().unwrap();
        for word in words {
            assert!(message.contains(word), "no {word:?} in {message}");
        }
    }
    // A complete kernel.toml is read as by `kernels build`.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/rmsnorm/kernel.toml");
    let whole = fs::read_to_string(path).unwrap();
    skill(&test, &format!("```toml\n{whole}```\n"));
    assert_eq!(found(&report(plain(&test, &[]))), [""; 0]);
    let at = whole.rfind("\"bf16\"").unwrap();
    let wrong = format!("{}\"bf61\"{}", &whole[..at], &whole[at + 6..]);
    let line = 2 + whole[..at].matches('\n').count();
    skill(&test, &format!("```toml\n{wrong}```\n"));
    one(&report(plain(&test, &[])), &format!("guide.md:{line} toml"), &["bf61", "as a kernel.toml"]);
    // A build.toml beside its sources is also compared with them.
    let project = GOOD.replace("\"csrc/vec.cuh\", ", "");
    skill(&test, &project);
    packages(&test);
    let report = report(plain(&test, &[]));
    let found = found(&report);
    assert_eq!(found.len(), 1, "{report:#}");
    assert!(found[0].ends_with(" toml"), "{found:?}");
    assert!(report["findings"][0]["message"].as_str().unwrap().contains("sources/unlisted"));
}

#[test]
fn python_that_does_not_parse_or_imports_what_is_not_there_is_found() {
    let test = Test::new();
    packages(&test);
    for (guide, place, words) in [
        ("a\n\n```python\nx = 1\ndef f(:\n    pass\n```\n", "guide.md:5 python", &["the python block of line 3"][..]),
        ("```python\nimport os\nimport json.nothing\n```\n", "guide.md:3 import", &["json.nothing"][..]),
        ("```python\nfrom os.path import jion\n```\n", "guide.md:2 import", &["jion"][..]),
        ("```python\nfrom json import (\n    dumps,\n    dupms,\n)\n```\n", "guide.md:2 import", &["dupms"][..]),
        ("```python\nfrom fancy import plian\n```\n", "guide.md:2 import", &["fancy", "plian"][..]),
        ("```python\nimport fancy.beneath\n```\n", "guide.md:2 import", &["fancy.beneath"][..]),
        ("```python\nfrom common import HEIGHT\n```\n", "guide.md:2 import", &["the skill's own common", "HEIGHT"][..]),
        ("1. a\n\n   ```python\n   x = 1\n    y = 2\n   ```\n", "guide.md:5 python", &["indent"][..]),
        ("```bash\npython3 - <<'EOF'\nx = = 1\nEOF\n```\n", "guide.md:3 python", &["stdin"][..]),
    ] {
        skill(&test, guide);
        one(&report(plain(&test, &[])), place, words);
    }
    for (guide, place, words) in [
        (
            "```python\nimport fancy as f\nf.plain\nf.lazy\nf.below.x\nf.plian\n```\n",
            "guide.md:6 import",
            &["uses", "fancy", "plian"][..],
        ),
        ("```python\nimport os\nos.path.jion('a')\nos.name.anything\n```\n", "guide.md:3 import", &["jion"][..]),
    ] {
        skill(&test, guide);
        one(&report(plain(&test, &[])), place, words);
    }
    // Names that the code tests for or defines itself, or that belong to no module, may be missing.
    skill(
        &test,
        "```python\nimport fancy, os\nif hasattr(fancy, 'other'):\n    fancy.other\nos.mine = 1\nos.mine\n\n\ndef f(fancy):\n    return fancy.none\n```\n",
    );
    assert_eq!(found(&report(plain(&test, &[]))), [""; 0]);
    // A file of the skill.
    let folder = skill(&test, "text\n");
    write(&folder.join("scripts/run.py"), "import os\nreturn 1\n");
    let report = report(plain(&test, &[]));
    assert_eq!(found(&report), ["scripts/run.py:2 python"], "{report:#}");
}

#[test]
fn a_module_that_python_lacks_is_counted_once_with_its_places() {
    let test = Test::new();
    skill(&test, "```python\nimport no_such_thing\n```\n\n```python\nfrom no_such_thing.x import y\n```\n");
    let report = report(plain(&test, &[]));
    assert_eq!(found(&report), [""; 0]);
    let unchecked = report["deep"]["not_checked"].as_array().unwrap();
    assert_eq!(unchecked.len(), 1, "{report:#}");
    assert_eq!(unchecked[0]["what"], "import of no_such_thing");
    assert_eq!(unchecked[0]["places"].as_array().unwrap().len(), 2);
    Ran::of(&mut plain(&test, &[])).expect(0, &["not checked: 2 imports of no_such_thing"]);
    one(&self::report(plain(&test, &["--strict"])), "guide.md:2 unchecked", &["2 imports of no_such_thing"]);
}

#[test]
fn command_lines_are_held_against_what_they_run() {
    let test = Test::new();
    for (guide, place, words) in [
        ("```bash\nkernels build . \\\n  --archs 90\n```\n", "guide.md:3 command", &["--archs", "--arch"][..]),
        ("a `kernels bnech x`\n", "guide.md:1 command", &["bnech"][..]),
        ("```console\n$ kernels check --fixx\nsays\n```\n", "guide.md:2 command", &["--fixx"][..]),
        ("```bash\necho \"$(kernels list)\"\n```\n", "guide.md:2 command", &["list"][..]),
        (
            "a\n```bash\npython scripts/run.py --columns 4\n```\n",
            "guide.md:3 script",
            &["scripts/run.py has no --columns"][..],
        ),
        ("`scripts/run.py --row 4`\n", "guide.md:1 script", &["--row", "--rows"][..]),
        (
            "```bash\npython3 ../scripts/gone.py\npython scripts/gone.py\n```\n",
            "guide.md:3 script",
            &["no scripts/gone.py"][..],
        ),
        ("```bash\nif true; then\n  echo\n```\n", "guide.md:3 shell", &["does not parse"][..]),
    ] {
        skill(&test, guide);
        one(&report(plain(&test, &[])), place, words);
    }
    skill(&test, "```bash\nnvcc -c --no-such-flag a.cu\n```\n");
    one(&report(command(&test, &[])), "guide.md:2 command", &["nvcc 13.0.88", "--no-such-flag"]);
    skill(&test, "```bash\nnvcc -arch=sm_70 a.cu\n```\n");
    one(&report(command(&test, &[])), "guide.md:2 command", &["sm_70"]);
}

#[test]
fn links_are_held_against_files_and_headings() {
    let test = Test::new();
    skill(&test, "# One thing\n\n[a](#one-thing) [b](#another-thing)\n");
    one(&report(plain(&test, &[])), "guide.md:3 anchor", &["#another-thing", "#one-thing"]);
    skill(&test, "# A\n\n# A\n\n[a](#a-1) [b](../SKILL.md#nothing)\n");
    one(&report(plain(&test, &[])), "guide.md:5 anchor", &["SKILL.md"]);
    skill(&test, "[gone](gone.md#x)\n");
    one(&report(plain(&test, &["--strict"])), "guide.md:1 link-broken", &["gone.md"]);
}

#[test]
fn without_tools_it_says_what_it_could_not_check() {
    let test = Test::new();
    skill(&test, GOOD);
    let empty = test.root().join("empty");
    fs::create_dir(&empty).unwrap();
    let bare = |arguments: &[&str]| {
        let mut command = command(&test, arguments);
        // A CUDA_HOME without nvcc: no compiler is found on any machine.
        command.env("PATH", &empty).env("KERNELS_CACHE", &empty).env("CUDA_HOME", &empty);
        command
    };
    Ran::of(&mut bare(&[])).expect(
        0,
        &[
            "not checked: 5 cuda blocks",
            "not checked: 2 cpp blocks",
            "not checked: 2 python blocks: there is no python3",
            "not checked: 2 shell blocks: there is no bash",
            "not checked: 1 run of a script",
            "demo: valid",
        ],
    );
    Ran::of(&mut bare(&["--strict"])).expect(1, &["[unchecked]", "demo: not valid"]);
    let report = report(bare(&[]));
    assert_eq!(report["deep"]["checked"]["cuda block"], Value::Null);
    assert_eq!(report["deep"]["checked"]["toml block"], 2);
}

#[test]
fn nothing_of_a_skill_is_executed() {
    let test = Test::new();
    let mark = test.root().join("executed");
    let evil = format!("open({:?}, 'w').close()\n", mark.to_str().unwrap());
    let guide = format!(
        "```python\n{evil}import json\nfrom evil import thing\nfrom scripts.evil import other\nimport antigravity\nfrom idlelib.__main__ import x\n```\n\n\
         ```bash\ntouch {mark}\n$(touch {mark})\npython scripts/evil.py --x\n```\n",
        mark = mark.display()
    );
    let folder = skill(&test, &guide);
    // Modules of the skill that Python would find first if it were started there.
    for name in ["json", "ast", "sitecustomize", "argparse", "evil"] {
        write(&folder.join(format!("{name}.py")), &evil);
        write(&folder.join(format!("scripts/{name}.py")), &evil);
    }
    for from in [&test.project, &folder, &folder.join("scripts")] {
        let mut command = command(&test, &[]);
        command.current_dir(from).env_remove("PYTHONPATH").env("CUDA_HOME", "/nothing");
        let ran = Ran::of(command.arg(&folder));
        assert!(!exists(&mark), "from {}: {ran:#?}", from.display());
    }
    let report = report(plain(&test, &[]));
    assert!(report["deep"]["checked"]["import"].as_u64().unwrap() > 0, "{report:#}");
    assert!(!exists(&mark));
}

/// Text of a skill becomes file names and compiler arguments.
#[test]
fn names_in_a_skill_are_no_commands_and_no_options() {
    let test = Test::new();
    let mark = test.root().join("executed");
    for name in [
        "-Xcompiler=-wrapper,touch,MARK.cu",
        "a/-ccbin=MARK.cu",
        "a;touch${IFS}MARK;.cu",
        "`touch${IFS}MARK`.cu",
        "'|touch${IFS}MARK|'.cu",
    ] {
        let name = name.replace("MARK", &mark.display().to_string()[1..]);
        let guide = format!("```cuda arch=90\n// file: {name}\nint x;\n```\n");
        skill(&test, &guide);
        one(&report(command(&test, &[])), "guide.md:2 fence", &["shell"]);
    }
    // The name of the Markdown file, which is passed to a compiler.
    let folder = skill(&test, "text\n");
    let name = "a\"$(touch executed)`touch executed`.md";
    write(&folder.join("references").join(name), "```cuda arch=90\nint x = y;\n```\n");
    let report = report(command(&test, &[]));
    assert_eq!(found(&report), [format!("references/{name}:2 cuda")], "{report:#}");
    assert!(!exists(&mark) && !exists(test.project.join("executed")));
}

/// The examples of docs/skill-validation.md have the findings that the page states.
#[test]
fn the_examples_of_the_page_are_clean() {
    let test = Test::new();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/skill-validation.md");
    let page = fs::read_to_string(page).unwrap();
    let examples: Vec<&str> =
        page.split("\n````markdown\n").skip(1).map(|part| part.split("\n````\n").next().unwrap()).collect();
    assert_eq!(examples.len(), 2);
    skill(&test, &examples.join("\n\n"));
    let report = report(command(&test, &["--strict"]));
    assert_eq!(found(&report), [""; 0], "{report:#}");
    assert_eq!(report["deep"]["checked"]["cuda block"], 3);
}

#[test]
fn wrong_usage_exits_2() {
    let test = Test::new();
    skill(&test, "text\n");
    test.run("skills validate demo --python python3").expect(2, &["--deep"]);
    test.run("skills validate --deep demo --python ./nothing").expect(2, &["--python ./nothing"]);
    test.run("skills validate --deep nowhere").expect(1, &["nowhere"]);
    test.ok("skills validate --rules").expect(0, &["cuda", "--deep"]);
    test.ok("skills validate cuda-kernels").expect(0, &["cuda-kernels: valid"]);
}

/// ./test runs the same with `--strict` and the models' libraries; here a Python with torch is enough.
#[test]
fn the_bundled_skill_is_clean() {
    let test = Test::new();
    let Some(python) = std::env::var_os("KERNELS_PYTHON").filter(|python| !python.is_empty()) else {
        not_run("the bundled skill's imports: KERNELS_PYTHON names no Python with torch");
        return;
    };
    let mut command = test.command();
    command
        .env("CUDA_HOME", cuda::home())
        .env("KERNELS_CACHE", cuda::cache())
        .args(["skills", "validate", "--deep", "--python"])
        .arg(Path::new(&python));
    let report = report(command);
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.is_empty(), "{report:#}");
    // All blocks are compiled; only imports of libraries that this Python lacks remain unchecked.
    for unchecked in report["deep"]["not_checked"].as_array().unwrap() {
        assert!(unchecked["what"].as_str().unwrap().starts_with("import of"), "{unchecked:#}");
    }
}
