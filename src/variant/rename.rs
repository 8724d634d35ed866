//! Replaces the placeholder for the module's name in a compiled object.

/// The last seven letters of a placeholder, in place of the digest: a sequence that is rare in machine code.
pub(super) const TAIL: &str = "zqjxvkw";

/// The object with `name` in place of every `placeholder`; `None` if parts of a placeholder are left, because a compiler may
/// split a string across instructions.
pub(super) fn renamed(object: &[u8], placeholder: &str, name: &str) -> Option<Vec<u8>> {
    let (from, to) = (placeholder.as_bytes(), name.as_bytes());
    if from.len() != to.len() {
        return None;
    }
    let mut bytes = object.to_vec();
    let mut at = 0;
    while let Some(found) = find(&bytes[at..], from) {
        at += found;
        bytes[at..at + to.len()].copy_from_slice(to);
        at += to.len();
    }
    (!has_part(&bytes)).then_some(bytes)
}

/// Whether there are parts of a placeholder. A part has four bytes, because compilers move eight or four at once; three bytes
/// would occur by chance in about one of twenty objects.
pub(super) fn has_part(bytes: &[u8]) -> bool {
    let next = |last: &mut u32, byte: &u8| {
        *last = *last << 8 | u32::from(*byte);
        Some(*last)
    };
    let parts: Vec<u32> = TAIL.bytes().scan(0, |last, byte| next(last, &byte)).skip(3).collect();
    bytes.iter().scan(0, next).any(|four| parts.contains(&four))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::renamed;

    #[test]
    fn a_name_is_replaced_everywhere_or_not_at_all() {
        let all = |text: &str| {
            let bytes = renamed(text.as_bytes(), "_x_cuda_zqjxvkw", "_x_cuda_0123456")?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        assert_eq!(
            all("PyInit__x_cuda_zqjxvkw\0_x_cuda_zqjxvkw_x_cuda_zqjxvkw").as_deref(),
            Some("PyInit__x_cuda_0123456\0_x_cuda_0123456_x_cuda_0123456")
        );
        assert_eq!(all("no name").as_deref(), Some("no name"));
        // A compiler moves a string in pieces of eight bytes, or of four.
        assert_eq!(all("_x_cuda_zqj mov xvkw"), None);
        assert_eq!(all("_x_cuda_zqjxvkw mov _x_cuda_ mov zqjxvkw"), None);
        assert_eq!(renamed(b"_x_cuda_zqjxvkw", "_x_cuda_zqjxvkw", "short"), None);
    }
}
