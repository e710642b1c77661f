//! `headwater stream`: one command per thing that can be done with a stream.
//!
//! `args` is what can be asked, `target` is where the stream is: in a data directory or on a
//! server. `input` makes messages from what is typed or piped in, `print` shows messages and
//! results. Each verb is a function in `verbs`; `compact` and `effects` have files of their own.

mod args;
mod compact;
mod effects;
mod input;
mod print;
mod summary;
mod target;
mod verbs;

use sys::Sys;
use tokio::runtime::Builder;

use self::{args::Verb, print::Printer, verbs::Session};
pub(crate) use self::{
    args::{PlaceArgs, StreamArgs},
    target::{Needs, Remote, Target},
};
use crate::failure::Failure;

/// Does one thing with one stream, or lists them.
pub(crate) fn run(args: StreamArgs) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::about("the program cannot start", error))?;
    runtime.block_on(work(args))
}

async fn work(args: StreamArgs) -> Result<(), Failure> {
    let StreamArgs { place, json, verb } = args;
    let sys = Sys::real();
    let target = Target::open(&sys, place, verb.needs()).await?;
    let session = Session { sys, target, printer: Printer::new(json) };
    let done = match verb {
        Verb::Create(args) => session.create(args).await,
        Verb::Append(args) => session.append(args).await,
        Verb::Read(args) => session.read(args).await,
        Verb::Tail(args) => session.tail(args).await,
        Verb::Head(args) => session.head(args).await,
        Verb::Close(args) => session.close(args).await,
        Verb::Fork(args) => session.fork(args).await,
        Verb::Trim(args) => session.trim(args).await,
        Verb::Compact(args) => session.compact(args).await,
        Verb::Effects(args) => session.effects(args).await,
        Verb::Delete(args) => session.delete(args).await,
        Verb::List(args) => session.list(args).await,
    };
    session.target.close().await;
    done
}
