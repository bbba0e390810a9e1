//! Static types: what the checker can know about an expression before it runs.

/// The type of an expression, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// Not known before it runs.
    Any,
    /// A boolean.
    Bool,
    /// A number.
    Number,
    /// Text.
    String,
    /// A list.
    List,
    /// An object.
    Object,
    /// A set.
    Set,
    /// Null.
    Null,
    /// A point in time.
    Time,
    /// A length of time.
    Duration,
    /// An event of the trace.
    Event,
}

impl Ty {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Ty::Any => "value",
            Ty::Bool => "bool",
            Ty::Number => "number",
            Ty::String => "string",
            Ty::List => "list",
            Ty::Object => "object",
            Ty::Set => "set",
            Ty::Null => "null",
            Ty::Time => "time",
            Ty::Duration => "duration",
            Ty::Event => "event",
        }
    }

    /// The word with its article.
    pub fn a(self) -> String {
        let article = if matches!(self, Ty::Object | Ty::Event) { "an" } else { "a" };
        format!("{article} {}", self.word())
    }

    /// Whether a value of this type could be of the other.
    pub fn fits(self, other: Ty) -> bool {
        self == other || self == Ty::Any || other == Ty::Any
    }
}
