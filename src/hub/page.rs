//! The kernel's page on the Hub: the project's CARD.md, filled in, with what was verified and how fast it is.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Error, Result};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::Repo;
use super::built::Variant;
use super::file::is_inside;
use super::proof::Proof;
use super::template;
use crate::base::{disk, hex, plural};
use crate::evidence::page;
use crate::project::TorchProject;
use crate::report::figure;
use crate::report::markdown::{cell, row, titles};

/// The template of the page, which the project may have.
pub(super) const CARD: &str = "CARD.md";
/// Its largest size in bytes.
const LARGEST: u64 = 1 << 20;
/// The template if the project has none.
const PLAIN: &str = "---\nlibrary_name: kernels\nlicense: {{ license }}\ntags:\n- kernels\n---\n\n# {{ name }}\n\n\
    ```python\nfrom kernels import get_kernel\n\nmodule = get_kernel(\"{{ repo_id }}\", version={{ version }})\n```\n\
    {% if functions %}\n\n## Functions\n\n{% for function in functions %}\n- `{{ function }}`\n{% endfor %}\n{% endif %}\n";
/// The page ends with the digest of the text before this mark, which shows whether somebody edited the page on the Hub.
const MARK: &str = "<!-- written by kernels publish, sha256 ";

pub(super) struct Facts<'a> {
    pub(super) dir: &'a Path,
    pub(super) project: &'a TorchProject,
    pub(super) repo: &'a Repo,
    pub(super) variants: &'a [Variant],
    pub(super) has_benchmark: bool,
    pub(super) proof: &'a Proof,
    pub(super) evidence: &'a Path,
}

pub(super) fn text(facts: &Facts) -> Result<String> {
    let path = facts.dir.join(CARD);
    let card = if path.symlink_metadata().is_ok() {
        let read = disk::read_plain(&is_inside(facts.dir, &path)?, LARGEST).map(String::from_utf8);
        read.map_err(Error::from)
            .and_then(|text| Ok(text?))
            .with_context(|| format!("cannot read {}", path.display()))?
    } else {
        PLAIN.to_owned()
    };
    let card = template::render(&card, &values(facts)).with_context(|| path.display().to_string())?;
    let mut text = format!("{}\n\n## Verification\n\n", card.trim_end());
    text += &verification(facts)?;
    text += &variants(facts.variants);
    Ok(marked(&text))
}

fn values(facts: &Facts) -> Map<String, Value> {
    let build = &facts.project.build;
    let names = |module| facts.variants.first().and_then(|variant| variant.names(module));
    // A module in `__all__` is not a function.
    let functions = names("__init__").map(|mut all| {
        all.retain(|name| name != "layers");
        all
    });
    let values = json!({
        "name": build.name,
        "repo_id": facts.repo.to_string(),
        "version": facts.project.version,
        "license": facts.project.license.to_lowercase(),
        "functions": functions,
        "layers": names("layers"),
        "has_benchmark": facts.has_benchmark,
        "upstream": build.upstream,
        "source": build.source,
    });
    let Value::Object(values) = values else { return Map::new() };
    values
}

fn verification(facts: &Facts) -> Result<String> {
    let proof = facts.proof;
    if !proof.is_whole() {
        let mut text =
            "**Not verified**: these variants were published without evidence that covers them.\n\n".to_owned();
        for gap in &proof.gaps {
            let _ = writeln!(text, "- {}", cell(gap));
        }
        return Ok(text + "\n");
    }
    let mut text =
        "Every operation was held against a reference in fp64, then timed beside a copy of the same bytes, on the \
                    cards named here. The digest is that of the compiled device code.\n\n"
            .to_owned();
    text += &titles([
        "operation",
        "card",
        "driver",
        "nvcc",
        ">launches",
        ">elements",
        ">worst error, of its budget",
        "digest",
    ]);
    for one in &proof.records {
        let verified = &one.verification;
        text += &row([
            cell(&one.operation),
            cell(&one.card.name),
            cell(one.card.driver.as_deref().unwrap_or("unknown")),
            cell(&one.toolchain),
            verified.launches.to_string(),
            verified.elements.to_string(),
            figure::times(verified.worst),
            format!("`{}`", one.device_digest.get(..16).unwrap_or(&one.device_digest)),
        ]);
    }
    text += "\n## Speed\n\n";
    let cards: BTreeSet<String> = proof.records.iter().map(|one| one.card.slug()).collect();
    for card in cards {
        let of_card = proof.records.iter().filter(|one| one.card.slug() == card);
        let names: Vec<&str> = of_card.map(|one| one.operation.as_str()).collect();
        let block = format!("<!-- evidence:{card} brief {} -->\n<!-- /evidence -->\n", names.join(" "));
        let table = page::render(&block, facts.evidence)?;
        let lines = table.lines().filter(|line| !line.starts_with("<!-- "));
        text += lines.collect::<Vec<_>>().join("\n").trim();
        text += "\n\n";
    }
    Ok(text)
}

fn variants(variants: &[Variant]) -> String {
    let mut text = "## Variants\n\n".to_owned();
    text += &titles(["variant", "for", ">files", "SHA-256 of metadata.json"]);
    for variant in variants {
        let archs = variant.metadata.backend.archs.clone().unwrap_or_default().join(", ");
        let digest = variant.metadata_digest();
        text += &row([
            format!("`{}`", variant.name),
            cell(&archs),
            plural(variant.files.len(), "file"),
            format!("`{digest}`"),
        ]);
    }
    text + "\nmetadata.json has the digest of each file; `kernels hub verify` compares them.\n"
}

fn marked(text: &str) -> String {
    format!("{text}\n{MARK}{} -->\n", hex(&Sha256::digest(format!("{text}\n"))))
}

/// Whether a page was written by this program and not edited since.
pub(super) fn is_ours(page: &[u8]) -> bool {
    let Ok(page) = str::from_utf8(page) else { return false };
    page.rfind(MARK).is_some_and(|at| marked(page[..at].strip_suffix('\n').unwrap_or_default()) == page)
}

#[cfg(test)]
mod tests {
    use super::{is_ours, marked};

    #[test]
    fn an_edit_of_a_page_is_seen() {
        let page = marked("# a\n\ntext\n");
        assert!(is_ours(page.as_bytes()), "{page}");
        for edited in [
            page.replace("text", "TEXT"),
            format!("{page}more"),
            format!("more{page}"),
            "# a".to_owned(),
            String::new(),
        ] {
            assert!(!is_ours(edited.as_bytes()), "{edited}");
        }
    }
}
