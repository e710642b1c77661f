//! Routes: what a URL path names.

/// Where streams live.
pub(crate) const STREAM_ROOT: &str = "/v1/stream/";
/// The first segment below it that the protocol keeps for its own APIs.
const RESERVED: &str = "__ds";

/// What a URL path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// One stream, by its path as it stands in the URL.
    Stream(&'a str),
    /// All streams.
    Streams,
    /// The protocol's own APIs, by what follows their segment.
    Reserved(&'a str),
    /// Is the process alive?
    Health,
    /// Should it get traffic?
    Ready,
    /// What it has done so far.
    Metrics,
    /// Nothing.
    Unknown,
}

impl<'a> Route<'a> {
    pub(crate) fn of(path: &'a str) -> Self {
        match path.strip_prefix(STREAM_ROOT) {
            Some("") => Self::Streams,
            Some(RESERVED) => Self::Reserved(""),
            Some(rest) if rest.split('/').next() == Some(RESERVED) => {
                Self::Reserved(&rest[RESERVED.len() + 1..])
            }
            Some(rest) => Self::Stream(rest),
            None => match path {
                "/v1/stream" => Self::Streams,
                "/healthz" => Self::Health,
                "/readyz" => Self::Ready,
                "/metrics" => Self::Metrics,
                _ => Self::Unknown,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_one_thing() {
        let rows = [
            ("/v1/stream/a", Route::Stream("a")),
            ("/v1/stream/a/b%20c", Route::Stream("a/b%20c")),
            ("/v1/stream/__dsx", Route::Stream("__dsx")),
            ("/v1/stream/", Route::Streams),
            ("/v1/stream", Route::Streams),
            ("/v1/stream/__ds", Route::Reserved("")),
            ("/v1/stream/__ds/subscriptions/s", Route::Reserved("subscriptions/s")),
            ("/healthz", Route::Health),
            ("/v1/streams", Route::Unknown),
            ("/", Route::Unknown),
        ];
        for (path, expected) in rows {
            assert_eq!(Route::of(path), expected, "{path}");
        }
    }
}
