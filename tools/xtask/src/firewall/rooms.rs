//! The table of rooms. It says what the design says, and nothing more; change both together.

/// One row: a room and what it may and must never see.
pub(super) struct Room {
    /// A folder below `crates/`; a trailing `*` stands for any ending.
    name: &'static str,
    pub(super) may_use: Reach,
    pub(super) never: &'static [&'static [Ban]],
}

/// Which rooms a room may depend on.
pub(super) enum Reach {
    Only(&'static [Edge]),
    /// Every room but the program.
    Libraries,
    Everything,
}

/// One allowed dependency.
pub(super) enum Edge {
    Full(&'static str),
    /// Only with `default-features = false`.
    Bare(&'static str),
}

/// Something a room must not be linked with.
pub(super) enum Ban {
    /// A third-party package, at any distance.
    Package(&'static str),
    /// A feature of another room, switched on by this one.
    Feature { of: &'static str, feature: &'static str },
}

/// The room that is a program and no library.
pub(super) const PROGRAM: &str = "cli";

const RUNTIME: &[Ban] = &[Ban::Package("tokio")];

const HTTP: &[Ban] = &[
    Ban::Package("axum"),
    Ban::Package("h2"),
    Ban::Package("http"),
    Ban::Package("http-body"),
    Ban::Package("hyper"),
    Ban::Package("hyper-util"),
    Ban::Package("reqwest"),
    Ban::Package("tower-http"),
    Ban::Package("ureq"),
];

const FILE_ENGINE: &[Ban] = &[Ban::Feature { of: "log", feature: "file" }];

const ROOMS: &[Room] = &[
    Room { name: "wire", may_use: Reach::Only(&[]), never: &[RUNTIME] },
    Room { name: "sys", may_use: Reach::Only(&[]), never: &[] },
    Room { name: "macros", may_use: Reach::Only(&[]), never: &[] },
    Room {
        name: "log",
        may_use: Reach::Only(&[Edge::Full("wire"), Edge::Full("sys")]),
        never: &[HTTP],
    },
    Room {
        name: "log-*",
        may_use: Reach::Only(&[Edge::Full("log"), Edge::Full("wire"), Edge::Full("sys")]),
        never: &[],
    },
    Room {
        name: "wake",
        may_use: Reach::Only(&[Edge::Full("log"), Edge::Full("wire"), Edge::Full("sys")]),
        never: &[],
    },
    Room {
        name: "client",
        may_use: Reach::Only(&[
            Edge::Full("log"),
            Edge::Full("wake"),
            Edge::Full("wire"),
            Edge::Full("sys"),
        ]),
        never: &[],
    },
    Room {
        name: "server",
        may_use: Reach::Only(&[
            Edge::Full("log"),
            Edge::Full("wake"),
            Edge::Full("wire"),
            Edge::Full("sys"),
        ]),
        never: &[],
    },
    Room { name: "state", may_use: Reach::Only(&[Edge::Full("wire")]), never: &[RUNTIME] },
    Room {
        name: "query",
        may_use: Reach::Only(&[Edge::Full("state"), Edge::Full("macros")]),
        never: &[RUNTIME, HTTP],
    },
    Room {
        name: "live",
        may_use: Reach::Only(&[
            Edge::Full("query"),
            Edge::Full("state"),
            Edge::Bare("log"),
            Edge::Full("wire"),
            Edge::Full("sys"),
        ]),
        never: &[HTTP, FILE_ENGINE],
    },
    Room {
        name: "source-*",
        may_use: Reach::Only(&[Edge::Full("live"), Edge::Full("query"), Edge::Full("sys")]),
        never: &[],
    },
    Room {
        name: "chat",
        may_use: Reach::Only(&[Edge::Bare("sys"), Edge::Full("macros")]),
        never: &[HTTP],
    },
    Room {
        name: "providers",
        may_use: Reach::Only(&[Edge::Full("chat"), Edge::Full("sys")]),
        never: &[],
    },
    Room {
        name: "agent",
        may_use: Reach::Only(&[
            Edge::Full("chat"),
            Edge::Full("live"),
            Edge::Full("query"),
            Edge::Full("state"),
            Edge::Full("log"),
            Edge::Full("wake"),
            Edge::Full("wire"),
            Edge::Full("sys"),
        ]),
        never: &[HTTP, FILE_ENGINE],
    },
    Room {
        name: "sessions",
        may_use: Reach::Only(&[
            Edge::Full("agent"),
            Edge::Full("chat"),
            Edge::Full("live"),
            Edge::Full("query"),
            Edge::Full("state"),
            Edge::Full("log"),
            Edge::Full("wake"),
            Edge::Full("server"),
            Edge::Full("client"),
            Edge::Full("wire"),
            Edge::Full("sys"),
        ]),
        never: &[FILE_ENGINE],
    },
    Room { name: "headwater", may_use: Reach::Libraries, never: &[] },
    Room { name: PROGRAM, may_use: Reach::Everything, never: &[] },
];

/// The row for a folder below `crates/`.
pub(super) fn find(folder: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| match room.name.strip_suffix('*') {
        Some(start) => folder.starts_with(start),
        None => folder == room.name,
    })
}

impl Edge {
    pub(super) const fn room(&self) -> &'static str {
        match self {
            Self::Full(room) | Self::Bare(room) => room,
        }
    }

    pub(super) const fn is_bare(&self) -> bool {
        matches!(self, Self::Bare(_))
    }
}
