//! Markdown tables.

use std::fmt::Write as _;

use super::{CATEGORIES, gib, part, remarks};
use crate::end_to_end::{Case, Contender, EndToEnd};
use crate::report::figure;
use crate::report::markdown::{cell, row, titles};

const NOTHING: &str = "—";

/// Times, profiles, and how they were measured.
pub(crate) fn tables(result: &EndToEnd) -> String {
    let names = result.columns();
    let mut heads = vec![String::new()];
    heads.extend(names.iter().map(|name| format!(">{name}, ms")));
    let all = [("kernels", "eager"), ("kernels", "compile"), ("graphs", "compile"), ("both", "compile")];
    let pairs: Vec<_> = all.into_iter().filter(|(name, _)| *name != "graphs" || names.contains(name)).collect();
    heads.extend(pairs.iter().map(|(name, base)| format!(">{name} × {base}")));
    heads.extend(["GiB", "launches"].map(|head| format!(">{head}: eager, kernels")));
    let mut text = titles(heads);
    for case in &result.cases {
        let mut cells = vec![cell(&case.label)];
        cells.extend(names.iter().map(|name| time(of(case, name))));
        cells.extend(pairs.iter().map(|(name, base)| {
            let times = case.times_faster(name, base);
            times.map_or_else(|| NOTHING.to_owned(), figure::times)
        }));
        let [eager, kernels] = ["eager", "kernels"].map(|name| of(case, name));
        let bytes = [eager, kernels].map(|one| gib(one.and_then(|one| one.peak_bytes)));
        cells.extend([bytes.join(", "), [eager, kernels].map(launches).join(", ")]);
        text += &row(cells);
    }
    profile(&mut text, result);
    about(&mut text, result);
    for remark in remarks(result) {
        let _ = writeln!(text, "\nRemark: {}.", cell(remark.trim_end_matches('.')));
    }
    text
}

/// The profile of each profiled case.
fn profile(text: &mut String, result: &EndToEnd) {
    if !result.contenders().any(|(_, one)| one.profile.is_some()) {
        return;
    }
    text.push_str("\nWhere the time goes, ms:\n\n");
    let heads = CATEGORIES.map(|(_, label)| format!(">{label}"));
    *text += &titles([String::new(), String::new()].into_iter().chain(heads));
    for (case, one) in result.contenders().filter(|(_, one)| one.profile.is_some()) {
        let parts = CATEGORIES.map(|(name, _)| figure::micros(part(one, name).unwrap_or(0.0)));
        *text += &row([cell(&case.label), cell(&one.name)].into_iter().chain(parts));
    }
}

/// The model, the card and the versions.
fn about(text: &mut String, result: &EndToEnd) {
    let version = |name: &str| {
        let found = result.versions.get(name)?;
        Some(format!("{name} {}", cell(found)))
    };
    let versions: Vec<String> =
        ["torch", "diffusers", "transformers"].iter().filter_map(|name| version(name)).collect();
    let card = result
        .card
        .as_ref()
        .map_or_else(|| "no card".to_owned(), |card| format!("{}, driver {}", cell(&card.name), cell(&card.driver)));
    let word = |name: &str| {
        let value = result.model.get(name).and_then(serde_json::Value::as_str);
        cell(value.unwrap_or("unknown"))
    };
    let weights = match word("weights").as_ref() {
        "random" => "random weights".to_owned(),
        other => format!("weights of {other}"),
    };
    let worst = |name: &str| {
        let all = result.contenders();
        let errors = all.filter(|(_, one)| one.name == name && one.wrong.is_none());
        errors.filter_map(|(_, one)| one.errors.get("of_fp32").copied()).reduce(f64::max)
    };
    let _ = write!(
        text,
        "\n{} ({}), {weights}, {}; {card}; {}. Medians, in milliseconds a step or what the case names; all took \
         turns in one run, torch.compile in mode {}.",
        cell(&result.title),
        word("config_name"),
        word("dtype"),
        versions.join(", "),
        cell(&result.compile_mode),
    );
    if let (Some(eager), Some(kernels)) = (worst("eager"), worst("kernels")) {
        let _ = write!(text, " Largest distance from an fp32 run, relative: eager {eager:.1e}, kernels {kernels:.1e}.");
    }
    text.push('\n');
}

fn of<'a>(case: &'a Case, name: &str) -> Option<&'a Contender> {
    case.contenders.iter().find(|one| one.name == name)
}

fn time(one: Option<&Contender>) -> String {
    match one {
        Some(one) if one.wrong.is_some() => "wrong".to_owned(),
        Some(one) => one.time_ms.map_or_else(|| NOTHING.to_owned(), |time| figure::micros(time.median)),
        None => NOTHING.to_owned(),
    }
}

fn launches(one: Option<&Contender>) -> String {
    one.and_then(|one| one.profile.as_ref())
        .map_or_else(|| NOTHING.to_owned(), |profile| format!("{:.0}", profile.launches))
}
