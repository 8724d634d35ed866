//! `kernels hub verify --kernel-toml`: the functions of a published variant, which is a stranger's, against the oracles of a
//! kernel.toml. The variant is Python for any device, which torch runs on the CPU where there is no card.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::hub::{Server, base64};
use crate::support::{Ran, Test, torch, write};

const CASES: &str = r#"
format = 1
[[operation]]
name = "scale"
launcher = "none"
oracle = { python = "reference.py", function = "scale" }
dtypes = ["f32"]
bytes = "2 * rows * width * size(T)"
flops = "rows * width"
finite_only = "one of them would hide what these functions do"
arguments = [
  { tensor = "out", role = "output", shape = ["rows", "width"] },
  { tensor = "x", role = "input", shape = ["rows", "width"], strides = ["x_stride", 1] },
  { scalars = ["rows", "width", "x_stride"], type = "i64" },
  { scalar = "factor", type = "f32" },
  { stream = true },
]
[operation.defaults]
factor = 0.5
x_stride = "width"
"#;

/// What they do is in their names; `probe` is right unless a stranger's code reached anything.
const KERNEL: &str = r#"
import os, pathlib, socket, subprocess
import torch

home = pathlib.Path.home()
reached = []

def attempt(what):
    try:
        if what():
            reached.append(what)
    except Exception:
        pass

attempt(lambda: os.environ.get("HF_TOKEN"))
attempt(lambda: (home / "planted").write_text("x"))
attempt(lambda: pathlib.Path("/tmp/kernels-planted").write_text("x"))
attempt(lambda: socket.create_connection(("127.0.0.1", PORT), 1))
attempt(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
attempt(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))

# The driver starts only where it can listen on such a socket; nobody is reached with one.
def packets(): return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
def listens():
    try:
        own = packets()
        own.bind("\0kernels-own-%d" % os.getpid())
        own.listen()
        return own
    except OSError:
        return None
own = listens()
attempt(lambda: own is None)
attempt(lambda: packets().connect(own.getsockname()) is None)
attempt(lambda: packets().sendto(b"x", own.getsockname()))
attempt(lambda: subprocess.run(["touch", home / "planted"]).returncode == 0)
attempt(lambda: pathlib.Path(f"/proc/{os.getppid()}/environ").read_bytes())
attempt(lambda: os.kill(os.getppid(), 0) is None)

def scale(x, factor): return x * factor
def probe(input, factor=1.0): return x_of(input) * factor + len(reached)
def x_of(x): return x
def destination(out, x, factor): out.copy_(x * factor)
def wrong(x, factor): return x * factor + 1e-3
def mutates(x, factor):
    y = x * factor
    x[0, 0] += 1
    return y
def partial(out, x, factor): out[:, 1:] = (x * factor)[:, 1:]
def outside(out, x, factor):
    out.copy_(x * factor)
    torch.as_strided(out, (1,), (1,), out.storage_offset() + out.numel()).fill_(1)
def unsteady(x, factor):
    y = x * factor
    return torch.where(torch.rand_like(y) > 0.5, y, torch.nextafter(y, y + 1))
def refuses(x, factor):
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")
    return x * factor
def other_type(x, factor): return (x * factor).double()
def needs_more(x, factor, mask): return x
def swaps(x, factor):
    slot = pathlib.Path(os.environ["TMPDIR"]) / "slot"
    slot.unlink()
    slot.symlink_to(home / "mine")
    return x * factor
def dies(x, factor): os._exit(7)
def hangs(x, factor):
    while True:
        pass
"#;

/// A Hub with this kernel, which is not published by `kernels publish`.
fn published(server: &Server, kernel: &str) {
    let kernel = kernel.replace("PORT", &server.port.to_string());
    let digest = base64(&Sha256::digest(kernel.as_bytes()));
    let metadata = json!({"name": "demo", "id": "_demo_cpu_0123abc", "version": 1, "license": "Apache-2.0",
        "python-depends": [], "backend": {"type": "cpu"},
        "digest": {"algorithm": "sha256", "files": {"__init__.py": digest}}});
    server.put("v1", "build/torch-universal/__init__.py", Some(&kernel));
    server.put("v1", "build/torch-universal/metadata.json", Some(&metadata.to_string()));
}

/// A kernel.toml with these operations, each of which is `scale` by another name.
fn cases(test: &Test, names: &[&str]) {
    let mut text = CASES.to_owned();
    let tables = "\n[[operation.verify]]\nname = \"sizes\"\nrows = [1, 3]\nwidth = 7\n\
                  [[operation.verify]]\nname = \"gaps\"\nrows = 3\nwidth = 7\nx_stride = 8\n";
    text += tables;
    for name in names {
        text += &format!("[[operation]]\nname = \"{name}\"\nlauncher = \"none\"\nlike = \"scale\"\n{tables}");
    }
    test.write("cases/kernel.toml", text);
    test.write("cases/reference.py", "def scale(x, factor, **others):\n    return x * factor\n");
}

fn verify(test: &Test, server: &Server, python: &Path, options: &str) -> (Ran, Value) {
    let mut command = test.command();
    command.env("KERNELS_PATIENCE", if options.contains("hangs") { "2" } else { "60" });
    command.env("HF_ENDPOINT", server.endpoint()).env("HF_TOKEN", "hf_secret").env("KERNELS_PYTHON", python);
    command.env("CUDA_VISIBLE_DEVICES", "").env("OMP_NUM_THREADS", "1");
    command.env_remove("PYTHONPATH").args(["hub", "verify", "acme/demo@1", "--json", "--kernel-toml"]);
    let ran = Ran::of(command.arg("cases/kernel.toml").args(options.split_whitespace()));
    let report = ran.json();
    (ran, report)
}

#[test]
fn a_strangers_functions_are_held_against_the_oracles_and_reach_nothing_else() {
    let torches = match torch::torches() {
        Ok(torches) => torches,
        Err(why) => return crate::support::not_run(&why),
    };
    let python = torches.newest().get_program().to_owned();
    let (test, server) = (Test::without_git(), Server::new());
    write(&test.home.join("mine"), "mine");
    published(&server, KERNEL);
    let names = [
        "probe",
        "destination",
        "wrong",
        "mutates",
        "partial",
        "outside",
        "unsteady",
        "refuses",
        "other_type",
        "needs_more",
        "nowhere",
        "dies",
    ];
    cases(&test, &names);
    let (ran, report) = verify(&test, &server, python.as_ref(), "--seed 7");
    assert_eq!(ran.code, 1, "{ran:#?}");
    let functions = &report["variants"][0]["functions"];
    let of = |name: &str| {
        let all = functions["operations"].as_array().unwrap();
        all.iter().find(|one| one["operation"] == name).unwrap_or_else(|| panic!("no {name} in {report:#}"))
    };
    let kinds = |name: &str| -> Vec<String> {
        let mut kinds: Vec<String> = of(name)["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["kind"].as_str().unwrap().to_owned())
            .collect();
        kinds.dedup();
        kinds
    };
    // Without Landlock in the kernel, nothing holds its files, and the report says so.
    let held = !functions["held"].as_str().unwrap().contains("not protected");
    for right in ["scale", "probe", "destination", "refuses"].into_iter().filter(|name| held || *name != "probe") {
        assert_eq!(kinds(right), [""; 0], "{right}: {report:#}");
        assert!(of(right)["calls"].as_u64().unwrap() >= 8, "{right}: {report:#}");
    }
    for (name, kind) in [
        ("wrong", "wrong-value"),
        ("mutates", "input-modified"),
        ("partial", "unwritten"),
        ("outside", "red-zone"),
        ("unsteady", "not-deterministic"),
    ] {
        assert_eq!(kinds(name)[0], kind, "{name}: {report:#}");
    }
    assert_eq!(of("refuses")["refused"], 1);
    for (name, says) in [
        ("refuses", "x must be contiguous"),
        ("other_type", "returns torch.float64 [1, 7] for out, torch.float32"),
        ("needs_more", "wants `mask`"),
    ] {
        assert!(of(name)["refusal"].as_str().unwrap().contains(says), "{report:#}");
    }
    assert!(of("nowhere")["absent"].as_str().unwrap().contains("torch-universal has no function nowhere"));
    // A process that ends is a finding, and the last one.
    assert!(of("dies")["findings"][0]["message"].as_str().unwrap().contains("exit status: 7"), "{report:#}");
    assert!(!held || !test.home.join("planted").exists() && !Path::new("/tmp/kernels-planted").exists());
    assert!(functions["not_proved"].as_str().unwrap().contains("results alone were compared"));

    // A link in place of the file through which a slot goes leads nowhere.
    cases(&test, &["swaps"]);
    let (ran, report) = verify(&test, &server, python.as_ref(), "");
    assert_eq!(
        (ran.code, &report["variants"][0]["functions"]["operations"][1]["lost"]),
        (1, &json!(true)),
        "{report:#}"
    );
    assert!(!held || fs::read_to_string(test.home.join("mine")).unwrap() == "mine");

    cases(&test, &["hangs"]);
    let (_, report) = verify(&test, &server, python.as_ref(), "--filter hangs");
    assert!(report.to_string().contains("gave no answer in 2 s"), "{report:#}");

    // What is right is told with what it was held against; files that somebody changed are not run.
    cases(&test, &["probe", "nowhere"]);
    let (ran, report) = verify(&test, &server, python.as_ref(), "--filter scale");
    assert_eq!((ran.code, &report["ok"]), (0, &json!(true)), "{report:#}");
    server.put("v1", "build/torch-universal/__init__.py", Some("raise SystemExit(9)"));
    let (ran, report) = verify(&test, &server, python.as_ref(), "");
    assert!(ran.err.contains("its functions were not run"), "{ran:#?}");
    assert_eq!((ran.code, &report["variants"][0]["functions"]), (1, &Value::Null));
}
