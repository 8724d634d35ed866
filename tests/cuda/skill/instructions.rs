//! Which architecture has what the guides say it has: ptxas refuses an instruction that a target lacks.

/// A guide, its words, an instruction that is meant, and the first architecture that has it.
pub(crate) type Claim = (&'static str, &'static str, &'static str, &'static str);

/// From old to new. What begins at 90a is in no later one without that letter.
pub(crate) const TARGETS: [&str; 5] = ["75", "80", "89", "90", "90a"];

const BF16: &str = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {f,f,f,f},{r,r,r,r},{r,r},{f,f,f,f};";
const FP16: &str = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f,f,f,f},{r,r,r,r},{r,r},{f,f,f,f};";
const TF32: &str = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {f,f,f,f},{r,r,r,r},{r,r},{f,f,f,f};";
const FP8: &str = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {f,f,f,f},{r,r,r,r},{r,r},{f,f,f,f};";
const TURING: &str = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {f,f,f,f},{r,r},{r},{f,f,f,f};";
const BULK: &str = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [g], 16, [s];";

pub(crate) const CLAIMS: &[Claim] = &[
    ("h100", "`wgmma`, `setmaxnreg` and `tensormap.replace` need", "wgmma.fence.sync.aligned;", "90a"),
    ("h100", "`wgmma`, `setmaxnreg` and `tensormap.replace` need", "setmaxnreg.inc.sync.aligned.u32 96;", "90a"),
    (
        "h100",
        "`wgmma`, `setmaxnreg` and `tensormap.replace` need",
        "tensormap.replace.tile.global_address.global.b1024.b64 [g], g;",
        "90a",
    ),
    ("h100", "`ld.global.L1::no_allocate`", "ld.global.L1::no_allocate.v4.u32 {r,r,r,r}, [g];", "75"),
    (
        "a100",
        "| `cp.async`: 16 bytes to shared memory, past the registers | yes | yes |",
        "cp.async.cg.shared.global [s], [g], 16;",
        "80",
    ),
    ("a100", "| TMA, `cp.async.bulk`, tensor maps | no | yes |", BULK, "90"),
    ("a100", "| clusters, distributed shared memory | no | yes |", "barrier.cluster.arrive.aligned;", "90"),
    ("a100", "| clusters, distributed shared memory | no | yes |", "mapa.shared::cluster.u32 r, s, r;", "90"),
    ("a100", "| programmatic dependent launch | no | yes |", "griddepcontrol.wait;", "90"),
    ("a100", "| `wgmma`; fp8 tensor cores | no; no | sm_90a; yes |", "wgmma.fence.sync.aligned;", "90a"),
    ("a100", "| `wgmma`; fp8 tensor cores | no; no | sm_90a; yes |", FP8, "89"),
    ("a100", "| `mma.sync` with bf16, fp16, TF32 | yes | yes |", BF16, "80"),
    ("a100", "| `mma.sync` with bf16, fp16, TF32 | yes | yes |", FP16, "80"),
    ("a100", "| `mma.sync` with bf16, fp16, TF32 | yes | yes |", TF32, "80"),
    ("a100", "| bf16 arithmetic, `cvt.rn.bf16x2.f32` | yes | yes |", "fma.rn.bf16x2 r, r, r, r;", "80"),
    ("a100", "| bf16 arithmetic, `cvt.rn.bf16x2.f32` | yes | yes |", "cvt.rn.bf16x2.f32 r, f, f;", "80"),
    (
        "a100",
        "| `__reduce_add_sync` and the like, for integers | yes | yes |",
        "redux.sync.add.s32 r, r, 0xffffffff;",
        "80",
    ),
    ("t4", "**bf16 arithmetic and bf16 tensor cores.**", "fma.rn.bf16x2 r, r, r, r;", "80"),
    ("t4", "**bf16 arithmetic and bf16 tensor cores.**", BF16, "80"),
    ("t4", "sm_80 has\n  `cvt.rn.bf16x2.f32`", "cvt.rn.bf16x2.f32 r, f, f;", "80"),
    (
        "t4",
        "- `cp.async`, `mbarrier` in hardware, L2 persistence, integer `__reduce_*_sync`: from sm_80.",
        "cp.async.cg.shared.global [s], [g], 16;",
        "80",
    ),
    (
        "t4",
        "- `cp.async`, `mbarrier` in hardware, L2 persistence, integer `__reduce_*_sync`: from sm_80.",
        "mbarrier.init.shared.b64 [s], 1;",
        "80",
    ),
    (
        "t4",
        "- `cp.async`, `mbarrier` in hardware, L2 persistence, integer `__reduce_*_sync`: from sm_80.",
        "createpolicy.fractional.L2::evict_last.b64 g, 1.0;",
        "80",
    ),
    (
        "t4",
        "- `cp.async`, `mbarrier` in hardware, L2 persistence, integer `__reduce_*_sync`: from sm_80.",
        "redux.sync.add.s32 r, r, 0xffffffff;",
        "80",
    ),
    ("t4", "TMA, clusters: from sm_90.", BULK, "90"),
    ("t4", "TF32: none.", TF32, "80"),
    ("t4", "fp16 `mma.sync` (m16n8k8) and `ldmatrix` are there.", TURING, "75"),
    (
        "t4",
        "fp16 `mma.sync` (m16n8k8) and `ldmatrix` are there.",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r,r,r,r}, [s];",
        "75",
    ),
];

/// A kernel of the one instruction, with a register of each kind.
pub(crate) fn kernel(instruction: &str, target: &str) -> String {
    format!(
        ".version 8.4\n.target sm_{target}\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n\
         .reg .b32 r, s;\n.reg .f32 f;\n.reg .b64 g;\nld.param.u64 g, [p];\nmov.u32 r, 0;\nmov.u32 s, 0;\nmov.f32 f, 0f00000000;\n\
         {instruction}\nret;\n}}\n"
    )
}
