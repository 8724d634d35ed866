//! Parses the output of `ptxas -v`.
//!
//! It comes in one stream with what the other compilers print, and a source can make those print any line: by `#pragma message`,
//! in the text of `[[deprecated]]`, through `asm`. It cannot take away what ptxas prints. So a report is believed only if each
//! part is there once; where the machine code says the same, it is compared with that as well.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail, ensure};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) spill_stores: u32,
    pub(super) spill_loads: u32,
    pub(super) stack: u32,
    pub(super) shared: u32,
}

const INFO: &str = "ptxas info";

/// The next step after a report that cannot be believed.
pub(super) const FORGED: &str = "the figures of kernels are read from the lines of `ptxas info` among the compilers' output: see \
     that no source prints such lines, by #pragma message or otherwise";

/// Whether a line belongs to ptxas's statistics.
pub(super) fn is_info(line: &str) -> bool {
    line.starts_with(INFO) || frame(line).is_some()
}

/// A kernel's report so far.
#[derive(Default)]
struct Report {
    usage: Usage,
    /// Whether its own frame and its `Used` were there.
    framed: bool,
    used: bool,
}

/// The figures by symbol; spills of a kernel's device functions are added to the kernel's. An error if a part is there twice,
/// belongs to no kernel, or is missing.
pub(super) fn parse(said: &str) -> Result<HashMap<String, Usage>> {
    let mut all: HashMap<String, Report> = HashMap::new();
    // The kernel, and the function whose frame comes next.
    let mut current: Option<String> = None;
    let mut function: Option<&str> = None;
    for line in said.lines() {
        let info = line.strip_prefix(INFO).and_then(|rest| rest.trim_start().strip_prefix(": "));
        let of = |what: &str| info.and_then(|info| info.strip_prefix(what));
        if let Some(rest) = of("Compiling entry function '") {
            let symbol = rest.split('\'').next().unwrap_or_default().to_owned();
            ensure!(!all.contains_key(&symbol), "ptxas reports twice on {symbol}: {FORGED}");
            all.insert(symbol.clone(), Report::default());
            current = Some(symbol);
            function = None;
            continue;
        }
        let (properties, used, frame) = (of("Function properties for "), of("Used "), frame(line));
        if properties.is_none() && used.is_none() && frame.is_none() {
            continue;
        }
        let Some((symbol, report)) = current.as_ref().and_then(|symbol| Some((symbol, all.get_mut(symbol)?))) else {
            bail!("ptxas reports on no kernel: {line:?}: {FORGED}");
        };
        if let Some(name) = properties {
            function = Some(name.trim_end());
        } else if let Some(sizes) = frame {
            let Some(name) = function.take() else {
                bail!("ptxas reports a frame of no function: {line:?}: {FORGED}");
            };
            if name == symbol {
                ensure!(!report.framed, "ptxas reports twice on the frame of {symbol}: {FORGED}");
                report.framed = true;
            }
            report.add(sizes).with_context(|| format!("ptxas reports impossible spills of {symbol}: {FORGED}"))?;
        } else if let Some(used) = used {
            ensure!(!report.used, "ptxas reports twice on what {symbol} uses: {FORGED}");
            report.used = true;
            report.usage.shared = before(used, " bytes smem").unwrap_or_default();
            report.usage.stack = before(used, " bytes cumulative stack size").unwrap_or(report.usage.stack);
        }
    }
    let usage = |(symbol, report): (String, Report)| {
        ensure!(report.framed && report.used, "ptxas reports in part on {symbol}: {FORGED}");
        Ok((symbol, report.usage))
    };
    all.into_iter().map(usage).collect()
}

impl Report {
    /// Adds a function's frame: the size of its stack, and the bytes of its spills. `None` if there are more than can be.
    fn add(&mut self, [stack, stores, loads]: [u32; 3]) -> Option<()> {
        let usage = &mut self.usage;
        usage.stack = usage.stack.max(stack);
        usage.spill_stores = usage.spill_stores.checked_add(stores)?;
        usage.spill_loads = usage.spill_loads.checked_add(loads)?;
        usage.spill_stores.checked_add(usage.spill_loads).map(drop)
    }
}

/// `    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads`
fn frame(line: &str) -> Option<[u32; 3]> {
    let sizes = line.strip_prefix("    ").filter(|sizes| sizes.starts_with(|c: char| c.is_ascii_digit()))?;
    Some([
        before(sizes, " bytes stack frame")?,
        before(sizes, " bytes spill stores")?,
        before(sizes, " bytes spill loads")?,
    ])
}

/// The number before a phrase.
fn before(text: &str, words: &str) -> Option<u32> {
    let (head, _) = text.split_once(words)?;
    let digits = head.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const A: &str = "ptxas info    : Compiling entry function '_Z1a' for 'sm_90'\n\
        ptxas info    : Function properties for _Z1a\n    \
        416 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\n\
        ptxas info    : Used 255 registers, used 1 barriers, 424 bytes cumulative stack size, 1024 bytes smem\n\
        ptxas info    : Function properties for _Z1f\n    \
        8 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads\n";
    const B: &str = "ptxas info    : Compiling entry function '_Z1b' for 'sm_90'\n\
        ptxas info    : Function properties for _Z1b\n    \
        0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
        ptxas info    : Used 10 registers, used 0 barriers\n\
        ptxas info    : Compile time = 8.463 ms\n";

    #[test]
    fn every_figure_is_read_and_goes_to_its_kernel() {
        let said = format!("ptxas info    : 0 bytes gmem\n{A}{B}");
        let a = Usage { spill_stores: 13, spill_loads: 22, stack: 424, shared: 1024 };
        assert_eq!(parse(&said).unwrap(), HashMap::from([("_Z1a".into(), a), ("_Z1b".into(), Usage::default())]));
        assert!(said.lines().all(is_info));
        assert!(!is_info("a.cu(3): warning #177-D: variable was declared"));
    }

    #[test]
    fn what_is_there_twice_of_no_kernel_or_in_part_is_refused() {
        let frame = "    0 bytes stack frame, 4294967290 bytes spill stores, 0 bytes spill loads\n";
        let of = |symbol: &str| format!("ptxas info    : Function properties for {symbol}\n{frame}");
        for said in [
            format!("{A}{A}"),
            format!("ptxas info    : Compiling entry function '_Z1b' for 'sm_90'\n{A}{B}"),
            format!("{A}{B}ptxas info    : Compiling entry function '_Z1a' for 'sm_90'\n"),
            format!("{A}{B}ptxas info    : Used 1 registers\n"),
            format!("{A}{B}{frame}"),
            format!("{A}{B}{}", of("_Z1b")),
            // More than can be, of a function that any kernel may call.
            format!("{A}{}{B}", of("_Z1f")),
            format!("{frame}{A}"),
            format!("{}{A}", of("_Z1a")),
            format!("ptxas info    : Used 1 registers\n{A}"),
            format!("{A}ptxas info    : Compiling entry function '_Z1c' for 'sm_90'\n"),
        ] {
            assert!(parse(&said).is_err(), "{said}");
        }
    }
}
