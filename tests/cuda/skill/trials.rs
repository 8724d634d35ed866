//! Experiments with the kernels: benches/gpu/trials.toml, their record in evidence/trials-CARD.json, and
//! the sentences of the pages about them.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::support::pending;
use crate::support::root;

/// A sentence of a page, with its figures from the record.
pub(crate) struct Said {
    pub(crate) page: String,
    pub(crate) words: String,
}

fn toml() -> toml::Table {
    let text = fs::read_to_string(root().join("benches/gpu/trials.toml")).unwrap();
    text.parse().unwrap()
}

fn json(name: &str) -> Value {
    let text = fs::read_to_string(root().join("evidence").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn texts<'a>(value: &'a toml::Value, key: &str) -> Vec<&'a str> {
    let items = value[key].as_array().unwrap().iter();
    items.map(|item| item.as_str().unwrap()).collect()
}

/// The GPUs that trials were recorded on, by their names in the file names.
fn cards() -> Vec<String> {
    let names = fs::read_dir(root().join("evidence")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| Some(name.strip_prefix("trials-")?.strip_suffix(".json")?.to_owned())).collect()
}

/// Each trial applies to the current sources, and each record matches these trials and that code.
pub(crate) fn hold() {
    let cards = cards();
    assert!(!cards.is_empty(), "no trial is recorded");
    for card in &cards {
        hold_on(card);
    }
}

fn hold_on(card: &str) {
    let table = toml();
    let trials = table["trial"].as_array().unwrap();
    let record = json(&format!("trials-{card}.json"));
    let recorded = record["trials"].as_array().unwrap();
    let names = |of: Vec<&str>| of.join("\n");
    assert_eq!(
        names(recorded.iter().map(|t| t["name"].as_str().unwrap()).collect()),
        names(trials.iter().map(|t| t["name"].as_str().unwrap()).collect()),
        "evidence/trials-{card}.json is of other trials; benches/gpu/trials.py records them"
    );
    for (trial, of) in trials.iter().zip(recorded) {
        let text = |key: &str| trial[key].as_str().unwrap();
        let (name, project, operation) = (text("name"), text("project"), text("operation"));
        for edit in trial["edits"].as_array().unwrap() {
            let (file, from) = (edit["file"].as_str().unwrap(), edit["from"].as_str().unwrap());
            let source = root().join("kernels").join(project).join("kernel_src");
            let there = fs::read_to_string(source.join(file)).unwrap();
            assert_eq!(there.matches(from).count(), 1, "{name}: {from} in {file}");
        }
        let same = serde_json::to_value(&trial["edits"]).unwrap() == of["edits"];
        assert_eq!((of["project"].as_str(), of["operation"].as_str()), (Some(project), Some(operation)), "{name}");
        // tests/cuda/freshness.rs compares that file with the sources.
        let evidence = json(&format!("{operation}-{card}.json"));
        let fresh = same && of["device_digest"] == evidence["device_digest"];
        if let (false, Some(why)) = (fresh, pending::pending().get(&format!("trials-{card}"))) {
            println!("not run: the trial {name} was recorded of other code: {why}");
            continue;
        }
        assert!(fresh, "{name}: tried on other code; record it anew: benches/gpu/trials.py --only \"{name}\"");
        let timed = evidence["cases"].as_array().unwrap();
        let cases = of["cases"].as_array().unwrap().iter();
        let cases: Vec<_> = cases.map(|case| case["case"].as_str().unwrap()).collect();
        assert_eq!(cases, texts(trial, "cases"), "{name}");
        for case in cases {
            assert!(timed.iter().any(|timed| timed["case"] == case), "{name}: {case} is no case of {operation}");
        }
    }
}

/// How much longer each case of a trial takes, in per cent.
fn longer(trial: &Value) -> Vec<f64> {
    let median = |case: &Value, which: &str| case[which]["kernel"]["median"].as_f64().unwrap();
    let cases = trial["cases"].as_array().unwrap().iter();
    cases.map(|case| 100.0 * (median(case, "changed") / median(case, "as_it_is") - 1.0)).collect()
}

/// 19 or, under one, 0.9; a gain has its sign.
fn figure(value: f64) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    if tenths.abs() < 1.0 { format!("{:.1}", tenths + 0.0) } else { format!("{value:.0}") }
}

/// The sentences, their figures from the record of the card that trials.toml names.
pub(crate) fn said() -> Vec<Said> {
    let record = json(&format!("trials-{}.json", toml()["card"].as_str().unwrap()));
    let mut figures = BTreeMap::new();
    for trial in record["trials"].as_array().unwrap() {
        let name = trial["name"].as_str().unwrap();
        let mut all = longer(trial);
        all.sort_by(f64::total_cmp);
        let (least, most) = (all[0], all[all.len() - 1]);
        if all.len() == 1 {
            figures.insert(format!("{{{name}}}"), figure(least));
        }
        figures.insert(format!("{{{name} least}}"), figure(least));
        figures.insert(format!("{{{name} most}}"), figure(most));
    }
    let table = toml();
    let sentences = table["said"].as_array().unwrap().iter();
    sentences
        .map(|sentence| {
            let mut words = sentence["words"].as_str().unwrap().to_owned();
            for (name, figure) in &figures {
                words = words.replace(name, figure);
            }
            assert!(!words.contains('{'), "no such trial: {words}");
            Said { page: sentence["page"].as_str().unwrap().to_owned(), words }
        })
        .collect()
}
