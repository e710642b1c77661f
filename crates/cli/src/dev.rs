//! `headwater dev`: a server to play with, and a welcome that says how.

use std::io;

use server::Server;
use sys::Sys;

use crate::{
    config::{Config, DevFlags, Engine, Sources},
    failure::Failure,
    output,
    serve::{self, Store},
};

/// Ports tried after the usual one.
const PORTS_TRIED_MAX: u16 = 20;
/// People at a terminal need not read about every connection.
const LOG_FILTER_DEFAULT: &str = "warn";

/// Serves until Ctrl-C.
pub(crate) fn run(flags: DevFlags) -> Result<(), Failure> {
    let sources = Sources::gather(flags.0)?;
    let ports = if sources.chooses_address()? { 0 } else { PORTS_TRIED_MAX };
    let config = Config::resolve(&sources)?;
    serve::start_logging(&config.logging, LOG_FILTER_DEFAULT);
    let place = place(&config.engine);
    serve::runtime()?.block_on(async {
        let sys = Sys::real();
        let store = Store::open(&sys, config.engine).await?;
        store.renew_keys_on_hangup(&sys)?;
        let usual_port = config.server.listen.port();
        let scheme = if config.server.tls.is_some() { "https" } else { "http" };
        let server = bind_near(&sys, &store, config.server, ports).await?;
        let url = format!("{scheme}://{}", server.local_addr());
        let taken =
            (server.local_addr().port() != usual_port && usual_port != 0).then_some(usual_port);
        output::raw(welcome(&url, &place, taken, Ink::for_terminal()).as_bytes())?;
        serve::run_until_signal(&sys, server, store).await
    })
}

/// Takes the address, or one of the next `ports` if that is taken.
async fn bind_near(
    sys: &Sys,
    store: &Store,
    mut settings: server::Settings,
    ports: u16,
) -> Result<Server, Failure> {
    let first = settings.listen.port();
    let last = first.saturating_add(ports);
    loop {
        let port = settings.listen.port();
        match bind(sys, store, settings.clone()).await {
            Ok(server) => return Ok(server),
            Err(error) if serve::is_taken(&error) && port < last => {
                settings.listen.set_port(port + 1);
            }
            Err(error) => return Err(serve::cannot_bind(&error)),
        }
    }
}

async fn bind(
    sys: &Sys,
    store: &Store,
    settings: server::Settings,
) -> Result<Server, server::BindError> {
    let subscriptions = store.subscriptions();
    Server::bind_with(store.log(), subscriptions, sys.clone(), settings).await
}

/// Where the streams are, for people.
fn place(engine: &Engine) -> String {
    match engine {
        Engine::Memory => "in memory, until this ends".to_owned(),
        Engine::File { dir, .. } => format!("in {}", dir.display()),
    }
}

/// How words are made to stand out, where that can be seen.
#[derive(Clone, Copy, Debug)]
struct Ink {
    bold: &'static str,
    faint: &'static str,
    plain: &'static str,
}

impl Ink {
    const NONE: Self = Self { bold: "", faint: "", plain: "" };

    fn for_terminal() -> Self {
        if output::is_colourful(&io::stdout()) {
            Self { bold: "\x1b[1;36m", faint: "\x1b[2m", plain: "\x1b[0m" }
        } else {
            Self::NONE
        }
    }
}

fn welcome(url: &str, place: &str, taken_port: Option<u16>, ink: Ink) -> String {
    let Ink { bold, faint, plain } = ink;
    let taken = match taken_port {
        Some(port) => format!(" (port {port} is taken)"),
        None => String::new(),
    };
    let stream = format!("{url}/v1/stream/hello");
    let json = "-H 'Content-Type: application/json'";
    format!(
        "
  Headwater {version} is at {bold}{url}{plain}{taken}
  Streams are kept {place}. Ctrl-C ends the server.

  {faint}Make a stream of JSON messages, append one, and follow it live:{plain}

  curl -X PUT {json} {stream}
  curl -X POST {json} -d '{{\"text\":\"hi\"}}' {stream}
  curl -N '{stream}?offset=-1&live=sse'

",
        version = env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_welcome_is_short_and_plain_without_ink() {
        let text = welcome("http://127.0.0.1:4438", "in ./.headwater", Some(4437), Ink::NONE);
        assert!(text.lines().count() < 15, "{text}");
        assert!(!text.contains('\x1b'), "{text}");
        assert!(text.contains("at http://127.0.0.1:4438 (port 4437 is taken)"), "{text}");
    }
}
