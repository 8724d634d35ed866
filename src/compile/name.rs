//! Symbols as C++ writes them.

use cpp_demangle::{DemangleOptions, Symbol};

/// Without the return type; the symbol itself where it is none of C++.
pub(super) fn demangled(symbol: &str) -> String {
    Symbol::new(symbol)
        .ok()
        .and_then(|parsed| {
            parsed
                .demangle_with_options(&DemangleOptions::new().no_return_type())
                .ok()
        })
        .unwrap_or_else(|| symbol.to_owned())
}

/// A name without the parameters of the function, its template arguments kept.
pub fn short(name: &str) -> &str {
    // The parameters are the last parentheses outside of all others: `(anonymous namespace)::k<(int)4>(float*)`.
    let mut depth = 0u32;
    for (at, c) in name.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return if at == 0 { name } else { &name[..at] };
                }
            }
            _ if depth == 0 => return name,
            _ => {}
        }
    }
    name
}

/// A name without template arguments either: what the kernels of one template have in common.
pub fn template(name: &str) -> &str {
    let short = short(name);
    let mut depth = 0u32;
    if !short.ends_with('>') {
        return short;
    }
    for (at, c) in short.char_indices().rev() {
        match c {
            '>' => depth += 1,
            '<' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return &short[..at];
                }
            }
            _ => {}
        }
    }
    short
}
