//! Versions as torch, CUDA and Python are named by: major and minor.

use std::fmt;

/// Major and minor of a version: 2.11.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Version {
    /// 2
    pub(crate) major: u32,
    /// 11
    pub(crate) minor: u32,
}

impl Version {
    /// The beginning of a text: `2.11` of `2.11.0+cu130`, `13.0` of `13`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(['.', '+']);
        let major = parts.next()?.parse().ok()?;
        let minor = match parts.next() {
            None => 0,
            Some(part) => {
                let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
                part[..end].parse().ok()?
            }
        };
        Some(Self { major, minor })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_version_is_enough() {
        for (text, version) in [("2.11.0+cu130", "2.11"), ("13", "13.0"), ("2.12.0a0+git", "2.12"), ("2.13rc1", "2.13")]
        {
            assert_eq!(Version::parse(text).unwrap().to_string(), version);
        }
        assert_eq!(Version::parse("v2.1"), None);
    }
}
