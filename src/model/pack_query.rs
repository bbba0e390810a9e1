//! How a pack is asked for: by its name, and by which of its versions.

use std::{cmp::Ordering, fmt, str::FromStr};

use semver::{Version, VersionReq};

/// `NAME` or `NAME@RANGE`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PackQuery {
    name: String,
    versions: Versions,
}

/// Which versions of a pack fit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Versions {
    /// All.
    Any,
    /// One.
    Exactly(Version),
    /// Those of a range, as semver has it.
    Within(VersionReq),
}

/// Why a text asks for no pack.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackQueryError {
    /// There is nothing before the `@`.
    #[error("it names no pack")]
    Name,
    /// What stands behind the `@` is no range.
    #[error("`{range}` is neither a version nor a range of versions: {error}")]
    Range {
        /// As written.
        range: String,
        /// What is wrong with it.
        error: String,
    },
}

impl PackQuery {
    /// Reads `NAME` (any version), `NAME@1.2.0` (exactly that one) or `NAME@RANGE` (`@1` and `@^1` mean at least 1.0.0
    /// and below 2.0.0). A name that no pack can have is taken: it will not be found.
    pub fn parse(text: &str) -> Result<PackQuery, PackQueryError> {
        let (name, range) = match text.split_once('@') {
            Some((name, range)) => (name, Some(range)),
            None => (text, None),
        };
        if name.trim().is_empty() {
            return Err(PackQueryError::Name);
        }
        let versions = match range.map(|range| (range, Version::parse(range))) {
            None => Versions::Any,
            Some((_, Ok(version))) => Versions::Exactly(version),
            Some((range, Err(_))) => match VersionReq::parse(range) {
                Ok(range) => Versions::Within(range),
                Err(error) => {
                    return Err(PackQueryError::Range { range: range.to_owned(), error: error.to_string() });
                }
            },
        };
        Ok(PackQuery { name: name.to_owned(), versions })
    }

    /// The pack's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a version of that pack fits. A prerelease fits a range only if the range names one of the same version.
    pub fn matches(&self, version: &Version) -> bool {
        match &self.versions {
            Versions::Any => true,
            // What stands behind a `+` does not tell versions apart, unless it is asked for.
            Versions::Exactly(asked) => {
                asked.cmp_precedence(version) == Ordering::Equal
                    && (asked.build.is_empty() || asked.build == version.build)
            }
            Versions::Within(range) => range.matches(version),
        }
    }

    /// The order of versions that fit, from the least wanted: that of semver, but a bare name asks for a prerelease only
    /// where there is no release.
    pub fn order(&self, a: &Version, b: &Version) -> Ordering {
        let by_release = match self.versions {
            Versions::Any => a.pre.is_empty().cmp(&b.pre.is_empty()),
            Versions::Exactly(_) | Versions::Within(_) => Ordering::Equal,
        };
        by_release.then_with(|| a.cmp(b))
    }
}

impl FromStr for PackQuery {
    type Err = PackQueryError;

    fn from_str(text: &str) -> Result<PackQuery, PackQueryError> {
        PackQuery::parse(text)
    }
}

impl fmt::Display for PackQuery {
    /// In the form that is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.versions {
            Versions::Any => f.write_str(&self.name),
            Versions::Exactly(version) => write!(f, "{}@{version}", self.name),
            Versions::Within(range) => write!(f, "{}@{range}", self.name),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn query(text: &str) -> PackQuery {
        PackQuery::parse(text).unwrap()
    }

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn a_query_takes_the_versions_that_it_names() {
        for (text, fit, other) in [
            ("airline", vec!["0.1.0", "1.2.3", "2.0.0-rc.1"], vec![]),
            ("airline@1.2.0", vec!["1.2.0", "1.2.0+built.5"], vec!["1.2.1", "1.3.0", "1.2.0-rc.1"]),
            ("airline@1.2.0-rc.1", vec!["1.2.0-rc.1"], vec!["1.2.0", "1.2.0-rc.2"]),
            ("airline@1.2.0+a", vec!["1.2.0+a"], vec!["1.2.0", "1.2.0+b"]),
            ("airline@1", vec!["1.0.0", "1.9.9"], vec!["0.9.0", "2.0.0", "1.2.0-rc.1"]),
            ("airline@^1.2", vec!["1.2.0", "1.3.0"], vec!["1.1.9", "2.0.0"]),
            ("airline@=1.2.0", vec!["1.2.0"], vec!["1.2.1"]),
            ("airline@>=1.2, <1.4", vec!["1.2.0", "1.3.9"], vec!["1.4.0"]),
            ("airline@~1.2", vec!["1.2.9"], vec!["1.3.0"]),
            ("airline@*", vec!["0.0.1", "7.0.0"], vec!["1.0.0-rc.1"]),
            ("airline@>=1.2.0-rc.1", vec!["1.2.0-rc.2", "1.2.0", "2.0.0"], vec!["1.3.0-rc.1"]),
        ] {
            assert_eq!(query(text).name(), "airline");
            for fits in fit {
                assert!(query(text).matches(&version(fits)), "{text} takes {fits}");
            }
            for does_not in other {
                assert!(!query(text).matches(&version(does_not)), "{text} does not take {does_not}");
            }
        }
    }

    #[test]
    fn the_highest_version_is_wanted_and_a_bare_name_wants_a_release() {
        let best = |text: &str, versions: &[&str]| {
            let query = query(text);
            let versions = versions.iter().map(|v| version(v)).filter(|v| query.matches(v));
            versions.max_by(|a, b| query.order(a, b)).map(|v| v.to_string())
        };
        let all = ["1.0.0", "2.0.0-rc.1", "1.10.0", "1.9.0"];
        assert_eq!(best("airline", &all).as_deref(), Some("1.10.0"));
        assert_eq!(best("airline", &["2.0.0-rc.1", "2.0.0-rc.2"]).as_deref(), Some("2.0.0-rc.2"));
        assert_eq!(best("airline@<1.10", &all).as_deref(), Some("1.9.0"));
        assert_eq!(best("airline@>=2.0.0-alpha", &all).as_deref(), Some("2.0.0-rc.1"));
        assert_eq!(best("airline@3", &all), None);
    }

    #[test]
    fn a_query_shows_in_a_form_that_reads_back() {
        for (text, shown) in [
            ("airline", "airline"),
            ("airline@1.2.0-rc.1", "airline@1.2.0-rc.1"),
            ("airline@1", "airline@^1"),
            ("airline@>=1.2,<2", "airline@>=1.2, <2"),
        ] {
            assert_eq!(query(text).to_string(), shown);
            assert_eq!(shown.parse(), Ok(query(text)));
        }
    }

    #[test]
    fn what_names_no_pack_or_no_range_is_refused() {
        for text in ["", " ", "@1"] {
            assert_eq!(PackQuery::parse(text), Err(PackQueryError::Name), "{text:?}");
        }
        for text in ["airline@", "airline@one", "airline@1@2", "airline@1.2.3.4", "airline@>=1 <2"] {
            assert!(matches!(PackQuery::parse(text), Err(PackQueryError::Range { .. })), "{text:?}");
        }
    }
}
