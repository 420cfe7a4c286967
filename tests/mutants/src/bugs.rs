// SPDX-License-Identifier: GPL-2.0

//! Mutants made by hand: `bugs.txt`.
//!
//! An entry is a line `<file> <function>`, lines that begin with `-`, the right text, and lines that
//! begin with `+`, the wrong one. The right text is one expression, or statements; white space does
//! not matter in it, and the function must have it once.

use std::ops::Range;

use crate::sites::{
    Form,
    Found,
    Site, //
};

pub struct Bug {
    pub file: String,
    pub function: String,
    pub right: String,
    pub wrong: String,
}

/// Returns the entries of a file.
pub fn parse(text: &str) -> Result<Vec<Bug>, String> {
    let mut bugs: Vec<Bug> = Vec::new();

    for (number, line) in text.lines().enumerate() {
        let of = |bugs: &mut Vec<Bug>| -> Result<usize, String> {
            let error = || format!("line {} belongs to nothing", number + 1);
            bugs.len().checked_sub(1).ok_or_else(error)
        };
        if line.is_empty() || line.starts_with('#') {
            continue;
        } else if let Some(right) = line.strip_prefix('-') {
            let last = of(&mut bugs)?;
            bugs[last].right += &format!("{}\n", right.trim());
        } else if let Some(wrong) = line.strip_prefix('+') {
            let last = of(&mut bugs)?;
            bugs[last].wrong += &format!("{}\n", wrong.trim());
        } else {
            let (file, function) = line
                .split_once(' ')
                .ok_or_else(|| format!("line {}: no function", number + 1))?;
            bugs.push(Bug {
                file: file.into(),
                function: function.into(),
                right: String::new(),
                wrong: String::new(),
            });
        }
    }
    Ok(bugs)
}

/// Adds an entry to what was found in its file.
pub fn add(bug: &Bug, text: &str, found: &mut Found) -> Result<(), String> {
    let bodies: Vec<_> = found
        .functions
        .iter()
        .filter(|it| it.name == bug.function)
        .map(|it| it.body.clone())
        .collect();
    let places: Vec<_> = bodies
        .iter()
        .flat_map(|body| find(text, body, &bug.right))
        .collect();
    let [place] = &places[..] else {
        return Err(format!(
            "{} {}: {:?} is there {} times, not once",
            bug.file,
            bug.function,
            bug.right,
            places.len()
        ));
    };
    let is_statement = text[place.clone()].ends_with([';', '}']);

    found.sites.push(Site {
        place: place.clone(),
        form: if is_statement {
            Form::Statement
        } else {
            Form::Expression
        },
        wrong: bug.wrong.trim().into(),
        kind: "hand",
        function: bug.function.clone(),
    });
    Ok(())
}

/// Returns where `wanted` is in a part of `text`; white space does not matter.
fn find(text: &str, part: &Range<usize>, wanted: &str) -> Vec<Range<usize>> {
    let solid = |text: &str| -> Vec<(usize, char)> {
        text.char_indices()
            .filter(|(_, c)| !c.is_whitespace())
            .collect()
    };
    let (inner, wanted) = (solid(&text[part.clone()]), solid(wanted));

    inner
        .windows(wanted.len().max(1))
        .filter(|window| window.iter().zip(&wanted).all(|(a, b)| a.1 == b.1))
        .map(|window| {
            let (first, last) = (window[0], window[window.len() - 1]);
            part.start + first.0..part.start + last.0 + last.1.len_utf8()
        })
        .collect()
}
