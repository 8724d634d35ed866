//! Kernel launches as data, and the messages between the harness and the recording process.

use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The launches of one call of a launcher.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Recording {
    /// In stream order.
    pub(crate) launches: Vec<Launch>,
}

/// One kernel launch.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Launch {
    /// The kernel's symbol.
    pub(crate) symbol: String,
    /// Thread blocks.
    pub(crate) grid: [u32; 3],
    /// Threads per block.
    pub(crate) block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub(crate) shared: u32,
    /// Launch attributes such as the cluster size: `CUlaunchAttributeID`, and the bytes of its value.
    pub(crate) attributes: Vec<(u32, Vec<u8>)>,
    /// Attributes that the launcher set on the function: `CUfunction_attribute`, and its value.
    pub(crate) function: Vec<(u32, i32)>,
    /// The bytes of each argument.
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// A request to the recording process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Ask {
    /// Calls under capture.
    Record(Calls),
    /// A call outside of capture.
    Run(Run),
}

/// A request to call a launcher outside of capture, on device memory of the recording process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Run {
    /// Chosen by the harness; the reply repeats it.
    pub(crate) nonce: u64,
    /// The launcher's symbol.
    pub(crate) launcher: String,
    /// The arguments; pointers are offsets in the slot, and 0 is null.
    pub(crate) values: Vec<Value>,
    /// The file with the slot's content.
    pub(crate) content: PathBuf,
    /// The parts of the slot that are digested after the launch.
    pub(crate) parts: Vec<Range<usize>>,
}

/// The result of a call outside of capture.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Ran {
    /// The launcher returned 0: SHA-256 of each part of the slot afterwards, in hexadecimal.
    Left(Vec<String>),
    /// The launcher returned an error code.
    Code(i32),
    /// The driver failed.
    Failed(String),
}

/// A request to call a launcher under capture, once for each list of arguments.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Calls {
    /// Chosen by the harness; the reply repeats it.
    pub(crate) nonce: u64,
    /// The launcher's symbol.
    pub(crate) launcher: String,
    /// The function that returns messages for its error codes.
    pub(crate) error: Option<String>,
    /// The arguments of each call.
    pub(crate) calls: Vec<Vec<Value>>,
}

/// An argument of a launcher.
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

/// A message of the recording process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Reply {
    /// The process is confined and has loaded the library.
    Ready {
        /// The restrictions that are in force.
        confinement: Vec<String>,
    },
    /// The process cannot record.
    Refused {
        /// Why.
        why: String,
    },
    /// One outcome for each call.
    Recorded {
        /// That of the request.
        nonce: u64,
        /// In the order of the calls.
        outcomes: Vec<Outcome>,
    },
    /// The outcome of a call outside of capture.
    Ran {
        /// That of the request.
        nonce: u64,
        /// The result.
        ran: Ran,
    },
}

/// The result of one call.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Outcome {
    /// The launcher returned 0.
    Done(Recording),
    /// The launcher returned an error code.
    Code {
        /// The code.
        code: i32,
        /// How many nodes it had captured before it returned.
        nodes: usize,
        /// The message for the code, if the request names a function for messages.
        said: Option<String>,
    },
    /// A captured node is not a kernel.
    NotAKernel(String),
    /// Work ran outside the captured stream, or the capture failed.
    Escaped(String),
}
