// SPDX-License-Identifier: GPL-2.0

//! Device-mapper target `chain`: functions of bios that wait for functions of other bios, for
//! tests.
//!
//! Table line: `<start> <len> chain <dev path> <what>`, where `what` is one of the names below.
//!
//! - `end`: a function on a queue ends the bio;
//! - `read`: a function on a queue ends the bio, and then reads the device;
//! - `pass`: a function on a queue passes the bio to another queue, and waits for its function
//!   there;
//! - `pass_often`: the function there does the same with the first queue, and so on, 20 times.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::{
        Arc,
        Completion, //
    }, //
};

use kscale::{
    block::dm,
    mm::{
        gfp::Gfp,
        page::FilledPage, //
    },
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

module! {
    type: ChainModule,
    name: "dm_chain",
    authors: ["The kscale authors"],
    description: "Device-mapper target whose functions wait for each other, for tests",
    license: "GPL",
}

struct ChainModule {
    _registration: dm::Registration<Chain>,
}

impl kernel::Module for ChainModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

type Function = fn(dm::Bio<Chain>);

const NAMES: [(&str, Function); 4] = [
    ("end", end),
    ("read", read),
    ("pass", pass),
    ("pass_often", pass_often),
];

struct Chain {
    device: dm::DeviceIndex,
    io: dm::IoClient,
    function: Function,
    queue: Workqueue,
    other: Workqueue,
    passed: Arc<Completion>,
}

#[vtable]
impl dm::Target for Chain {
    const NAME: &'static CStr = c"chain";
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = ();
    /// The number of times the bio was passed on.
    type PerBio = u32;

    fn ctr(
        (): &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let path = args.required(c"missing device path")?;
        let function = args.one_of(&NAMES, c"unknown name")?;
        Ok(Ok::<_, Error>(Self {
            device: builder.get_device(path, 0)?,
            io: builder.io_client()?,
            function,
            queue: Workqueue::new(c"dm_chain", Flags::UNBOUND, 0)?,
            other: Workqueue::new(c"dm_chain_other", Flags::UNBOUND, 0)?,
            passed: Arc::pin_init(Completion::new(), GFP_KERNEL)?,
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let function = self.function;
        bio.defer(|bio| bio.queue(|target| &target.get_ref().queue, function))
    }
}

fn end(bio: dm::Bio<Chain>) {
    bio.end(Ok(()));
}

fn read(bio: dm::Bio<Chain>) {
    let target = bio.target();
    let io = target.io.clone();
    let region = dm::Region {
        device: target.device,
        sector: 0,
        n_sectors: 8,
    };
    let page = FilledPage::<0>::zeroed(Gfp::NOIO);

    // The bio of the read most likely gets the memory of this one.
    bio.end(Ok(()));
    let result = page.and_then(|mut page| io.read(region, &mut page));
    pr_info!("read: {result:?}\n");
}

fn pass(bio: dm::Bio<Chain>) {
    let passed = bio.target().passed.clone();

    bio.queue(
        |target| &target.get_ref().other,
        |bio| {
            bio.target().passed.complete_all();
            bio.end(Ok(()));
        },
    );
    passed.wait_for_completion();
    pr_info!("passed\n");
}

fn pass_often(mut bio: dm::Bio<Chain>) {
    const TIMES: u32 = 20;
    let passed = bio.target().passed.clone();

    *bio.data() += 1;
    if *bio.data() == TIMES {
        passed.complete_all();
        bio.end(Ok(()));
        return;
    }
    if *bio.data() % 2 == 0 {
        bio.queue(|target| &target.get_ref().queue, pass_often);
    } else {
        bio.queue(|target| &target.get_ref().other, pass_often);
    }
    passed.wait_for_completion();
    pr_info!("passed often\n");
}
