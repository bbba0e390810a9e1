//! Source text as a tree, so that what fails can be made smaller without becoming nonsense.

/// A piece of source text with parts in it: each `@` of the text stands for the next part.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<S> {
    /// What it is; a part may stand in for its whole if both are the same.
    pub sort: S,
    text: String,
    parts: Vec<Node<S>>,
}

impl<S: Copy + PartialEq> Node<S> {
    /// A node; the text has one `@` for each part.
    pub fn new(sort: S, text: &str, parts: Vec<Node<S>>) -> Node<S> {
        assert_eq!(text.matches('@').count(), parts.len(), "{text}");
        Node { sort, text: text.to_owned(), parts }
    }

    /// The source text.
    pub fn print(&self) -> String {
        let mut parts = self.parts.iter();
        let mut out = String::new();
        for (i, piece) in self.text.split('@').enumerate() {
            if i > 0 {
                out.push_str(&parts.next().map(Node::print).unwrap_or_default());
            }
            out.push_str(piece);
        }
        out
    }

    /// Smaller trees: this one with one node exchanged for a part of it, or for something plain.
    pub fn smaller(&self, plain: &dyn Fn(S) -> Vec<&'static str>) -> Vec<Node<S>> {
        let mut out: Vec<Node<S>> = Vec::new();
        for text in plain(self.sort) {
            if !(self.parts.is_empty() && self.text == text) {
                out.push(Node::new(self.sort, text, Vec::new()));
            }
        }
        self.within(self.sort, &mut out);
        for (i, part) in self.parts.iter().enumerate() {
            for smaller in part.smaller(plain) {
                let mut whole = self.clone();
                whole.parts[i] = smaller;
                out.push(whole);
            }
        }
        out
    }

    /// The outermost nodes of a sort below this one.
    fn within(&self, sort: S, out: &mut Vec<Node<S>>) {
        for part in &self.parts {
            if part.sort == sort {
                out.push(part.clone());
            } else {
                part.within(sort, out);
            }
        }
    }
}
