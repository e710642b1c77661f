//! What the fuzz target may reach: every parser of what a client sends that is not `wire`'s.

use http::{HeaderMap, HeaderValue, header};

use crate::{
    auth, compression, etag,
    request::{self, ReadParams, Removal},
};

/// Reads text as a query and as the value of each header that has a grammar of its own.
pub fn request(query: &str, value: &str) {
    let _ = ReadParams::parse(Some(query));
    let _ = Removal::parse(Some(query));
    let _ = request::list(Some(query));
    let Ok(value) = HeaderValue::from_str(value) else { return };
    let mut headers = HeaderMap::new();
    for name in [
        header::IF_NONE_MATCH,
        header::ACCEPT_ENCODING,
        header::CONTENT_TYPE,
        header::AUTHORIZATION,
    ] {
        headers.insert(name, value.clone());
    }
    etag::read_list(&headers);
    let _ = compression::accepts_gzip(&headers);
    let _ = request::content_type(&headers);
}

/// Reads text as a file of keys.
pub fn keys(text: &str) {
    let _ = auth::parse_keys(text);
}
