//! `cargo xtask bench`: the release benchmarks, as one JSON object on stdout.
//!
//! Owns: which figures the project holds itself to, and within which bounds. Never does: measure; the package
//! `stasis-bench` does, and prints `{"<figure>": <number>, ...}`. A figure that was not measured is `null`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use crate::steps::call;
use crate::{ci, tree};

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Only the figures whose name starts with this
    #[arg(long)]
    only: Option<String>,
}

/// The bound a figure must keep.
#[derive(Debug, Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// The figures and their bounds. Times of guests are medians, for the refund program.
const FIGURES: &[(&str, Bound)] = &[
    ("ledger_cycles_per_s_at_1", Bound::AtLeast(1_000.0)),
    ("ledger_cycles_per_s_at_128", Bound::AtLeast(12_000.0)),
    ("ledger_cpu_ms_per_cycle_at_128", Bound::AtMost(0.08)),
    // Four times better than the best of the peers that were measured.
    ("ledger_resume_ms_at_1", Bound::AtMost(1.0)),
    ("guest_fresh_to_first_call_ms", Bound::AtMost(1.0)),
    ("guest_freeze_ms", Bound::AtMost(3.0)),
    ("guest_thaw_ms", Bound::AtMost(6.0)),
    // Nothing by design; the kernel counts memory in pages and allocators keep some, so a little is allowed.
    ("parked_run_worker_bytes", Bound::AtMost(1_024.0)),
    ("parked_run_disk_kib_without_snapshot", Bound::AtMost(16.0)),
    ("parked_run_disk_kib_with_snapshot", Bound::AtMost(80.0)),
    ("restart_with_1000_parked_s", Bound::AtMost(2.0)),
    ("finish_1000_parked_s", Bound::AtMost(60.0)),
    // A hundred thousand of them.
    ("many_parked_restart_s", Bound::AtMost(3.0)),
    ("many_parked_worker_bytes", Bound::AtMost(64.0)),
    ("many_parked_decision_to_end_ms", Bound::AtMost(50.0)),
    ("many_parked_starts_per_s", Bound::AtLeast(300.0)),
];

#[derive(Serialize)]
struct Report {
    within_bounds: bool,
    figures: BTreeMap<&'static str, Figure>,
}

#[derive(Serialize)]
struct Figure {
    measured: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    within_bound: Option<bool>,
}

impl Figure {
    fn new(measured: Option<f64>, bound: Bound) -> Self {
        let (at_least, at_most) = match bound {
            Bound::AtLeast(least) => (Some(least), None),
            Bound::AtMost(most) => (None, Some(most)),
        };
        let keeps = |figure| match bound {
            Bound::AtLeast(least) => figure >= least,
            Bound::AtMost(most) => figure <= most,
        };
        Self { measured, at_least, at_most, within_bound: measured.map(keeps) }
    }
}

pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let root = tree::root();
    // Both at once: what is built together shares its dependencies.
    let packages = ["--package", "stasis-bench", "--package", "stasis-cli"];
    call(Command::new("cargo").args(["build", "--release"]).args(packages).current_dir(&root))?;
    let folder = ci::target(&root)?.join("release");
    let mut command = Command::new(folder.join("stasis-bench"));
    command.env("STASIS_BIN", folder.join("stasis")).current_dir(&root);
    if let Some(prefix) = &args.only {
        command.args(["--only", prefix]);
    }
    let output = command.stderr(Stdio::inherit()).output().context("cannot start the benchmarks")?;
    if !output.status.success() {
        bail!("the benchmarks ended with {}", output.status);
    }
    let measured: BTreeMap<String, f64> =
        serde_json::from_slice(&output.stdout).context("the benchmarks printed no object of figures")?;
    let report = report(&measured, args.only.as_deref().unwrap_or_default())?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    if !report.within_bounds {
        bail!("a figure is out of its bound, or was not measured");
    }
    Ok(())
}

fn report(measured: &BTreeMap<String, f64>, prefix: &str) -> Result<Report> {
    if let Some(name) = measured.keys().find(|name| FIGURES.iter().all(|(known, _)| known != name)) {
        bail!("the benchmarks measured `{name}`, which has no bound");
    }
    let asked = FIGURES.iter().filter(|(name, _)| name.starts_with(prefix));
    let figures: BTreeMap<_, _> =
        asked.map(|(name, bound)| (*name, Figure::new(measured.get(*name).copied(), *bound))).collect();
    let within_bounds = figures.values().all(|figure| figure.within_bound == Some(true));
    Ok(Report { within_bounds, figures })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str, figure: f64) -> bool {
        let measured = BTreeMap::from([(name.to_owned(), figure)]);
        report(&measured, name).expect("the figure is known").within_bounds
    }

    #[test]
    fn a_figure_is_held_to_its_bound() {
        assert!(judged("guest_thaw_ms", 6.0));
        assert!(!judged("guest_thaw_ms", 6.1));
        assert!(judged("ledger_cycles_per_s_at_128", 12_000.0));
        assert!(!judged("ledger_cycles_per_s_at_128", 11_999.0));
    }

    #[test]
    fn a_figure_that_was_not_measured_is_not_within_bounds() {
        assert!(!report(&BTreeMap::new(), "").expect("nothing unknown").within_bounds);
    }

    #[test]
    fn a_figure_without_a_bound_is_refused() {
        assert!(report(&BTreeMap::from([("speed".to_owned(), 1.0)]), "").is_err());
    }
}
