//! `headwater serve`: an engine, a server in front of it, and a quiet end for both.

mod descriptors;
mod logging;
mod signals;
mod store;

use std::io;

use server::{BindError, Server};
use sys::Sys;
use tokio::runtime::{Builder, Runtime};

use self::signals::Signals;
pub(crate) use self::{
    descriptors::fit as fit_descriptors, logging::start as start_logging, store::Store,
};
use crate::{
    config::{Config, Flags, Sources},
    crash_hook::CrashHook,
    failure::Failure,
};

/// What is logged unless somebody says otherwise.
const LOG_FILTER_DEFAULT: &str = "info";

/// Serves until a signal comes.
pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let mut config = Config::resolve(&Sources::gather(flags)?)?;
    start_logging(&config.logging, LOG_FILTER_DEFAULT);
    descriptors::fit(&mut config.server);
    let hook = CrashHook::from_environment()?;
    let sys = Sys { disk: hook.disk(), ..Sys::real() };
    runtime()?.block_on(async {
        let store = Store::open(&sys, config.engine).await?;
        store.renew_keys_on_hangup(&sys)?;
        let server =
            Server::bind_with(store.log(), store.subscriptions(), sys.clone(), config.server).await;
        let server = server.map_err(|error| cannot_bind(&error))?;
        run_until_signal(&sys, server, store, async {}).await
    })?;
    hook.report()
}

/// Serves until a signal comes, lets answers under way finish, sees to `last`, then closes the log.
pub(crate) async fn run_until_signal(
    sys: &Sys,
    server: Server,
    store: Store,
    last: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let signals = Signals::listen(sys).map_err(|error| Failure::about("signals", error))?;
    server.run(signals.first()).await;
    last.await;
    store.close().await;
    Ok(())
}

/// What runs beside the connections, which have threads of their own.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).thread_name("headwater").enable_all().build();
    runtime.map_err(|error| Failure::about("threads cannot be started", error))
}

pub(crate) fn cannot_bind(error: &BindError) -> Failure {
    if is_taken(error) {
        Failure::refused(format!("{error}; stop what listens there, or choose another --listen"))
    } else {
        Failure::refused(error)
    }
}

/// True if somebody else listens there.
pub(crate) fn is_taken(error: &BindError) -> bool {
    matches!(
        error,
        BindError::Listen { error, .. } if error.kind() == io::ErrorKind::AddrInUse
    )
}
