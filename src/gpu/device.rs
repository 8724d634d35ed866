//! A card in use: its context, one stream, and events.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::{result, sys};

use super::driver::{self, GpuError, Said};
use super::staging::Staging;
use super::{Buffer, Card, card};

/// A card in use by this thread.
#[derive(Debug)]
pub struct Device {
    /// Its properties.
    pub(crate) card: Card,
    pub(super) stream: sys::CUstream,
    context: sys::CUcontext,
    ordinal: sys::CUdevice,
    /// Host memory for copies.
    pub(super) staging: Mutex<Staging>,
}

impl Device {
    /// Opens a card by its number, and makes its primary context current to this thread.
    pub fn open(ordinal: usize) -> Result<Self, GpuError> {
        let version = driver::load()?;
        let doing = format!("opening card {ordinal}");
        let count = result::device::get_count().said(&doing)?;
        let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
        if number >= count {
            return Err(GpuError::new(doing, format!("this machine has {count} card(s), counted from 0")));
        }
        let card = card::describe(number, version)?;
        let device = result::device::get(number).said(&doing)?;
        // SAFETY: the primary context is retained until drop, and made current to this thread.
        let context = unsafe {
            let context = result::primary_ctx::retain(device).said(&doing)?;
            result::ctx::set_current(context).said(&doing)?;
            context
        };
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).said(&doing)?;
        let staging = Mutex::new(Staging::new());
        Ok(Self { card, stream, context, ordinal: device, staging })
    }

    /// Makes the card's context current again, on a thread where other code may have made another one current.
    pub fn make_current(&self) -> Result<(), GpuError> {
        // SAFETY: the context is retained until drop.
        unsafe { result::ctx::set_current(self.context) }.said("making the card current")
    }

    /// Allocates device memory.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<Buffer, GpuError> {
        Buffer::new(bytes)
    }

    /// Bytes of device memory that are free.
    pub(crate) fn free_bytes(&self) -> Result<u64, GpuError> {
        let (free, _) = result::mem_get_info().said("asking for free memory")?;
        Ok(free as u64)
    }

    /// Waits for all work of the stream, within the time limit.
    pub(crate) fn finish(&self, doing: &str) -> Result<(), GpuError> {
        self.mark()?.wait(doing)
    }

    /// Copies from host to device, in stream order, and waits for the copy.
    pub(crate) fn upload(&self, to: &Buffer, at: u64, bytes: &[u8]) -> Result<(), GpuError> {
        let address = to.range(at, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let wait = |copied: Event| copied.wait("copying to the card");
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        staging.upload(self.stream, address, bytes, (|| self.mark(), wait))
    }

    /// Copies from device to host, in stream order, and waits for the copy.
    pub(crate) fn download(&self, from: &Buffer, at: u64, length: u64) -> Result<Vec<u8>, GpuError> {
        const DOING: &str = "copying from the card";
        let address = from.range(at, length)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length == 0 {
            return Ok(Vec::new());
        }
        let wait = |copied: Event| copied.wait(DOING);
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        staging.download(self.stream, address, length, (|| self.mark(), wait))
    }

    /// Marks the present place in the stream.
    fn mark(&self) -> Result<Event, GpuError> {
        let event = Event::new()?;
        event.record(self)?;
        Ok(event)
    }

    /// Fills a range with one byte, in stream order.
    pub(crate) fn fill(&self, to: &Buffer, at: u64, length: u64, byte: u8) -> Result<(), GpuError> {
        let address = to.range(at, length)?;
        if length == 0 {
            return Ok(());
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // SAFETY: the range lies in the buffer.
        unsafe { result::memset_d8_async(address, byte, length, self.stream) }.said("filling memory")
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.staging.get_mut().unwrap_or_else(PoisonError::into_inner).free();
        // SAFETY: nothing uses the device afterwards; errors are ignored because the context may be lost.
        unsafe {
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.ordinal);
        }
    }
}

/// The context that was current to this thread, which is made current again on drop. For callers that share the thread
/// with other CUDA code.
#[derive(Debug)]
pub struct Before(Option<sys::CUcontext>);

impl Before {
    /// Without a driver there is no context, and nothing is restored.
    pub fn remember() -> Self {
        let context = driver::load().and_then(|_| result::ctx::get_current().said("reading the current context"));
        Self(context.ok().map(|context| context.unwrap_or(std::ptr::null_mut())))
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        if let Some(context) = self.0 {
            // SAFETY: it was current to this thread; null means none.
            let _ = unsafe { result::ctx::set_current(context) };
        }
    }
}

/// A CUDA event.
#[derive(Debug)]
pub(crate) struct Event(sys::CUevent);

impl Event {
    /// Creates an event that records a time stamp.
    pub(crate) fn new() -> Result<Self, GpuError> {
        result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map(Self).said("creating an event")
    }

    /// Records it on the stream.
    pub(crate) fn record(&self, device: &Device) -> Result<(), GpuError> {
        // SAFETY: event and stream are alive.
        unsafe { result::event::record(self.0, device.stream) }.said("recording an event")
    }

    /// Waits until the stream has reached it, within the time limit.
    pub(crate) fn wait(&self, doing: &str) -> Result<(), GpuError> {
        let start = Instant::now();
        loop {
            // SAFETY: the event is alive.
            match unsafe { result::event::query(self.0) } {
                Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => {
                    let waited = start.elapsed();
                    if waited > driver::time_limit() {
                        return Err(GpuError::time_out(doing, driver::time_limit().as_secs()));
                    }
                    // Spins while latency matters to a measurement, and sleeps during long waits.
                    if waited > Duration::from_millis(20) {
                        std::thread::sleep(Duration::from_micros(200));
                    } else {
                        std::hint::spin_loop();
                    }
                }
                other => return other.said(doing),
            }
        }
    }

    /// Whether the stream has reached it.
    pub(crate) fn reached(&self) -> Result<bool, GpuError> {
        // SAFETY: the event is alive.
        match unsafe { result::event::query(self.0) } {
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => other.said("asking for an event").map(|()| true),
        }
    }

    /// Microseconds from this event to a later one; the stream has reached both.
    pub(crate) fn microseconds_to(&self, later: &Self) -> Result<f64, GpuError> {
        // SAFETY: both events are alive and recorded.
        let milliseconds = unsafe { result::event::elapsed(self.0, later.0) }.said("reading the clock")?;
        Ok(f64::from(milliseconds) * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}
