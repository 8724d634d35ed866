//! `kernels search run --engine slurm` on a cluster of four nodes in a PID namespace of its own (tests/slurm): a node that
//! loses power, a controller that crashes, elements that are cancelled, requeued or run twice, a coordinator that is killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Test, cuda::debian, names, not_run};

const SECRET: &str = "sk-that-no-node-may-see";

struct Cluster {
    child: Child,
    said: BufReader<ChildStdout>,
    root: PathBuf,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Option<Self> {
        let root = match debian("slurm") {
            Ok(root) => root,
            Err(why) => {
                not_run(&format!("the Slurm engine: {why}"));
                return None;
            }
        };
        // The paths of sockets are short.
        let folder = tempfile::TempDir::with_prefix_in("ks-", "/tmp").unwrap();
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slurm/cluster"));
        command.arg(&root).arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{}", fs::read_to_string(folder.path().join("ctld.log")).unwrap_or_default());
        Some(Self { child, said, root, folder })
    }

    /// Runs a command of bash among the daemons, and returns what it printed.
    fn tell(&mut self, command: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").unwrap();
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.said.read_line(&mut line).unwrap(), 0, "the cluster is gone: {all}");
            if line == "done\n" {
                return all;
            }
            all.push_str(&line);
        }
    }

    /// Waits until a command prints something.
    fn until(&mut self, command: &str) -> String {
        let start = Instant::now();
        loop {
            let said = self.tell(command);
            if !said.trim().is_empty() {
                return said.trim().to_owned();
            }
            // A node that lost power may be completing for longer than Slurm waits for a step that it cannot kill, a minute.
            assert!(start.elapsed() < Duration::from_secs(180), "{command}: {}", self.state());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn state(&mut self) -> String {
        self.tell(
            "squeue -t all; sinfo -R; sinfo -N -o '%N %t'; tail -n 5 $folder/node-*.log; tail -n 30 $folder/ctld.log",
        )
    }

    /// Waits until a run ends well.
    fn ended(&mut self, run: &mut Child) {
        let start = Instant::now();
        while run.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(400), "the run does not end: {}", self.state());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(run.wait().unwrap().success());
    }

    fn kernels(&self, test: &Test) -> Command {
        let mut command = test.command();
        let folders = |name: &str| self.root.join(name).display().to_string();
        let libraries: std::collections::BTreeSet<PathBuf> = walkdir::WalkDir::new(&self.root)
            .into_iter()
            .filter_map(|entry| Some(entry.ok()?.into_path()))
            .filter(|path| path.to_string_lossy().contains(".so"))
            .map(|path| path.parent().unwrap().to_owned())
            .collect();
        command
            .env("PATH", format!("{}:{}:/usr/bin:/bin", folders("usr/bin"), folders("usr/sbin")))
            .env("LD_LIBRARY_PATH", std::env::join_paths(libraries).unwrap())
            .env("SLURM_CONF", self.folder.path().join("slurm.conf"))
            .env("CUDA_HOME", test.at("cuda"))
            .env("OPENAI_API_KEY", SECRET)
            .env("KERNELS_API_TOKEN", SECRET);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.child.stdin.take();
        let _ = self.child.wait();
    }
}

/// A project, five proposals, and a compiler that takes 15 s to refuse each, longer than a controller to save what runs.
fn project(test: &Test) {
    let build = "[general]\nname = \"copy\"\nversion = 1\nedition = 5\nlicense = \"Apache-2.0\"\nbackends = [\"cuda\"]\n\n\
                 [kernel.copy]\nbackend = \"cuda\"\ndepends = []\nsrc = [\"copy.cu\"]\n";
    test.write("task/build.toml", build);
    test.write(
        "task/kernel.toml",
        "format = 1\n[[operation]]\nname = \"copy\"\noracle = \"transpose\"\ndtypes = [\"f32\"]\nflops = \"0\"\narguments = [\n\
         { tensor = \"x\", role = \"input\", shape = [\"rows\"] },\n{ tensor = \"out\", role = \"output\", shape = [\"rows\"] },\n\
         { stream = true },\n]\nverify = [{ rows = 3 }]\n",
    );
    let source = |number: u32| format!("// {number}\nextern \"C\" int copy_launch() {{ return {number}; }}\n");
    test.write("task/copy.cu", source(0));
    for number in 1..=4 {
        test.write(&format!("proposals/{number}/copy.cu"), source(number));
    }
    test.write(
        "cuda/bin/nvcc",
        "#!/bin/sh\ncase \"$*\" in\n*--version*) echo 'Cuda compilation tools, release 13.0, V13.0.88' ;;\n*--list-gpu-*) echo sm_90 ;;\n\
         *) \"${0%/*}/sleep\" 15; echo 'error: no' >&2; exit 2 ;;\nesac\n",
    );
    // Compilers may run what lies beside them, and no other program.
    fs::copy("/bin/sleep", test.at("cuda/bin/sleep")).unwrap();
    let mut mode = fs::metadata(test.at("cuda/bin/nvcc")).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(test.at("cuda/bin/nvcc"), mode).unwrap();
}

fn begin(cluster: &Cluster, test: &Test, out: &str) -> Child {
    let mut command = cluster.kernels(test);
    command.args([
        "search",
        "run",
        "task",
        "--proposer",
        "dir:proposals",
        "--engine",
        "slurm",
        "--cards",
        "2",
        "--flight",
        "4",
    ]);
    command.args(["--patience", "60", "--out", out]).stdout(Stdio::null()).spawn().unwrap()
}

/// The names of files in a run's folder.
fn files(test: &Test, folder: &str, start: &str) -> Vec<String> {
    names(&test.at(folder)).into_iter().filter(|name| name.starts_with(start)).collect()
}

#[test]
fn a_search_on_slurm_ends_the_same_whatever_becomes_of_nodes_controller_and_coordinator() {
    let Some(mut cluster) = Cluster::start() else { return };
    let test = Test::new();
    project(&test);
    let running = "squeue -h -r -t running -o '%F_%K %A %N' | sort -t_ -k2 -n";
    let four = format!("[ \"$({running} | wc -l)\" = 4 ] && {running}");
    let caught = |run: &str| {
        let report = test.json(&format!("search status {run}"));
        let rows = report["candidates"].as_array().unwrap().clone();
        rows.iter().map(|row| row["findings"][0].as_str().unwrap_or("none").to_owned()).collect::<Vec<_>>()
    };

    // A node loses power, an element of another is requeued, and one is cancelled.
    let mut run = begin(&cluster, &test, "one");
    let rows = cluster.until(&four);
    let rows: Vec<Vec<&str>> = rows.lines().map(|line| line.split_whitespace().collect()).collect();
    // Slurm says that an element runs before its process does.
    let environments = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | sort -u";
    let seen = cluster
        .until(&format!("seen=$({environments}) && grep '^SLURM_ARRAY_TASK_ID=' <<<\"$seen\" && echo \"$seen\""));
    assert!(!seen.contains(SECRET), "a secret went to a node");
    let others: Vec<&Vec<&str>> = rows.iter().filter(|row| row[2] != rows[0][2]).collect();
    cluster.tell(&format!("scontrol requeue {}", others[0][1]));
    cluster.tell(&format!("scancel {}", others[1][0]));
    cluster.tell(&format!("cut {}", &rows[0][2][1..]));
    cluster.ended(&mut run);
    assert_eq!(caught("one"), ["does-not-compile"; 5]);
    cluster.tell(&format!("node {}", &rows[0][2][1..]));
    cluster.until("[ \"$(sinfo -h -N -o %t | grep -c idle)\" = 4 ] && echo idle");

    // The same elements again, two at once: each result stays the file that it was.
    let results = || -> BTreeMap<String, (u64, String)> {
        let names = files(&test, "one/results", "").into_iter();
        let inode = |name: &String| {
            std::os::unix::fs::MetadataExt::ino(&fs::metadata(test.at("one/results").join(name)).unwrap())
        };
        names
            .map(|name| (name.clone(), (inode(&name), fs::read_to_string(test.at("one/results").join(&name)).unwrap())))
            .collect()
    };
    let before = results();
    // How many jobs a list has depends on when they were ready.
    let lists = files(&test, "one/jobs", "batch-").into_iter().map(|list| {
        let keys: Vec<String> = serde_json::from_slice(&fs::read(test.at("one/jobs").join(&list)).unwrap()).unwrap();
        (list, keys)
    });
    let (list, keys) = lists.max_by_key(|(_, keys)| keys.len()).unwrap();
    let last = keys.len() - 1;
    assert!(last > 0, "no list of several jobs");
    let request = serde_json::json!({"search_array": {"run": test.at("one"), "batch": list.trim_end_matches(".json")}});
    let element = |index: usize| {
        let mut command = cluster.kernels(&test);
        command.args(["__worker", &request.to_string()]).env("SLURM_ARRAY_TASK_ID", index.to_string()).spawn().unwrap()
    };
    fs::remove_file(test.at("one/results").join(format!("{}.json", keys[last]))).unwrap();
    for mut child in [last, last, 0, 1].map(element) {
        assert!(child.wait().unwrap().success());
    }
    let after = results();
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>(),
        "one result a job, and nothing else"
    );
    assert!(before.iter().filter(|(name, _)| !name.contains(&keys[last])).all(|(name, was)| after[name] == *was));

    // The controller crashes; a coordinator that was killed finds what runs for it, and submits nothing twice.
    let mut run = begin(&cluster, &test, "two");
    cluster.until(&four);
    // What a controller has not saved when it crashes, within some seconds, it knows nothing of afterwards: such jobs are waited for
    // twelve minutes.
    // The six so far name their log twice each.
    cluster.until("[ $(grep -ao two/jobs $folder/state/job_state | wc -l) -ge 12 ] && echo saved");
    cluster.tell("crash");
    std::thread::sleep(Duration::from_secs(3));
    assert!(run.try_wait().unwrap().is_none(), "a controller that is away was taken for jobs that have ended");
    cluster.tell("controller");
    run.kill().unwrap();
    run.wait().unwrap();
    let submitted = files(&test, "two/jobs", "batch-").len();
    let mut resumed = cluster.kernels(&test).args(["search", "resume", "two"]).stdout(Stdio::null()).spawn().unwrap();
    cluster.ended(&mut resumed);
    assert_eq!(files(&test, "two/jobs", "batch-").len(), submitted);
    assert_eq!(caught("two"), ["does-not-compile"; 5]);

    // What sbatch refuses is told, and not waited for.
    let mut command = cluster.kernels(&test);
    command.args([
        "search",
        "run",
        "task",
        "--proposer",
        "dir:proposals",
        "--engine",
        "slurm:--partition=none",
        "--out",
        "three",
    ]);
    crate::support::Ran::of(&mut command).expect(1, &["--engine slurm: sbatch failed", "partition"]);
}
