//! Kernels that exceed a budget of kernel.toml.

use std::path::Path;

use super::{Build, Kernel, Target, Unit, name};
use crate::base::arch;
use crate::project::{Budget, Project};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Overrun {
    /// The budget's index in kernel.toml.
    pub(crate) budget: usize,
    /// The budget's pattern.
    pub(crate) pattern: String,
    /// On which architectures it is compared; empty: on all.
    pub(crate) archs: Vec<u32>,
    /// Architecture, kernel and value; `None` if the pattern matches no kernel.
    pub(crate) at: Option<(u32, String, Limit)>,
}

/// A budget that was not compared on some of its architectures, because the build has no code for them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NotCompared {
    /// The budget's index in kernel.toml.
    pub(crate) budget: usize,
    /// The budget's pattern.
    pub(crate) pattern: String,
    /// The architectures.
    pub(crate) archs: Vec<u32>,
    /// Whether it was compared on no architecture at all.
    pub(crate) nowhere: bool,
}

impl NotCompared {
    /// `budget 2 (kernel = "*")`
    pub(crate) fn name(&self) -> String {
        format!("budget {} (kernel = \"{}\")", self.budget + 1, self.pattern)
    }

    /// `is for sm_103, which was not compiled for`
    pub(crate) fn why(&self) -> String {
        let too = if self.nowhere { "" } else { " too" };
        let were = if self.archs.len() == 1 { "was" } else { "were" };
        format!("is for {}{too}, which {were} not compiled for", arch::named(&self.archs))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    /// The budget's key, `registers`.
    pub(crate) what: &'static str,
    /// The kernel's value.
    pub(crate) value: String,
    /// The bound.
    pub(crate) bound: String,
}

impl std::fmt::Display for Overrun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.budget + 1;
        let pattern = &self.pattern;
        match &self.at {
            None => {
                let on =
                    if self.archs.is_empty() { String::new() } else { format!(" on {}", arch::named(&self.archs)) };
                write!(f, "budget {number} (kernel = \"{pattern}\"): no kernel has that name{on}")
            }
            Some((arch, kernel, limit)) => write!(
                f,
                "budget {number} (kernel = \"{pattern}\"): {kernel} on sm_{arch}: {} {}, allowed {}",
                limit.what, limit.value, limit.bound
            ),
        }
    }
}

impl Overrun {
    /// Whether both concern the same figure of the same budget on the same architecture.
    fn is_like(&self, other: &Self) -> bool {
        let place = |overrun: &Self| overrun.at.as_ref().map(|(arch, _, limit)| (*arch, limit.what));
        self.budget == other.budget && place(self) == place(other)
    }
}

impl Build {
    /// A line for each budget, figure and architecture: the first kernel that exceeds it, and how many more do.
    pub(crate) fn over_budget(&self, project: &Project) -> Vec<String> {
        let mut lines: Vec<(Overrun, usize)> = Vec::new();
        for overrun in self.overruns(project) {
            match lines.iter_mut().find(|(first, _)| first.is_like(&overrun)) {
                Some((_, more)) => *more += 1,
                None => lines.push((overrun, 0)),
            }
        }
        lines
            .iter()
            .map(|(first, more)| match more {
                0 => first.to_string(),
                1 => format!("{first}, and in 1 more kernel"),
                _ => format!("{first}, and in {more} more kernels"),
            })
            .collect()
    }

    /// The budgets for architectures that this build has no code for: nothing is known of them there.
    pub(crate) fn not_compared(&self, project: &Project) -> Vec<NotCompared> {
        let built = |arch: &u32| self.targets.iter().any(|target| target.arch == *arch);
        let of = |(at, budget): (usize, &Budget)| {
            let archs: Vec<u32> = budget.arch.iter().copied().filter(|arch| !built(arch)).collect();
            let nowhere = archs.len() == budget.arch.len();
            let one = NotCompared { budget: at, pattern: budget.kernel.clone(), archs, nowhere };
            (!one.archs.is_empty()).then_some(one)
        };
        project.spec.budgets.iter().enumerate().filter_map(of).collect()
    }

    /// All exceeded budgets, and patterns that match no kernel (misspelt or outdated) of the architectures that they are for.
    pub(crate) fn overruns(&self, project: &Project) -> Vec<Overrun> {
        let mut all = Vec::new();
        for (at, budget) in project.spec.budgets.iter().enumerate() {
            let is_for = |target: &&Target| budget.arch.is_empty() || budget.arch.contains(&target.arch);
            let targets: Vec<&Target> = self.targets.iter().filter(is_for).collect();
            let archs = targets.iter().map(|target| target.arch).filter(|arch| budget.arch.contains(arch));
            let archs: Vec<u32> = archs.collect();
            let overrun =
                |place| Overrun { budget: at, pattern: budget.kernel.clone(), archs: archs.clone(), at: place };
            let mut any = false;
            for target in &targets {
                let units = target.units.iter().filter(|unit| is_of(budget, unit));
                for kernel in units.flat_map(|unit| &unit.kernels) {
                    if !covers(budget, kernel) {
                        continue;
                    }
                    any = true;
                    for limit in limits(budget, kernel) {
                        let name = name::short(&kernel.name).to_owned();
                        all.push(overrun(Some((target.arch, name, limit))));
                    }
                }
            }
            if !any && !targets.is_empty() {
                all.push(overrun(None));
            }
        }
        all
    }
}

fn is_of(budget: &Budget, unit: &Unit) -> bool {
    let source = budget.source.as_deref();
    source.is_none_or(|source| source == Path::new(".") || unit.source.starts_with(source))
}

fn covers(budget: &Budget, kernel: &Kernel) -> bool {
    [&kernel.name, name::short(&kernel.name), name::template(&kernel.name), &kernel.symbol]
        .iter()
        .any(|name| matches(&budget.kernel, name))
}

fn limits(budget: &Budget, kernel: &Kernel) -> Vec<Limit> {
    let mut all = Vec::new();
    let mut at_most = |what, value: u64, limit: Option<u32>| {
        if let Some(limit) = limit.filter(|&limit| value > u64::from(limit)) {
            all.push(Limit { what, value: value.to_string(), bound: limit.to_string() });
        }
    };
    at_most("registers", u64::from(kernel.registers), budget.registers);
    at_most("spill_bytes", kernel.spilled(), budget.spill_bytes);
    at_most("stack_bytes", u64::from(kernel.stack), budget.stack_bytes);
    at_most("shared_bytes", u64::from(kernel.shared), budget.shared_bytes);
    if let Some(least) = budget.occupancy.filter(|&least| kernel.occupancy < least) {
        all.push(Limit {
            what: "occupancy",
            value: format!("{:.3}", kernel.occupancy),
            bound: format!("{least} and more"),
        });
    }
    if let Some(wide) = budget.wide_access {
        let has = kernel.loads.wide > 0 && kernel.stores.wide > 0;
        if has != wide {
            all.push(Limit {
                what: "wide_access",
                value: format!(
                    "{} of {} loads and {} of {} stores have 16 bytes",
                    kernel.loads.wide, kernel.loads.all, kernel.stores.wide, kernel.stores.all
                ),
                bound: if wide { "at least one of each" } else { "not both" }.to_owned(),
            });
        }
    }
    all
}

/// Matches a whole text against a pattern with `*`.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Accesses;

    const KERNEL: Kernel = Kernel {
        symbol: String::new(),
        name: String::new(),
        registers: 40,
        spill_stores: 4,
        spill_loads: 8,
        stack: 16,
        shared: 1024,
        max_threads: 256,
        occupancy: 0.75,
        loads: Accesses { all: 3, wide: 1 },
        stores: Accesses { all: 2, wide: 0 },
    };

    /// What a kernel is over, and its value.
    fn over(budget: &Budget, kernel: &Kernel) -> Vec<(&'static str, String)> {
        limits(budget, kernel).into_iter().map(|limit| (limit.what, limit.value)).collect()
    }

    #[test]
    fn a_limit_may_be_reached_and_not_exceeded() {
        let at = Budget {
            registers: Some(40),
            spill_bytes: Some(12),
            stack_bytes: Some(16),
            shared_bytes: Some(1024),
            occupancy: Some(0.75),
            wide_access: Some(false),
            ..Budget::default()
        };
        assert_eq!(over(&at, &KERNEL), []);
        let below = Budget {
            registers: Some(39),
            spill_bytes: Some(11),
            stack_bytes: Some(15),
            shared_bytes: Some(1023),
            occupancy: Some(0.76),
            wide_access: Some(true),
            ..at.clone()
        };
        let wide = "1 of 3 loads and 0 of 2 stores have 16 bytes";
        let all = [("registers", "40"), ("spill_bytes", "12"), ("stack_bytes", "16"), ("shared_bytes", "1024")];
        let all = all.into_iter().chain([("occupancy", "0.750"), ("wide_access", wide)]);
        assert_eq!(over(&below, &KERNEL), all.map(|(what, value)| (what, value.to_owned())).collect::<Vec<_>>());
        // Loads and stores, both.
        let both = Kernel { stores: Accesses { all: 2, wide: 1 }, ..KERNEL };
        assert_eq!(over(&at, &both).len(), 1);
        assert_eq!(over(&Budget { wide_access: Some(true), ..at.clone() }, &both), []);
        let stores = Kernel { loads: Accesses { all: 3, wide: 0 }, ..both };
        assert_eq!(over(&at, &stores), []);
    }

    #[test]
    fn a_budget_is_for_a_source_or_what_lies_in_a_folder() {
        let unit = Unit { source: "kernel_src/a.cu".into(), cubin: "a".into(), ptx: "a".into(), kernels: Vec::new() };
        let of = |source: Option<&str>| {
            let budget = Budget { source: source.map(Into::into), ..Budget::default() };
            is_of(&budget, &unit)
        };
        for source in [None, Some("."), Some("kernel_src"), Some("kernel_src/a.cu")] {
            assert!(of(source), "{source:?}");
        }
        assert!(!of(Some("kernel_src/b.cu")) && !of(Some("kernel")));
    }

    #[test]
    fn each_figure_on_each_architecture_has_a_line_with_the_number_of_kernels() -> anyhow::Result<()> {
        let mut project = Project::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/rmsnorm"))?;
        let budget =
            |kernel: &str, archs: &[u32]| Budget { kernel: kernel.into(), arch: archs.into(), ..Budget::default() };
        let figures = Budget { registers: Some(39), stack_bytes: Some(15), ..budget("k*", &[]) };
        project.spec.budgets = vec![figures, budget("gone", &[]), budget("gone", &[90, 103]), budget("k*", &[103])];
        let target = |arch, kernels: &[&str]| {
            let kernels = kernels.iter().map(|name| Kernel { name: (*name).to_owned(), ..KERNEL }).collect();
            let unit = Unit { source: "a.cu".into(), cubin: "a".into(), ptx: "a".into(), kernels };
            Target { arch, features: None, library: "a".into(), units: vec![unit] }
        };
        let targets = vec![target(80, &["k1", "k2", "k3"]), target(90, &["k4", "k5", "other"])];
        let build = Build { compiler: String::new(), targets, compiled: 0 };
        let over = |on: &str, more: &str| {
            ["registers 40, allowed 39", "stack_bytes 16, allowed 15"]
                .map(|what| format!("budget 1 (kernel = \"k*\"): {on}: {what}, and in {more}"))
        };
        let mut lines = [over("k1 on sm_80", "2 more kernels"), over("k4 on sm_90", "1 more kernel")].concat();
        lines.push("budget 2 (kernel = \"gone\"): no kernel has that name".to_owned());
        lines.push("budget 3 (kernel = \"gone\"): no kernel has that name on sm_90".to_owned());
        assert_eq!(build.over_budget(&project), lines);
        let not: Vec<String> =
            build.not_compared(&project).iter().map(|one| format!("{} {}", one.name(), one.why())).collect();
        let why = "which was not compiled for";
        assert_eq!(
            not,
            [
                format!("budget 3 (kernel = \"gone\") is for sm_103 too, {why}"),
                format!("budget 4 (kernel = \"k*\") is for sm_103, {why}"),
            ]
        );
        Ok(())
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "k<float>", true),
            ("k", "k", true),
            ("k", "kk", false),
            ("k<*>", "k<float, 4>", true),
            ("*float*", "k<float, 4>", true),
            ("*a*b", "a-b-ab", true),
            ("a*a", "a", false),
            ("a*b*c", "acb", false),
            ("*a*a*", "a", false),
            ("", "k", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
