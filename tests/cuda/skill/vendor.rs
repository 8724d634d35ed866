//! Figures of the GPUs from NVIDIA's documents. The guides' figures and this table, whose lines name the document, are typed
//! independently, so that a typo shows as a difference. tests/cuda/build.rs also compares the limits of an SM (threads, blocks,
//! registers, shared memory) with the toolkit's occupancy calculator.

/// A line of a guide's table of limits: the guide, the line's name, its value, and the source.
pub(crate) type Figure = (&'static str, &'static str, &'static str, &'static str);

const GUIDE: &str = "CUDA C++ Programming Guide 13.0, Compute Capabilities, Technical Specifications";
const HOPPER: &str = "NVIDIA H100 Tensor Core GPU Architecture, whitepaper";
const AMPERE: &str = "NVIDIA A100 Tensor Core GPU Architecture, whitepaper";
const TURING: &str = "NVIDIA Turing GPU Architecture, whitepaper";

pub(crate) const FIGURES: &[Figure] = &[
    ("h100", "SMs (whitepaper)", "132 (SXM, NVL, H200), 114 (PCIe)", HOPPER),
    ("h100", "threads an SM, a block", "2048, 1024", GUIDE),
    ("h100", "warps, blocks an SM", "64, 32", GUIDE),
    ("h100", "32-bit registers an SM, a thread", "65,536, 255", GUIDE),
    (
        "h100",
        "L1 and shared memory together, an SM",
        "256 KB",
        "Hopper Tuning Guide, Unified Shared Memory/L1/Texture Cache",
    ),
    ("h100", "shared memory an SM", "228 KB", GUIDE),
    (
        "h100",
        "shared memory a block",
        "48 KB static; 227 KB dynamic with `cudaFuncAttributeMaxDynamicSharedMemorySize`; 1 KB a block is the system's",
        "Hopper Tuning Guide, Unified Shared Memory/L1/Texture Cache",
    ),
    (
        "h100",
        "carve-outs of shared memory",
        "0, 8, 16, 32, 64, 100, 132, 164, 196, 228 KB",
        "Hopper Tuning Guide, Unified Shared Memory/L1/Texture Cache",
    ),
    (
        "h100",
        "blocks of a cluster",
        "8; 16 with `cudaFuncAttributeNonPortableClusterSizeAllowed`",
        "Hopper Tuning Guide, Thread Block Clusters",
    ),
    ("h100", "L2 (whitepaper)", "50 MB; an H200 reports 60", HOPPER),
    (
        "h100",
        "memory bandwidth (datasheet)",
        "SXM 3.35 TB/s, NVL 3.9, PCIe 2.0, H200 4.8",
        "NVIDIA H100 datasheet; NVIDIA H200 datasheet",
    ),
    (
        "h100",
        "bf16 and fp16 matrix products, dense (datasheet, SXM)",
        "989 TFLOP/s; TF32 495, fp8 1,979; twice that is for 2:4 sparsity",
        "NVIDIA H100 datasheet, which gives the sparse ones: 1,979, 989, 3,958",
    ),
    ("h100", "fp32 outside tensor cores (datasheet, SXM)", "67 TFLOP/s", "NVIDIA H100 datasheet"),
    ("a100", "SMs (whitepaper)", "108", AMPERE),
    ("a100", "threads an SM, a block", "2048, 1024", GUIDE),
    ("a100", "warps, blocks an SM", "64, 32", GUIDE),
    ("a100", "32-bit registers an SM, a thread", "65,536, 255", GUIDE),
    (
        "a100",
        "L1 and shared memory together, an SM",
        "192 KB",
        "NVIDIA Ampere GPU Architecture Tuning Guide, Unified Shared Memory/L1/Texture Cache",
    ),
    ("a100", "shared memory an SM", "164 KB", GUIDE),
    (
        "a100",
        "shared memory a block",
        "48 KB static; 163 KB dynamic with `cudaFuncAttributeMaxDynamicSharedMemorySize`; 1 KB a block is the system's",
        "NVIDIA Ampere GPU Architecture Tuning Guide, Unified Shared Memory/L1/Texture Cache",
    ),
    (
        "a100",
        "carve-outs of shared memory",
        "0, 8, 16, 32, 64, 100, 132, 164 KB",
        "NVIDIA Ampere GPU Architecture Tuning Guide, Unified Shared Memory/L1/Texture Cache",
    ),
    ("a100", "blocks of a cluster", "no clusters", GUIDE),
    ("a100", "L2 (whitepaper)", "40 MB", AMPERE),
    (
        "a100",
        "memory bandwidth (datasheet)",
        "40 GB: 1,555 GB/s; 80 GB PCIe 1,935; 80 GB SXM 2,039",
        "NVIDIA A100 datasheet, of 40 GB and of 80 GB",
    ),
    ("a100", "bf16 and fp16 matrix products, dense (datasheet)", "312 TFLOP/s; TF32 156", "NVIDIA A100 datasheet"),
    ("a100", "fp32 outside tensor cores (datasheet)", "19.5 TFLOP/s", "NVIDIA A100 datasheet"),
    ("t4", "SMs (datasheet: 2,560 cores)", "40", "NVIDIA T4 datasheet: 2,560 CUDA cores, of which a Turing SM has 64"),
    ("t4", "threads an SM, a block", "1024, 1024", GUIDE),
    ("t4", "warps, blocks an SM", "32, 16", GUIDE),
    ("t4", "32-bit registers an SM, a thread", "65,536, 255", GUIDE),
    (
        "t4",
        "L1 and shared memory together, an SM",
        "96 KB",
        "Turing Tuning Guide, Unified Shared Memory/L1/Texture Cache",
    ),
    ("t4", "shared memory an SM", "64 KB", GUIDE),
    (
        "t4",
        "shared memory a block",
        "48 KB static; 64 KB dynamic with `cudaFuncAttributeMaxDynamicSharedMemorySize`",
        GUIDE,
    ),
    ("t4", "carve-outs of shared memory", "32, 64 KB", "Turing Tuning Guide, Unified Shared Memory/L1/Texture Cache"),
    ("t4", "blocks of a cluster", "no clusters", GUIDE),
    ("t4", "L2 (whitepaper, TU104)", "4 MB", TURING),
    (
        "t4",
        "memory (product brief)",
        "16 GB GDDR6, 320 GB/s",
        "NVIDIA T4 product brief PB-09256, table 2; the datasheet says 300",
    ),
    ("t4", "power (datasheet)", "70 W", "NVIDIA T4 datasheet"),
    ("t4", "fp16 matrix products; fp32 (datasheet)", "65 TFLOP/s; 8.1 TFLOP/s", "NVIDIA T4 datasheet"),
];

/// The figures that the guides' sentences calculate with.
pub(crate) struct Card {
    pub(crate) guide: &'static str,
    pub(crate) sms: u32,
    pub(crate) l2_mb: u32,
    /// The slowest and the fastest of the name, GB/s.
    pub(crate) gbs: [u32; 2],
    pub(crate) as_said: &'static str,
    pub(crate) fp32_a_cycle: u32,
    pub(crate) boost_ghz: f64,
    /// The figures of the sentence about instructions per element.
    pub(crate) counted_gbs: f64,
}

/// 32-bit floating-point results a cycle: CUDA C++ Programming Guide, Throughput of Native Arithmetic Instructions. Boost
/// clocks: whitepapers; the guide of the H100 uses 1.9 GHz instead of 1.98.
pub(crate) const CARDS: [Card; 3] = [
    Card {
        guide: "h100",
        sms: 132,
        l2_mb: 50,
        gbs: [3350, 3350],
        as_said: "3.35 TB/s",
        fp32_a_cycle: 128,
        boost_ghz: 1.9,
        counted_gbs: 3350.0,
    },
    Card {
        guide: "a100",
        sms: 108,
        l2_mb: 40,
        gbs: [1555, 2039],
        as_said: "2,039 GB/s",
        fp32_a_cycle: 64,
        boost_ghz: 1.41,
        counted_gbs: 2000.0,
    },
    Card {
        guide: "t4",
        sms: 40,
        l2_mb: 4,
        gbs: [320, 320],
        as_said: "320 GB/s",
        fp32_a_cycle: 64,
        boost_ghz: 1.59,
        counted_gbs: 320.0,
    },
];
