//! The kernels' sources of a project: a folder for each bundled project, and one copy of the headers that they share.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::embedded;

/// The folder of a project that holds its kernels' sources.
pub(super) const FOLDER: &str = "kernel_src";

/// A bundled project's sources, as another project contains them.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    /// Its name, which is also its folder's.
    pub(super) name: &'a str,
    /// Its kernel.toml.
    pub(super) spec: Cow<'static, str>,
    /// Its own files by name.
    pub(super) own: BTreeMap<&'static str, &'static [u8]>,
    /// The names of the shared headers that it uses.
    pub(super) shared: Vec<&'static str>,
}

/// The parts, each without the headers that another has byte for byte, and those headers.
///
/// A header is shared if at least two parts have one of its name, all of them have the same, and every header of the project
/// that it includes is shared as well, because a shared header cannot include a part's.
pub(super) fn gather<'a>(folders: &[(&'a str, String)]) -> (Vec<Part<'a>>, BTreeMap<&'static str, &'static [u8]>) {
    let mut parts: Vec<Part<'a>> = folders
        .iter()
        .map(|(name, from)| Part {
            name,
            spec: String::from_utf8_lossy(embedded::file(&format!("{from}/kernel.toml")).unwrap_or_default()),
            own: embedded::below(&format!("{from}/{FOLDER}")).collect(),
            shared: Vec::new(),
        })
        .collect();
    let mut shared = equal(&parts);
    let all: BTreeSet<&str> = parts.iter().flat_map(|part| part.own.keys().copied()).collect();
    loop {
        let closed = |bytes: &[u8]| {
            let mut own = included(bytes).filter(|name| all.contains(name));
            own.all(|name| shared.contains_key(name))
        };
        let kept: BTreeMap<_, _> =
            shared.iter().filter(|(_, bytes)| closed(bytes)).map(|(name, bytes)| (*name, *bytes)).collect();
        if kept.len() == shared.len() {
            break;
        }
        shared = kept;
    }
    for part in &mut parts {
        let (common, own) = std::mem::take(&mut part.own).into_iter().partition(|(name, _)| shared.contains_key(name));
        let common: BTreeMap<_, _> = common;
        part.own = own;
        part.shared = common.into_keys().collect();
    }
    (parts, shared)
}

/// Headers that at least two parts have, and that are the same in all parts.
fn equal(parts: &[Part]) -> BTreeMap<&'static str, &'static [u8]> {
    let mut times: BTreeMap<&'static str, (&'static [u8], usize)> = BTreeMap::new();
    let mut differing = BTreeSet::new();
    for (name, bytes) in parts.iter().flat_map(|part| &part.own) {
        let (first, count) = times.entry(name).or_insert((bytes, 0));
        *count += 1;
        if first != bytes {
            differing.insert(*name);
        }
    }
    let is_header = |name: &str| name.ends_with(".h") || name.ends_with(".cuh");
    times
        .into_iter()
        .filter(|(name, (_, count))| *count > 1 && is_header(name) && !differing.contains(name))
        .map(|(name, (bytes, _))| (name, bytes))
        .collect()
}

/// What a source includes in quotes.
fn included(bytes: &[u8]) -> impl Iterator<Item = &str> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("include")?.trim_start().strip_prefix('"')?;
        rest.split('"').next()
    })
}
