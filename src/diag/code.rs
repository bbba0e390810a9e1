//! The table of diagnostic codes: the one place where a code is made.
//!
//! To add one, add a line to the table below at the end of its family. A code keeps its meaning for
//! good: one that is no longer raised stays in the table, and its number is not used again.
//!
//! | family | about |
//! | --- | --- |
//! | `P00xx` | files and folders of a pack |
//! | `P01xx` | YAML shapes |
//! | `P02xx` | syntax of `.policy` files |
//! | `P03xx` | names and types in `.policy` files |
//! | `P04xx` | policies that are valid but hardly mean what they say |
//! | `P05xx` | packs that are valid and may not serve |
//! | `P06xx` | a pack beside its earlier versions, its tests and recorded traces |

use std::fmt;

macro_rules! codes {
    ($($name:ident = $text:literal, $about:literal;)*) => {
        /// A stable name for a kind of mistake, such as `P0103`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = concat!("`", $text, "`: ", $about, ".")] $name,)*
        }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// The code as people see it, such as `P0103`.
            pub const fn text(self) -> &'static str {
                match self { $(Code::$name => $text),* }
            }

            /// One line on what the code stands for.
            pub const fn about(self) -> &'static str {
                match self { $(Code::$name => $about),* }
            }
        }
    };
}

codes! {
    // Files and folders.
    FileUnreadable = "P0001", "a file or folder cannot be read";
    FileNotUtf8 = "P0002", "a file is not UTF-8 text";
    FileTooLarge = "P0003", "a file, or the pack as a whole, is larger than a pack may be";
    FileMissing = "P0004", "a file that every pack needs is not there";
    FileUnknown = "P0005", "a file in a pack folder that nothing reads";
    FileNotYetRead = "P0006", "a file of a feature that this version does not have";
    LinkLeavesPack = "P0007", "a symbolic link leads out of the rules";
    PackNameTwice = "P0008", "two packs have the same name";
    NoPack = "P0009", "a rules folder without a pack";
    FileMark = "P0010", "a file begins with a byte-order mark";
    BaseMissing = "P0011", "a pack to extend that is not beside the pack that extends it";
    BaseBroken = "P0012", "a pack to extend that has errors";
    ExtendsItself = "P0013", "a pack that extends itself, through other packs or at once";
    ExtendsDeep = "P0014", "packs that extend each other deeper than they may";
    BasesDisagree = "P0015", "packs to extend that say different things, where the pack that extends them says nothing";
    // YAML shapes.
    YamlSyntax = "P0101", "a file is not YAML";
    YamlFeature = "P0102", "a part of YAML that packs do not use (anchors, tags, merge keys, several documents)";
    KeyTwice = "P0103", "a key is written twice in one mapping";
    KeyUnknown = "P0104", "a key that has no meaning here";
    KeyMissing = "P0105", "a key that is needed is not there";
    WrongType = "P0106", "a value of another type than is needed";
    WrongValue = "P0107", "a value of the right type that is not allowed here";
    NumberForm = "P0108", "a number that is not a plain decimal (NaN, infinity, hexadecimal, too many digits)";
    NumberRange = "P0109", "a number outside the range that makes sense here";
    Empty = "P0110", "a list, mapping or text that must not be empty";
    YamlDepth = "P0111", "YAML nested deeper than packs need";
    YamlReadersDisagree = "P0112", "two YAML readers understand the document differently";
    NameTwice = "P0113", "a name or id is used twice";
    NotSupported = "P0114", "a pack asks for something that this version cannot do";
    Pattern = "P0115", "a regular expression that cannot be used";
    Term = "P0116", "a keyword term that can never match";
    TermTwice = "P0117", "a keyword term that says the same as another one";
    Message = "P0118", "a message of a pack test that cannot be read";
    Unreachable = "P0119", "a threshold that the pack's own numbers cannot reach";
    TermCovered = "P0120", "a keyword term in which another term of its category stands";
    // Syntax of .policy files.
    Syntax = "P0201", "a declaration that cannot be read";
    TooDeep = "P0202", "an expression that is nested too deep";
    BadNumber = "P0203", "a number or duration that cannot be used";
    BadEscape = "P0204", "a backslash in a text that stands before no known letter";
    WindowTwice = "P0205", "a window that is given twice";
    BadPattern = "P0206", "a pattern between slashes that cannot be compiled";
    // Names and types in .policy files.
    UnknownName = "P0301", "a name that nothing declares";
    UnknownFunction = "P0302", "a function, definition or table that nothing declares";
    UnknownSet = "P0303", "a set that nothing declares";
    UnknownCategory = "P0304", "a keyword category that the pack does not have";
    UnknownFact = "P0305", "a fact that nothing declares";
    DeclaredTwice = "P0306", "a name or policy id that is declared twice";
    ReservedMeaning = "P0307", "a name that already means something";
    ArgumentCount = "P0308", "a wrong number of arguments or keys";
    ArgumentKind = "P0309", "an argument of another kind than is needed";
    TypeMismatch = "P0310", "an operation that can never apply to values of this type";
    FieldUnknown = "P0311", "a field that no event of this kind has";
    Recursive = "P0312", "a definition that uses itself";
    StatementMissing = "P0313", "a policy without a statement that it needs";
    StatementTwice = "P0314", "a statement that a policy may have only once";
    NotHere = "P0315", "a construct that has no meaning in this place";
    RowTwice = "P0316", "a table row or set element that is given twice";
    FactValueType = "P0317", "a fact that does not say of which type its value is";
    TooLarge = "P0318", "a policy that is too large once its definitions are expanded";
    CannotIndex = "P0319", "a question about history that cannot be kept up to date";
    UnknownPolicy = "P0320", "a policy that the pack does not have, or that has no hits to read";
    UnknownDetector = "P0321", "a detector that there is not";
    ToolUnknown = "P0322", "a tool that tools.yaml does not have";
    PathUnknown = "P0323", "a path that no tool of tools.yaml has here";
    NotOverridden = "P0324", "a name to override that the pack does not declare anew";
    // Valid, but hardly meant.
    Unused = "P0401", "a declaration that nothing uses";
    ToolIsSet = "P0402", "a tool name that is also the name of a set";
    NeverHolds = "P0403", "a condition that can never hold";
    AlwaysHolds = "P0404", "a condition that always holds";
    UndecidedOverNothing = "P0405", "a negation that nothing decides as long as there is no earlier event";
    JoinedKey = "P0406", "a key that is made by joining texts";
    PrefixOfAddress = "P0407", "a comparison of a URL, host or path by its letters";
    SamePolicy = "P0408", "a policy with the trigger and the conditions of another one";
    MatchesAll = "P0409", "a pattern between slashes that matches the empty text, and so every text";
    // Valid, and may not serve.
    TestFailed = "P0501", "a test of the pack that fails";
    TestsTooLong = "P0502", "tests that take longer than they may";
    NotPinned = "P0503", "a pack of another digest than the server's settings allow";
    PinnedMissing = "P0504", "a pack that the server's settings pin and that is not there";
    NotSigned = "P0505", "a pack without a signature, where the server's settings ask for one";
    SignatureWrong = "P0506", "a signature that does not hold, or is by nobody who is trusted";
    TrustUnreadable = "P0507", "a file of pins or public keys that cannot be used";
    // A pack beside its earlier versions, its tests and recorded traces.
    VersionSame = "P0601", "another meaning under the same version";
    VersionStep = "P0602", "a version that goes back, or rises by less than the change needs";
    LibraryVersionSame = "P0603", "other probes under the same version of their library";
    NeverApplied = "P0604", "a policy that applies to nothing in recorded traces";
    NeverFires = "P0605", "a policy that never fires in recorded traces";
    AlwaysFires = "P0606", "a policy that fires wherever it applies in recorded traces";
    AlwaysUndecided = "P0607", "a policy that is never decided in recorded traces";
    NotTested = "P0608", "a policy that fires in no test of its pack";
    NoTests = "P0609", "a pack whose policies nothing tests";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_rise_and_belong_to_a_family() {
        let texts: Vec<&str> = Code::ALL.iter().map(|c| c.text()).collect();
        assert!(texts.is_sorted_by(|a, b| a < b), "{texts:?}");
        for text in texts {
            let digits = text.strip_prefix('P').filter(|d| d.len() == 4 && d.bytes().all(|b| b.is_ascii_digit()));
            assert!(digits.is_some_and(|d| d < "0700"), "{text}");
        }
    }
}
