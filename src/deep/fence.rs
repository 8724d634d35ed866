//! A fenced block: what it is written in, its attributes, and the file that it is.

/// A fenced block of a Markdown file.
#[derive(Debug)]
pub(super) struct Block {
    /// The Markdown file.
    pub(super) file: String,
    /// The line of its opening fence; the text's first line is the next.
    pub(super) line: usize,
    /// The first word behind the fence, in small letters.
    pub(super) language: String,
    /// `key=value` behind it.
    attributes: Vec<(String, String)>,
    /// Lines end with `\n`.
    pub(super) text: String,
    pub(super) closed: bool,
}

/// The languages that are looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Language {
    Cuda,
    Cpp,
    Python,
    Toml,
    Json,
    Yaml,
    /// Command lines.
    Shell,
    /// Command lines behind `$ `, with what they print.
    Console,
}

impl Language {
    /// None for what nothing here looks at.
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

/// A block of what a Markdown parser gives: the words behind the fence, the content, and the source of both.
pub(super) fn block(file: &str, line: usize, info: &str, content: &str, source: &str) -> Block {
    let mut words = info
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}'))
        .filter(|word| !word.is_empty());
    // `arch=80,90` is one attribute: a comma separates only where a new one begins.
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
    // Every line of a block is one of the source; the closing fence is one more.
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
        self.attributes
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.trim_matches(['"', '\'']))
    }

    /// The file that the block is, as its first line says: `// file: csrc/norm.cu`, `# file: build.toml`.
    pub(super) fn path(&self) -> Option<&str> {
        let first = self.text.lines().next()?.trim_start();
        let rest = first.strip_prefix("//").or(first.strip_prefix('#'))?;
        rest.trim_start()
            .strip_prefix("file:")?
            .split_whitespace()
            .next()
    }

    /// `the cuda block of line 12 (csrc/norm.cu)`
    pub(super) fn name(&self) -> String {
        let path = self
            .path()
            .map_or(String::new(), |path| format!(" ({path})"));
        format!("the {} block of line {}{path}", self.language, self.line)
    }

    /// The Markdown's line of a line of the text, from 1; never beyond the block.
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
