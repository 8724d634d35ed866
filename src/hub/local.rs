//! What is to be published, checked without a connection: the project's text, its variants with their digests and
//! libraries, its state in git, its page.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use super::Repo;
use super::benchmark::{self, Benchmarks};
use super::built::Variant;
use super::digest::METADATA;
use super::file::{File, is_inside};
use super::name::Name;
use super::page::{self, Facts};
use super::proof::Proof;
use super::signature::Signer;
use crate::base::plural;
use crate::base::text::for_shell;
use crate::check::{self, Severity};
use crate::evidence;
use crate::project::{BUILD_TOML, TorchProject};
use crate::variant::provenance::commit_and;

/// All that is to be published.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) repo: Repo,
    pub(crate) branch: String,
    pub(crate) variants: Vec<Variant>,
    pub(crate) benchmarks: Vec<File>,
    /// Benchmarks of the project that are not published, because upstream's command would stop at them.
    pub(crate) left_out: Vec<String>,
    pub(crate) page: File,
    pub(crate) proof: Proof,
    /// The commit of the sources, with a remark if they were edited since.
    pub(crate) source: Option<String>,
    /// Where the variants lie.
    build: PathBuf,
}

/// What the command line says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    pub(crate) repo: Option<&'a Repo>,
    pub(crate) branch: Option<&'a str>,
    pub(crate) evidence: Option<&'a Path>,
    pub(crate) allow_dirty: bool,
    pub(crate) unproved: bool,
}

impl Local {
    pub(crate) fn read(dir: &Path, options: Options) -> Result<Self> {
        passes_check(dir)?;
        let project = TorchProject::open(dir)?;
        let repo = repo(&project, options.repo)?;
        let variants = variants(&project)?;
        are_clean(&variants, options.allow_dirty)?;
        let names = variants.first().and_then(|variant| variant.names("__init__"));
        let Benchmarks { files: benchmarks, left_out, from } = benchmark::files(&project.root, names.as_deref())?;
        let source = source(&project.root, from, options.allow_dirty)?;
        let proof = Proof::of(dir, &project, &variants, options.evidence)?;
        ensure!(
            proof.is_whole() || options.unproved,
            "no evidence covers what would be published:\n  {}\n`kernels bench {} --record` on a card records it; --unproved \
             publishes without, and the kernel's page says so",
            proof.gaps.join("\n  "),
            for_shell(dir)
        );
        let evidence = evidence::folder(&project.root, options.evidence);
        let facts = Facts {
            dir,
            project: &project,
            repo: &repo,
            variants: &variants,
            has_benchmark: !benchmarks.is_empty(),
            proof: &proof,
            evidence: &evidence,
        };
        let page = File::of_text("README.md".to_owned(), page::text(&facts)?.into_bytes());
        let branch = options.branch.or(project.build.branch.as_deref());
        let branch = branch.map_or_else(|| format!("v{}", project.version), str::to_owned);
        ensure!(
            is_of_a_version(&branch),
            "variants go to a branch of a version, such as v{}, and not to `{branch}`",
            project.version
        );
        Ok(Self {
            name: project.build.name.clone(),
            version: project.version,
            repo,
            branch,
            variants,
            benchmarks,
            left_out,
            page,
            proof,
            source,
            build: project.root.join("build"),
        })
    }

    /// Signs the metadata.json of some variants; the signatures are published with them.
    pub(crate) fn sign(&mut self, signer: &Signer, names: &[String]) -> Result<()> {
        for variant in self.variants.iter_mut().filter(|variant| names.contains(&variant.name)) {
            let made = signer.sign(&self.build.join(&variant.name).join(METADATA))?;
            variant.files.push(File::of_text(signer.place(&variant.name), made));
        }
        Ok(())
    }
}

/// Whether variants may go to a branch of this name: not to the page's branch, nor to a name that the Hub would take for
/// something else.
fn is_of_a_version(branch: &str) -> bool {
    let is_part = |part: &str| {
        let plain = part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) && !part.contains("..");
        plain && part.starts_with(|c: char| c.is_ascii_alphanumeric()) && !part.ends_with(".lock")
    };
    let named = ["main", "head"].iter().any(|name| branch.eq_ignore_ascii_case(name));
    branch.split('/').all(is_part) && !named && !branch.starts_with("refs/")
}

fn passes_check(dir: &Path) -> Result<()> {
    let report = check::check(dir)?;
    let errors: Vec<&check::Finding> =
        report.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    if let Some(first) = errors.first() {
        bail!(
            "`kernels check {}` finds {}, the first in {}:{}: {}",
            for_shell(dir),
            plural(errors.len(), "error"),
            first.path,
            first.place.line,
            first.message
        );
    }
    Ok(())
}

/// The repository that was named, else that of build.toml.
pub(crate) fn repo(project: &TorchProject, named: Option<&Repo>) -> Result<Repo> {
    if let Some(repo) = named {
        return Ok(repo.clone());
    }
    let next = "name the repository in build.toml: [general.hub] repo-id = \"OWNER/NAME\"; `kernels publish` also takes \
                --repo OWNER/NAME";
    let Some(id) = &project.build.repo_id else { bail!("the project names no repository: {next}") };
    ensure!(!id.starts_with("your-name/"), "repo-id in build.toml is still `{id}`: {next}");
    id.parse().map_err(|why| anyhow::anyhow!("build.toml: {why}"))
}

/// The variants of `build/`, each complete according to its own digests, all of one name and version.
fn variants(project: &TorchProject) -> Result<Vec<Variant>> {
    let folder = project.root.join("build");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| Name::parse(name).is_some())
        .collect();
    names.sort();
    ensure!(
        !names.is_empty(),
        "there is no variant in {}: `kernels build --torch {}` makes one",
        folder.display(),
        for_shell(&project.root)
    );
    names.into_iter().map(|name| Variant::read(project, &folder.join(&name), name)).collect()
}

/// Refuses variants of uncommitted changes, unless they are allowed.
fn are_clean(variants: &[Variant], allow_dirty: bool) -> Result<()> {
    if let Some(Variant { name, .. }) = variants.iter().find(|one| one.metadata.is_dirty() && !allow_dirty) {
        bail!(
            "{name} was built from changes that no commit held, and the Hub's library warns of such a variant: \
             `kernels build --torch` builds it from the commit; --allow-dirty publishes it as it is"
        );
    }
    Ok(())
}

/// The commit of the sources in git; `None` outside a repository. Later edits are an error, unless they are allowed; so are
/// files without a commit that are published, or that what is published is generated from, also where git ignores them.
fn source(root: &Path, mut published: Vec<PathBuf>, allow_dirty: bool) -> Result<Option<String>> {
    published.extend([BUILD_TOML, page::CARD].map(|name| root.join(name)).into_iter().filter(|path| path.exists()));
    // What a link names is published, and not the link.
    let targets = published.iter().map(|path| is_inside(root, path)).collect::<Result<Vec<_>>>()?;
    let files: Vec<&str> = published.iter().chain(&targets).filter_map(|path| path.to_str()).collect();
    let own = ["status", "--porcelain", "--untracked-files=normal", "--", ".", ":(exclude)build"];
    let of_files = ["--literal-pathspecs", "status", "--porcelain", "--untracked-files=all", "--ignored", "--"];
    let ask = |question: &[&str]| commit_and(root, question).transpose();
    let found = ask(&own).and_then(|own| Ok(own.zip(ask(&[&of_files[..], &files].concat())?)));
    let ((commit, edited), (_, unheld)) = match found {
        Ok(None) => return Ok(None),
        Ok(Some(found)) => found,
        Err(_) if allow_dirty => return Ok(None),
        Err(why) => bail!("git names no commit of {}: {why}; commit the project, or add --allow-dirty", root.display()),
    };
    let mut changes: Vec<&str> = edited.lines().collect();
    changes.extend(unheld.lines().filter(|line| !edited.lines().any(|known| known == *line)));
    if changes.is_empty() {
        return Ok(Some(commit));
    }
    if allow_dirty {
        // The commit of a repository that does not have the project says nothing of it.
        let is_tracked = ask(&["ls-files", "--error-unmatch", "--", BUILD_TOML]).is_ok();
        return Ok(is_tracked.then(|| format!("{commit}, with changes that no commit holds")));
    }
    let ignored = changes.iter().any(|line| line.starts_with("!!"));
    bail!(
        "git has {} that no commit holds, so nobody could find the sources of what is published: commit them{}, or add \
         --allow-dirty\n{}",
        plural(changes.len(), "change"),
        if ignored { " (git ignores those with `!!`: `git add --force`)" } else { "" },
        changes.join("\n")
    )
}
