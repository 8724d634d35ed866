//! Parses the output of `ptxas -v`.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) registers: u32,
    pub(super) spill_stores: u32,
    pub(super) spill_loads: u32,
    pub(super) stack: u32,
    pub(super) shared: u32,
}

const INFO: &str = "ptxas info";

/// Whether a line belongs to ptxas's statistics.
pub(super) fn is_info(line: &str) -> bool {
    line.starts_with(INFO) || frame(line).is_some()
}

/// The figures by symbol; spills of a kernel's device functions are added to the kernel's.
pub(super) fn parse(said: &str) -> HashMap<String, Usage> {
    let mut all: HashMap<String, Usage> = HashMap::new();
    let mut current = None;
    for line in said.lines() {
        if line.starts_with(INFO) && line.contains("Compiling entry function '") {
            current = line.split('\'').nth(1).map(str::to_owned);
        }
        let Some(usage) = current.clone().map(|symbol| all.entry(symbol).or_default()) else {
            continue;
        };
        if let Some([stack, stores, loads]) = frame(line) {
            usage.stack = usage.stack.max(stack);
            usage.spill_stores += stores;
            usage.spill_loads += loads;
        } else if line.starts_with(INFO)
            && let Some((_, used)) = line.split_once(": Used ")
        {
            usage.registers = before(used, " registers").unwrap_or_default();
            usage.shared = before(used, " bytes smem").unwrap_or_default();
            usage.stack = before(used, " bytes cumulative stack size").unwrap_or(usage.stack);
        }
    }
    all
}

/// `    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads`
fn frame(line: &str) -> Option<[u32; 3]> {
    Some([
        before(line, " bytes stack frame")?,
        before(line, " bytes spill stores")?,
        before(line, " bytes spill loads")?,
    ])
}

/// The number before a phrase.
fn before(text: &str, words: &str) -> Option<u32> {
    let (head, _) = text.split_once(words)?;
    let digits = head.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_read_and_goes_to_its_kernel() {
        let said = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function '_Z1a' for 'sm_90'\n\
            ptxas info    : Function properties for _Z1a\n    \
            416 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\n\
            ptxas info    : Used 255 registers, used 1 barriers, 424 bytes cumulative stack size, 1024 bytes smem\n\
            ptxas info    : Compiling entry function '_Z1b' for 'sm_90'\n\
            ptxas info    : Function properties for _Z1b\n    \
            0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 10 registers, used 0 barriers\n";
        let all = parse(said);
        let a = Usage { registers: 255, spill_stores: 12, spill_loads: 20, stack: 424, shared: 1024 };
        let b = Usage { registers: 10, ..Usage::default() };
        assert_eq!(all, HashMap::from([("_Z1a".into(), a), ("_Z1b".into(), b)]));
        assert!(said.lines().all(is_info));
        assert!(!is_info("a.cu(3): warning #177-D: variable was declared"));
    }
}
