//! Prompts with expectations, as other programs write them: upskill's cases, and `evals.json` of agentskills.io and of
//! skill-creator. What is to be contained in an answer is executed; what a person or a model is to judge is judged by nobody.

use std::fs;
use std::path::{Component, Path};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::files::Files;
use super::task::{About, Judge, Task};

/// The tasks of a JSON file.
pub(crate) fn read(path: &Path) -> Result<Vec<Task>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let whole: Value = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    let list = whole.as_array().or_else(|| ["cases", "evals", "tests"].iter().find_map(|key| whole[key].as_array()));
    let Some(list) = list else {
        bail!("{}: neither a list nor an object with `cases`, `evals` or `tests`", path.display());
    };
    list.iter()
        .enumerate()
        .map(|(at, case)| task(path, at, case).with_context(|| format!("{}: case {}", path.display(), at + 1)))
        .collect()
}

fn task(path: &Path, at: usize, case: &Value) -> Result<Task> {
    let said = |keys: &[&str]| keys.iter().find_map(|key| case[key].as_str()).map(str::to_owned);
    let prompt = said(&["input", "prompt", "question", "query"]).context("it has neither `input` nor `prompt`")?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("case");
    let id = match &case["id"] {
        Value::String(id) => id.clone(),
        Value::Number(id) => format!("{stem}-{id}"),
        _ => said(&["name"]).unwrap_or_else(|| format!("{stem}-{}", at + 1)),
    };
    // It becomes the name of a file in places.
    let id: String = id.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect();
    let environment = environment(path, case)?;
    let mut pinned = environment.clone();
    pinned.insert("case.json", case.to_string().into_bytes());
    Ok(Task {
        id,
        folder: path.to_owned(),
        prompt,
        environment,
        judge: judge(case),
        tests: Files::default(),
        common: Files::default(),
        about: About::default(),
        limit: Duration::ZERO,
        digest: pinned.digest(),
    })
}

/// Contents by name (upskill), or paths beside the file or above its folder (agentskills).
fn environment(path: &Path, case: &Value) -> Result<Files> {
    let mut files = Files::default();
    for (name, content) in case["context"]["files"].as_object().into_iter().flatten() {
        let text = content.as_str().with_context(|| format!("the content of {name} is no text"))?;
        files.insert(inside(name)?, text.as_bytes().to_vec());
    }
    for name in case["files"].as_array().into_iter().flatten() {
        let name = inside(name.as_str().context("`files` is no list of paths")?)?;
        let near = path.ancestors().skip(1).take(2).map(|above| above.join(name));
        let found = near.clone().find(|file| file.is_file());
        let found = found.with_context(|| format!("`files` names {name}, which is not beside the file"))?;
        files.insert(name, fs::read(&found).with_context(|| format!("cannot read {}", found.display()))?);
    }
    Ok(files)
}

fn inside(name: &str) -> Result<&str> {
    let stays = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() || !stays || name.starts_with(".git/") {
        bail!("{name:?} is not a path inside the workspace");
    }
    Ok(name)
}

fn judge(case: &Value) -> Judge {
    let texts = |value: &Value| -> Vec<String> {
        let one = value.as_str().map(str::to_owned);
        let many = value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned));
        one.into_iter().chain(many).filter(|text| !text.is_empty()).collect()
    };
    let contains = texts(&case["expected"]["contains"]);
    let judged = ["assertions", "expectations", "expected_behavior"];
    let opinions: usize = judged.iter().map(|key| case[key].as_array().map_or(0, Vec::len)).sum();
    if !case["validator"].is_null() {
        return Judge::Nobody("its `validator` is another program's".to_owned());
    }
    match (contains.is_empty(), opinions) {
        (false, 0) => Judge::Contains(contains),
        (_, 0) => Judge::Nobody("it says nothing that can be executed".to_owned()),
        (_, count) => Judge::Nobody(format!("{count} of its expectations are for a person or a model to judge")),
    }
}
