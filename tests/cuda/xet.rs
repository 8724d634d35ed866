//! A Hub that keeps large files by Xet, with Hugging Face's own store (`local_cas_server` of its crate xet-client) and client.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::support::hub::{Demo, Server, VARIANTS};
use crate::support::torch::{self, Torches};
use crate::support::{Ran, not_run, wait_until, write};

/// The store's process; it ends with the test.
struct Store {
    child: Child,
    port: u16,
}

impl Store {
    /// Starts one, or says that this was not run: `tests/hub/store` builds the program once.
    fn new() -> Option<Self> {
        static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| {
            let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hub/store")).output().unwrap();
            let said = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr });
            let said = said.trim().to_owned();
            if output.status.success() { Ok(said.into()) } else { Err(said) }
        });
        let program = program.as_ref().map_err(|why| not_run(why)).ok()?;
        // The program prints no port, so it gets one that is free.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command.args(["--in-memory", "--port", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let store = Self { child: command.spawn().unwrap(), port };
        wait_until("the store listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(store)
    }

    fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn prepare() -> Option<(Torches, Store)> {
    let torches = torch::torches().map_err(|why| not_run(&why)).ok()?;
    Some((torches, Store::new()?))
}

/// A Python with `hf_xet` and without torch, so that nothing is loaded.
fn python(demo: &Demo, torches: &Torches) -> PathBuf {
    let of_torch = PathBuf::from(torches.newest().get_program());
    let (from, to) = (of_torch.parent().unwrap().parent().unwrap(), demo.test.root().join("python"));
    write(&to.join("pyvenv.cfg"), fs::read_to_string(from.join("pyvenv.cfg")).unwrap());
    fs::create_dir_all(to.join("bin")).unwrap();
    symlink(of_torch.canonicalize().unwrap(), to.join("bin/python")).unwrap();
    let lib = fs::read_dir(from.join("lib")).unwrap().next().unwrap().unwrap();
    let packages = to.join("lib").join(lib.file_name()).join("site-packages");
    fs::create_dir_all(&packages).unwrap();
    symlink(lib.path().join("site-packages/hf_xet"), packages.join("hf_xet")).unwrap();
    to.join("bin/python")
}

fn asked(server: &Server, what: &str) -> usize {
    let state = server.state();
    let log = state["log"].as_array().unwrap();
    log.iter().filter(|one| one["request"].as_str().unwrap().contains(what)).count()
}

const LOAD: &str = "import kernels\nmodule = kernels.get_kernel('acme/demo', version=1)\nprint('loaded', module.__all__, \
                    module.__file__)";

#[test]
fn large_files_go_to_the_store_and_come_back_from_it() {
    let Some((torches, store)) = prepare() else { return };
    let (server, demo) = (Server::with_store(&store.address()), Demo::of(&VARIANTS[..1]));
    let mut command = demo.command(&server, "publish --unproved --json");
    command.arg("--python").arg(torches.newest().get_program());
    let ran = Ran::ok(command.env("CUDA_VISIBLE_DEVICES", "").env("OMP_NUM_THREADS", "1"));
    let report = ran.json();
    assert_eq!((&report["status"], &report["read_back"]), (&json!("uploaded"), &json!(4)), "{report:#}");
    assert_eq!(report["loaded"]["variant"], VARIANTS[0], "{report:#}");
    assert_eq!((asked(&server, "/_lfs"), asked(&server, "xet-write-token")), (0, 1));
    demo.run(&server, "hub verify acme/demo@1 --all-variants").expect(0, &["verified"]);
    demo.run(&server, "hub download acme/demo@1 --all-variants").expect(0, &["1 variant"]);
    // The library asks the store itself, through its own client.
    let mut python = torches.newest();
    python.args(["-c", LOAD]).env("HF_HUB_OFFLINE", "0").env("HF_ENDPOINT", server.endpoint());
    python.env_remove("KERNELS_CACHE").env_remove("HF_TOKEN").env("HF_HOME", demo.test.home.join("theirs"));
    Ran::of(python.env("CUDA_VISIBLE_DEVICES", "")).expect(0, &["loaded ['scale']", VARIANTS[0]]);
    assert!(asked(&server, "xet-read-token") > 0);
    let library = format!("kernels--acme--demo/snapshots/{}/build/{}", report["commit"].as_str().unwrap(), VARIANTS[0]);
    let library = demo.test.home.join("theirs/hub").join(library).join("_demo_cuda_0123abc.abi3.so");
    let own = demo.root.join(format!("build/{}/_demo_cuda_0123abc.abi3.so", VARIANTS[0]));
    assert!(fs::read(library).unwrap() == fs::read(own).unwrap());
    // What is there is not sent again.
    demo.run(&server, "publish --unproved").expect(0, &["unchanged"]);
    assert_eq!(asked(&server, "xet-write-token"), 1);
}

#[test]
fn whatever_fails_on_the_way_to_the_store_leaves_no_version_and_the_next_run_completes_it() {
    let Some((torches, store)) = prepare() else { return };
    let (server, demo) = (Server::with_store(&store.address()), Demo::of(&VARIANTS[..1]));
    let with = python(&demo, &torches);
    let command = |python: &Path| {
        let mut command = demo.command(&server, "publish --unproved");
        command.env("KERNELS_PYTHON", python).env("HF_XET_CLIENT_RETRY_MAX_ATTEMPTS", "1");
        command
    };
    let refused = |command: &mut Command, words: &[&str]| {
        let ran = Ran::of(command);
        ran.expect(1, words);
        assert!(!ran.err.contains("hf_secret") && !ran.err.contains("xet_writes"), "{ran:?}");
        assert_eq!(server.state()["repos"]["acme/demo"]["branches"]["v1"], Value::Null);
    };
    // A project's own module of this name is not the library, nor is one of its that Python itself would import.
    for name in ["hf_xet", "json", "warnings", "contextlib", "threading"] {
        write(
            &demo.root.join(format!("{name}.py")),
            format!("open('{}', 'w')\nraise SystemExit(0)\n", demo.root.join("ran").display()),
        );
    }
    let words = ["large files by Xet", "python3 cannot send them", "No module named 'hf_xet'", "--python"];
    refused(&mut command(Path::new("/usr/bin/python3")), &words);
    refused(&mut command(Path::new("/nowhere/python")), &["/nowhere/python cannot be started"]);
    assert!(!demo.root.join("ran").exists());
    let of = "GET /api/kernels/acme/demo/xet-write-token";
    for (status, says) in [(401, "token is not valid"), (403, "no right to write"), (404, "look at the name")] {
        server.fault(&json!({"status": status, "of": of, "times": 99}));
        refused(
            &mut command(&with),
            &["asking where acme/demo keeps large files", &format!("answered {status}"), says],
        );
    }
    server.fault(&json!({}));
    // A store elsewhere, one that is not there, and one that this machine has for itself.
    let lie = |to: &str| server.lie(&json!({"of": of, "replace": {store.address(): to}}));
    for elsewhere in ["http://192.0.2.1", "file:///tmp", "http://localhost@192.0.2.1", "local:///tmp/store"] {
        lie(elsewhere);
        refused(&mut command(&with), &["a store without https", "nothing was sent there"]);
    }
    lie("http://127.0.0.1:9");
    refused(&mut command(&with), &["hf_xet could not send large files", "publish again"]);
    server.lie(&json!({}));
    // Failures that pass.
    server.fault(&json!({"status": 503, "of": of, "times": 2, "retry": 0}));
    Ran::of(&mut command(&with)).expect(0, &["published", "4 files read back"]);
    assert_eq!(server.state()["half"], json!([]));
    assert_eq!(asked(&server, "/_lfs"), 0);
    assert!(!demo.root.join("ran").exists());
}
