//! The benchmarks behind `cargo xtask bench`: each measures a few figures on this machine and prints their medians.
//!
//! Prints one JSON object, `{"<figure>": <number>, ...}`, to stdout and says on stderr what it is doing. Which bounds the
//! figures must keep is xtask's to say. Figures compare only within one run on a quiet machine.

mod guests;
mod ledger;
mod many;
mod parked;
mod server;
mod sources;

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Parser;

/// The allocator of the binary `stasis`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Measure this machine's figures, and print them as one JSON object")]
struct Args {
    /// Only the benchmarks that measure a figure whose name starts with this
    #[arg(long, default_value = "")]
    only: String,
}

/// The figures that were measured, by name.
type Figures = BTreeMap<&'static str, f64>;

/// A benchmark, with the figures that it measures.
struct Bench {
    figures: &'static [&'static str],
    run: fn() -> Result<Figures>,
}

const BENCHES: [Bench; 4] = [
    Bench { figures: ledger::FIGURES, run: ledger::measure },
    Bench { figures: guests::FIGURES, run: guests::measure },
    Bench { figures: parked::FIGURES, run: parked::measure },
    Bench { figures: many::FIGURES, run: many::measure },
];

fn main() -> Result<()> {
    let args = Args::parse();
    let asked = |bench: &Bench| bench.figures.iter().any(|figure| figure.starts_with(&args.only));
    let mut figures = Figures::new();
    for bench in BENCHES.iter().filter(|bench| asked(bench)) {
        figures.extend((bench.run)()?);
    }
    figures.retain(|figure, _| figure.starts_with(&args.only));
    #[allow(clippy::print_stdout, reason = "the object is what the program is for")]
    {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    }
    Ok(())
}

/// The middle one, or the mean of the two in the middle.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len() % 2 == 1 { figures[middle] } else { (figures[middle - 1] + figures[middle]) / 2.0 }
}

#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

#[allow(clippy::print_stderr, reason = "progress is for whoever waits")]
fn say(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
