// SPDX-License-Identifier: GPL-2.0

//! Makes a copy of the sources that has all mutants in it, one of which is chosen when it runs.
//!
//! What can be wrong is wrapped, where it stands: `if mutant::is(7) { wrong } else { right }`. So one
//! build is enough for all of them. See `run.py`, which uses it.
//!
//! Usage: kscale-mutants <checkout> <copy> [--without <file>] [--only <file>]
//!
//! `<copy>/mutants.jsonl` gets a line for each mutant. A mutant is known by its key, which has no line
//! numbers: the file, the function, what is there, and what is there instead. The files have keys, one
//! on each line: of mutants that are left out, or the only ones that are made.

use std::{
    collections::{
        BTreeMap,
        HashMap,
        HashSet, //
    },
    env,
    fs,
    io,
    path::{
        Path,
        PathBuf, //
    },
    process::ExitCode, //
};

mod bugs;
mod sites;

use sites::{
    Form,
    Found,
    Site, //
};

/// The roots of the crates that are mutated, and how they call the library.
const ROOTS: &[(&str, &str)] = &[
    ("rust/kscale.rs", "crate"),
    ("samples/rcrypt/rcrypt.rs", "kscale"),
];

/// What is copied.
const COPIED: &[&str] = &["Kbuild", "rust", "samples", "tests/modules"];

/// Of these nothing is mutated: what is generated, and lists of exports.
const LEFT_OUT: &[&str] = &["rust/bindings.rs"];

type Failure = Box<dyn std::error::Error>;

/// Returns the files of a crate that are not for tests, from its root on.
fn files_of(checkout: &Path, root: &str) -> Result<Vec<String>, Failure> {
    let mut files = vec![root.to_string()];
    let mut next = 0;

    while let Some(file) = files.get(next).cloned() {
        next += 1;
        let parsed = syn::parse_file(&fs::read_to_string(checkout.join(&file))?)?;
        let path = Path::new(&file);
        let below = if next == 1 {
            path.parent().unwrap().to_path_buf()
        } else {
            path.with_extension("")
        };
        for item in parsed.items {
            let syn::Item::Mod(item) = item else { continue };
            if item.content.is_some() || sites::is_for_tests(&item.attrs) {
                continue;
            }
            let found = below.join(format!("{}.rs", item.ident));
            let found = found.to_str().unwrap().to_string();
            if checkout.join(&found).exists() {
                files.push(found);
            }
        }
    }
    files.retain(|file| !LEFT_OUT.contains(&file.as_str()));
    Ok(files)
}

/// A mutant of the copy.
struct Mutant {
    site: Site,
    number: usize,
    key: String,
}

/// Returns a text with its white space shortened, and without comments.
fn short(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let words: Vec<_> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

/// Returns what is known of a mutant without line numbers, but for which of several it is.
fn base_key(file: &str, text: &str, site: &Site) -> String {
    let right = short(&text[site.place.clone()]);
    let wrong = short(&site.wrong);

    format!("{file} | {} | {right} => {wrong}", site.function)
}

/// Returns what is between braces: what begins like a statement may still be an expression.
fn arm(form: Form, text: &str) -> String {
    let is_like_a_statement = ["unsafe", "match", "if", "{"]
        .iter()
        .any(|word| text.starts_with(word));

    match form {
        Form::Expression if is_like_a_statement => format!("({text})"),
        _ => text.into(),
    }
}

/// Writes the text from `begin` to `end` with the mutants in it, the outermost first.
fn render(text: &str, place: std::ops::Range<usize>, mutants: &[&Mutant], of: &str) -> String {
    let mut out = String::new();
    let mut at = place.start;
    let mut rest = mutants;

    while let Some(first) = rest.first() {
        let place = first.site.place.clone();
        // Sorted: those in the same place follow, and then those inside.
        let same = rest
            .iter()
            .take_while(|it| it.site.place == place && it.site.form == first.site.form)
            .count();
        let inside = rest[same..]
            .iter()
            .take_while(|it| it.site.place.start < place.end)
            .count();
        out += &text[at..place.start];
        let inner = render(text, place.clone(), &rest[same..same + inside], of);
        let mut chain = String::new();
        for (index, mutant) in rest[..same].iter().enumerate() {
            let otherwise = if index == 0 { "" } else { " else " };
            let (number, wrong) = (mutant.number, arm(mutant.site.form, &mutant.site.wrong));
            chain += &format!("{otherwise}if {of}::mutant::is({number}) {{ {wrong} }}");
        }
        out += &match first.site.form {
            Form::Expression => format!("({chain} else {{ {} }})", arm(first.site.form, &inner)),
            Form::Statement => format!("{chain} else {{ {inner} }}"),
            Form::Start => format!("{chain} "),
        };
        at = place.end;
        rest = &rest[same + inside..];
    }
    out + &text[at..place.end]
}

/// Leaves out what overlaps with another without being inside of it.
fn nested(mut sites: Vec<Site>) -> Vec<Site> {
    let rank = |form| match form {
        Form::Start => 0,
        Form::Statement => 1,
        Form::Expression => 2,
    };
    sites.sort_by_key(|it| {
        let empty = !it.place.is_empty();
        (
            it.place.start,
            empty,
            usize::MAX - it.place.end,
            rank(it.form),
        )
    });
    let mut kept: Vec<Site> = Vec::new();
    for site in sites {
        let crosses = kept
            .iter()
            .any(|it| it.place.end > site.place.start && it.place.end < site.place.end);
        if !crosses {
            kept.push(site);
        }
    }
    kept
}

/// Returns a text as JSON has it.
fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 32 => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Writes a file unless it is so already, for make to see what changed.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap())?;
    fs::write(path, text)
}

/// Returns all files of a directory, or the file.
fn all_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.into()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        files.extend(all_files(&entry?.path())?);
    }
    Ok(files)
}

/// Returns the keys in a file.
fn keys(path: Option<&String>) -> io::Result<Option<HashSet<String>>> {
    path.map(|path| {
        let text = fs::read_to_string(path)?;
        Ok(text.lines().map(str::to_string).collect())
    })
    .transpose()
}

fn run() -> Result<(), Failure> {
    let mut words = env::args().skip(1);
    let mut options = HashMap::new();
    let mut paths = Vec::new();
    while let Some(word) = words.next() {
        if word.starts_with("--") {
            options.insert(word, words.next().ok_or("an option needs a file")?);
        } else {
            paths.push(PathBuf::from(word));
        }
    }
    let [checkout, copy] = &paths[..] else {
        return Err(
            "usage: kscale-mutants <checkout> <copy> [--without FILE] [--only FILE]".into(),
        );
    };
    let without = keys(options.get("--without"))?.unwrap_or_default();
    let only = keys(options.get("--only"))?;
    let bugs = bugs::parse(&fs::read_to_string(
        checkout.join("tests/mutants/bugs.txt"),
    )?)?;

    if let Some(bug) = bugs.iter().find(|bug| !checkout.join(&bug.file).exists()) {
        return Err(format!("bugs.txt: there is no {}", bug.file).into());
    }

    let mut made: BTreeMap<String, String> = BTreeMap::new();
    let mut list = String::new();
    let mut number = 0;
    for (root, of) in ROOTS {
        for file in files_of(checkout, root)? {
            let text = fs::read_to_string(checkout.join(&file))?;
            let mut found: Found = sites::find(&text)?;
            for bug in bugs.iter().filter(|bug| bug.file == file) {
                bugs::add(bug, &text, &mut found)?;
            }
            let mut seen: HashMap<String, usize> = HashMap::new();
            let mut mutants = Vec::new();
            for site in nested(found.sites) {
                let base = base_key(&file, &text, &site);
                let count = seen.entry(base.clone()).or_default();
                *count += 1;
                let key = match *count {
                    1 => base,
                    count => format!("{base} #{count}"),
                };
                if without.contains(&key) || only.as_ref().is_some_and(|only| !only.contains(&key))
                {
                    continue;
                }
                number += 1;
                mutants.push(Mutant { site, number, key });
            }
            let references: Vec<_> = mutants.iter().collect();
            let mut mutated = render(&text, 0..text.len(), &references, of);
            if *of == "crate" && file == *root {
                let after = "pub mod module;\n";
                if !mutated.contains(after) {
                    return Err(format!("{root}: there is no line `{}`", after.trim()).into());
                }
                mutated = mutated.replacen(after, &format!("{after}pub mod mutant;\n"), 1);
            }
            for mutant in &mutants {
                let line = text[..mutant.site.place.start].matches('\n').count() + 1;
                list += &format!(
                    "{{\"number\": {}, \"file\": {}, \"line\": {line}, \"kind\": {}, \"key\": {}}}\n",
                    mutant.number,
                    json(&file),
                    json(mutant.site.kind),
                    json(&mutant.key),
                );
            }
            made.insert(file, mutated);
        }
    }
    for path in COPIED {
        for file in all_files(&checkout.join(path))? {
            let name = file.strip_prefix(checkout)?.to_str().unwrap().to_string();
            match made.get(&name) {
                Some(text) => write(&copy.join(&name), text.as_bytes())?,
                None => write(&copy.join(&name), &fs::read(&file)?)?,
            }
        }
    }
    let reader = fs::read_to_string(checkout.join("tests/mutants/mutant.rs"))?;
    let reader = reader.replace(
        "COUNT: usize = 0",
        &format!("COUNT: usize = {}", number + 1),
    );
    write(&copy.join("rust/mutant.rs"), reader.as_bytes())?;
    fs::write(copy.join("mutants.jsonl"), list)?;
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kscale-mutants: {error}");
            ExitCode::FAILURE
        }
    }
}
