//! The server: bound, then run.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64},
    },
};

use log::Log;
use sys::Sys;
use wake::Subscriptions;

use crate::{
    Auth, BadAuth, BadTls, Neighbour, Settings,
    auth::{CrossSite, Guard},
    cors::Cors,
    listener::{self, Listener},
    metrics::Metrics,
    phase::Phases,
    rate::RateLimit,
    service::Service,
    shares::Shares,
    tls,
};

/// A server that has its address and takes connections once it runs.
#[derive(Debug)]
#[must_use = "a server serves while it runs"]
pub struct Server {
    listener: Listener,
    address: SocketAddr,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address cannot be had.
    #[error("{address} cannot be listened on: {error}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// Everybody in the network could read and write everything.
    #[error("{0} can be reached from other machines; set tokens, or listen on 127.0.0.1")]
    OpenToAll(SocketAddr),
    /// The system refuses the threads.
    #[error("threads cannot be started: {0}")]
    Threads(io::Error),
    /// TLS cannot be spoken.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] BadTls),
    /// Nobody could be told from anybody.
    #[error("auth cannot be set up: {0}")]
    Auth(#[from] BadAuth),
}

impl Server {
    /// Takes the address, reads certificates and keys, and is ready to run.
    ///
    /// # Errors
    /// [`BindError`] says which setting cannot be had.
    pub async fn bind(log: Arc<dyn Log>, sys: Sys, settings: Settings) -> Result<Self, BindError> {
        Self::bind_with(log, None, sys, settings).await
    }

    /// The same, with subscriptions to serve.
    ///
    /// # Errors
    /// [`BindError`] says which setting cannot be had.
    pub async fn bind_with(
        log: Arc<dyn Log>,
        subscriptions: Option<Arc<dyn Subscriptions>>,
        sys: Sys,
        settings: Settings,
    ) -> Result<Self, BindError> {
        if matches!(settings.auth, Auth::None) && !settings.listen.ip().is_loopback() {
            return Err(BindError::OpenToAll(settings.listen));
        }
        let (origins, public_url) = (&settings.cors_origins, settings.public_url.as_deref());
        let cross_site = CrossSite::new(origins, public_url);
        let guard = Guard::new(&sys, &settings.auth, settings.issuer.clone(), cross_site).await?;
        let cors = Cors::new(origins, guard.is_open());
        let tls = match &settings.tls {
            Some(tls) => Some(tls::configure(&sys, tls).await?),
            None => None,
        };
        let crew = settings.threads.map(|threads| sys.spawn.crew("connections", threads));
        let crew = crew.transpose().map_err(BindError::Threads)?;
        let refused = |error| BindError::Listen { address: settings.listen, error };
        let socket = listener::open(settings.listen).map_err(refused)?;
        let address = socket.local_addr().map_err(refused)?;
        let service = Arc::new(Service {
            guard,
            cors,
            rate: settings.limits.rate.map(RateLimit::new),
            metrics: Metrics::default(),
            phases: Phases::new(),
            poisoned: AtomicBool::new(false),
            full_until: AtomicU64::new(0),
            shares: Shares::new(&settings.limits),
            log,
            subscriptions,
            neighbour: OnceLock::new(),
            sys,
            settings,
        });
        Ok(Self { listener: Listener::new(socket, tls, crew, service), address })
    }

    /// Has `neighbour` answer every request whose path is not one of the server's own. The first
    /// neighbour stays.
    pub fn beside(self, neighbour: Arc<dyn Neighbour>) -> Self {
        self.listener.house(neighbour);
        self
    }

    /// Where it listens: the port is a real one even if the settings said 0.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`, lets answers under way finish, and returns when all are done or
    /// the drain timeout is over.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        tracing::info!(address = %self.address, "serving");
        self.listener.accept(shutdown).await;
        tracing::info!(address = %self.address, "draining");
        self.listener.drain().await;
        tracing::info!(address = %self.address, "stopped");
    }
}
