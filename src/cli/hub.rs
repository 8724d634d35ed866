//! The command line of the Kernel Hub: definitions, nothing else.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::base::repo::{Pinned, Repo};

/// `kernels publish`.
#[derive(Args, Debug)]
pub(crate) struct Publish {
    /// The project: a folder with build.toml, and variants in its build/
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// The repository [default: `repo-id` in build.toml]
    #[arg(long, value_name = "OWNER/NAME")]
    pub(crate) repo: Option<Repo>,
    /// The branch of the variants [default: `branch` in build.toml, else v and the version]
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// Name the published commit, for example v1.2
    #[arg(long, value_name = "NAME")]
    pub(crate) tag: Option<String>,
    /// Where the records lie [default: evidence/ of the git root, else of the project]
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Make the repository private, if it is created
    #[arg(long)]
    pub(crate) private: bool,
    /// Propose the changes as pull requests, one a branch
    #[arg(long, conflicts_with_all = ["private", "tag"])]
    pub(crate) create_pr: bool,
    /// Print the plan and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Sign the metadata.json of each variant: with the identity of this CI job or one that the browser vouches for, or with a
    /// key of cosign, both through `cosign`, or with an SSH key. What is signed on the Hub stays so, unless --force is given
    #[arg(long, value_name = "KEY", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) sign: Option<String>,
    /// The Python whose library `kernels` loads what is published before it can be seen; it needs torch as well [default:
    /// `KERNELS_PYTHON`, the active environment's, python3, if it has both]
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// Publish although git has changes that no commit holds, or ignores what is published
    #[arg(long)]
    pub(crate) allow_dirty: bool,
    /// Publish without evidence that covers the variants; the kernel's page says so
    #[arg(long)]
    pub(crate) unproved: bool,
    /// Replace what somebody else put into the variants or wrote on the page; it stays in the branch's history
    #[arg(long)]
    pub(crate) force: bool,
}

/// The commands that read the Kernel Hub.
#[derive(Debug, Subcommand)]
pub(crate) enum Hub {
    /// Describe a kernel: version, licence, dependencies, backends (uses the network)
    #[command(after_help = "Example:\n  kernels hub info kernels-community/activation@1")]
    Info {
        /// The kernel, with @ and a version, branch, tag or commit [default: the newest version]
        #[arg(value_name = "OWNER/NAME[@REV]")]
        kernel: Pinned,
    },
    /// List a kernel's versions with their commits and variants (uses the network)
    #[command(after_help = "Example:\n  kernels hub versions kernels-community/activation")]
    Versions {
        /// The repository
        #[arg(value_name = "OWNER/NAME")]
        repo: Repo,
    },
    /// List a kernel's variants, and which of them the library would load here (uses the network)
    #[command(
        after_help = "Example:\n  kernels hub variants kernels-community/activation@1 --only-compatible\n\nHere is the torch of an active environment, or of --python's; it is found, not imported."
    )]
    Variants(Variants),
    /// Write kernels.lock for the kernels that a pyproject.toml names (uses the network)
    #[command(
        after_help = "Example:\n  kernels hub lock my-project\n\nReads [tool.kernels.dependencies] and resolves each version to its commit, and so the kernels\nthat those depend on. `kernels hub download my-project` fetches what is locked."
    )]
    Lock {
        /// The folder of pyproject.toml
        #[arg(value_name = "DIR", default_value = ".")]
        dir: PathBuf,
    },
    /// Download variants into the cache of Hugging Face's libraries (uses the network)
    #[command(
        after_help = "Examples:\n  kernels hub download kernels-community/activation@1\n  kernels hub download . --all-variants\n\nThe cache is HF_HUB_CACHE, else hub/ in HF_HOME, else ~/.cache/huggingface/hub. What lies there the\nlibrary loads with HF_HUB_OFFLINE=1."
    )]
    Download(Download),
    /// Compare a kernel's files with its digests, check its signature, and run its functions on the cases of a kernel.toml;
    /// exit 1 if anything differs (uses the network)
    #[command(
        after_help = "Examples:\n  kernels hub verify kernels-community/activation@1 --all-variants\n  kernels hub verify me/my-kernel --signer '^https://github.com/me/my-kernel/'\n  kernels hub verify me/my-kernel --kernel-toml my-kernel/kernel.toml\n\nSignatures are checked by the programs cosign and ssh-keygen. An unsigned variant is no failure,\nunless --signer or --key is given.\n\n--kernel-toml runs the code of the variant that the Hub's library would choose here, or of\n--variant, in a Python process without network that writes to a folder of its own. Each operation\nof the kernel.toml is the function of its name, called by the names of its tensors and scalars,\nwhich may return the outputs in their order. Results are held against the oracles;\ndocs/publish.md says what that proves."
    )]
    Verify(Verify),
}

/// `kernels hub variants`.
#[derive(Args, Debug)]
pub(crate) struct Variants {
    /// The kernel, with @ and a version, branch, tag or commit [default: the newest version]
    #[arg(value_name = "OWNER/NAME[@REV]")]
    pub(crate) kernel: Pinned,
    /// Those of every version
    #[arg(long)]
    pub(crate) all_versions: bool,
    /// Those that the library would load here
    #[arg(long)]
    pub(crate) only_compatible: bool,
    /// The Python in whose environment torch is [default: an active environment, python3]
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
}

/// Which variants.
#[derive(Args, Clone, Debug)]
pub(crate) struct Which {
    /// Only this variant
    #[arg(long, value_name = "NAME", conflicts_with = "all_variants")]
    pub(crate) variant: Option<String>,
    /// Those for other machines as well
    #[arg(long)]
    pub(crate) all_variants: bool,
}

/// `kernels hub download`.
#[derive(Args, Debug)]
pub(crate) struct Download {
    /// A kernel, with @ and a version, branch, tag or commit; or a folder with kernels.lock, such as `.` or `./DIR`
    #[arg(value_name = "OWNER/NAME[@REV]|DIR", default_value = ".")]
    pub(crate) what: String,
    /// Which variants.
    #[command(flatten)]
    pub(crate) which: Which,
}

/// `kernels hub verify`.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The kernel, with @ and a version, branch, tag or commit [default: the newest version]
    #[arg(value_name = "OWNER/NAME[@REV]")]
    pub(crate) kernel: Pinned,
    /// Which variants.
    #[command(flatten)]
    pub(crate) which: Which,
    /// Who must have signed: a regular expression over the identity, a workflow's address on GitHub [default: the workflows
    /// of kernels-community, and a signature is not required]
    #[arg(long, value_name = "REGEX")]
    pub(crate) signer: Option<String>,
    /// Whose key must have signed: allowed signers as `ssh-keygen -Y verify` reads them, or a public key of cosign
    #[arg(long, value_name = "FILE", conflicts_with = "signer")]
    pub(crate) key: Option<PathBuf>,
    /// Run the functions of a variant on the cases of this file, and hold their results against its oracles; needs a card,
    /// unless the variant is for the CPU
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel_toml: Option<PathBuf>,
    /// With --kernel-toml, the Python that has torch and the Hub's library [default: `KERNELS_PYTHON`, the active
    /// environment's, python3]
    #[arg(long, value_name = "PATH", requires = "kernel_toml")]
    pub(crate) python: Option<PathBuf>,
    /// With --kernel-toml, only operations and cases whose name contains this
    #[arg(long, value_name = "TEXT", requires = "kernel_toml")]
    pub(crate) filter: Option<String>,
    /// With --kernel-toml, the seed of the inputs and of the cases drawn afresh [default: drawn, and printed]
    #[arg(long, value_name = "NUMBER", requires = "kernel_toml")]
    pub(crate) seed: Option<u64>,
    /// With --kernel-toml, the card, by its number
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: usize,
}
