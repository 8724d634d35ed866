//! Structure of a C++ file: functions with parameters, calls with arguments, launches, includes.
//!
//! This is no compiler: constructs that it does not understand are skipped, so that rules give no false alarms.

use std::collections::HashMap;
use std::ops::Range;

use super::cpp::{self, Kind, Lexed, Token};
use super::text::{Text, closing};

#[derive(Debug)]
pub(super) struct Code {
    pub(super) text: Text,
    pub(super) lexed: Lexed,
    /// In file order, not nested.
    pub(super) functions: Vec<Function>,
    /// For each opening bracket the closing one.
    closing: Vec<Option<usize>>,
    /// The tokens that are function names, by name.
    uses: HashMap<String, Vec<usize>>,
}

/// A function definition; ranges are of tokens.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) parameters: Vec<Parameter>,
    /// The tokens between the braces.
    pub(super) body: Range<usize>,
    pub(super) global: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// Its name; empty if unnamed.
    pub(super) name: String,
    /// The words of its type with qualifiers.
    pub(super) kind: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Include {
    pub(super) name: String,
    /// Whether it is quoted, and searched beside the file first.
    pub(super) quoted: bool,
    /// The bytes of the name with its delimiters.
    pub(super) at: Range<usize>,
    /// Whether it is conditional on an `#if`.
    pub(super) conditional: bool,
}

/// `kernel<T><<<grid, block, shared, stream>>>(a, b)`; ranges are of tokens.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    /// The kernel's unqualified name; empty for an expression.
    pub(super) kernel: String,
    /// The `<<<`.
    pub(super) at: usize,
    pub(super) configuration: Vec<Range<usize>>,
    pub(super) arguments: Vec<Range<usize>>,
    /// The token after the launch.
    pub(super) end: usize,
}

/// The maximum number of tokens in template arguments or a launch configuration, which bounds the work on a file of
/// nothing but open brackets.
const LONGEST: usize = 1000;

/// Keywords before parentheses that are not function names.
const NO_FUNCTION: [&str; 16] = [
    "__launch_bounds__",
    "__attribute__",
    "__declspec",
    "__align__",
    "alignas",
    "noexcept",
    "requires",
    "decltype",
    "explicit",
    "throw",
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "return",
];

impl Code {
    pub(super) fn new(text: Text) -> Self {
        let lexed = cpp::tokens(&text.content);
        let closing = closing(lexed.tokens.iter().map(|token| &text.content[token.at.clone()]));
        let mut code = Self { text, lexed, functions: Vec::new(), closing, uses: HashMap::new() };
        code.functions = code.find_functions();
        code.uses = code.find_uses();
        code
    }

    /// The text of a token; empty after the end.
    pub(super) fn word(&self, at: usize) -> &str {
        self.lexed.tokens.get(at).map_or("", |token| &self.text.content[token.at.clone()])
    }

    pub(super) fn is_name(&self, at: usize) -> bool {
        self.token(at).is_some_and(|token| token.kind == Kind::Name)
    }

    fn token(&self, at: usize) -> Option<&Token> {
        self.lexed.tokens.get(at)
    }

    pub(super) fn len(&self) -> usize {
        self.lexed.tokens.len()
    }

    pub(super) fn words(&self, range: Range<usize>) -> impl Iterator<Item = &str> {
        range.map(|at| self.word(at))
    }

    /// The bytes of the tokens of a range.
    pub(super) fn bytes(&self, range: &Range<usize>) -> Range<usize> {
        let end = self.text.content.len();
        let start = self.token(range.start).map_or(end, |token| token.at.start);
        let last = range.end.max(range.start + 1) - 1;
        start..self.token(last).map_or(end, |token| token.at.end)
    }

    /// The bytes of one token.
    pub(super) fn token_bytes(&self, at: usize) -> Range<usize> {
        self.bytes(&(at..at + 1))
    }

    /// The token that closes the bracket at `open`.
    pub(super) fn close(&self, open: usize) -> Option<usize> {
        self.closing.get(open).copied().flatten()
    }

    /// Splits at top-level commas. Template arguments count as bracketed.
    pub(super) fn parts(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let (mut depth, mut angles, mut start) = (0_usize, 0_usize, range.start);
        for at in range.clone() {
            match self.word(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                "<" if depth == 0 && self.opens_template(at, range.end) => angles += 1,
                ">" if depth == 0 && angles > 0 => angles -= 1,
                "," if depth == 0 && angles == 0 => {
                    parts.push(start..at);
                    start = at + 1;
                }
                _ => {}
            }
        }
        if start < range.end || !parts.is_empty() {
            parts.push(start..range.end);
        }
        parts
    }

    /// Whether `<` begins template arguments: it follows a name, and only valid arguments precede `>`.
    fn opens_template(&self, at: usize, end: usize) -> bool {
        if at == 0 || !self.is_name(at - 1) {
            return false;
        }
        let mut depth = 0_usize;
        for inside in at..end.min(at + LONGEST) {
            match self.word(inside) {
                "<" => depth += 1,
                ">" => {
                    depth -= 1;
                    if depth == 0 {
                        return true;
                    }
                }
                ";" | "{" | "}" | "&" if self.word(inside + 1) == "&" => return false,
                // `n < 1024 ? n : 1024, n > 256` is no list of template arguments.
                ";" | "{" | "}" | "|" | "=" | "?" => return false,
                _ => {}
            }
        }
        false
    }

    /// The arguments of the call whose parenthesis is at `open`, and the closing token.
    pub(super) fn arguments(&self, open: usize) -> Option<(Vec<Range<usize>>, usize)> {
        let close = self.close(open).filter(|_| self.word(open) == "(")?;
        Some((self.parts(open + 1..close), close))
    }

    /// The concatenation of string literals; `None` if there are other tokens.
    pub(super) fn string(&self, range: Range<usize>) -> Option<String> {
        let mut value = String::new();
        for at in range.clone() {
            if self.token(at)?.kind != Kind::String {
                return None;
            }
            value.push_str(&cpp::string_value(self.word(at)));
        }
        (!range.is_empty()).then_some(value)
    }

    /// The function whose body contains a token.
    pub(super) fn function_at(&self, at: usize) -> Option<&Function> {
        let behind = self.functions.partition_point(|function| function.body.start <= at);
        let function = self.functions.get(behind.checked_sub(1)?)?;
        function.body.contains(&at).then_some(function)
    }

    /// Whether a preprocessor directive contains a text, as a macro that pastes names together does.
    pub(super) fn has_in_directives(&self, text: &str) -> bool {
        self.lexed.directives.iter().any(|directive| self.text.content[directive.rest.clone()].contains(text))
    }

    pub(super) fn includes(&self) -> Vec<Include> {
        let mut found = Vec::new();
        for directive in &self.lexed.directives {
            if !matches!(directive.name.as_str(), "include" | "include_next" | "import") {
                continue;
            }
            let rest = &self.text.content[directive.rest.clone()];
            let start = directive.rest.start + (rest.len() - rest.trim_start().len());
            let rest = rest.trim_start();
            let close = match rest.bytes().next() {
                Some(b'"') => '"',
                Some(b'<') => '>',
                _ => continue,
            };
            if let Some(end) = rest[1..].find(close) {
                let name = rest[1..=end].trim().to_owned();
                found.push(Include {
                    name,
                    quoted: close == '"',
                    at: start..start + end + 2,
                    conditional: directive.conditional,
                });
            }
        }
        found
    }

    /// Every launch with `<<<`.
    pub(super) fn launches(&self) -> Vec<Launch> {
        (0..self.len()).filter(|at| self.word(*at) == "<<<").filter_map(|at| self.launch(at)).collect()
    }

    fn launch(&self, at: usize) -> Option<Launch> {
        let mut depth = 0_usize;
        let mut inside = at + 1;
        let close = loop {
            match self.word(inside) {
                _ if inside > at + LONGEST => return None,
                "" | ";" | "<<<" => return None,
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.checked_sub(1)?,
                ">" if depth == 0 && self.are_three(inside) => break inside,
                _ => {}
            }
            inside += 1;
        };
        let open = close + 3;
        let (arguments, end) = self.arguments(open)?;
        // kernel<<<, kernel<T, 4><<<, (condition ? a : b)<<<
        let mut name = at.checked_sub(1)?;
        if self.word(name) == ">" {
            name = self.template_open(name)?.checked_sub(1)?;
        }
        let kernel = if self.is_name(name) { self.word(name).to_owned() } else { String::new() };
        Some(Launch { kernel, at, configuration: self.parts(at + 1..close), arguments, end: end + 1 })
    }

    /// Whether `>>>` is here, without spaces.
    fn are_three(&self, at: usize) -> bool {
        let next = |from: usize| {
            self.word(from + 1) == ">"
                && self.token(from).map(|token| token.at.end) == self.token(from + 1).map(|token| token.at.start)
        };
        next(at) && next(at + 1)
    }

    /// The `<` that matches the `>` here.
    fn template_open(&self, close: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in (close.saturating_sub(LONGEST)..=close).rev() {
            match self.word(at) {
                ">" => depth += 1,
                "<" => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                ";" | "{" | "}" => return None,
                _ => {}
            }
        }
        None
    }

    pub(super) fn uses(&self, name: &str) -> &[usize] {
        self.uses.get(name).map_or(&[], Vec::as_slice)
    }

    fn find_uses(&self) -> HashMap<String, Vec<usize>> {
        let names = self.functions.iter().map(|function| function.name.clone());
        let mut uses: HashMap<String, Vec<usize>> = names.map(|name| (name, Vec::new())).collect();
        for at in 0..self.len() {
            if let Some(found) = uses.get_mut(self.word(at)) {
                found.push(at);
            }
        }
        uses
    }

    fn find_functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        let (mut head, mut at) = (0, 0);
        while at < self.len() {
            match self.word(at) {
                ";" | "}" => head = at + 1,
                // A default argument or braced member initialiser is not a body.
                "(" | "[" => at = self.close(at).unwrap_or(at),
                "{" => {
                    if let Some(mut function) = self.function(head..at) {
                        let end = self.close(at).unwrap_or(self.len());
                        function.body = at + 1..end;
                        functions.push(function);
                        at = end;
                    } else if self.is_value(head..at) {
                        at = self.close(at).unwrap_or(self.len());
                        continue;
                    }
                    head = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        functions
    }

    /// Whether the braces belong to a value: `int table[] = {`, `kernel{`, an enumeration.
    fn is_value(&self, head: Range<usize>) -> bool {
        let mut words = self.words(head.clone());
        words.any(|word| matches!(word, "=" | "enum"))
            || head.is_empty() && head.start > 0 && self.word(head.start - 1) == ","
    }

    /// The function whose body follows `head`, from the last parentheses that follow a name.
    fn function(&self, head: Range<usize>) -> Option<Function> {
        let mut found: Option<(usize, usize)> = None;
        let mut at = head.start;
        let mut global = false;
        while at < head.end {
            match self.word(at) {
                "template" if self.word(at + 1) == "<" => {
                    at = self.template_close(at + 1, head.end)?;
                }
                "__global__" => global = true,
                "=" if self.word(at.checked_sub(1)?) != "operator" => return None,
                // After the parameters: initialiser list, return type.
                ":" if found.is_some() => break,
                "-" if found.is_some() && self.word(at + 1) == ">" => break,
                "(" => {
                    let close = self.close(at).filter(|close| *close < head.end)?;
                    let named = at > head.start && self.is_name(at - 1) && !NO_FUNCTION.contains(&self.word(at - 1));
                    if named {
                        found = Some((at, close));
                    }
                    at = close;
                }
                "[" => at = self.close(at).filter(|close| *close < head.end)?,
                _ => {}
            }
            at += 1;
        }
        let (open, close) = found?;
        Some(Function {
            name: self.word(open - 1).to_owned(),
            parameters: self.parts(open + 1..close).into_iter().map(|part| self.parameter(part)).collect(),
            body: close..close,
            global,
        })
    }

    fn template_close(&self, open: usize, end: usize) -> Option<usize> {
        let mut depth = 0_usize;
        let mut at = open;
        while at < end {
            match self.word(at) {
                "<" => depth += 1,
                ">" => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                "(" | "[" | "{" => at = self.close(at)?,
                _ => {}
            }
            at += 1;
        }
        None
    }

    pub(super) fn parameter(&self, part: Range<usize>) -> Parameter {
        let mut end = part.end;
        for at in part.clone() {
            if matches!(self.word(at), "=" | "[") {
                end = at;
                break;
            }
        }
        let mut words: Vec<String> = self.words(part.start..end).map(str::to_owned).collect();
        let named = words.len() > 1 && end > part.start && self.is_name(end - 1);
        let name = if named { words.pop().unwrap_or_default() } else { String::new() };
        Parameter { name, kind: words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Code {
        Code::new(Text::new("a.cu".into(), text.into(), true))
    }

    #[test]
    fn functions_are_found_by_their_bodies() {
        let code = code(
            "namespace a {\nstruct S { int x; S(int y) : x(y) { go(); } };\ntemplate <typename T, int N = (3 > 2)>\n\
             __global__ void __launch_bounds__(256) k(T* out, const std::int64_t n, int m = 4) {\n  if (n) { m(); }\n}\n\
             int table[] = {1, 2};\nauto f(int a) -> int { return [&](int b) { return b; }(a); }\n}\n\
             TORCH_LIBRARY_EXPAND(NAME, ops) { ops.def(\"a\"); }\nREGISTER(NAME)\nextern \"C\" int g() { return 0; }",
        );
        let names: Vec<_> = code.functions.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["S", "k", "f", "TORCH_LIBRARY_EXPAND", "g"]);
        assert_eq!(self::code("{ x(); } void h() {}").functions.len(), 1);
        let kernel = &code.functions[1];
        assert!(kernel.global && !code.functions[2].global);
        let parameters: Vec<_> = kernel.parameters.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(parameters, ["out", "n", "m"]);
        assert_eq!(kernel.parameters[1].kind.join(" "), "const std :: int64_t");
    }

    #[test]
    fn launches_have_a_kernel_a_configuration_and_arguments() {
        let code = code(
            "void f() { k<T, 4><<<dim3(a, b), ceil<int>(n, 4), 0, s>>>(x, g(y, z)); (c ? p : q)<<<1, 2>>>(); \
             Map<A<B<int>>> shifts = a << 1; }",
        );
        let launches = code.launches();
        assert_eq!(launches.len(), 2);
        assert_eq!(launches[0].kernel, "k");
        assert_eq!(launches[0].configuration.len(), 4);
        assert_eq!(launches[0].arguments.len(), 2);
        assert_eq!((launches[1].kernel.as_str(), launches[1].arguments.len()), ("", 0));
        // What stands before a statement, or a block, is no template of it.
        for text in ["a = b < c; d ><<<1, 2>>>();", "if (b < c) { d ><<<1, 2>>>(); }", "if (b < c) {} > <<<1, 2>>>();"]
        {
            assert_eq!(self::code(text).launches().len(), 0, "{text}");
        }
        let code = self::code("k<<<l<<<1, 2>>>();");
        assert_eq!(code.launches().iter().map(|one| one.kernel.as_str()).collect::<Vec<_>>(), ["l"]);
        assert_eq!(self::code("k<a, b<c>><<<1, 2>>>();").launches()[0].kernel, "k");
    }

    #[test]
    fn includes_say_how_they_look() {
        let code = code("#include \"a/b.h\" // c\n  # include <d.h>\n#include MACRO\n#include \"open\n");
        let found: Vec<_> = code.includes().into_iter().map(|one| (one.name, one.quoted)).collect();
        assert_eq!(found, [("a/b.h".to_owned(), true), ("d.h".to_owned(), false)]);
    }
}
