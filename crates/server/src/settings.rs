//! Settings: everything an operator may change, and its default.

use std::{
    net::{Ipv4Addr, SocketAddr},
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use wire::caps::{APPEND_BYTES_MAX, CHUNK_BYTES_DEFAULT};

use crate::{Auth, Issuer, Origin};

/// How a server listens, whom it lets in, and how it serves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen; `127.0.0.1:4437`.
    pub listen: SocketAddr,
    /// Threads of their own for connections; none, which leaves them to the runtime that runs the
    /// server.
    pub threads: Option<NonZeroUsize>,
    /// Certificate and key, to speak TLS; none.
    pub tls: Option<Tls>,
    /// Who may do what; [`Auth::None`], which only a loopback address accepts.
    pub auth: Auth,
    /// Whose tokens are good beside those of `auth`; nobody's. With [`Auth::None`] a client that
    /// shows no token may do everything, and one that shows a token what its scopes say.
    pub issuer: Option<Arc<Issuer>>,
    /// What stream URLs begin with, such as `https://streams.example`; taken from each request if
    /// not said.
    pub public_url: Option<String>,
    /// Whether a proxy in front sets `X-Forwarded-Proto` and `X-Forwarded-For`; no.
    pub trust_proxy: bool,
    /// Origins of web pages that may use this server, such as `https://app.example`; none. With
    /// [`Auth::None`] pages of these may do what programs may, and other sites' pages need a token
    /// for everything. With tokens, pages of all origins may show one unless some are named.
    pub cors_origins: Vec<Origin>,
    /// How long a long-poll waits for data; 20 s.
    pub long_poll_timeout: Duration,
    /// How long one SSE answer goes on before the client must come back; 60 s.
    pub sse_life: Duration,
    /// How often an idle SSE answer shows that it is alive; 15 s.
    pub sse_keep_alive: Duration,
    /// Bytes of messages in one answer; 1 MiB. A single larger message is still sent whole.
    pub chunk_bytes: usize,
    /// Bytes of messages in one SSE event; 256 KiB. A single larger message is still sent whole.
    pub event_bytes: usize,
    /// How long a shutdown waits for answers under way; 10 s.
    pub drain_timeout: Duration,
    /// How much the server takes on.
    pub limits: Limits,
}

/// PEM files of a server that speaks TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate chain, the server's own first.
    pub certificates: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// How much a server takes on; what exceeds it is refused at once.
///
/// Of connections, requests, bytes and live readers a single client, known by its token or its
/// address, may hold half, and less the more there are: no more than what is still free (ADR 28).
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of one request body; 16 MiB. More is answered with 413.
    pub body_bytes_max: usize,
    /// Time for one request body to arrive; 60 s. Longer is answered with 408.
    pub body_timeout: Duration,
    /// Bytes of all headers of a request; 64 KiB. More is answered with 431.
    pub header_bytes_max: u32,
    /// Time for the headers of a request to arrive, and for a connection to stay idle; 30 s.
    pub header_timeout: Duration,
    /// Connections at a time; 20,000. The next one is answered with 503 and closed.
    pub connections_max: usize,
    /// Requests at a time whose answers are not sent yet; 30,000. The next one is answered with
    /// 503.
    pub requests_max: usize,
    /// Bytes of request bodies at a time; 256 MiB. More is answered with 503.
    pub inflight_bytes_max: usize,
    /// Bytes of answers on their way at a time; 128 MiB. More is answered with 503.
    pub outgoing_bytes_max: usize,
    /// Long-polls and SSE answers at a time; 20,000. The next one is answered with 503.
    pub live_readers_max: usize,
    /// Requests of one client, known by its token or its address; unlimited. More is answered
    /// with 429.
    pub rate: Option<Rate>,
}

/// How often one client may ask.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// In the long run.
    pub per_second: NonZeroU32,
    /// At once, after a pause.
    pub burst: NonZeroU32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 4437).into(),
            threads: None,
            tls: None,
            auth: Auth::None,
            issuer: None,
            public_url: None,
            trust_proxy: false,
            cors_origins: Vec::new(),
            long_poll_timeout: Duration::from_secs(20),
            sse_life: Duration::from_secs(60),
            sse_keep_alive: Duration::from_secs(15),
            chunk_bytes: CHUNK_BYTES_DEFAULT,
            event_bytes: CHUNK_BYTES_DEFAULT / 4,
            drain_timeout: Duration::from_secs(10),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: BODY_BYTES_DEFAULT,
            body_timeout: Duration::from_secs(60),
            header_bytes_max: 64 * 1024,
            header_timeout: Duration::from_secs(30),
            connections_max: 20_000,
            requests_max: 30_000,
            inflight_bytes_max: 256 * 1024 * 1024,
            outgoing_bytes_max: 128 * 1024 * 1024,
            live_readers_max: 20_000,
            rate: None,
        }
    }
}

const BODY_BYTES_DEFAULT: usize = 16 * 1024 * 1024;
const _: () = assert!(BODY_BYTES_DEFAULT <= APPEND_BYTES_MAX);
