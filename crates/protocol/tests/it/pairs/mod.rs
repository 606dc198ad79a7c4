//! Every pair of status and command is tried, and what it gave stands in `table.txt`: the edges it made, or the code of its
//! refusal. The edges are compared with the tables of the specification.
//!
//! `stored` is a change without an edge, `stands` an answer without a change.

mod commands;
mod page;
mod statuses;

use commands::{COMMANDS, Stopping};
use expect_test::expect_file;
use page::Page;
use protocol::command::Answer;
use protocol::event::Kind;
use protocol::run::{EDGES, Edge, Status};
use std::collections::BTreeSet;
use std::fmt::Write;

/// What one command did to a run of one status.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Cell {
    Edges(Vec<Edge>),
    Stored,
    Stands,
    Refused(&'static str),
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Edges(edges) => edges.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Cell::Stored => "stored".to_owned(),
            Cell::Stands => "stands".to_owned(),
            Cell::Refused(code) => (*code).to_owned(),
        }
    }
}

/// Gives a command to a run of a status.
fn cell(page: &Page, command: &commands::Row, status: Status) -> Cell {
    let (mut world, scene) = statuses::at(status);
    assert_eq!(world.status(), status);
    (command.ready)(&mut world, &scene);
    assert_eq!(world.status(), status, "`{}` is got ready in its status", command.name);
    let (events, before) = (world.events.len(), world.rows.clone());
    let answer = match (command.give)(&mut world, &scene) {
        commands::Given::Command(command) => world.give(*command),
        commands::Given::Renewed(answer) => answer,
    };
    let mut from = status;
    let mut edges = Vec::new();
    for event in &world.events[events..] {
        if let Kind::Run(to) = event.kind {
            edges.push(page.edge(command.spec, from, to));
            from = to;
        }
    }
    let removed = world.last.as_ref().is_some_and(|change| change.removed);
    let changed = removed || world.rows != before || world.events.len() > events;
    match answer {
        Err(refusal) => Cell::Refused(refusal.code.as_str()),
        Ok(Answer::NotDispatched { code, .. }) => Cell::Refused(code.as_str()),
        Ok(_) if !edges.is_empty() => Cell::Edges(edges),
        Ok(_) if changed => Cell::Stored,
        Ok(_) => Cell::Stands,
    }
}

fn print(cells: &[Vec<Cell>]) -> String {
    let names: Vec<String> = Status::ALL.iter().map(|status| status.as_str().to_uppercase()).collect();
    let wide = |column: usize| {
        cells.iter().map(|row| row[column].text().len()).chain([names[column].len()]).max().expect("a name")
    };
    let first = COMMANDS.iter().map(|command| command.name.len()).max().expect("commands");
    let widths: Vec<usize> = (0..names.len()).map(wide).collect();
    let mut out = String::new();
    let mut line = |first_cell: &str, rest: Vec<String>| {
        let mut line = format!("{first_cell:<first$}");
        for (cell, wide) in rest.iter().zip(&widths) {
            let _ = write!(line, "  {cell:<wide$}");
        }
        let _ = writeln!(out, "{}", line.trim_end());
    };
    line("", names.clone());
    for (command, row) in COMMANDS.iter().zip(cells) {
        line(command.name, row.iter().map(Cell::text).collect());
    }
    out
}

#[test]
fn every_pair_of_status_and_command_gives_an_edge_or_a_refusal_of_the_table() {
    let page = Page::read();
    let row = |command| Status::ALL.iter().map(|status| cell(&page, command, *status)).collect();
    let cells: Vec<Vec<Cell>> = COMMANDS.iter().map(row).collect();
    expect_file!["table.txt"].assert_eq(&print(&cells));
    let mut made = BTreeSet::new();
    for (command, row) in COMMANDS.iter().zip(&cells) {
        for (status, cell) in Status::ALL.into_iter().zip(row) {
            let what = format!("{} of a run that is {status}: {}", command.name, cell.text());
            if let Cell::Edges(edges) = cell {
                assert!(!status.is_final(), "{what}"); // R-15 R-247
                let allowed = if status == Status::Cancelling { Edge(17) } else { Edge(18) };
                assert!(!status.is_stopping() || edges == &[allowed], "{what}");
                made.extend(edges.iter().copied());
            }
            if status.is_stopping() {
                match command.stopping {
                    Stopping::Refuses => assert!(matches!(cell, Cell::Refused(_)), "{what}"),
                    Stopping::Takes => assert!(matches!(cell, Cell::Stored | Cell::Edges(_)), "{what}"),
                    Stopping::Either => {}
                }
            }
        }
    }
    // Every edge is made by one of these commands, but that of the admission and what is deferred.
    let all: BTreeSet<Edge> = EDGES.iter().map(|row| row.edge).filter(|edge| page.is_due(*edge)).collect();
    assert_eq!(made, all.into_iter().filter(|edge| *edge != Edge(1)).collect());
}

#[test]
fn the_edges_are_those_of_the_specification() {
    let ours: BTreeSet<_> = EDGES.iter().map(|row| (row.edge, row.from, row.to)).collect();
    assert_eq!(ours, Page::read().edges);
}
