//! YAML for tests, as JSON.

#![allow(dead_code, clippy::unwrap_used, unreachable_pub, reason = "every test target uses its own part of this")]

use saphyr_parser::{Event, Parser};
use serde_json::Value;

/// YAML as JSON; anchors and tags are not used here.
pub fn yaml(text: &str) -> Value {
    let mut stack: Vec<(Value, Option<String>)> = vec![(Value::Array(Vec::new()), None)];
    let add = |stack: &mut Vec<(Value, Option<String>)>, value: Value| {
        let (top, key) = stack.last_mut().unwrap();
        match top {
            Value::Array(values) => values.push(value),
            Value::Object(fields) => match key.take() {
                Some(key) => assert!(fields.insert(key, value).is_none(), "a key twice"),
                None => *key = Some(value.as_str().unwrap().to_owned()),
            },
            _ => unreachable!(),
        }
    };
    for event in Parser::new_from_str(text) {
        match event.unwrap().0 {
            Event::MappingStart(..) => stack.push((Value::Object(serde_json::Map::new()), None)),
            Event::SequenceStart(..) => stack.push((Value::Array(Vec::new()), None)),
            Event::MappingEnd | Event::SequenceEnd => {
                let value = stack.pop().unwrap().0;
                add(&mut stack, value);
            }
            Event::Scalar(text, ..) => add(&mut stack, Value::String(text.into_owned())),
            _ => {}
        }
    }
    stack.pop().unwrap().0[0].take()
}
