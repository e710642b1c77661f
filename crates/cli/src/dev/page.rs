//! The page: files that were put into the program when it was built, and how they are served.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use sessions::SessionId;
use sys::Sys;

/// A file of the page.
#[derive(Debug)]
struct File {
    name: &'static str,
    tag: &'static str,
    bytes: &'static [u8],
}

/// All of them; none if the page was not built.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// What is shown without a page.
static MISSING: &str = include_str!("missing.html");

/// Whatever the page loads, it loads from here.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const MISSING_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";
/// The name of a file with a hash in it never gets another content.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const ASK_AGAIN: &str = "no-cache";

/// Whether there is a page to show.
pub(super) fn is_built() -> bool {
    !FILES.is_empty()
}

/// Answers a request for the page or a part of it.
pub(super) fn answer(
    sys: &Sys,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Response<Bytes> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let name = path.trim_start_matches('/');
    let is_session = |name: &str| {
        let id = name.strip_prefix("s/").map(str::parse::<SessionId>);
        id.is_some_and(|id| id.is_ok())
    };
    match name {
        "" => redirect(&format!("/s/{}", SessionId::draw(&sys.chance))),
        _ if is_session(name) && !is_built() => missing(),
        _ if is_session(name) => find("index.html").map_or_else(missing, |it| file(it, headers)),
        "index.html" => plain(StatusCode::NOT_FOUND, "the page is at /\n"),
        _ => match find(name) {
            Some(found) => file(found, headers),
            None => plain(StatusCode::NOT_FOUND, "there is nothing here; the page is at /\n"),
        },
    }
}

fn find(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}

fn file(file: &'static File, headers: &HeaderMap) -> Response<Bytes> {
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let is_known = known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|tags| tags.split(','))
        .any(|tag| tag.trim().trim_start_matches("W/") == file.tag);
    let mut response = Response::new(match is_known {
        true => Bytes::new(),
        false => Bytes::from_static(file.bytes),
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let keep = if file.name.starts_with("assets/") { FOR_EVER } else { ASK_AGAIN };
    set(&mut response, header::CONTENT_TYPE, content_type(file.name));
    set(&mut response, header::CACHE_CONTROL, keep);
    set(&mut response, header::ETAG, file.tag);
    set(&mut response, header::CONTENT_SECURITY_POLICY, POLICY);
    set(&mut response, header::REFERRER_POLICY, "no-referrer");
    response
}

fn missing() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(MISSING.as_bytes()));
    set(&mut response, header::CONTENT_TYPE, content_type("index.html"));
    set(&mut response, header::CACHE_CONTROL, "no-store");
    set(&mut response, header::CONTENT_SECURITY_POLICY, MISSING_POLICY);
    response
}

fn redirect(place: &str) -> Response<Bytes> {
    let mut response = plain(StatusCode::SEE_OTHER, "");
    if let Ok(place) = HeaderValue::from_str(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    set(&mut response, header::CACHE_CONTROL, "no-store");
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(text.as_bytes()));
    *response.status_mut() = status;
    set(&mut response, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    response
}

fn set(response: &mut Response<Bytes>, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" | "webmanifest" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Response<Bytes> {
        answer(&Sys::real(), &Method::GET, path, &HeaderMap::new())
    }

    #[test]
    fn the_root_leads_to_a_new_session() {
        let (one, two) = (get("/"), get("/"));
        assert_eq!(one.status(), StatusCode::SEE_OTHER);
        let place = one.headers()[header::LOCATION].to_str().unwrap();
        assert!(place.starts_with("/s/"), "{place}");
        assert_ne!(one.headers()[header::LOCATION], two.headers()[header::LOCATION]);
        let shown = get(place);
        assert_eq!(shown.status(), StatusCode::OK);
        let policy = shown.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("frame-ancestors 'none'"));
    }

    #[test]
    fn nothing_else_is_there() {
        for path in ["/s/", "/s/a/b", "/s/..%2f", "/x", "/assets/", "/assets/../x", "/index.html"] {
            assert_eq!(get(path).status(), StatusCode::NOT_FOUND, "{path}");
        }
        let post = answer(&Sys::real(), &Method::POST, "/", &HeaderMap::new());
        assert_eq!(post.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[test]
    fn files_are_kept_by_their_tags() {
        for file in FILES {
            let place = match file.name {
                "index.html" => "/s/a".to_owned(),
                name => format!("/{name}"),
            };
            let shown = get(&place);
            assert_eq!(shown.status(), StatusCode::OK, "{place}");
            let tag = shown.headers()[header::ETAG].clone();
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, tag)]);
            let again = answer(&Sys::real(), &Method::GET, &place, &headers);
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        }
    }
}
