// SPDX-License-Identifier: GPL-2.0

//! Generates a second copy of the code under test, with defects that are selected at run time.

use std::{
    env,
    fs,
    ops::Range,
    path::Path,
    process, //
};

#[path = "mutants/flush_queue.rs"]
mod flush_queue;
#[path = "mutants/flush_timer.rs"]
mod flush_timer;
#[path = "mutants/limiter.rs"]
mod limiter;
#[path = "mutants/list_lru.rs"]
mod list_lru;
#[path = "mutants/page_stash.rs"]
mod page_stash;
#[path = "mutants/srcu_counts.rs"]
mod srcu_counts;
#[path = "mutants/srcu_pointer.rs"]
mod srcu_pointer;
#[path = "mutants/submit_queue.rs"]
mod submit_queue;

/// Expressions or statements of a source, and the mutants of each: the name, the check that must
/// fail, and the replacement.
type Mutants = &'static [(
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
)];

/// Returns the position of `expression` in `text`, or the number of matches if it is not 1. Ignores
/// white space.
fn find(text: &str, expression: &str) -> Result<Range<usize>, usize> {
    let solid = |text: &str| -> Vec<_> {
        text.char_indices()
            .filter(|(_, c)| !c.is_whitespace())
            .collect()
    };
    let (text, expression) = (solid(text), solid(expression));
    let places: Vec<_> = text
        .windows(expression.len())
        .filter(|window| window.iter().zip(&expression).all(|(a, b)| a.1 == b.1))
        .collect();

    match places[..] {
        [[(begin, _)]] => Ok(*begin..*begin + 1),
        [[(begin, _), .., (end, _)]] => Ok(*begin..*end + 1),
        _ => Err(places.len()),
    }
}

/// Fails the build, as the quote of a mutant does not match once, and prints how to fix it.
fn misquoted(source: &str, expression: &str, count: usize, mutants: &[(&str, &str, &str)]) -> ! {
    let quote = expression.lines().map(str::trim).collect::<Vec<_>>();
    let names = mutants.iter().map(|(name, ..)| *name).collect::<Vec<_>>();

    eprintln!(
        "{source} has {count} times, not once, what these mutants replace: {}\n\n    {}\n\n\
         Quote in tests/host/loom/mutants what is there now.",
        names.join(", "),
        quote.join("\n    "),
    );
    process::exit(1);
}

/// Generates the copy `<module>.rs`, and `<module>_mutants.rs` with the names of the mutants and
/// the checks.
fn mutate(module: &str, source: &str, mutants: Mutants) {
    let path = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join(source);
    let mut text = fs::read_to_string(&path).unwrap();
    let mut names = Vec::new();

    for (right, mutants) in mutants {
        let mut arms = String::new();
        for (name, check, wrong) in *mutants {
            arms += &format!("{name:?} => {wrong},\n");
            names.push((name, check));
        }
        let place =
            find(&text, right).unwrap_or_else(|count| misquoted(source, right, count, mutants));
        text.replace_range(
            place,
            &format!("(match crate::mutant() {{ {arms} _ => {{ {right} }} }})"),
        );
    }
    let out = env::var("OUT_DIR").unwrap();
    let out = Path::new(&out);
    let copy = out.join(format!("{module}.rs"));
    fs::write(&copy, text).unwrap();
    fs::write(
        out.join(format!("{module}_module.rs")),
        format!("#[path = {copy:?}] mod {module};"),
    )
    .unwrap();
    fs::write(
        out.join(format!("{module}_mutants.rs")),
        format!("&{names:?}"),
    )
    .unwrap();
    println!("cargo:rerun-if-changed={source}");
}

fn main() {
    mutate("pool", limiter::SOURCE, limiter::MUTANTS);
    mutate("counters", flush_queue::SOURCE, flush_queue::MUTANTS);
    mutate("armed", flush_timer::SOURCE, flush_timer::MUTANTS);
    mutate("slots", page_stash::SOURCE, page_stash::MUTANTS);
    mutate("llist", submit_queue::SOURCE, submit_queue::MUTANTS);
    mutate("closed", list_lru::SOURCE, list_lru::MUTANTS);
    mutate("counts", srcu_counts::SOURCE, srcu_counts::MUTANTS);
    mutate("current", srcu_pointer::SOURCE, srcu_pointer::MUTANTS);

    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=mutants");
    // Test modules.
    println!("cargo:rustc-check-cfg=cfg(kscale_kunit)");
    println!("cargo:rustc-cfg=kscale_kunit");
}
