//! `kernels search import`: torch modules as projects, the names of worthless ones, and a module that is hostile.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::support::{Ran, Test, cuda, not_run, root, torch};

const HEAD: &str = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n";

/// A task of robust-kbench's format: its functional form, its model, its inputs, and its configurations.
fn task(test: &Test, name: &str, function: &str, model: &str, inputs: &str, [input, init, shared]: [&str; 3]) {
    let text = format!("{HEAD}{function}\n\nclass Model(nn.Module):\n{model}\n\n{inputs}\n\ninput_names = [\"x\"]\n");
    test.write(&format!("bench/tasks/{name}/func_forward.py"), text);
    let of = |kind: &str| {
        format!(
            "\"{kind}_input_configs\": [{input}], \"{kind}_init_configs\": [{init}], \"{kind}_shared_configs\": [{shared}]"
        )
    };
    let config = format!("{{{}, {}}}", of("single"), of("multi").replace(input, "{}").replace(shared, "{}"));
    test.write(&format!("bench/tasks/{name}/config_forward.json"), config);
}

/// One without parameters: `y` of `x` with the rows and the width of its configuration.
fn plain(test: &Test, name: &str, y: &str, x: &str) {
    task(
        test,
        name,
        &format!("def forward_fn(x):\n    return {y}\n"),
        "    def forward(self, x, fn=forward_fn):\n        return fn(x)\n",
        &format!("def get_inputs(rows=4, width=4):\n    return [{x}]\n"),
        ["{\"rows\": 96, \"width\": 512}", "{}", "{}"],
    );
}

fn tasks(test: &Test) {
    task(
        test,
        "norm",
        "def forward_fn(x, weight, bias, running, eps: float):\n    return F.layer_norm(x, (x.shape[-1],), weight, bias, eps)\n",
        "    def __init__(self, width=8, eps=1e-5):\n        super().__init__()\n        self.weight = nn.Parameter(torch.ones(width))\n        \
         self.bias = nn.Parameter(torch.zeros(width))\n        self.running = nn.Parameter(torch.zeros(3))\n        self.eps = eps\n\n    \
         def forward(self, x, fn=forward_fn):\n        return fn(x, self.weight, self.bias, self.running, self.eps)\n",
        "def get_inputs(rows=4, width=8):\n    return [torch.randn(rows, width)]\n",
        ["{\"rows\": 256}", "{\"eps\": 0.001}", "{\"width\": 384}"],
    );
    task(
        test,
        "convolution",
        "def forward_fn(x, weight, bias, stride):\n    return F.conv2d(x, weight, bias, stride=stride, padding=1)\n",
        "    def __init__(self, channels=3, filters=16, stride=2):\n        super().__init__()\n        conv = nn.Conv2d(channels, filters, 3)\n        \
         self.weight, self.bias, self.stride = conv.weight, conv.bias, stride\n\n    def forward(self, x, fn=forward_fn):\n        \
         return fn(x, self.weight, self.bias, self.stride)\n",
        "def get_inputs(batch=4, channels=3, height=32, width=32):\n    return [torch.randn(batch, channels, height, width)]\n",
        ["{\"batch\": 8, \"height\": 32, \"width\": 40}", "{\"filters\": 16, \"stride\": 2}", "{\"channels\": 3}"],
    );
    task(
        test,
        "loss",
        "def forward_fn(predictions, targets):\n    return F.cross_entropy(predictions, targets)\n",
        "    def forward(self, predictions, targets, fn=forward_fn):\n        return fn(predictions, targets)\n",
        "def get_inputs(rows=8, classes=10):\n    return [torch.randn(rows, classes), torch.randint(0, classes, (rows,))]\n",
        ["{\"rows\": 512, \"classes\": 10}", "{}", "{}"],
    );
    plain(test, "masked", "torch.where(x > 0, x, x.exp())", "torch.randn(rows, width)");
    plain(test, "logarithm", "torch.log(x + 0.5)", "torch.rand(rows, width)");
    plain(test, "zero", "torch.relu(x - x.max(dim=1, keepdim=True).values)", "torch.randn(rows, width)");
    plain(test, "tiny", "x * 1e-4", "torch.randn(rows, width)");
    plain(test, "noise", "F.dropout(x, 0.5)", "torch.randn(rows, width)");
    plain(test, "single", "x.float()", "torch.randn(rows, width)");
    plain(test, "cancels", "(x + 1e6) - 1e6", "torch.randn(rows, width)");
    plain(test, "raises", "x @ x", "torch.randn(rows, width)");
    plain(test, "leaves", "__import__('os')._exit(0)", "torch.randn(rows, width)");
    // A module is read in a process that reaches neither the home nor a network.
    plain(test, "writes", "x", "attempt() or torch.randn(rows, width)");
    let path = "bench/tasks/writes/func_forward.py";
    let text = fs::read_to_string(test.at(path)).unwrap();
    let attempt = "import pathlib, socket\n\ndef attempt():\n    reached = []\n    for what in (lambda: pathlib.Path.home().joinpath('planted').write_text('x'),\n                 \
                   lambda: socket.socket()):\n        try:\n            what()\n            reached.append(what)\n        \
                   except OSError:\n            pass\n    assert not reached, 'reached'\n\n";
    test.write(path, text.replace("def forward_fn", &format!("{attempt}def forward_fn")));
}

#[test]
fn modules_become_projects_and_worthless_ones_are_named() {
    let torches = match torch::torches() {
        Ok(torches) => torches,
        Err(why) => return not_run(&format!("kernels search import: {why}")),
    };
    let python = torches.newest().get_program().to_owned();
    let test = Test::new();
    tasks(&test);
    let kernels = |typed: &str| {
        let mut command = test.command();
        command.env("KERNELS_PYTHON", &python).env("OMP_NUM_THREADS", "1");
        command.args(test.words(typed));
        command
    };
    let ran = Ran::of(&mut kernels("search import --from bench --out tasks --json"));
    ran.expect(1, &[]);
    let report = ran.json();
    let all: BTreeMap<&str, &Value> =
        report["tasks"].as_array().unwrap().iter().map(|one| (one["task"].as_str().unwrap(), one)).collect();
    let names = |list: &Value| {
        list.as_array().unwrap().iter().map(|one| one[0].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let said = |task: &str| (all[task]["outcome"].as_str().unwrap().to_owned(), names(&all[task]["reasons"]).join(","));
    for task in ["norm", "convolution", "loss", "masked", "logarithm", "writes"] {
        assert_eq!(said(task), ("verifies".to_owned(), String::new()), "{:#}", all[task]);
        assert!(all[task]["cases"].as_u64().unwrap() > 8, "{:#}", all[task]);
    }
    assert_eq!(said("zero").0, "flagged");
    assert!(said("zero").1.contains("constant-output"), "{:#}", all["zero"]);
    assert_eq!(said("tiny"), ("flagged".to_owned(), "input-impact,output-axes,output-range,output-std".to_owned()));
    for (task, kind) in
        [("noise", "not-deterministic"), ("single", "not-double"), ("raises", "failed"), ("leaves", "not-described")]
    {
        assert_eq!(said(task), ("unfit".to_owned(), kind.to_owned()), "{:#}", all[task]);
        assert!(!test.at("tasks").join(task).exists());
    }
    assert_eq!(said("cancels").0, "torch-fails");
    assert!(!test.home.join("planted").exists());

    // What a launcher takes and what is drawn.
    let toml = |task: &str| fs::read_to_string(test.at(&format!("tasks/{task}/kernel.toml"))).unwrap();
    assert!(toml("norm").contains("tensor = \"weight\", role = \"input\", shape = [\"width\"] }"), "{}", toml("norm"));
    assert!(!toml("norm").contains("running") && names(&all["norm"]["notes"]).contains(&"unused-input".to_owned()));
    let shape = "shape = [\"batch\", \"filters\", \"ceil_div(height, 2)\", \"ceil_div(width, 2)\"]";
    assert!(toml("convolution").contains(shape), "{}", toml("convolution"));
    assert!(toml("loss").contains("dtype = \"i64\", range = [\"0\", \"classes - 1\"]"), "{}", toml("loss"));
    assert!(toml("logarithm").contains("range = [\"0\", \"0.9999"), "{}", toml("logarithm"));
    assert!(toml("norm").contains("draw = 8") && toml("norm").contains("inputs = ["));

    // The projects are sound: rules, and the source to begin with compiles.
    let mut check = kernels("check tasks/norm tasks/loss tasks/convolution");
    Ran::of(&mut check).expect(0, &[]);
    let mut build = kernels("build tasks/loss --arch 90");
    build.env("KERNELS_CACHE", cuda::cache());
    Ran::of(&mut build).expect(0, &[]);
    // What is there is not touched.
    test.write("tasks/norm/norm.cu", "// mine\n");
    Ran::of(&mut kernels("search import --from bench --out tasks --only norm")).expect(0, &["there already"]);
    assert_eq!(fs::read_to_string(test.at("tasks/norm/norm.cu")).unwrap(), "// mine\n");
    Ran::of(&mut kernels("search import --from bench --out tasks --only nothing"))
        .expect(1, &["has no task that --only names"]);
}

#[test]
fn a_module_of_ones_own_is_imported_with_its_shapes() {
    let torches = match torch::torches() {
        Ok(torches) => torches,
        Err(why) => return not_run(&format!("kernels search import: {why}")),
    };
    let test = Test::new();
    let model = "class Model(nn.Module):\n    def __init__(self, width, hidden):\n        super().__init__()\n        self.up = nn.Linear(width, hidden)\n        \
                 self.down = nn.Linear(hidden, width, bias=False)\n\n    def forward(self, x):\n        return self.down(F.gelu(self.up(x)))\n\n";
    test.write("mlp.py", format!("{HEAD}{model}def get_inputs(rows, width):\n    return [torch.randn(rows, width)]\n"));
    test.write(
        "s.toml",
        "[bench]\nrows = 512\nwidth = 64\nhidden = 256\n\n[[verify]]\nrows = 33\nwidth = 24\nhidden = 40\n",
    );
    let run = |typed: &str| {
        let mut command = test.command();
        command.env("KERNELS_PYTHON", torches.newest().get_program());
        Ran::of(command.args(test.words(typed)))
    };
    run("search import --module mlp.py --shapes s.toml --out tasks")
        .expect(0, &["mlp", "with torch's own result verified"]);
    let toml = fs::read_to_string(test.at("tasks/mlp/kernel.toml")).unwrap();
    for part in [
        "tensor = \"x\", role = \"input\", shape = [\"rows\", \"width\"] }",
        "tensor = \"up_weight\", role = \"input\", shape = [\"hidden\", \"width\"], range = [\"-0.",
        "name = \"shapes 1\"",
        "\nhidden = 40\n",
    ] {
        assert!(toml.contains(part), "{part}: {toml}");
    }
    test.write("s.toml", "[bench]\nrows = 512\n\n[verify]\nrows = 3\n");
    run("search import --module mlp.py --shapes s.toml --out other").expect(1, &["s.toml", "under [bench]"]);
    run("search import --module mlp.py --out other").expect(2, &["--shapes"]);
}

/// `kernels bench --against compile` of a project with a reference of its own, as far as it needs no card.
#[test]
fn both_torches_compile_a_reference() {
    let torches = match torch::torches() {
        Ok(torches) => torches,
        Err(why) => return not_run(&format!("torch.compile of a reference: {why}")),
    };
    let test = Test::new();
    test.write(
        "reference.py",
        "def helper(x):\n    return x * 2\n\ndef scaled(x, factor, **sizes):\n    return helper(x) * factor\n",
    );
    let script = format!(
        "import sys, types, torch\n\
         sys.path.insert(0, {:?})\n\
         from peers.operations.own import Own\n\
         tensor = lambda role: types.SimpleNamespace(role=role)\n\
         case = types.SimpleNamespace(values={{}}, all={{'factor': 3.0, 'rows': 4}},\n    \
         reference={{'file': {:?}, 'function': 'scaled'}}, tensors={{'out': tensor('output'), 'x': tensor('input')}})\n\
         formula = Own(case).formulas()['reference']\n\
         x = torch.arange(4.0)\n\
         assert torch.compile(formula, backend='aot_eager', fullgraph=True)(x)[0].equal(6 * x)\n",
        root().join("src/against/python"),
        test.at("reference.py"),
    );
    for mut python in [torches.oldest(), torches.newest()] {
        Ran::of(python.args(["-c", &script])).expect(0, &[]);
    }
}
