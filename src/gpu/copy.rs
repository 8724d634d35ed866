//! Device-to-device copies, the upper bound that kernels are compared with.

use super::driver::GpuError;
use super::graph::driver_copy;
use super::{Buffer, Device, Launch, Modules};

/// How a copy is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// The driver's own device-to-device copy.
    Driver,
    /// A kernel of 16-byte loads and stores.
    Kernel,
    /// A kernel of 16-byte loads and streaming stores.
    Streaming,
}

impl Manner {
    /// Every manner.
    pub(crate) const ALL: [Self; 3] = [Self::Driver, Self::Kernel, Self::Streaming];

    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Driver => "the driver's copy",
            Self::Kernel => "a copy kernel",
            Self::Streaming => "a copy kernel with streaming stores",
        }
    }
}

/// The copy kernels, loaded on one card.
#[derive(Debug)]
pub(crate) struct Copier {
    kernels: Modules,
}

impl Copier {
    /// Bytes that a thread block copies.
    const BLOCK: u64 = 4 * 512 * 16;

    /// Loads the copy kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, GpuError> {
        let image = include_bytes!("copy.ptx").to_vec();
        Ok(Self { kernels: Modules::load(device, &[("the copy kernels".to_owned(), image)])? })
    }

    /// Copies in stream order. `bytes` and both offsets are multiples of 16.
    pub(crate) fn copy(
        &self,
        device: &Device,
        manner: Manner,
        to: (&Buffer, u64),
        from: (&Buffer, u64),
        bytes: u64,
    ) -> Result<(), GpuError> {
        let symbol = match manner {
            Manner::Driver => return driver_copy(device, to, from, bytes),
            Manner::Kernel => "kernels_copy",
            Manner::Streaming => "kernels_copy_stream",
        };
        let arguments = [to.0.range(to.1, bytes)?, from.0.range(from.1, bytes)?, bytes / 16];
        self.kernels.launch(
            device,
            &Launch {
                symbol: symbol.to_owned(),
                grid: [u32::try_from(bytes.div_ceil(Self::BLOCK)).unwrap_or(u32::MAX), 1, 1],
                block: [512, 1, 1],
                shared: 0,
                attributes: Vec::new(),
                function: Vec::new(),
                arguments: arguments.map(|word: u64| word.to_le_bytes().to_vec()).to_vec(),
            },
        )
    }
}
