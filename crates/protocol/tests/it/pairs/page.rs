//! The tables of runs.md section 1, as they stand in the specification.

use protocol::run::{EDGES, Edge, Status};
use std::collections::{BTreeMap, BTreeSet};

const RUNS: &str = include_str!("../../../../../docs/spec/runs.md");
const DEFERRED: &str = include_str!("../../../../../docs/spec/deferred.md");

/// What the page says.
pub(super) struct Page {
    pub(super) edges: BTreeSet<(Edge, Option<Status>, Status)>,
    /// By the first cell of a row of the table of commands.
    commands: BTreeMap<&'static str, BTreeSet<Edge>>,
}

impl Page {
    pub(super) fn read() -> Page {
        let edges: BTreeSet<_> = table("| id | edge | who |").into_iter().flat_map(|row| pairs(&row)).collect();
        let command = |row: Vec<&'static str>| (row[0], words(row[2]).filter_map(edge).collect());
        let commands: BTreeMap<_, _> = table("| command | by | edges |").into_iter().map(command).collect();
        assert!(edges.len() > 30 && commands.len() > 10, "a table was not found");
        Page { edges, commands }
    }

    /// The one edge by which a command may lead from a status to another.
    ///
    /// Containment ends a stopping run in whatever commit acknowledges the last obligation, so its edges go with every
    /// command (E-17, E-18).
    pub(super) fn edge(&self, command: Option<&str>, from: Status, to: Status) -> Edge {
        let listed = command.map(|command| &self.commands[command]);
        let may = |edge: &Edge| [17, 18].contains(&edge.0) || listed.is_some_and(|edges| edges.contains(edge));
        let by: Vec<Edge> =
            EDGES.iter().filter(|row| (row.from, row.to) == (Some(from), to)).map(|row| row.edge).collect();
        let by: Vec<Edge> = by.into_iter().filter(may).collect();
        match by[..] {
            [edge] => edge,
            _ => panic!("{command:?} leads from {from} to {to} by {by:?}"),
        }
    }

    /// Whether the edge is to be there now.
    pub(super) fn is_due(&self, edge: Edge) -> bool {
        !DEFERRED.lines().any(|line| words(line).any(|word| word == edge.to_string()))
    }
}

/// The rows below the header that begins so.
fn table(header: &str) -> Vec<Vec<&'static str>> {
    let rows =
        RUNS.lines().skip_while(|line| !line.starts_with(header)).skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', ';']).filter(|word| !word.is_empty())
}

fn edge(word: &str) -> Option<Edge> {
    word.strip_prefix("E-")?.parse().ok().map(Edge)
}

/// `A, B -> C or D` as its pairs.
fn pairs(row: &[&'static str]) -> Vec<(Edge, Option<Status>, Status)> {
    let edge = edge(row[0]).expect("an id");
    let (from, to) = row[1].split_once("->").expect("an edge");
    let froms: Vec<Option<Status>> =
        words(from).flat_map(|word| if word == "none" { vec![None] } else { named(word) }).collect();
    let tos: Vec<Option<Status>> = words(to).filter(|word| *word != "or").flat_map(named).collect();
    let pair = |from: Option<Status>| tos.iter().map(move |to| (edge, from, to.expect("a status")));
    froms.into_iter().flat_map(pair).collect()
}

fn named(word: &str) -> Vec<Option<Status>> {
    if word == "AWAITING_*" {
        return Status::ALL.into_iter().filter(|status| status.is_parked()).map(Some).collect();
    }
    vec![Some(Status::parse(&word.to_lowercase()).unwrap_or_else(|| panic!("`{word}` is no status")))]
}
