//! Parses json and yaml blocks.

use saphyr_parser::{Event, Parser};

use super::document::Document;
use super::fence::Language;
use super::report::Gathered;

pub(super) fn check(documents: &[Document], gathered: &mut Gathered) {
    for block in documents.iter().flat_map(|document| &document.blocks) {
        match Language::of(block) {
            Some(Language::Json) => {
                gathered.checked("json block", 1);
                let read: Result<serde::de::IgnoredAny, _> = serde_json::from_str(&block.text);
                if let Err(error) = read {
                    let message = format!("{} is not JSON: {error}", block.name());
                    // Drop serde_json's own line number: the finding has the Markdown's.
                    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
                    gathered.find("json", &block.file, block.at(error.line().max(1)), message);
                }
            }
            Some(Language::Yaml) => {
                gathered.checked("yaml block", 1);
                if let Some((line, message)) = yaml(&block.text) {
                    let message = format!("{} is not YAML: {message}", block.name());
                    gathered.find("yaml", &block.file, block.at(line), message);
                }
            }
            _ => {}
        }
    }
}

fn yaml(text: &str) -> Option<(usize, String)> {
    for event in Parser::new_from_str(text) {
        match event {
            Err(error) => return Some((error.marker().line().max(1), error.info().to_owned())),
            Ok((Event::StreamEnd, _)) => break,
            Ok(_) => {}
        }
    }
    None
}
