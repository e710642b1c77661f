//! The parameters of a request, and whether they make one.

use std::collections::BTreeMap;

/// Parameters by name, and who asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params {
    by_name: BTreeMap<String, String>,
    pub(crate) agent: String,
}

/// Which part of the table a client wants, and how it wants to be told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Definition {
    /// A column and the value it must have.
    pub(crate) condition: Option<(String, String)>,
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) is_full: bool,
    /// Whether its log begins without the rows there are.
    pub(crate) is_changes_only: bool,
}

impl Params {
    pub(crate) fn parse(query: &str, agent: &str) -> Self {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let by_name = pairs.map(|(name, value)| (unescaped(name), unescaped(value))).collect();
        Self { by_name, agent: agent.to_owned() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.by_name.get(name).map(String::as_str)
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// What the client wants, or what is wrong with it: a field, and why.
    pub(crate) fn definition(&self) -> Result<Definition, (&'static str, &'static str)> {
        match self.get("table") {
            Some("todos" | "public.todos") => {}
            Some(_) => return Err(("table", "Table does not exist")),
            None => return Err(("table", "can't be blank")),
        }
        let offset = self.get("offset").ok_or(("offset", "can't be blank"))?;
        let is_start = matches!(offset, "-1" | "now");
        if is_start && self.is_true("live") {
            return Err(("live", "can't be true when offset == -1"));
        }
        if !is_start && self.get("handle").is_none() {
            return Err(("handle", "can't be blank when offset != -1"));
        }
        if self.is_true("live_sse") && !self.is_true("live") {
            return Err(("live_sse", "can't be true unless live is also true"));
        }
        let is_full = match self.get("replica") {
            None | Some("default") => false,
            Some("full") => true,
            Some(_) => return Err(("replica", "is invalid")),
        };
        let columns = self.get("columns").map(columns);
        if columns.as_ref().is_some_and(|columns| !columns.iter().any(|name| name == "id")) {
            return Err(("columns", "must include all primary key columns"));
        }
        let is_changes_only = match self.get("log") {
            None | Some("full") => false,
            Some("changes_only") => true,
            Some(_) => return Err(("log", "is invalid")),
        };
        Ok(Definition { condition: self.condition()?, columns, is_full, is_changes_only })
    }

    /// The one form of condition that is understood: `column = $1`.
    fn condition(&self) -> Result<Option<(String, String)>, (&'static str, &'static str)> {
        let Some(condition) = self.get("where") else { return Ok(None) };
        let column = condition.strip_suffix(" = $1").ok_or(("where", "is not understood"))?;
        let value = self.get("params[1]").ok_or(("params", "$1 is missing"))?;
        Ok(Some((column.to_owned(), value.to_owned())))
    }
}

fn columns(list: &str) -> Vec<String> {
    list.split(',').map(|name| name.trim_matches('"').to_owned()).collect()
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit().unwrap_or(0), digit().unwrap_or(0));
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
