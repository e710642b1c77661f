//! What a shape is: a table, some of its rows, some of their columns.

use std::marker::PhantomData;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use live::{Loading, Retry, Row};
use sys::Sys;

use crate::{seen::ShapeHandle, shape::Shape, transport::Http};

/// What an update brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replica {
    /// The columns that changed, and the key.
    #[default]
    Default,
    /// All columns.
    Full,
}

/// How changes are waited for, once all there is has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Following {
    /// By requests that the server answers when there is something to say.
    #[default]
    LongPoll,
    /// By one answer that goes on, for many small changes in a short time. Where something between
    /// cannot bear it, requests take over.
    Events,
}

/// A shape that cannot be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadShape {
    /// The URL is none.
    #[error("{url:?} is no URL of a shape: {why}; it looks like https://host/v1/shape")]
    Url {
        /// What was given, up to its parameters.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A header that HTTP does not allow.
    #[error("the header {name:?} or its value is not one that HTTP allows")]
    Header {
        /// Its name.
        name: String,
    },
    /// A parameter that the protocol needs for itself.
    #[error("the parameter {name:?} belongs to the protocol; use the builder's methods")]
    Reserved {
        /// Its name.
        name: String,
    },
}

impl BadShape {
    /// True if the same call may succeed later. Never.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        false
    }
}

/// Describes a [`Shape`].
#[derive(Clone, Debug)]
#[must_use = "build it"]
pub struct ShapeBuilder<R> {
    sys: Sys,
    url: String,
    table: Option<String>,
    condition: Option<String>,
    columns: Vec<String>,
    values: Vec<String>,
    extras: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    replica: Replica,
    following: Following,
    loading: Loading,
    retry: Retry,
    row: PhantomData<fn() -> R>,
}

/// What every request for a shape has in common.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// The URL with the parameters it came with.
    url: String,
    params: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    /// For people.
    pub(crate) table: String,
}

/// Parameters that say where in the log a request is.
const RESERVED: [&str; 12] = [
    "table",
    "where",
    "columns",
    "replica",
    "log",
    "offset",
    "handle",
    "live",
    "live_sse",
    "cursor",
    "expired_handle",
    "cache-buster",
];

impl<R: Row> ShapeBuilder<R> {
    pub(crate) fn new(sys: &Sys, url: &str) -> Self {
        Self {
            sys: sys.clone(),
            url: url.to_owned(),
            table: None,
            condition: None,
            columns: Vec::new(),
            values: Vec::new(),
            extras: Vec::new(),
            headers: Vec::new(),
            replica: Replica::default(),
            following: Following::default(),
            loading: Loading::default(),
            // Whoever is offline comes back some day.
            retry: Retry { attempts_max: u32::MAX, ..Retry::default() },
            row: PhantomData,
        }
    }

    /// The table, perhaps with its schema: `todos`, `public.todos`. A service of your own that
    /// stands before Electric may know it without being told.
    pub fn table(mut self, table: &str) -> Self {
        self.table = Some(table.to_owned());
        self
    }

    /// Which rows, as a condition of SQL. Write `$1`, `$2` for values, and give them with
    /// [`Self::param`].
    pub fn where_(mut self, condition: &str) -> Self {
        self.condition = Some(condition.to_owned());
        self
    }

    /// The value of the next `$n` in the condition.
    pub fn param(mut self, value: impl Into<String>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Which columns; the key must be among them. Otherwise all.
    pub fn columns<N: AsRef<str>>(mut self, columns: impl IntoIterator<Item = N>) -> Self {
        self.columns = columns.into_iter().map(|name| name.as_ref().to_owned()).collect();
        self
    }

    /// What an update brings.
    pub fn replica(mut self, replica: Replica) -> Self {
        self.replica = replica;
        self
    }

    /// How changes are waited for.
    pub fn following(mut self, following: Following) -> Self {
        self.following = following;
        self
    }

    /// How much is brought. On demand, updates bring all columns, changes are waited for by
    /// long-polls, and the server is asked for the rows of each query: with its conditions where
    /// they mean the same in SQL, and else for more, of which only what is wanted is kept.
    pub fn loading(mut self, loading: Loading) -> Self {
        self.loading = loading;
        self
    }

    /// A header of every request, such as one that says who asks.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A parameter of every request that is no part of the protocol, such as a secret.
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.extras.push((name.to_owned(), value.to_owned()));
        self
    }

    /// How often and how soon a request that failed is made again. Without it, for as long as it
    /// takes.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The source.
    ///
    /// # Errors
    /// [`BadShape`] says what cannot be asked for.
    pub fn build(self) -> Result<Shape<R>, BadShape> {
        let table = self.table.clone().unwrap_or_else(|| R::NAME.to_owned());
        let (headers, url) = (self.read_headers()?, self.read_url()?);
        let definition = Definition { url, params: self.params()?, headers, table };
        Ok(Shape {
            http: Http::new(&self.sys),
            handle: ShapeHandle::new(&self.sys),
            sys: self.sys,
            definition,
            following: self.following,
            loading: self.loading,
            retry: self.retry,
            row: PhantomData,
        })
    }

    fn read_url(&self) -> Result<String, BadShape> {
        let shown = self.url.split('?').next().unwrap_or_default().to_owned();
        let bad = |why| BadShape::Url { url: shown.clone(), why };
        let uri: Uri = self.url.parse().map_err(|_| bad("it is malformed"))?;
        match uri.scheme_str() {
            Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => {}
            Some("http" | "https") => return Err(bad("it has no host")),
            _ => return Err(bad("it must begin with https:// or http://")),
        }
        Ok(self.url.split('#').next().unwrap_or_default().to_owned())
    }

    fn read_headers(&self) -> Result<HeaderMap, BadShape> {
        let read = self.headers.iter().map(|(name, value)| {
            let bad = || BadShape::Header { name: name.clone() };
            let name_read = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
            let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| bad())?;
            value.set_sensitive(true);
            Ok((name_read, value))
        });
        read.collect()
    }

    fn params(&self) -> Result<Vec<(String, String)>, BadShape> {
        let is_reserved = |name: &str| {
            RESERVED.contains(&name) || name.starts_with("params[") || name.starts_with("subset__")
        };
        if let Some((name, _)) = self.extras.iter().find(|(name, _)| is_reserved(name)) {
            return Err(BadShape::Reserved { name: name.clone() });
        }
        let mut params = self.extras.clone();
        let mut add = |name: &str, value: String| params.push((name.to_owned(), value));
        if let Some(table) = &self.table {
            add("table", table.clone());
        }
        if let Some(condition) = &self.condition {
            add("where", condition.clone());
        }
        for (index, value) in self.values.iter().enumerate() {
            add(&format!("params[{}]", index + 1), value.clone());
        }
        if !self.columns.is_empty() {
            let quoted: Vec<_> = self.columns.iter().map(|name| quoted(name)).collect();
            add("columns", quoted.join(","));
        }
        let (log, is_on_demand) = match self.loading {
            Loading::Everything => ("full", false),
            Loading::OnDemand => ("changes_only", true),
        };
        add("log", log.to_owned());
        if self.replica == Replica::Full || is_on_demand {
            add("replica", "full".to_owned());
        }
        Ok(params)
    }
}

/// A name as SQL writes it if it may be any.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Definition {
    /// The URL of one request.
    pub(crate) fn uri(
        &self,
        more: &[(&'static str, String)],
    ) -> Result<Uri, http::uri::InvalidUri> {
        let own = self.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let more = more.iter().map(|(name, value)| (*name, value.as_str()));
        let mut params: Vec<_> = own.chain(more).collect();
        // Caches know a URL by its text.
        params.sort_unstable();
        let mut uri = self.url.clone();
        let mut glue = if uri.contains('?') { '&' } else { '?' };
        for (name, value) in params {
            uri.push(glue);
            escape(name, &mut uri);
            uri.push('=');
            escape(value, &mut uri);
            glue = '&';
        }
        uri.parse()
    }
}

fn escape(text: &str, into: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                into.push(char::from(byte));
            }
            _ => {
                let hex = |nibble: u8| char::from(b"0123456789ABCDEF"[usize::from(nibble)]);
                into.extend(['%', hex(byte >> 4), hex(byte & 15)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use query::Row;
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Clone, Debug, Serialize, Deserialize, Row)]
    struct Todo {
        id: i64,
    }

    fn shape(url: &str) -> ShapeBuilder<Todo> {
        Shape::builder(&Sys::real(), url)
    }

    #[test]
    fn a_request_says_all_that_the_shape_is() {
        let shape = shape("http://h:1/v1/shape?a=b")
            .table("public.todos")
            .where_("x > $1 AND y = $2")
            .param("7")
            .param("ü&")
            .columns(["id", "odd \"name\""])
            .replica(Replica::Full)
            .query("secret", "s")
            .build()
            .unwrap();
        let uri = shape.definition.uri(&[("offset", "-1".to_owned())]).unwrap().to_string();
        let wanted = "http://h:1/v1/shape?a=b&columns=%22id%22%2C%22odd%20%22%22name%22%22%22&log=full&offset=-1\
            &params%5B1%5D=7&params%5B2%5D=%C3%BC%26&replica=full&secret=s&table=public.todos\
            &where=x%20%3E%20%241%20AND%20y%20%3D%20%242";
        assert_eq!(uri, wanted);
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        let refused = |builder: ShapeBuilder<Todo>| builder.build().unwrap_err();
        for url in ["", "h/v1", "ftp://h/", "http:///x", "http://h h/"] {
            assert!(matches!(refused(shape(url)), BadShape::Url { .. }), "{url}");
        }
        let told = refused(shape("ws://h/v1/shape?secret=s")).to_string();
        assert!(!told.contains("secret"), "{told}");
        let header = refused(shape("http://h/").header("a b", "c"));
        assert_eq!(header, BadShape::Header { name: "a b".to_owned() });
        for name in ["offset", "params[1]", "subset__where", "log"] {
            let reserved = refused(shape("http://h/").query(name, "x"));
            assert_eq!(reserved, BadShape::Reserved { name: name.to_owned() });
        }
    }
}
