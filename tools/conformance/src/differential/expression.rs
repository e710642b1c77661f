//! Random expressions over the columns in sight.
//!
//! Tame expressions only ask of a value what its kind can answer, with null and nothing taking
//! part everywhere. Wild ones also compare, add and join what does not belong together.

use serde_json::{Value, json};

use super::{
    random::Random,
    schema::{Column, Kind, value},
};

/// Whether expressions may mix types that have nothing to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taste {
    /// Every function gets what it is for.
    Tame,
    /// Anything goes that has one answer.
    Wild,
}

/// Whether a number may be one whose sum depends on the order of adding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    Exact,
    Rounded,
}

/// Makes expressions.
#[derive(Debug)]
pub(super) struct Composer<'a> {
    pub(super) random: &'a mut Random,
    pub(super) columns: &'a [Column],
    pub(super) taste: Taste,
}

const COMPARISONS: [&str; 5] = ["eq", "gt", "gte", "lt", "lte"];
const NUMBERS: &[Kind] = &[Kind::Int, Kind::Num, Kind::Ratio];
const EXACT_NUMBERS: &[Kind] = &[Kind::Int, Kind::Num];
const TEXTS: &[Kind] = &[Kind::Text, Kind::Stamp];
const SCALARS: &[Kind] =
    &[Kind::Int, Kind::Num, Kind::Ratio, Kind::Text, Kind::Stamp, Kind::Flag, Kind::Mixed];
const PATTERNS: [&str; 9] = ["%", "a%", "%b", "%a%", "_", "_b", "A_", "50\\%", ""];
const FORMATS: [&str; 3] = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%fZ", "%H"];

pub(super) fn call(function: &str, args: impl Into<Vec<Value>>) -> Value {
    json!({ "fn": function, "args": args.into() })
}

pub(super) fn literal(value: impl Into<Value>) -> Value {
    json!({ "val": value.into() })
}

pub(super) fn reference(column: &Column) -> Value {
    json!({ "ref": column.path })
}

impl Composer<'_> {
    /// A condition that some rows meet, as far as chance can tell: most random conditions are met
    /// by none, and a query without rows tests little.
    pub(super) fn filter(&mut self) -> Value {
        let strict = self.predicate(2);
        match self.random.weighted(&[2, 4, 4]) {
            0 => strict,
            1 => call("not", [strict]),
            _ => {
                let present = call("isUndefined", [reference(self.random.pick(self.columns))]);
                let loose = match self.column(NUMBERS) {
                    Some(number) => call("gte", [number, self.literal(Kind::Int)]),
                    None => call("not", [present]),
                };
                call("or", [strict, loose])
            }
        }
    }

    /// A condition: true, false or unknown.
    pub(super) fn predicate(&mut self, depth: usize) -> Value {
        let wild = usize::from(self.taste == Taste::Wild);
        let deep = usize::from(depth > 0);
        let below = depth.saturating_sub(1);
        match self.random.weighted(&[
            4,
            3,
            3,
            2,
            2,
            3,
            2,
            1,
            2,
            3 * wild,
            3 * deep,
            3 * deep,
            2 * deep,
        ]) {
            0 => {
                let pair = [self.rounded(below), self.rounded(below)];
                self.comparison(pair)
            }
            1 => {
                let pair = [self.text(below), self.text(below)];
                self.comparison(pair)
            }
            2 => self.equals_literal(),
            3 => self.among_literals(),
            4 => self.likeness(below),
            5 => self.absence(),
            6 => self.flag(),
            7 => self.among_tags(),
            8 => self.equals_column(),
            9 => {
                let pair = [self.scalar(below).0, self.scalar(below).0];
                self.comparison(pair)
            }
            10 => self.several("and", below),
            11 => self.several("or", below),
            _ => call("not", [self.predicate(below)]),
        }
    }

    /// A number or unknown.
    pub(super) fn number(&mut self, depth: usize, precision: Precision) -> Value {
        let deep = usize::from(depth > 0);
        let below = depth.saturating_sub(1);
        match self.random.weighted(&[6, 1, 2 * deep, deep, 2 * deep, 1, deep, deep, deep]) {
            0 => self.number_column(precision),
            1 => self.literal(Kind::Num),
            2 => {
                let function = *self.random.pick(&["add", "subtract"]);
                call(function, [self.number(below, precision), self.number(below, precision)])
            }
            3 => call("multiply", [self.number(below, precision), self.literal(Kind::Int)]),
            4 => self.quotient(below, precision),
            5 => {
                let measured = self.column(&[Kind::Text, Kind::Tags, Kind::Stamp]);
                call("length", [measured.unwrap_or_else(|| literal("ab"))])
            }
            6 => call("coalesce", [self.number(below, precision), self.literal(Kind::Int)]),
            7 => {
                let arms = [self.number(below, precision), self.number(below, precision)];
                self.choice(below, arms)
            }
            _ if self.taste == Taste::Wild && precision == Precision::Rounded => {
                let function = *self.random.pick(&["add", "subtract", "multiply"]);
                call(function, [self.scalar(below).0, self.scalar(below).0])
            }
            _ => self.number_column(precision),
        }
    }

    /// A text or unknown.
    pub(super) fn text(&mut self, depth: usize) -> Value {
        let deep = usize::from(depth > 0);
        let below = depth.saturating_sub(1);
        match self.random.weighted(&[6, 2, 2 * deep, 2 * deep, deep, deep, 1]) {
            0 => self.column(TEXTS).unwrap_or_else(|| self.literal(Kind::Text)),
            1 => self.literal(Kind::Text),
            2 => {
                let function = *self.random.pick(&["upper", "lower"]);
                call(function, [self.text(below)])
            }
            3 => {
                let parts: Vec<_> =
                    (0..self.random.between(1, 3)).map(|_| self.scalar(0).0).collect();
                call("concat", parts)
            }
            4 => call("coalesce", [self.text(below), self.literal(Kind::Text)]),
            5 => {
                let arms = [self.text(below), self.text(below)];
                self.choice(below, arms)
            }
            _ => self.day(),
        }
    }

    /// Any one value, and what it is.
    pub(super) fn scalar(&mut self, depth: usize) -> (Value, Kind) {
        match self.random.weighted(&[4, 2, 2, 2, 1, 1]) {
            0 => self.scalar_column(),
            1 => (self.number(depth, Precision::Exact), Kind::Num),
            2 => (self.rounded(depth), self.rounded_kind()),
            3 => (self.text(depth), Kind::Text),
            4 => (self.predicate(depth.min(1)), Kind::Flag),
            _ => {
                let (first, kind) = self.scalar_column();
                let second = self.column(&[kind]).unwrap_or_else(|| literal(Value::Null));
                (call("coalesce", [first, second]), kind)
            }
        }
    }

    pub(super) fn scalar_column(&mut self) -> (Value, Kind) {
        match self.pick_column(SCALARS) {
            Some(column) => (reference(&column), column.kind),
            None => (self.literal(Kind::Int), Kind::Int),
        }
    }

    /// One value of this kind that is there for every row.
    pub(super) fn present(&mut self, kind: Kind) -> Value {
        let (expression, fallback) = match kind {
            Kind::Text | Kind::Stamp => (self.text(1), Kind::Text),
            Kind::Flag => (self.predicate(0), Kind::Flag),
            _ => (self.number(1, Precision::Exact), Kind::Int),
        };
        call("coalesce", [expression, self.literal(fallback)])
    }

    pub(super) fn literal(&mut self, kind: Kind) -> Value {
        literal(value(kind, self.random))
    }

    /// A column of one of these kinds, if there is any.
    pub(super) fn pick_column(&mut self, kinds: &[Kind]) -> Option<Column> {
        let fitting = self.columns.iter().filter(|column| kinds.contains(&column.kind));
        let fitting: Vec<_> = fitting.collect();
        (!fitting.is_empty()).then(|| (*self.random.pick(&fitting)).clone())
    }

    fn column(&mut self, kinds: &[Kind]) -> Option<Value> {
        self.pick_column(kinds).map(|column| reference(&column))
    }

    fn rounded(&mut self, depth: usize) -> Value {
        self.number(depth, Precision::Rounded)
    }

    /// In wild expressions arithmetic may give no number at all, which no order knows.
    fn rounded_kind(&self) -> Kind {
        match self.taste {
            Taste::Tame => Kind::Ratio,
            Taste::Wild => Kind::Mixed,
        }
    }

    fn number_column(&mut self, precision: Precision) -> Value {
        let kinds = match precision {
            Precision::Exact => EXACT_NUMBERS,
            Precision::Rounded => NUMBERS,
        };
        self.column(kinds).unwrap_or_else(|| self.literal(Kind::Num))
    }

    fn comparison(&mut self, pair: [Value; 2]) -> Value {
        let function = *self.random.pick(&COMPARISONS);
        call(function, pair)
    }

    fn several(&mut self, function: &str, below: usize) -> Value {
        let parts: Vec<_> = (0..self.random.between(2, 3)).map(|_| self.predicate(below)).collect();
        call(function, parts)
    }

    fn equals_literal(&mut self) -> Value {
        let Some(column) = self.pick_column(SCALARS) else { return literal(true) };
        call("eq", [reference(&column), self.literal(column.kind)])
    }

    fn equals_column(&mut self) -> Value {
        let Some(column) = self.pick_column(SCALARS) else { return literal(true) };
        let other = self.pick_column(&[column.kind, Kind::Mixed]).filter(|other| *other != column);
        let other = match other {
            Some(other) => reference(&other),
            None => self.literal(column.kind),
        };
        call("eq", [reference(&column), other])
    }

    fn among_literals(&mut self) -> Value {
        let Some(column) = self.pick_column(SCALARS) else { return literal(false) };
        let mut list: Vec<_> =
            (0..self.random.below(4)).map(|_| value(column.kind, self.random)).collect();
        if self.random.chance(20) {
            list.push(Value::Null);
        }
        call("in", [reference(&column), literal(list)])
    }

    fn among_tags(&mut self) -> Value {
        let Some(tags) = self.column(&[Kind::Tags]) else { return self.equals_literal() };
        call("in", [self.scalar(0).0, tags])
    }

    fn likeness(&mut self, below: usize) -> Value {
        let function = *self.random.pick(&["like", "ilike"]);
        let pattern = literal(*self.random.pick(&PATTERNS));
        let matched = match self.taste {
            Taste::Wild if self.random.chance(20) => self.scalar(0).0,
            _ => self.text(below),
        };
        call(function, [matched, pattern])
    }

    fn absence(&mut self) -> Value {
        let function = *self.random.pick(&["isNull", "isUndefined"]);
        call(function, [reference(self.random.pick(self.columns))])
    }

    fn flag(&mut self) -> Value {
        match self.column(&[Kind::Flag]) {
            Some(flag) if self.random.chance(50) => flag,
            Some(flag) => call("eq", [flag, self.literal(Kind::Flag)]),
            None => self.equals_literal(),
        }
    }

    fn quotient(&mut self, below: usize, precision: Precision) -> Value {
        let divided = self.number(below, precision);
        match precision {
            Precision::Exact => call("divide", [divided, literal(*self.random.pick(&[2, 4]))]),
            Precision::Rounded => call("divide", [divided, self.number_column(precision)]),
        }
    }

    /// The first arm if a condition holds, else the second or nothing.
    fn choice(&mut self, below: usize, [first, second]: [Value; 2]) -> Value {
        let condition = match self.taste {
            Taste::Wild if self.random.chance(30) => self.scalar(0).0,
            _ => self.predicate(below),
        };
        let mut args = vec![condition, first];
        if self.random.chance(70) {
            args.push(second);
        }
        call("caseWhen", args)
    }

    fn day(&mut self) -> Value {
        let point = self.column(&[Kind::Stamp, Kind::Int]).unwrap_or_else(|| literal(0));
        match self.random.below(3) {
            0 => call("date", [point]),
            1 => call("datetime", [point]),
            _ => call("strftime", [literal(*self.random.pick(&FORMATS)), point]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn functions_in(expression: &Value, found: &mut BTreeSet<String>) {
        if let Some(function) = expression["fn"].as_str() {
            found.insert(function.to_owned());
        }
        let args = expression["args"].as_array();
        args.into_iter().flatten().for_each(|argument| functions_in(argument, found));
    }

    #[test]
    fn every_function_is_used() {
        let columns: Vec<_> = [Kind::Int, Kind::Text, Kind::Stamp, Kind::Flag, Kind::Tags]
            .map(|kind| Column::new("column", kind).under("table"))
            .into();
        let mut found = BTreeSet::new();
        for seed in 0..300 {
            let random = &mut Random::new(seed);
            let mut composer = Composer { random, columns: &columns, taste: Taste::Tame };
            functions_in(&composer.predicate(3), &mut found);
        }
        let expected = "add and caseWhen coalesce concat date datetime divide eq gt gte ilike in \
                        isNull isUndefined length like lower lt lte multiply not or strftime \
                        subtract upper";
        assert_eq!(found.into_iter().collect::<Vec<_>>().join(" "), expected);
    }
}
