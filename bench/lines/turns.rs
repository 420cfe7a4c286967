// SPDX-License-Identifier: GPL-2.0

//! The turns of the CPUs: one runs at a time, and the turn may pass at each step.
//!
//! A step is one access to memory that CPUs share. Before an access that needs another cache, any
//! CPU may run, with equal probability: on hardware such an access takes about a hundred times as
//! long as one to a line that is there. Before any other access, one in 16 lets another CPU run.
//! The numbers are pseudo-random with a fixed seed, so each run is the same.
//!
//! The code under test keeps its state on the stack, so each CPU has a stack (`makecontext()`).

use std::{
    cell::{
        Cell,
        RefCell, //
    },
    ffi::c_void,
    mem,
    ptr, //
};

/// A pseudo-random number generator (Marsaglia's xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ seed << 32 ^ seed)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % bound as u64) as usize
    }
}

/// The first fields of C's `ucontext_t`, and room for the others, of any architecture.
#[repr(C, align(16))]
struct Context {
    flags: usize,
    link: *mut Context,
    stack: *mut c_void,
    stack_flags: i32,
    stack_bytes: usize,
    rest: [u8; 8192],
}

impl Context {
    fn empty() -> Box<Self> {
        Box::new(Self {
            flags: 0,
            link: ptr::null_mut(),
            stack: ptr::null_mut(),
            stack_flags: 0,
            stack_bytes: 0,
            rest: [0; 8192],
        })
    }
}

extern "C" {
    fn getcontext(context: *mut Context) -> i32;
    fn makecontext(context: *mut Context, function: extern "C" fn(), arguments: i32, ...);
    fn swapcontext(from: *mut Context, to: *const Context) -> i32;
}

const STACK_BYTES: usize = 128 << 10;

struct Turns {
    contexts: Vec<Box<Context>>,
    stacks: Vec<Vec<u8>>,
    /// The CPUs that still run.
    running: Vec<usize>,
    /// The CPUs that wait until a line is written, and the line.
    waiting: Vec<(usize, usize)>,
    caller: Box<Context>,
    random: Random,
}

thread_local! {
    static TURNS: RefCell<Option<Turns>> = const { RefCell::new(None) };
    static BODY: Cell<Option<&'static dyn Fn(usize)>> = const { Cell::new(None) };
    static CPU: Cell<usize> = const { Cell::new(0) };
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Returns the current CPU.
pub(crate) fn cpu() -> usize {
    CPU.get()
}

/// Sets the current CPU. Only for code outside of [`run()`].
pub(crate) fn be_on(cpu: usize) {
    CPU.set(cpu);
}

/// Lets the CPUs run before an access, if one runs at all.
pub(crate) fn step(hits: bool) {
    if !RUNS.get() {
        return;
    }
    let passes =
        !hits || TURNS.with_borrow_mut(|turns| turns.as_mut().unwrap().random.below(16) == 0);
    if passes {
        pass();
    }
}

/// Passes the turn to any CPU, perhaps this one.
pub(crate) fn pass() {
    let from = CPU.get();
    let switch = TURNS.with_borrow_mut(|turns| {
        let turns = turns.as_mut().unwrap();
        let index = turns.random.below(turns.running.len());
        let to = turns.running[index];
        CPU.set(to);
        let contexts: [*mut Context; 2] = [from, to].map(|cpu| &raw mut *turns.contexts[cpu]);
        (from != to).then_some(contexts)
    });
    if let Some([from, to]) = switch {
        // SAFETY: Both are contexts of CPUs that still run, in boxes that `run()` keeps.
        unsafe { swapcontext(from, to) };
    }
}

/// Lets the other CPUs run until one of them writes the line.
///
/// A CPU that watches a line reads its own copy until then, so nothing is lost.
pub(crate) fn wait(line: usize) {
    let cpu = CPU.get();
    TURNS.with_borrow_mut(|turns| {
        let turns = turns.as_mut().unwrap();
        turns.running.retain(|other| *other != cpu);
        turns.waiting.push((cpu, line));
    });
    pass();
}

/// Lets the CPUs run that wait for a write to the line.
pub(crate) fn wake(line: usize) {
    TURNS.with_borrow_mut(|turns| {
        if let Some(turns) = turns.as_mut().filter(|turns| !turns.waiting.is_empty()) {
            let woken = turns
                .waiting
                .extract_if(.., |(_, watched)| *watched == line);
            turns.running.extend(woken.map(|(cpu, _)| cpu));
        }
    });
}

extern "C" fn enter() {
    let cpu = CPU.get();
    BODY.get().unwrap()(cpu);

    // This CPU is done: the next one runs, or the caller.
    let [from, to] = TURNS.with_borrow_mut(|turns| {
        let turns = turns.as_mut().unwrap();
        turns.running.retain(|other| *other != cpu);
        let from: *mut Context = &raw mut *turns.contexts[cpu];
        match turns.running.len() {
            0 => [from, &raw mut *turns.caller],
            count => {
                let next = turns.running[turns.random.below(count)];
                CPU.set(next);
                [from, &raw mut *turns.contexts[next]]
            }
        }
    });
    // SAFETY: As in `pass()`; nothing returns here.
    unsafe { swapcontext(from, to) };
    unreachable!();
}

/// Runs `body` on each CPU, in turns, until it has returned on all.
pub(crate) fn run(cpus: usize, seed: u64, body: &dyn Fn(usize)) {
    let mut turns = Turns {
        contexts: (0..cpus).map(|_| Context::empty()).collect(),
        stacks: (0..cpus).map(|_| Vec::with_capacity(STACK_BYTES)).collect(),
        running: (0..cpus).collect(),
        waiting: Vec::new(),
        caller: Context::empty(),
        random: Random::new(seed),
    };
    for (context, stack) in turns.contexts.iter_mut().zip(&mut turns.stacks) {
        // SAFETY: The context has room for C's, and the stack stays until all CPUs are done.
        unsafe {
            getcontext(&raw mut **context);
            context.stack = stack.as_mut_ptr().cast();
            context.stack_bytes = STACK_BYTES;
            makecontext(&raw mut **context, enter, 0);
        }
    }
    let caller: *mut Context = &raw mut *turns.caller;
    let first: *mut Context = &raw mut *turns.contexts[0];
    // SAFETY: Used only until this function returns, as all CPUs are done then.
    BODY.set(Some(unsafe {
        mem::transmute::<&dyn Fn(usize), &'static dyn Fn(usize)>(body)
    }));
    CPU.set(0);
    RUNS.set(true);
    TURNS.set(Some(turns));

    // SAFETY: Both contexts are in boxes of `TURNS`.
    unsafe { swapcontext(caller, first) };
    RUNS.set(false);
    CPU.set(0);
    BODY.set(None);
    TURNS.set(None);
}
