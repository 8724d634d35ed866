//! Demangles symbols.

use cpp_demangle::{DemangleOptions, Symbol};

/// The demangled name without the return type; the symbol itself if it is not C++.
pub(super) fn demangled(symbol: &str) -> String {
    Symbol::new(symbol)
        .ok()
        .and_then(|parsed| parsed.demangle_with_options(&DemangleOptions::new().no_return_type()).ok())
        .unwrap_or_else(|| symbol.to_owned())
}

/// A name without the function's parameters, but with template arguments.
pub(crate) fn short(name: &str) -> &str {
    // The parameters are the last top-level parentheses: `(anonymous namespace)::k<(int)4>(float*)`.
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

/// A name without template arguments, shared by all instantiations of a template.
pub(crate) fn template(name: &str) -> &str {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_parameters_and_their_template_arguments() {
        for (name, without_parameters, without_arguments) in [
            ("k", "k", "k"),
            ("k()", "k", "k"),
            ("a::k(float*, int (*)(int))", "a::k", "a::k"),
            (
                "(anonymous namespace)::k<(int)4>(float*)",
                "(anonymous namespace)::k<(int)4>",
                "(anonymous namespace)::k",
            ),
            ("k<a<int>, 2>(b<c>)", "k<a<int>, 2>", "k"),
            ("k<(1)>", "k<(1)>", "k"),
            ("(k)", "(k)", "(k)"),
            ("", "", ""),
        ] {
            assert_eq!((short(name), template(name)), (without_parameters, without_arguments), "{name}");
        }
        assert_eq!(demangled("_Z1kIfEvPT_i"), "k<float>(float*, int)");
        assert_eq!(demangled("plain_c"), "plain_c");
    }
}
