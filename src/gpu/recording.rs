//! A launch as data: what a launcher asked the driver for, and nothing that it computed.

use serde::{Deserialize, Serialize};

/// What one call of a launcher put on its stream, in order.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Recording {
    /// The launches; each begins when the one before it is done.
    pub launches: Vec<Launch>,
}

/// One kernel launch.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Launch {
    /// The kernel's symbol.
    pub symbol: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory a block.
    pub shared: u32,
    /// Launch attributes (`CUlaunchAttributeID`, the bytes of its value): cluster size, cooperative, and so on.
    pub attributes: Vec<(u32, Vec<u8>)>,
    /// Attributes that the launcher set on the function (`CUfunction_attribute`, value).
    pub function: Vec<(u32, i32)>,
    /// The bytes of each argument.
    pub arguments: Vec<Vec<u8>>,
}

/// What the child is asked for: one call of the launcher for each list of arguments.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Request {
    /// Drawn by the parent; the answer repeats it.
    pub nonce: u64,
    /// The launcher's symbol.
    pub launcher: String,
    /// The arguments of each call.
    pub calls: Vec<Vec<Value>>,
}

/// An argument of a launcher, as C passes it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub enum Value {
    /// A device address.
    Pointer(u64),
    /// `int32_t`
    I32(i32),
    /// `int64_t`
    I64(i64),
    /// `float`, as its bits: JSON has no infinity.
    F32(u32),
    /// `double`, as its bits.
    F64(u64),
    /// The stream under capture.
    Stream,
}

/// What the child says.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Reply {
    /// It is locked down and has loaded the library.
    Ready {
        /// What holds it.
        confinement: Vec<String>,
    },
    /// It could not even begin.
    Refused {
        /// Why.
        why: String,
    },
    /// One outcome for each call.
    Recorded {
        /// As asked.
        nonce: u64,
        /// In the order of the calls.
        outcomes: Vec<Outcome>,
    },
}

/// What became of one call.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Outcome {
    /// The launcher returned 0.
    Done(Recording),
    /// The launcher returned an error code.
    Code {
        /// The code.
        code: i32,
        /// How many nodes it had put on the stream all the same.
        nodes: usize,
    },
    /// A node is no kernel.
    NotAKernel(String),
    /// Work left the stream, or the capture was broken.
    Escaped(String),
}
