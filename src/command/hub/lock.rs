//! `kernels hub lock`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::hub::Hub;
use crate::hub::lock::{self, LOCK};
use crate::report::{Output, file, style};

pub(super) fn run(hub: &Hub, dir: &Path, output: Output) -> Result<ExitCode> {
    let locked = lock::resolve(hub, dir)?;
    let path = dir.join(LOCK);
    file::write(&path, serde_json::to_string_pretty(&locked)?.as_bytes())?;
    output.line(format!("{} {}", style::good("wrote"), path.display()));
    for one in &locked {
        output.line(format!("  {} {}", one.dependency.repo_id, style::faint(one.commit())));
    }
    output.json(&json!({"path": path.to_string_lossy(), "locks": locked}));
    Ok(ExitCode::SUCCESS)
}
