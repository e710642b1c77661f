//! `headwater dev`: a server to play with, a session to talk in, and a welcome that says how.

mod house;
mod page;
mod secret;

use std::{cmp::Reverse, io, sync::Arc};

use agent::{Home, rows::KeepChunks, session::Sessions};
use log::{List, Listed, Log};
use server::{Auth, Issuer, Server};
use sessions::{Actions, Door, Fleet, FleetSettings, Pass, SessionId};
use sys::Sys;
use wire::Offset;

use self::house::House;
use crate::{
    config::{Config, DevFlags, Engine, Sources},
    failure::Failure,
    output,
    serve::{self, Store},
    session::{self, AGENT, Choice},
};

/// How those of our own begin.
const SESSIONS_PREFIX: &str = "main/sessions/";
/// Sessions that are told of.
const EARLIER_MAX: usize = 3;
/// Ports tried after the usual one.
const PORTS_TRIED_MAX: u16 = 20;
/// People at a terminal need not read about every connection.
const LOG_FILTER_DEFAULT: &str = "warn";

/// Serves until Ctrl-C.
pub(crate) fn run(flags: DevFlags) -> Result<(), Failure> {
    let DevFlags { flags, model, keep_chunks } = flags;
    let sources = Sources::gather(flags)?;
    let ports = if sources.chooses_address()? { 0 } else { PORTS_TRIED_MAX };
    let mut config = Config::resolve(&sources)?;
    serve::start_logging(&config.logging, LOG_FILTER_DEFAULT);
    serve::fit_descriptors(&mut config.server);
    let place = place(&config.engine);
    serve::runtime()?.block_on(async {
        let sys = Sys::real();
        let choice = Choice::make(&sys, model.as_deref()).await?;
        let store = Store::open(&sys, config.engine.clone()).await?;
        store.renew_keys_on_hangup(&sys)?;
        // Where tokens are asked for, they come from whoever runs the server.
        let issuer = match config.server.auth {
            Auth::None => Some(Arc::new(secret::issuer(&sys, &config.engine).await?)),
            Auth::Tokens(_) => None,
        };
        config.server.issuer = issuer.clone();
        let usual_port = config.server.listen.port();
        let scheme = if config.server.tls.is_some() { "https" } else { "http" };
        let server = bind_near(&sys, &store, config.server, ports).await?;
        let address = server.local_addr();
        let actions = Actions::for_agent(&sys, store.log(), AGENT);
        let earlier = earlier(&*store.log()).await?;
        let session = SessionId::draw(&sys.chance);
        actions.create(&session).await.map_err(Failure::refused)?;
        let fleet = launch(&sys, actions.sessions(), choice.clone(), keep_chunks)?;
        let server = server.beside(Arc::new(house(&sys, actions, issuer)));
        let taken = (address.port() != usual_port && usual_port != 0).then_some(usual_port);
        let url = format!("{scheme}://{address}");
        let (session, place, model) = (&session, &place, &choice.why);
        let said = Welcome { url: &url, session, earlier: &earlier, place, model, taken };
        output::raw(said.text(Ink::for_terminal()).as_bytes())?;
        serve::run_until_signal(&sys, server, store, fleet.shutdown()).await
    })
}

/// The latest sessions in which something was said, of all there are, page by page.
async fn earlier(log: &dyn Log) -> Result<Vec<SessionId>, Failure> {
    let mut list = List { prefix: SESSIONS_PREFIX.to_owned(), ..List::default() };
    let mut latest: Vec<Listed> = Vec::new();
    loop {
        let page = log.list(list.clone()).await;
        let page = page.map_err(|error| Failure::about("sessions", error))?;
        let is_used =
            |it: &Listed| it.head.tail != Offset::START && SessionId::of(&it.path).is_some();
        latest.extend(page.streams.into_iter().filter(is_used));
        latest.sort_by_key(|stream| Reverse(stream.head.incarnation.get()));
        latest.truncate(EARLIER_MAX);
        match page.next {
            Some(next) => list.after = Some(next),
            None => break,
        }
    }
    Ok(latest.iter().filter_map(|stream| SessionId::of(&stream.path)).collect())
}

fn house(sys: &Sys, actions: Actions, issuer: Option<Arc<Issuer>>) -> House {
    let door = Door::new(sys, actions);
    let door = match issuer {
        Some(issuer) => door.with_pass(Pass::new(issuer)),
        None => door,
    };
    House { sys: sys.clone(), door }
}

/// Runs the agents of all sessions.
fn launch(
    sys: &Sys,
    sessions: &Sessions,
    choice: Choice,
    keep_chunks: KeepChunks,
) -> Result<Fleet, Failure> {
    let (owned, shared) = (sys.clone(), sessions.clone());
    let start = move |id: SessionId, lease| {
        let (sys, agent) = (owned.clone(), session::agent(choice.clone()).lease(lease));
        let agent = agent.session(shared.log().clone(), id.path().clone()).sessions(&shared);
        async move { agent.start(&sys).await }
    };
    // Only this process has the store open.
    let home = Some(Home::draw(&sys.chance));
    let settings = FleetSettings { home, keep_chunks, ..FleetSettings::default() };
    let fleet = Fleet::launch(sys, sessions, AGENT, settings, start);
    fleet.map_err(|error| Failure::about("sessions cannot be watched", error))
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

/// What people read first.
struct Welcome<'a> {
    url: &'a str,
    session: &'a SessionId,
    earlier: &'a [SessionId],
    place: &'a str,
    model: &'a str,
    /// A port that was not free.
    taken: Option<u16>,
}

impl Welcome<'_> {
    fn text(&self, Ink { bold, faint, plain }: Ink) -> String {
        let Self { url, session, earlier, place, model, taken } = self;
        let earlier = earlier.iter().map(|id| format!("  Earlier:    {url}/s/{id}\n"));
        let earlier: String = earlier.collect();
        let taken = taken.map(|port| format!(" (port {port} is taken)")).unwrap_or_default();
        let stream = format!("{url}/v1/stream/hello");
        let json = "-H 'Content-Type: application/json'";
        format!(
            "
  Talk here:  {bold}{url}/s/{session}{plain}{taken}
{earlier}  The model:  {model}

  Headwater {version} keeps everything {place}. Ctrl-C ends it.
  {faint}Streams alone: make one, append to it, and follow it live:{plain}

  curl -X PUT {json} {stream}
  curl -X POST {json} -d '{{\"text\":\"hi\"}}' {stream}
  curl -N '{stream}?offset=-1&live=sse'

",
            version = env!("CARGO_PKG_VERSION"),
        )
    }
}

#[cfg(test)]
mod tests {
    use wire::caps::LIST_PAGE_MAX;

    use super::*;

    #[test]
    fn the_welcome_is_short_and_plain_without_ink() {
        let session = &"calm-otter-1".parse().unwrap();
        let (url, place, model) = ("http://127.0.0.1:4438", "in ./.headwater", "scripted");
        let earlier = &["deep-brook-2".parse().unwrap()];
        let text = Welcome { url, session, earlier, place, model, taken: Some(4437) };
        let text = text.text(Ink::NONE);
        assert!(text.lines().count() < 16, "{text}");
        assert!(text.contains("  Earlier:    http://127.0.0.1:4438/s/deep-brook-2\n"), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
        assert!(
            text.contains("http://127.0.0.1:4438/s/calm-otter-1 (port 4437 is taken)"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn the_latest_sessions_are_found_among_more_than_a_page_of_names() {
        let sys = Sys::real();
        let log: Arc<dyn Log> = Arc::new(log::MemoryLog::new(&sys));
        let actions = Actions::for_agent(&sys, log.clone(), AGENT);
        let mut said = Vec::new();
        for number in 0..LIST_PAGE_MAX + 2 {
            let session: SessionId = format!("s{number:05}").parse().unwrap();
            actions.create(&session).await.unwrap();
            said.push(session);
        }
        // Those that were never used are not told of; of the others, the newest are.
        for index in [3, LIST_PAGE_MAX, LIST_PAGE_MAX + 1] {
            let say = sessions::Deed::Say(sessions::Say::named("m", "hello"));
            actions.act(&said[index], "ada", say).await.unwrap();
        }
        let expected = [LIST_PAGE_MAX + 1, LIST_PAGE_MAX, 3].map(|index| said[index].clone());
        assert_eq!(earlier(&*log).await.unwrap(), expected);
    }
}
