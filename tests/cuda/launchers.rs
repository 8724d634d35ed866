//! The bundled launchers, called on the host: they refuse the cases that kernel.toml lists, with the stated code and message,
//! and no others. No GPU is needed: a launcher that accepts a case returns an error code of the driver.

#![allow(unsafe_code, reason = "calls of C functions")]

use std::fs;
use std::path::Path;

use kernels::gpu::launcher::Library;
use kernels::gpu::recording::Value;
use kernels::project::{Bound, BoundArgument, Case, DType, Operation, Project};

use super::support::{bundled, root};

/// The address passed for tensors: nothing is mapped there, and launchers do not dereference it.
const FIRST: u64 = 0x10_0000;
const APART: u64 = 0x1_0000;

fn values(bound: &Bound) -> Vec<Value> {
    let address = |at: usize| {
        let tensor = &bound.tensors[at];
        FIRST + APART * at as u64 + tensor.offset * tensor.dtype.size() as u64
    };
    let value = |argument: &BoundArgument| match *argument {
        BoundArgument::Tensor(at) => Value::Pointer(address(at)),
        BoundArgument::Beyond(at, bytes) => Value::Pointer(address(at) + bytes),
        BoundArgument::Null => Value::Pointer(0),
        BoundArgument::I32(number) => Value::I32(number),
        BoundArgument::I64(number) => Value::I64(number),
        BoundArgument::F32(number) => Value::F32(number.to_bits()),
        BoundArgument::F64(number) => Value::F64(number.to_bits()),
        BoundArgument::Stream => Value::Stream,
    };
    bound.arguments.iter().map(value).collect()
}

fn call(library: &Library, operation: &Operation, case: &Case) -> i32 {
    let bound = operation.bind(case).unwrap();
    // SAFETY: kernel.toml states the launcher's signature; a launcher dereferences no pointer.
    unsafe { library.launch(&operation.launcher, &values(&bound), 0) }.unwrap()
}

/// The faults of a project's launchers.
fn faults(project: &Project, library: &Library) -> Vec<String> {
    let mut faults = Vec::new();
    for operation in &project.spec.operations {
        let told = |case: &Case, what: String| format!("{} {}: {what}", operation.name, case.label);
        let refused = operation.cases(&operation.reject, 1).unwrap();
        assert!(!refused.is_empty(), "{} refuses nothing", operation.name);
        for case in refused {
            let code = call(library, operation, &case);
            let error = operation.error.as_ref().unwrap();
            // SAFETY: the type is that of every bundled project's launch.cu.
            let words = unsafe { library.words(error, code) }.unwrap();
            let wrong = case.refusal.fault(&operation.launcher, code, Some(&words));
            faults.extend(wrong.map(|what| told(&case, what)));
        }
        if Path::new("/dev/nvidiactl").exists() {
            continue;
        }
        // The first case of each table reaches the absent driver, so the codes above came from the launcher.
        for set in operation.verify.iter().chain(&operation.bench) {
            let cases = operation.cases(std::slice::from_ref(set), 1).unwrap();
            let case = cases.first().unwrap();
            let code = call(library, operation, case);
            let bound = operation.bind(case).unwrap();
            let mut results = bound.tensors.iter().filter(|tensor| tensor.role.is_result());
            if results.any(|tensor| tensor.elements() > 0) && !(1..10_000).contains(&code) {
                faults.push(told(case, format!("{code}, where a launch was to be tried")));
            } else if code >= 10_000 {
                faults.push(told(case, format!("refused with {code}")));
            }
        }
    }
    faults
}

#[test]
fn what_kernel_toml_says_is_refused_is_refused_with_its_code_and_words() {
    let mut folders: Vec<_> = fs::read_dir(root().join("kernels"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("kernel.toml").is_file())
        .collect();
    folders.sort();
    assert!(folders.len() > 10, "{folders:?}");
    let mut all = Vec::new();
    for folder in folders {
        let project = Project::open(&folder).unwrap();
        let library = bundled::library(folder.file_name().unwrap().to_str().unwrap());
        all.extend(faults(&project, &library));
    }
    assert!(all.is_empty(), "{} faults:\n{}", all.len(), all.join("\n"));
}

/// The number of blocks or groups that a launcher chooses: a C function of the sizes, the dtype's code and the number of SMs.
type Count = unsafe extern "C" fn(i64, i64, i32, i64) -> i64;

/// Compares kernel.toml's formula for `name` with the launcher's own function, and returns that.
fn counted(
    folder: &str,
    name: &str,
    function: &str,
    rows: &[i64],
    widths: &[i64],
) -> impl Fn(i64, i64, i32, i64) -> i64 + use<> {
    let project = Project::open(&root().join("kernels").join(folder)).unwrap();
    let library = bundled::shared_object(folder);
    // SAFETY: the type is that of launch.cu.
    let function: Count = unsafe { *library.get(function.as_bytes()).unwrap() };
    // SAFETY: the function takes only numbers, and the library is never closed.
    let count = move |rows, width, code, sms| unsafe { function(rows, width, code, sms) };
    std::mem::forget(library);
    let operation = &project.spec.operations[0];
    for (dtype, code) in [(DType::F32, 0), (DType::BF16, 2)] {
        for rows in rows {
            for width in widths {
                let shape = format!("rows={rows},width={width}");
                let case = operation.case_of_shape(&shape, dtype).unwrap();
                let stated = operation.bind(&case).unwrap().values[name];
                #[allow(clippy::cast_precision_loss)]
                let own = count(*rows, *width, code, 132) as f64;
                // Without rows the number of blocks does not matter.
                let same = (own - stated).abs() < 0.5 || *rows == 0 && own >= 1.0 && stated >= 1.0;
                assert!(same, "{shape} {dtype:?}: {own}, and kernel.toml says {stated}");
            }
        }
    }
    count
}

#[test]
fn kernel_toml_states_the_number_of_blocks_of_rms_norm_backward() {
    let widths = [
        1, 81, 128, 171, 576, 831, 1024, 1032, 1420, 2048, 3072, 3080, 3521, 4096, 8192, 13_128, 13_131, 16_392,
        40_000, 41_001, 70_000,
    ];
    let rows = [0, 1, 30, 500, 100_000];
    let blocks = counted("rmsnorm_backward", "blocks", "rms_norm_backward_blocks", &rows, &widths);
    // The launcher refuses invalid sizes.
    for (rows, width, sms) in [(-1, 64, 132), (4, -1, 132), (4, i64::MAX, 132), (4, 64, 0)] {
        assert_eq!(blocks(rows, width, 2, sms), 1);
    }
}

#[test]
fn kernel_toml_states_the_groups_of_column_sum() {
    let rows = [1, 7, 32, 33, 511, 512, 8192, 65_536, 1_048_576];
    let widths = [1, 2, 7, 8, 9, 16, 31, 64, 100, 256, 1024, 4096, 12_288, 70_000, 1_000_000];
    let groups = counted("column_sum", "groups", "column_sum_groups", &rows, &widths);
    let several = |code| {
        let of = |rows: &i64| widths.iter().filter(|width| groups(*rows, **width, code, 132) > 1).count();
        rows.iter().map(of).sum::<usize>()
    };
    assert!(several(0) + several(2) > 50);
    assert_eq!(groups(-1, 64, 2, 132), 1);
    assert_eq!(groups(64, 0, 2, 132), 1);
    assert_eq!(groups(64, 64, 7, 132), 1);
    assert_eq!(groups(1 << 20, 1 << 30, 2, 1), 1);
}
