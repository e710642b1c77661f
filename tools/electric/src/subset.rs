//! Subsets: conditions and orders of SQL, as much of it as clients here write.

use std::{cmp::Ordering, collections::BTreeMap};

use serde::Deserialize;

use crate::table::{COLUMNS, Cells};

/// A request for some rows.
#[derive(Debug, Deserialize)]
pub(crate) struct Subset {
    #[serde(rename = "where")]
    condition: Option<String>,
    #[serde(default)]
    params: BTreeMap<String, String>,
    order_by: Option<String>,
    limit: Option<usize>,
}

impl Subset {
    /// These rows of those.
    pub(crate) fn of(&self, rows: Vec<Cells>) -> Result<Vec<Cells>, String> {
        if self.limit.is_some() && self.order_by.is_none() {
            return Err("order_by is required when limit or offset is present".to_owned());
        }
        let condition = self.condition.as_deref().unwrap_or("TRUE");
        let mut found = Vec::new();
        for row in rows {
            let mut reader = Reader { rest: condition, params: &self.params, row: &row };
            let truth = reader.either()?;
            if !reader.rest.trim().is_empty() {
                return Err(format!("unexpected {:?}", reader.rest));
            }
            if truth == Some(true) {
                found.push(row);
            }
        }
        if let Some(order) = &self.order_by {
            let order: Vec<_> = order.split(", ").map(Term::parse).collect::<Result<_, _>>()?;
            let by = |a: &Cells, b: &Cells| {
                order.iter().map(|term| term.compare(a, b)).find(|one| one.is_ne())
            };
            found.sort_by(|a, b| by(a, b).unwrap_or(Ordering::Equal));
        }
        found.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(found)
    }
}

/// One column to sort by.
struct Term {
    column: String,
    is_descending: bool,
    is_nulls_first: bool,
}

impl Term {
    fn parse(text: &str) -> Result<Self, String> {
        let (column, rest) = text.split_once(' ').unwrap_or((text, ""));
        let is_descending = rest.starts_with("DESC");
        let is_nulls_first =
            rest.ends_with("NULLS FIRST") || (is_descending && !rest.ends_with("NULLS LAST"));
        let column = column.trim_matches('"').to_owned();
        kind(&column)?;
        Ok(Self { column, is_descending, is_nulls_first })
    }

    fn compare(&self, a: &Cells, b: &Cells) -> Ordering {
        let kind = kind(&self.column).unwrap_or("text");
        let cell = |row: &Cells| row.get(&self.column).cloned().flatten();
        match (cell(a), cell(b)) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) if self.is_nulls_first => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) if self.is_nulls_first => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) => {
                let ordering = compare(kind, &a, &b);
                if self.is_descending { ordering.reverse() } else { ordering }
            }
        }
    }
}

/// Reads a condition and evaluates it on the way; what is unknown is `None`.
struct Reader<'a> {
    rest: &'a str,
    params: &'a BTreeMap<String, String>,
    row: &'a Cells,
}

impl<'a> Reader<'a> {
    fn either(&mut self) -> Result<Option<bool>, String> {
        let mut truth = self.both()?;
        while self.eat("OR ") {
            truth = or(truth, self.both()?);
        }
        Ok(truth)
    }

    fn both(&mut self) -> Result<Option<bool>, String> {
        let mut truth = self.one()?;
        while self.eat("AND ") {
            truth = or(truth.map(|truth| !truth), self.one()?.map(|one| !one)).map(|truth| !truth);
        }
        Ok(truth)
    }

    fn one(&mut self) -> Result<Option<bool>, String> {
        if self.eat("NOT ") {
            return Ok(self.one()?.map(|truth| !truth));
        }
        if self.eat("TRUE") {
            return Ok(Some(true));
        }
        if self.eat("FALSE") {
            return Ok(Some(false));
        }
        if self.eat("(") {
            let truth = self.either()?;
            return if self.eat(")") { Ok(truth) } else { Err("a ) is missing".to_owned()) };
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Option<bool>, String> {
        let column = self.word('"')?;
        let kind = kind(column)?;
        let cell = self.row.get(column).cloned().flatten();
        if self.eat("IS NULL") {
            return Ok(Some(cell.is_none()));
        }
        let operator = ["IN (", "LIKE ", "<>", "<=", ">=", "=", "<", ">"];
        let operator = operator.into_iter().find(|operator| self.eat(operator));
        let operator = operator.ok_or_else(|| format!("no operator in {:?}", self.rest))?;
        let mut values = vec![self.value()?];
        while operator == "IN (" && self.eat(",") {
            values.push(self.value()?);
        }
        if operator == "IN (" && !self.eat(")") {
            return Err("a ) is missing".to_owned());
        }
        let Some(cell) = cell else { return Ok(None) };
        let ordering = compare(kind, &cell, &values[0]);
        Ok(Some(match operator {
            "IN (" => values.iter().any(|value| compare(kind, &cell, value).is_eq()),
            "LIKE " => is_like(&cell, &values[0]),
            "=" => ordering.is_eq(),
            "<>" => ordering.is_ne(),
            "<" => ordering.is_lt(),
            "<=" => ordering.is_le(),
            ">" => ordering.is_gt(),
            _ => ordering.is_ge(),
        }))
    }

    fn value(&mut self) -> Result<String, String> {
        if self.eat("TRUE") {
            return Ok("true".to_owned());
        }
        if !self.eat("$") {
            return Err(format!("no value in {:?}", self.rest));
        }
        let end = self.rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.params.get(number).cloned().ok_or_else(|| format!("${number} is missing"))
    }

    fn word(&mut self, quote: char) -> Result<&'a str, String> {
        let start = self.rest.trim_start();
        let inner = start.strip_prefix(quote).ok_or_else(|| format!("no column in {start:?}"))?;
        let (word, rest) = inner.split_once(quote).ok_or("a name does not end")?;
        self.rest = rest;
        Ok(word)
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn kind(column: &str) -> Result<&'static str, String> {
    let found = COLUMNS.into_iter().find(|(name, ..)| *name == column);
    found.map(|(_, kind, _)| kind).ok_or_else(|| format!("unknown reference {column}"))
}

fn compare(kind: &str, a: &str, b: &str) -> Ordering {
    let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
    match kind {
        "int8" => a.parse::<i64>().ok().cmp(&b.parse::<i64>().ok()),
        "float8" | "numeric" => number(a).total_cmp(&number(b)),
        "bool" => a.starts_with('t').cmp(&b.starts_with('t')),
        _ => a.cmp(b),
    }
}

fn is_like(text: &str, pattern: &str) -> bool {
    match pattern.split_once('%') {
        None => text == pattern,
        Some((start, "")) => text.starts_with(start),
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices().any(|(at, _)| is_like(&text[at..], rest)) || is_like("", rest)
        }),
    }
}
