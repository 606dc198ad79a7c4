//! x
mod fault;
mod reader;
mod settings;
mod tree;
