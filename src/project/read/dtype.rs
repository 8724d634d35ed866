//! Names of dtypes.

use std::ops::Range;

use super::super::DType;
use super::super::table::{Reader, Value, one_or_list};

/// One or several dtypes, each once.
pub(super) fn read_dtypes(reader: &Reader<'_>, value: &Value<'_>) -> Option<Vec<DType>> {
    let mut dtypes = Vec::new();
    for item in one_or_list(value) {
        let dtype = read_dtype(reader, item)?;
        if dtypes.contains(&dtype) {
            reader.fail(item.span(), format!("`{}` twice", dtype.name()), []);
        }
        dtypes.push(dtype);
    }
    if dtypes.is_empty() {
        reader.fail(value.span(), "no dtype", ["list one at least".to_owned()]);
        return None;
    }
    Some(dtypes)
}

pub(super) fn read_dtype(reader: &Reader<'_>, value: &Value<'_>) -> Option<DType> {
    let text = reader.string(value, "a dtype")?;
    let dtype = DType::from_name(text);
    if dtype.is_none() {
        unknown_dtype(reader, text, value.span());
    }
    dtype
}

pub(super) fn unknown_dtype(reader: &Reader<'_>, text: &str, span: Range<usize>) {
    reader.fail(span, format!("unknown dtype `{text}`"), [format!("allowed: {}", DType::NAMES.join(", "))]);
}
