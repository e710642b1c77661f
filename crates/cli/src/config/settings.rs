//! The table of settings: every name that flags, environment and files share.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use server::{JwtAlgorithm, Origin};

use super::values::{self, AuthKind, EngineKind, Kind, LogFormat};

/// Something that can be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<T> {
    pub(crate) label: Label,
    pub(crate) kind: Kind<T>,
}

/// What people read about a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    /// As a flag, without its dashes, and as a key of a file.
    pub(crate) name: &'static str,
    /// What stands for its value in the help.
    pub(crate) value_name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) section: Section,
}

/// Where a setting stands in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    General,
    Network,
    Access,
    Limits,
    /// Not in the help: tests and people who know the engine's source use these.
    Hidden,
}

impl Label {
    /// As a variable of the environment.
    pub(crate) fn variable(&self) -> String {
        format!("HEADWATER_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }
}

macro_rules! settings {
    ($($section:ident { $(
        $constant:ident: $type:ty = $name:literal, $value_name:literal, $kind:ident, $help:literal;
    )* })*) => {
        $($(
            pub(super) const $constant: Setting<$type> = Setting {
                label: Label {
                    name: $name,
                    value_name: $value_name,
                    help: $help,
                    section: Section::$section,
                },
                kind: values::$kind,
            };
        )*)*

        /// All of them, in the order of the help.
        pub(super) const ALL: &[Label] = &[$($($constant.label),*),*];
    };
}

settings! {
    General {
        CONFIG: PathBuf = "config", "FILE", FILE,
            "Read settings from this TOML file, too";
        ENGINE: EngineKind = "engine", "ENGINE", ENGINE,
            "Keep streams in files or in memory only: file or memory [default: file]";
        DATA_DIR: PathBuf = "data-dir", "DIR", DIRECTORY,
            "Where the file engine keeps streams [default: ./.headwater]";
        THREADS: NonZeroUsize = "threads", "COUNT", THREADS,
            "Threads that serve requests [default: one per core]";
        LOG_FORMAT: LogFormat = "log-format", "FORMAT", LOG_FORMAT,
            "What the log on the standard error looks like: text or json [default: text]";
        LOG: String = "log", "FILTER", LOG_FILTER,
            "What to log, such as warn, or info,server=debug [default: info]";
    }
    Network {
        LISTEN: SocketAddr = "listen", "ADDRESS", ADDRESS,
            "Address and port to listen on [default: 127.0.0.1:4437]";
        TLS_CERT: PathBuf = "tls-cert", "FILE", FILE,
            "Certificate chain in PEM form, to speak TLS";
        TLS_KEY: PathBuf = "tls-key", "FILE", FILE,
            "Private key of that certificate, in PEM form";
        PUBLIC_URL: String = "public-url", "URL", URL,
            "What the URLs of streams begin with [default: as each client asked]";
        TRUST_PROXY: bool = "trust-proxy", "", SWITCH,
            "Believe the X-Forwarded headers of the proxy in front";
        CORS_ORIGIN: Vec<Origin> = "cors-origin", "ORIGINS", ORIGINS,
            "Web pages that may use this server: origins with commas between, or * for any that \
             has a token [default: *]";
        LONG_POLL_TIMEOUT: Duration = "long-poll-timeout", "DURATION", DURATION,
            "How long a long-poll waits for messages [default: 20s]";
        CHUNK_BYTES: usize = "chunk-bytes", "SIZE", BYTES,
            "Message bytes in one answer, at most, unless one message is larger [default: 1MiB]";
    }
    Access {
        AUTH: AuthKind = "auth", "HOW", AUTH,
            "Whom to let in: none asks nobody and needs a loopback address; keys and jwt ask for \
             a token [default: none]";
        KEYS_FILE: PathBuf = "keys-file", "FILE", FILE,
            "TOML file of keys and what each may do";
        JWT_KEY: PathBuf = "jwt-key", "FILE", FILE,
            "Secret or public key that signed tokens are verified with";
        JWT_ALGORITHM: JwtAlgorithm = "jwt-algorithm", "NAME", JWT_ALGORITHM,
            "How they are signed: hs256, rs256, es256 or eddsa";
        JWT_AUDIENCE: String = "jwt-audience", "TEXT", TEXT,
            "What their aud must be";
        JWT_ISSUER: String = "jwt-issuer", "TEXT", TEXT,
            "What their iss must be";
        JWT_LEEWAY: Duration = "jwt-leeway", "DURATION", LEEWAY,
            "How far clocks may be off: they hold this long past their exp [default: 30s]";
    }
    Limits {
        BODY_MAX: usize = "body-max", "SIZE", BODY_BYTES,
            "Bytes of one request body [default: 16MiB]";
        INFLIGHT_MAX: usize = "inflight-max", "SIZE", BYTES,
            "Bytes of all request bodies at a time [default: 256MiB]";
        CONNECTIONS_MAX: usize = "connections-max", "COUNT", COUNT,
            "Connections at a time [default: 20000, or as many as there are descriptors for]";
        RATE: NonZeroU32 = "rate", "COUNT", RATE,
            "Requests per second of one client [default: unlimited]";
    }
    Hidden {
        ENGINE_SEGMENT_BYTES: u32 = "engine-segment-bytes", "SIZE", SEGMENT_BYTES,
            "Bytes of one segment of the write-ahead log";
        ENGINE_HOT_BYTES: usize = "engine-hot-bytes", "SIZE", BYTES,
            "Bytes of the newest messages kept in memory";
        ENGINE_REQUESTS_MAX: usize = "engine-requests-max", "COUNT", COUNT,
            "Requests that may wait for the disk";
        ENGINE_COMMIT_BYTES: usize = "engine-commit-bytes", "SIZE", BYTES,
            "Bytes of one group commit";
        ENGINE_REGROUP_SEGMENTS: usize = "engine-regroup-segments", "COUNT", COUNT,
            "Full segments that wait before they are regrouped";
        ENGINE_SEGMENTS_MAX: usize = "engine-segments-max", "COUNT", COUNT,
            "Segments that may exist at once";
        ENGINE_RECLAIM_AFTER: Duration = "engine-reclaim-after", "DURATION", DURATION,
            "How long the bytes of a deleted stream may stay on an idle log";
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_differ_and_help_is_a_phrase() {
        let names: BTreeSet<_> = ALL.iter().map(|label| label.name).collect();
        assert_eq!(names.len(), ALL.len());
        for label in ALL {
            assert!(!label.help.ends_with('.'), "{}", label.name);
        }
    }

    #[test]
    fn variables_follow_names() {
        assert_eq!(DATA_DIR.label.variable(), "HEADWATER_DATA_DIR");
        assert_eq!(ENGINE_SEGMENT_BYTES.label.variable(), "HEADWATER_ENGINE_SEGMENT_BYTES");
    }
}
