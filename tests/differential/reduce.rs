//! Makes a failing case smaller as long as it fails.

use probity::model::Limits;
use serde_json::Value;

use super::{
    generate::{Sort, plain},
    tree::Node,
};

/// A program and a trace.
#[derive(Clone, Debug)]
pub struct Case {
    /// The declarations.
    pub items: Vec<Node<Sort>>,
    /// The messages, as JSON text.
    pub messages: Vec<String>,
    /// The fixed clock, in seconds, if the pack has one.
    pub clock: Option<i64>,
    /// What the session may cost.
    pub limits: Limits,
}

impl Case {
    /// The program's source text.
    pub fn source(&self) -> String {
        self.items.iter().map(Node::print).collect()
    }

    /// Cases that are smaller by one step, the largest steps first.
    fn smaller(&self) -> impl Iterator<Item = Case> {
        let without_message = (0..self.messages.len()).rev().map(|i| {
            let mut case = self.clone();
            case.messages.remove(i);
            case
        });
        let without_item = (0..self.items.len()).rev().map(|i| {
            let mut case = self.clone();
            case.items.remove(i);
            case
        });
        let smaller_item = (0..self.items.len()).flat_map(move |i| {
            self.items[i].smaller(&plain).into_iter().map(move |item| {
                let mut case = self.clone();
                case.items[i] = item;
                case
            })
        });
        let smaller_message = (0..self.messages.len()).flat_map(move |i| {
            let message: Value = serde_json::from_str(&self.messages[i]).unwrap();
            smaller_json(&message).into_iter().map(move |message| {
                let mut case = self.clone();
                case.messages[i] = message.to_string();
                case
            })
        });
        without_message.chain(without_item).chain(smaller_item).chain(smaller_message)
    }

    /// The smallest case found that still fails.
    pub fn reduce(mut self, fails: &dyn Fn(&Case) -> bool) -> Case {
        // Every step makes the case smaller, so this ends; the bound keeps a failing run short.
        for _ in 0..400 {
            let found = self.smaller().take(4_000).find(|case| fails(case));
            let Some(smaller) = found else { break };
            self = smaller;
        }
        self
    }
}

/// JSON with one key or element less.
fn smaller_json(value: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    match value {
        Value::Object(object) => {
            for key in object.keys() {
                let mut less = object.clone();
                less.remove(key);
                out.push(Value::Object(less));
            }
            for (key, part) in object {
                for smaller in smaller_json(part) {
                    let mut less = object.clone();
                    less.insert(key.clone(), smaller);
                    out.push(Value::Object(less));
                }
            }
        }
        Value::Array(items) => {
            for i in 0..items.len() {
                let mut less = items.clone();
                less.remove(i);
                out.push(Value::Array(less));
            }
            for (i, item) in items.iter().enumerate() {
                for smaller in smaller_json(item) {
                    let mut less = items.clone();
                    less[i] = smaller;
                    out.push(Value::Array(less));
                }
            }
        }
        _ => {}
    }
    out
}
