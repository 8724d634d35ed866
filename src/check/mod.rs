//! `kernels check`: finds problems in a project's text that break its build on the Kernel Hub, or break its users.
//!
//! Nothing is compiled, run or downloaded. C++ and Python are tokenised ([`cpp`](self), [`python`](self)), so that comments
//! and strings are not taken for code. A rule that is uncertain reports a warning or nothing.

mod allow;
mod build_toml;
mod code;
mod contract;
mod cpp;
mod cuda;
mod finding;
mod findings;
mod fix;
mod imports;
mod load;
mod ops;
mod package;
mod prototype;
mod python;
mod rule;
mod sources;
mod text;
mod torch;

pub(crate) use allow::Allowed;
pub(crate) use finding::{Finding, Severity};
pub(crate) use fix::{Fix, apply};
pub use rule::RULES;
pub(crate) use rule::{Rule, find};

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use self::findings::Findings;
use self::load::Sources;
use self::text::Text;
use crate::base::plural;
use crate::project::BUILD_TOML;

/// Whether Python's standard library, of any version from 3.9 on, has a module of this name.
pub(crate) fn is_stdlib_module(name: &str) -> bool {
    stdlib_modules().any(|module| module == name)
}

/// The top-level modules of Python's standard library, 3.9 to 3.14.
pub(crate) fn stdlib_modules() -> impl Iterator<Item = &'static str> {
    include_str!("stdlib.txt").split_whitespace()
}

/// The result of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The project's name in build.toml.
    pub(crate) name: Option<String>,
    /// Sorted by file and line.
    pub(crate) findings: Vec<Finding>,
    /// Findings that are allowed with a reason.
    pub(crate) allowed: Vec<Allowed>,
    /// What was not checked, with the reason.
    pub(crate) notes: Vec<String>,
    /// Number of files read.
    pub(crate) files: usize,
    /// The contents of files with fixes, as checked.
    #[serde(skip)]
    texts: BTreeMap<String, String>,
}

impl Report {
    /// The number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        let of = |finding: &&Finding| finding.severity == severity;
        self.findings.iter().filter(of).count()
    }

    /// One line: `2 errors, 1 warning, 1 allowed in 13 files`.
    pub(crate) fn summary(&self) -> String {
        let mut parts = Vec::new();
        for (severity, what) in [(Severity::Error, "error"), (Severity::Warning, "warning")] {
            let number = self.count(severity);
            if number > 0 {
                parts.push(plural(number, what));
            }
        }
        if parts.is_empty() {
            parts.push("clean".to_owned());
        }
        if !self.allowed.is_empty() {
            parts.push(format!("{} allowed", self.allowed.len()));
        }
        format!("{} in {}", parts.join(", "), plural(self.files, "file"))
    }
}

/// Applies every rule to a folder with a build.toml.
pub fn check(dir: &Path) -> Result<Report> {
    let root = fs::canonicalize(dir).with_context(|| format!("there is no project at {}", dir.display()))?;
    let text = Text::read_inside(&root, BUILD_TOML)
        .with_context(|| format!("cannot read {}", dir.join(BUILD_TOML).display()))?;
    let mut findings = Findings::default();
    let manifest = build_toml::read(&text, &mut findings);
    let project = load::load(&root, text, manifest, &mut findings);
    let ops = ops::gather(&project);
    build_toml::check(&project, &mut findings);
    sources::check(&project, &mut findings);
    torch::check(&project, &ops, &mut findings);
    imports::check(&project, &mut findings);
    package::check(&project, &ops, &mut findings);
    cuda::check(&project, &mut findings);
    prototype::check(&project, &mut findings);
    contract::check(&project, &mut findings);
    let allowed = allow::apply(&project, &mut findings);
    let mut findings = findings.0;
    findings.sort_by(|a, b| (&a.path, a.place, a.rule, &a.message).cmp(&(&b.path, b.place, b.rule, &b.message)));
    findings.dedup();
    Ok(Report {
        name: project.manifest.name.as_ref().map(|name| name.value.clone()),
        notes: notes(&project),
        files: 1 + project.units.len() + project.modules.len(),
        texts: texts(&project, &findings),
        findings,
        allowed,
    })
}

fn notes(project: &Sources) -> Vec<String> {
    let mut notes = Vec::new();
    if project.manifest.framework().is_some() && !project.is_bound() {
        notes.push(
            "no binding and no torch-ext yet, so what they must hold was not checked; the Hub builds nothing without them"
                .to_owned(),
        );
    }
    notes
}

/// Reads the texts that edits need.
fn texts(project: &Sources, findings: &[Finding]) -> BTreeMap<String, String> {
    let units = project.units.iter().map(|unit| &unit.code.text);
    let modules = project.modules.iter().map(|module| &module.python.text);
    let edited = |path: &str| {
        let mut edits = findings.iter().filter_map(|finding| finding.edit.as_ref());
        edits.any(|edit| edit.path == path)
    };
    units
        .chain(modules)
        .chain([&project.build])
        .filter(|text| edited(&text.path))
        .map(|text| (text.path.clone(), text.content.clone()))
        .collect()
}
