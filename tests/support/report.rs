//! Hand-written reports of a benchmark and a verification on an H100.

#![allow(dead_code, unreachable_pub, reason = "every test target uses its own part of this")]

use std::collections::BTreeMap;

use kernels::bench::{BenchReport, CaseBench, Residency, Samples, Spread};
use kernels::gpu::Card;
use kernels::project::DType;
use kernels::toolchain::Toolchain;
use kernels::verify::{Finding, Kind, OperationReport, PathReport, VerifyReport};

pub fn card() -> Card {
    Card {
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        arch: 90,
        sms: 132,
        l2_bytes: 52_428_800,
        memory_bytes: 85_017_624_576,
        driver: Some("580.159.04".to_owned()),
        cuda: "13.0".to_owned(),
        peak_gbs: Some(3352.32),
        peak_l2_gbs: None,
    }
}

/// Thirty rounds around a median.
fn rounds(median: f64) -> Vec<f64> {
    let mut rounds = vec![median; 30];
    rounds[0] = median * 0.987_654_3;
    rounds[1..4].fill(median * 0.991_234_5);
    rounds[26..].fill(median * 1.021_987_6);
    rounds
}

/// A case of bf16 or another type; times in microseconds.
pub fn case(operation: &str, rows: u32, width: u32, dtype: DType, us: f64, copy: f64) -> CaseBench {
    let bytes = (2 * u64::from(rows) * u64::from(width) + u64::from(width)) * dtype.size() as u64;
    CaseBench {
        operation: operation.to_owned(),
        case: format!("Qwen3-8B: rows={rows} width={width} {}", dtype.name()),
        dtype,
        values: BTreeMap::from([
            ("rows".to_owned(), f64::from(rows)),
            ("width".to_owned(), f64::from(width)),
            ("eps".to_owned(), 1e-6),
        ]),
        bytes,
        flops: 4.0 * f64::from(rows) * f64::from(width),
        residency: Residency::Cold,
        slots: 5,
        kernel: Spread::of(&rounds(us)),
        copy: Spread::of(&rounds(copy)),
        rounds: Some(Samples { kernel: rounds(us), copy: rounds(copy) }),
        copy_by: "16-byte vectors".to_owned(),
        launches: vec!["rms_norm<__nv_bfloat16>(8192)x(256)".to_owned()],
        compared: 960,
        checked: 30,
        remarks: Vec::new(),
        against: None,
    }
}

pub fn bench() -> BenchReport {
    let mut hot = case("rms_norm", 128, 4096, DType::BF16, 1.612, 1.803);
    hot.residency = Residency::Hot;
    BenchReport {
        project: "rmsnorm".to_owned(),
        card: card(),
        compiler: Toolchain::PINNED.to_owned(),
        seed: 18_446_744_073_709_551_557,
        cases: vec![
            case("rms_norm", 8192, 4096, DType::BF16, 46.712_345, 46.312_345),
            case("rms_norm", 8192, 4096, DType::F16, 46.6, 46.3),
            case("rms_norm", 8192, 4096, DType::F32, 91.2, 90.1),
            case("rms_norm", 128, 4096, DType::BF16, 2.512, 2.203),
            hot,
            case("add_rms_norm", 8192, 4096, DType::BF16, 91.8, 90.3),
        ],
        findings: Vec::new(),
        remarks: vec!["clocks were held down by power for 3 % of the time".to_owned()],
    }
}

pub fn verify() -> VerifyReport {
    let path = |arch, jit| PathReport {
        arch,
        jit,
        cases: 210,
        launches: 630,
        elements: 12_345_678,
        direct: 24,
        worst: 0.612_345_6,
        seconds: 4.321_098,
        ..PathReport::default()
    };
    let operation = |name: &str| OperationReport {
        operation: name.to_owned(),
        oracle: format!("built in: {name}"),
        cases: 105,
        elements: 6_172_839,
        non_finite: 9,
        direct: 12,
        timed: 6,
        ..OperationReport::default()
    };
    VerifyReport {
        project: "rmsnorm".to_owned(),
        card: card(),
        compiler: Toolchain::PINNED.to_owned(),
        seed: 7,
        confinement: vec!["seccomp".to_owned(), "landlock".to_owned()],
        set: kernels::verify::SET,
        operations: vec![operation("rms_norm"), operation("add_rms_norm")],
        paths: vec![path(90, false), path(75, true), path(80, true)],
        findings: Vec::new(),
    }
}

pub fn finding(kind: Kind, case: Option<&str>, path: &str) -> Finding {
    Finding {
        kind,
        operation: "rms_norm".to_owned(),
        case: case.map(str::to_owned),
        path: path.to_owned(),
        message: "element [0, 3] is 1.5, expected 1.25 (32 ulps)".to_owned(),
    }
}
