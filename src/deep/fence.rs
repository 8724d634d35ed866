//! A fenced block: its language, attributes and file name.

#[derive(Debug)]
pub(super) struct Block {
    pub(super) file: String,
    /// The line of the opening fence.
    pub(super) line: usize,
    /// The first word of the info string, in lower case.
    pub(super) language: String,
    /// `key=value` pairs of the info string.
    attributes: Vec<(String, String)>,
    /// With `\n` line ends.
    pub(super) text: String,
    pub(super) closed: bool,
}

/// Languages that are checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Language {
    Cuda,
    Cpp,
    Python,
    Toml,
    Json,
    Yaml,
    Shell,
    /// Commands after `$ `, with their output.
    Console,
}

impl Language {
    /// `None` for languages that are not checked.
    pub(super) fn of(block: &Block) -> Option<Self> {
        Some(match block.language.as_str() {
            "cuda" | "cu" => Self::Cuda,
            "cpp" | "c++" | "cxx" | "cc" => Self::Cpp,
            "python" | "py" | "python3" => Self::Python,
            "toml" => Self::Toml,
            "json" => Self::Json,
            "yaml" | "yml" => Self::Yaml,
            "bash" | "sh" | "shell" | "zsh" => Self::Shell,
            "console" | "shell-session" | "sh-session" | "shellsession" => Self::Console,
            _ => return None,
        })
    }
}

/// Builds a block from the parser's info string, content and source.
pub(super) fn block(file: &str, line: usize, info: &str, content: &str, source: &str) -> Block {
    let mut words =
        info.split(|c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}')).filter(|word| !word.is_empty());
    // In `arch=80,90` the comma belongs to the value; a comma separates only before a new attribute.
    let language = words.next().unwrap_or_default();
    let mut attributes: Vec<(String, String)> = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) => attributes.push((key.to_owned(), value.to_owned())),
            None => {
                if let Some((_, value)) = attributes.last_mut() {
                    value.push(',');
                    value.push_str(word);
                }
            }
        }
    }
    let text = content.replace("\r\n", "\n");
    // Unlike other lines, the closing fence is not part of the content.
    let lines = source.trim_end_matches(['\n', '\r']).matches('\n').count() + 1;
    let inside = text.lines().count();
    let last = source.trim_end().lines().last().unwrap_or_default();
    let marks = last.trim_start_matches([' ', '\t', '>']);
    let ends = marks.starts_with("```") || marks.starts_with("~~~");
    Block {
        file: file.to_owned(),
        line,
        language: language.trim_start_matches('.').to_ascii_lowercase(),
        attributes,
        text,
        closed: ends && lines == inside + 2,
    }
}

impl Block {
    pub(super) fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == key).map(|(_, value)| value.trim_matches(['"', '\'']))
    }

    /// The file name in the first line: `// file: csrc/norm.cu`, `# file: build.toml`.
    pub(super) fn path(&self) -> Option<&str> {
        let first = self.text.lines().next()?.trim_start();
        let rest = first.strip_prefix("//").or(first.strip_prefix('#'))?;
        rest.trim_start().strip_prefix("file:")?.split_whitespace().next()
    }

    /// `the cuda block of line 12 (csrc/norm.cu)`
    pub(super) fn name(&self) -> String {
        let path = self.path().map_or(String::new(), |path| format!(" ({path})"));
        format!("the {} block of line {}{path}", self.language, self.line)
    }

    /// The Markdown line of a line of the text (from 1), at most the block's last.
    pub(super) fn at(&self, line: usize) -> usize {
        self.line + line.min(self.text.lines().count().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::block;

    #[test]
    fn attributes_are_words_with_an_equals_sign() {
        let block = block(
            "a.md",
            3,
            "cuda harness=loop arch=80,90a quote=x.cu#load",
            "// file: csrc/a.cu  -- what it is\nint x;\n",
            "```cuda\n// file: csrc/a.cu  -- what it is\nint x;\n```\n",
        );
        assert_eq!(block.language, "cuda");
        assert_eq!(block.attribute("harness"), Some("loop"));
        assert_eq!(block.attribute("arch"), Some("80,90a"));
        assert_eq!(block.attribute("quote"), Some("x.cu#load"));
        assert_eq!(block.path(), Some("csrc/a.cu"));
        assert_eq!(block.at(2), 5);
        assert_eq!(block.at(99), 5);
        assert!(block.closed);
    }

    #[test]
    fn a_fence_without_its_end_is_open() {
        for (content, source, closed) in [
            ("x\n", "```\nx\n```", true),
            ("", "```\n```\n", true),
            ("", "```", false),
            ("x\n", "```\nx\n", false),
            ("x\n    ```\n", "```\nx\n    ```\n", false),
            ("x\n", "> ```\n> x\n> ```\n", true),
        ] {
            let block = block("a.md", 1, "", content, source);
            assert_eq!(block.closed, closed, "{source:?}");
        }
    }
}
