//! The recording process: it runs a candidate's host code, calls launchers under stream capture, and reports what they
//! launched.
//!
//! Under capture no kernel executes, and pointer arguments are addresses of the parent's context, unmapped in this one. On
//! request, a launcher is called outside of capture as well, on memory of this process (`direct.rs`).

use std::fs::File;
use std::io::{BufRead, Write};

use cudarc::driver::{result, sys};

use super::driver::{self, GpuError, Said};
use super::launcher::Library;
use super::recording::{Ask, Calls, Outcome, Reply, Value};
use super::{capture, direct};
use crate::confine::launcher;
use crate::worker::Record;

/// Reads a request from each line of standard input, and writes the reply as a line to the original standard output,
/// until the input ends.
pub(crate) fn serve(setup: &Record) -> anyhow::Result<()> {
    // Closes what the parent inherited: sockets, locks, a job server.
    // SAFETY: this process has opened no file yet. By number: glibc has a wrapper from 2.34 on.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32);
    }
    let mut reply = launcher::private_stdout()?;
    launcher::limit();
    let loaded = match Loaded::new(setup) {
        Ok((loaded, confinement)) => {
            say(&mut reply, &Reply::Ready { confinement })?;
            loaded
        }
        Err(why) => return say(&mut reply, &Reply::Refused { why }),
    };
    for line in std::io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?)? {
            Ask::Record(request) => loaded.all(&request),
            Ask::Run(request) => {
                Reply::Ran { nonce: request.nonce, ran: direct::run(&loaded.library, loaded.stream, &request) }
            }
        };
        say(&mut reply, &answer)?;
    }
    // Exits without running the library's destructors.
    std::process::exit(0)
}

fn say(to: &mut File, reply: &Reply) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    to.write_all(&line)?;
    Ok(())
}

/// The stream of a context, and the candidate's library.
struct Loaded {
    stream: sys::CUstream,
    library: Library,
}

impl Loaded {
    fn new(setup: &Record) -> Result<(Self, Vec<String>), String> {
        // Landlock restricts the calling thread and those that it starts later. A thread that the driver starts before
        // keeps its rights, and shares its memory with the candidate.
        let early = (!setup.driver_first).then(|| launcher::limit_files(&setup.scratch));
        let stream = open(setup.ordinal).map_err(|error| error.to_string())?;
        direct::warm_up(stream).map_err(|error| error.to_string())?;
        let files = early
            .unwrap_or_else(|| format!("{}, apart from the driver's threads", launcher::limit_files(&setup.scratch)));
        let mut confinement = launcher::limit_calls()?;
        confinement.insert(1, files);
        // SAFETY: the library's constructors run in the confined process.
        let library = unsafe { Library::open(&setup.library) }?;
        Ok((Self { stream, library }, confinement))
    }

    /// Makes all calls of a request under capture.
    fn all(&self, request: &Calls) -> Reply {
        let one = |values: &Vec<Value>| {
            self.record(request, values).unwrap_or_else(|error| Outcome::Escaped(error.to_string()))
        };
        Reply::Recorded { nonce: request.nonce, outcomes: request.calls.iter().map(one).collect() }
    }

    /// Calls a launcher under capture.
    fn record(&self, request: &Calls, values: &[Value]) -> Result<Outcome, GpuError> {
        // SAFETY: stream and graph belong to this process.
        unsafe {
            result::stream::begin_capture(self.stream, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)
                .said("beginning the capture")?;
            let returned = self.library.launch(&request.launcher, values, self.stream as u64);
            let ended = result::stream::end_capture(self.stream).said("ending the capture");
            let returned = match (returned, &ended) {
                (Ok(returned), _) => returned,
                (Err(error), ended) => {
                    if let Ok(graph) = ended {
                        let _ = result::graph::destroy(*graph);
                    }
                    return Err(error);
                }
            };
            let graph = match ended {
                Ok(graph) => graph,
                Err(error) => {
                    return Ok(Outcome::Escaped(format!(
                        "the capture was broken, as by a synchronisation, an allocation or a launch on another \
                         stream: {}{}",
                        error.said,
                        if returned == 0 { String::new() } else { format!("; the launcher returned {returned}") }
                    )));
                }
            };
            if let Err(error) = result::ctx::synchronize().said("waiting for the card") {
                return Ok(Outcome::Escaped(format!(
                    "something ran although the stream was only capturing: {}",
                    error.said
                )));
            }
            if graph.is_null() {
                return Ok(Outcome::Escaped("the launcher ended the capture itself".to_owned()));
            }
            let outcome = if returned == 0 {
                capture::read(graph)
            } else {
                Ok(Outcome::Code {
                    code: returned,
                    nodes: capture::count(graph),
                    said: match &request.error {
                        Some(error) => Some(self.library.words(error, returned)?),
                        None => None,
                    },
                })
            };
            let _ = result::graph::destroy(graph);
            outcome
        }
    }
}

/// Opens the card and creates a blocking stream, so that a launch on the legacy stream invalidates the capture.
fn open(ordinal: usize) -> Result<sys::CUstream, GpuError> {
    const DOING: &str = "opening the card in the recording process";
    driver::load()?;
    let device = result::device::get(i32::try_from(ordinal).unwrap_or(i32::MAX)).said(DOING)?;
    // SAFETY: the context is never released; the process ends with it.
    unsafe {
        let context = result::primary_ctx::retain(device).said(DOING)?;
        result::ctx::set_current(context).said(DOING)?;
    }
    result::stream::create(result::stream::StreamKind::Default).said(DOING)
}
