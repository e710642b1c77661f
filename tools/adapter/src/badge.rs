//! Headers and parameters that change from request to request.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use client::{Badge, Extras};
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use sys::Sys;
use wake::Answer;

use crate::command::{Headers, Kind};

/// Shown with every request.
#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    sys: Sys,
    lines: Arc<Mutex<Lines>>,
}

#[derive(Debug, Default)]
struct Lines {
    headers: BTreeMap<String, Changing>,
    params: BTreeMap<String, Changing>,
    fixed: Headers,
    /// What the first request of a command carried.
    sent: Option<(Map<String, Value>, Map<String, Value>)>,
}

#[derive(Debug)]
struct Changing {
    kind: Kind,
    count: u64,
    token: String,
}

impl Sheet {
    pub(crate) fn new(sys: &Sys) -> Self {
        Self { sys: sys.clone(), lines: Arc::default() }
    }

    pub(crate) fn begin(&self, headers: Option<&Headers>) {
        let mut lines = self.lines.lock().expect("no panic while held");
        lines.fixed = headers.cloned().unwrap_or_default();
        lines.sent = None;
    }

    pub(crate) fn header(&self, name: String, kind: Kind, token: Option<String>) {
        let changing = Changing { kind, count: 0, token: token.unwrap_or_default() };
        self.lines.lock().expect("no panic while held").headers.insert(name, changing);
    }

    pub(crate) fn param(&self, name: String, kind: Kind) {
        let changing = Changing { kind, count: 0, token: String::new() };
        self.lines.lock().expect("no panic while held").params.insert(name, changing);
    }

    pub(crate) fn clear(&self) {
        *self.lines.lock().expect("no panic while held") = Lines::default();
    }

    /// What the first request of the command carried.
    pub(crate) fn sent(&self) -> (Map<String, Value>, Map<String, Value>) {
        self.lines.lock().expect("no panic while held").sent.clone().unwrap_or_default()
    }

    fn next(&self) -> Result<Extras, String> {
        let now = self.sys.clock.unix_ms().get();
        let mut lines = self.lines.lock().expect("no panic while held");
        let headers: Vec<_> =
            lines.headers.iter_mut().map(|line| line.1.next(line.0, now)).collect();
        let params: Vec<_> = lines.params.iter_mut().map(|line| line.1.next(line.0, now)).collect();
        let mut extras = Extras { params: params.clone(), ..Extras::default() };
        let fixed: Vec<_> = lines.fixed.clone().into_iter().collect();
        for (name, value) in headers.iter().chain(&fixed) {
            let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
            let value = HeaderValue::try_from(value).map_err(|error| error.to_string())?;
            extras.headers.insert(name, value);
        }
        let told = |pairs: Vec<(String, String)>| {
            pairs.into_iter().map(|(name, value)| (name, Value::String(value))).collect()
        };
        lines.sent.get_or_insert_with(|| (told(headers), told(params)));
        Ok(extras)
    }
}

impl Changing {
    fn next(&mut self, name: &str, now: u64) -> (String, String) {
        self.count += 1;
        let value = match self.kind {
            Kind::Counter => self.count.to_string(),
            Kind::Timestamp => now.to_string(),
            Kind::Token => self.token.clone(),
        };
        (name.to_owned(), value)
    }
}

impl Badge for Sheet {
    fn show(&self) -> Answer<'_, Result<Extras, String>> {
        Box::pin(std::future::ready(self.next()))
    }
}
