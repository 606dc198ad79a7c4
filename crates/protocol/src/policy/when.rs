//! The `when` of a tool's own rule (C-53): a small expression over the arguments.
//!
//! ```text
//! either     = all ("or" all)*
//! all        = term ("and" term)*
//! term       = "not" term | "(" either ")" | "exists" "(" path ")" | path op literal
//! path       = "args" ("." name-or-index)+
//! op         = "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "prefix"
//! ```
//!
//! Literals are JSON. All comparisons are judged, also those that could not change the answer; if one of them cannot be
//! judged, the whole expression holds, whatever `not` stands before it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::condition::{Op, Unjudged, compare};
use crate::json::{self, Value};
use crate::limits;

/// A parsed expression, with the text that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct When {
    text: String,
    root: Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    Compare { path: Vec<String>, op: Op, literal: Value },
}

/// Why a text is no expression, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {offset}")]
pub struct WhenFault {
    pub offset: usize,
    pub message: String,
}

impl When {
    /// Whether the expression holds for these arguments, or cannot be judged, which counts the same.
    pub fn holds(&self, arguments: &Value) -> bool {
        self.root.judge(arguments).unwrap_or(true)
    }

    /// The arguments that it looks at, each as its names from the outermost in.
    pub fn paths(&self) -> Vec<&[String]> {
        self.root.paths()
    }
}

impl Node {
    fn paths(&self) -> Vec<&[String]> {
        match self {
            Self::Any(nodes) | Self::All(nodes) => nodes.iter().flat_map(Self::paths).collect(),
            Self::Not(node) => node.paths(),
            Self::Compare { path, .. } => vec![path],
        }
    }

    fn judge(&self, arguments: &Value) -> Result<bool, Unjudged> {
        match self {
            // `fold` and not `any`: every comparison is judged.
            Self::Any(nodes) => nodes.iter().try_fold(false, |so_far, node| Ok(node.judge(arguments)? || so_far)),
            Self::All(nodes) => nodes.iter().try_fold(true, |so_far, node| Ok(node.judge(arguments)? && so_far)),
            Self::Not(node) => node.judge(arguments).map(|holds| !holds),
            Self::Compare { path, op, literal } => {
                let there = path.iter().try_fold(arguments, |value, name| value.member(name));
                compare(*op, there, literal)
            }
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for When {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl FromStr for When {
    type Err = WhenFault;
    fn from_str(text: &str) -> Result<Self, WhenFault> {
        if text.len() > limits::WHEN_BYTES {
            let message = format!("an expression has at most {} bytes", limits::WHEN_BYTES);
            return Err(WhenFault { offset: limits::WHEN_BYTES, message });
        }
        let mut parser = Parser { text, at: 0, depth: 0 };
        let root = parser.either()?;
        match parser.peek() {
            None => Ok(Self { text: text.to_owned(), root }),
            Some(_) => Err(parser.wrong("expected `and`, `or` or the end")),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn wrong(&self, message: impl Into<String>) -> WhenFault {
        WhenFault { offset: self.at, message: message.into() }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next character that is no white space.
    fn peek(&mut self) -> Option<char> {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    /// Takes a word that does not go on behind it.
    fn word(&mut self, word: &str) -> bool {
        self.peek();
        let whole = self.rest().strip_prefix(word).is_some_and(|behind| !behind.starts_with(is_name));
        self.at += if whole { word.len() } else { 0 };
        whole
    }

    fn sign(&mut self, sign: &str) -> bool {
        self.peek();
        let there = self.rest().starts_with(sign);
        self.at += if there { sign.len() } else { 0 };
        there
    }

    fn either(&mut self) -> Result<Node, WhenFault> {
        let mut nodes = vec![self.all()?];
        while self.word("or") {
            nodes.push(self.all()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes) })
    }

    fn all(&mut self) -> Result<Node, WhenFault> {
        let mut nodes = vec![self.term()?];
        while self.word("and") {
            nodes.push(self.term()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    fn term(&mut self) -> Result<Node, WhenFault> {
        if self.depth == limits::WHEN_DEPTH {
            return Err(self.wrong(format!("brackets and `not` nest at most {} deep", limits::WHEN_DEPTH)));
        }
        self.depth += 1;
        let node = if self.word("not") {
            Node::Not(Box::new(self.term()?))
        } else if self.sign("(") {
            let node = self.either()?;
            self.close()?;
            node
        } else if self.word("exists") {
            self.exists()?
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn close(&mut self) -> Result<(), WhenFault> {
        if self.sign(")") { Ok(()) } else { Err(self.wrong("expected `)`")) }
    }

    fn exists(&mut self) -> Result<Node, WhenFault> {
        if !self.sign("(") {
            return Err(self.wrong("expected `(` behind `exists`"));
        }
        let path = self.path()?;
        self.close()?;
        Ok(Node::Compare { path, op: Op::Exists, literal: Value::Bool(true) })
    }

    fn comparison(&mut self) -> Result<Node, WhenFault> {
        let path = self.path()?;
        let op = self.operator()?;
        self.peek();
        let start = self.at;
        let literal = self.literal()?;
        op.accepts(&literal).map_err(|message| WhenFault { offset: start, message: message.to_owned() })?;
        Ok(Node::Compare { path, op, literal })
    }

    fn path(&mut self) -> Result<Vec<String>, WhenFault> {
        if !self.word("args") {
            return Err(self.wrong("expected `args.<name>`, `exists(...)`, `not` or `(`"));
        }
        let mut path = Vec::new();
        while self.rest().starts_with('.') {
            self.at += 1;
            let name = self.rest().split(|character| !is_name(character)).next().unwrap_or_default();
            if name.is_empty() {
                return Err(self.wrong("expected a name or an index"));
            }
            self.at += name.len();
            path.push(name.to_owned());
        }
        if path.is_empty() { Err(self.wrong("expected `.` and a name")) } else { Ok(path) }
    }

    fn operator(&mut self) -> Result<Op, WhenFault> {
        // Longer signs first.
        let signs = [("==", Op::Eq), ("!=", Op::Ne), ("<=", Op::Le), (">=", Op::Ge), ("<", Op::Lt), (">", Op::Gt)];
        if let Some((_, op)) = signs.into_iter().find(|(sign, _)| self.sign(sign)) {
            return Ok(op);
        }
        let words = [("in", Op::In), ("prefix", Op::Prefix)];
        let word = words.into_iter().find(|(word, _)| self.word(word));
        word.map(|(_, op)| op).ok_or_else(|| self.wrong("expected == != < <= > >= in or prefix"))
    }

    fn literal(&mut self) -> Result<Value, WhenFault> {
        match json::leading(self.rest().as_bytes()) {
            Ok((literal, len)) => {
                self.at += len;
                Ok(literal.value())
            }
            Err(fault) => {
                self.at += fault.offset;
                Err(self.wrong(format!("expected a JSON literal ({})", fault.reason)))
            }
        }
    }
}

/// Whether a character may stand in a name; argument names with others are reached by a rule's JSON Pointer.
fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '-'
}
