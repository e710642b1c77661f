//! Configuration: what a server goes by, put together from flags, environment and a file.
//!
//! `settings` is the table of everything that can be set; `values` says what each kind of value
//! looks like; `sources` finds a value and remembers where it was found; `file` reads TOML; `flags`
//! makes the command line out of the table. [`Config::resolve`] brings them together.

mod file;
mod flags;
mod settings;
mod sources;
mod values;

use std::{num::NonZeroUsize, path::PathBuf};

pub(crate) use self::{
    flags::{DevFlags, Flags},
    sources::Sources,
    values::{LogFormat, duration, keep_chunks},
};
use self::{
    settings as keys,
    values::{AuthKind, EngineKind},
};
use crate::failure::Failure;

/// Where streams are kept unless somebody says otherwise.
pub(crate) const DATA_DIR_DEFAULT: &str = "./.headwater";

/// Everything a server goes by.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) server: server::Settings,
    pub(crate) engine: Engine,
    pub(crate) logging: Logging,
}

/// Where streams are kept.
#[derive(Clone, Debug)]
pub(crate) enum Engine {
    /// In memory, until the process ends.
    Memory,
    /// In a directory.
    File { dir: PathBuf, settings: log::file::Settings },
}

/// What a server tells its operator.
#[derive(Debug)]
pub(crate) struct Logging {
    pub(crate) format: LogFormat,
    /// Which events, if said.
    pub(crate) filter: Option<String>,
}

impl Sources {
    /// True if somebody said where to listen.
    pub(crate) fn chooses_address(&self) -> Result<bool, Failure> {
        Ok(self.read(&keys::LISTEN)?.is_some())
    }
}

impl Config {
    /// Reads every setting, or says which one is wrong, where it stands, and what is allowed.
    pub(crate) fn resolve(sources: &Sources) -> Result<Self, Failure> {
        let server = server_settings(sources)?;
        refuse_open_door(&server)?;
        Ok(Self {
            server,
            engine: engine(sources)?,
            logging: Logging {
                format: sources.read(&keys::LOG_FORMAT)?.unwrap_or(LogFormat::Text),
                filter: sources.read(&keys::LOG)?,
            },
        })
    }
}

fn server_settings(sources: &Sources) -> Result<server::Settings, Failure> {
    let defaults = server::Settings::default();
    Ok(server::Settings {
        listen: sources.read(&keys::LISTEN)?.unwrap_or(defaults.listen),
        threads: Some(sources.read(&keys::THREADS)?.unwrap_or_else(cores)),
        tls: tls(sources)?,
        auth: auth(sources)?,
        public_url: sources.read(&keys::PUBLIC_URL)?,
        trust_proxy: sources.read(&keys::TRUST_PROXY)?.unwrap_or(defaults.trust_proxy),
        cors_origins: sources.read(&keys::CORS_ORIGIN)?.unwrap_or(defaults.cors_origins),
        long_poll_timeout: sources
            .read(&keys::LONG_POLL_TIMEOUT)?
            .unwrap_or(defaults.long_poll_timeout),
        chunk_bytes: sources.read(&keys::CHUNK_BYTES)?.unwrap_or(defaults.chunk_bytes),
        limits: limits(sources)?,
        ..defaults
    })
}

fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn limits(sources: &Sources) -> Result<server::Limits, Failure> {
    let defaults = server::Limits::default();
    let limits = server::Limits {
        body_bytes_max: sources.read(&keys::BODY_MAX)?.unwrap_or(defaults.body_bytes_max),
        connections_max: sources.read(&keys::CONNECTIONS_MAX)?.unwrap_or(defaults.connections_max),
        inflight_bytes_max: sources
            .read(&keys::INFLIGHT_MAX)?
            .unwrap_or(defaults.inflight_bytes_max),
        rate: sources
            .read(&keys::RATE)?
            .map(|per_second| server::Rate { per_second, burst: per_second }),
        ..defaults
    };
    // One client may hold half of it.
    if limits.inflight_bytes_max / 2 < limits.body_bytes_max {
        return Err(Failure::usage(
            "inflight-max is less than twice body-max, so no large body could ever be taken; \
             raise it",
        ));
    }
    Ok(limits)
}

fn tls(sources: &Sources) -> Result<Option<server::Tls>, Failure> {
    match (sources.read(&keys::TLS_CERT)?, sources.read(&keys::TLS_KEY)?) {
        (None, None) => Ok(None),
        (Some(certificates), Some(key)) => Ok(Some(server::Tls { certificates, key })),
        _ => Err(Failure::usage("tls-cert and tls-key go together; give both or none")),
    }
}

fn auth(sources: &Sources) -> Result<server::Auth, Failure> {
    let kind = sources.read(&keys::AUTH)?.unwrap_or(AuthKind::None);
    let keys_file = sources.read(&keys::KEYS_FILE)?;
    let jwt = jwt(sources)?;
    let missing = |what| Err(Failure::usage(format!("auth is {kind}, so {what} must be given")));
    match kind {
        AuthKind::None if keys_file.is_some() || jwt.is_some() => Err(Failure::usage(
            "keys are given, but auth is none, so nobody would be asked for one; \
             use --auth keys or --auth jwt",
        )),
        AuthKind::None => Ok(server::Auth::None),
        AuthKind::Keys if keys_file.is_none() => missing("keys-file"),
        AuthKind::Jwt if jwt.is_none() => missing("jwt-key"),
        AuthKind::Keys | AuthKind::Jwt => {
            Ok(server::Auth::Tokens(server::Tokens { keys: keys_file, jwt }))
        }
    }
}

fn jwt(sources: &Sources) -> Result<Option<server::Jwt>, Failure> {
    let algorithm = sources.read(&keys::JWT_ALGORITHM)?;
    let audience = sources.read(&keys::JWT_AUDIENCE)?;
    let issuer = sources.read(&keys::JWT_ISSUER)?;
    let leeway = sources.read(&keys::JWT_LEEWAY)?;
    match (sources.read(&keys::JWT_KEY)?, algorithm) {
        (Some(key), Some(algorithm)) => {
            let leeway = leeway.unwrap_or(server::Jwt::LEEWAY_DEFAULT);
            Ok(Some(server::Jwt { algorithm, key, audience, issuer, leeway }))
        }
        // Guessing is not safe: a public key taken for a shared secret lets everybody sign.
        (Some(_), None) => {
            Err(Failure::usage("jwt-key needs jwt-algorithm: hs256, rs256, es256 or eddsa"))
        }
        (None, None) if audience.is_none() && issuer.is_none() && leeway.is_none() => Ok(None),
        (None, _) => Err(Failure::usage("the other jwt settings need jwt-key")),
    }
}

fn refuse_open_door(settings: &server::Settings) -> Result<(), Failure> {
    let is_open = matches!(settings.auth, server::Auth::None);
    if is_open && !settings.listen.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "listening on {} with auth none would let everybody on the network read and write; \
             use --auth keys or --auth jwt, or listen on 127.0.0.1",
            settings.listen
        )));
    }
    Ok(())
}

fn engine(sources: &Sources) -> Result<Engine, Failure> {
    let dir = sources.read(&keys::DATA_DIR)?.unwrap_or_else(|| DATA_DIR_DEFAULT.into());
    let settings = engine_settings(sources)?;
    Ok(match sources.read(&keys::ENGINE)?.unwrap_or(EngineKind::File) {
        EngineKind::File => Engine::File { dir, settings },
        EngineKind::Memory => Engine::Memory,
    })
}

fn engine_settings(sources: &Sources) -> Result<log::file::Settings, Failure> {
    let defaults = log::file::Settings::default();
    let segment_bytes =
        sources.read(&keys::ENGINE_SEGMENT_BYTES)?.unwrap_or(defaults.segment_bytes);
    // A segment holds many commits, however small it is made.
    let commit_bytes_max = defaults.commit_bytes_max.min(segment_bytes as usize / 16);
    Ok(log::file::Settings {
        segment_bytes,
        hot_bytes_max: sources.read(&keys::ENGINE_HOT_BYTES)?.unwrap_or(defaults.hot_bytes_max),
        requests_max: sources.read(&keys::ENGINE_REQUESTS_MAX)?.unwrap_or(defaults.requests_max),
        commit_bytes_max: sources.read(&keys::ENGINE_COMMIT_BYTES)?.unwrap_or(commit_bytes_max),
        regroup_segments: sources
            .read(&keys::ENGINE_REGROUP_SEGMENTS)?
            .unwrap_or(defaults.regroup_segments),
        segments_max: sources.read(&keys::ENGINE_SEGMENTS_MAX)?.unwrap_or(defaults.segments_max),
        reclaim_after: sources.read(&keys::ENGINE_RECLAIM_AFTER)?.unwrap_or(defaults.reclaim_after),
    })
}
