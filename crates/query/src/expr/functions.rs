//! The functions of expressions.

use std::{borrow::Cow, cmp::Ordering};

use smallvec::SmallVec;

use super::{
    Expr, Item,
    bounded::{self, Parts, Text, TooLarge},
    javascript, like, moment,
};
use crate::{Semantics, value::Value};

macro_rules! functions {
    ($($name:literal $variant:ident $arity:expr,)*) => {
        /// What a call calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Function { $($variant,)* }

        impl Function {
            /// The function of this name, and how many arguments it takes.
            pub(crate) fn by_name(name: &str) -> Option<(Self, (usize, usize))> {
                match name {
                    $($name => Some((Self::$variant, $arity)),)*
                    _ => None,
                }
            }

            /// Its name.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// All names.
            pub(crate) const NAMES: &[&str] = &[$($name,)*];
        }
    };
}

const MANY: usize = usize::MAX;

functions! {
    "eq" Eq (2, 2),
    "ne" Ne (2, 2),
    "gt" Gt (2, 2),
    "gte" Gte (2, 2),
    "lt" Lt (2, 2),
    "lte" Lte (2, 2),
    "in" In (2, 2),
    "like" Like (2, 2),
    "ilike" Ilike (2, 2),
    "and" And (0, MANY),
    "or" Or (0, MANY),
    "not" Not (1, 1),
    "isNull" IsNull (1, 1),
    "isUndefined" IsUndefined (1, 1),
    "coalesce" Coalesce (0, MANY),
    "caseWhen" CaseWhen (2, MANY),
    "upper" Upper (1, 1),
    "lower" Lower (1, 1),
    "trim" Trim (1, 1),
    "length" Length (1, 1),
    "concat" Concat (0, MANY),
    "substr" Substr (2, 3),
    "replace" Replace (3, 3),
    "startsWith" StartsWith (2, 2),
    "endsWith" EndsWith (2, 2),
    "contains" Contains (2, 2),
    "add" Add (2, 2),
    "subtract" Subtract (2, 2),
    "multiply" Multiply (2, 2),
    "divide" Divide (2, 2),
    "modulo" Modulo (2, 2),
    "abs" Abs (1, 1),
    "floor" Floor (1, 1),
    "ceil" Ceil (1, 1),
    "round" Round (1, 1),
    "date" Date (1, 1),
    "datetime" Datetime (1, 1),
    "strftime" Strftime (2, 2),
    "get" Get (2, MANY),
    "array" Array (0, MANY),
    "object" Object (0, MANY),
}

/// Calls a function for a row.
///
/// # Errors
/// If it would make what is larger than a value may be.
pub(super) fn call(
    function: Function,
    args: &[Expr],
    semantics: Semantics,
    item: &Item,
) -> Result<Value, TooLarge> {
    match function {
        Function::And => Ok(every(args, item, semantics, false)),
        Function::Or => Ok(every(args, item, semantics, true)),
        Function::Coalesce => Ok(coalesce(args, item)),
        Function::CaseWhen => Ok(case_when(args, item, semantics)),
        Function::Concat => concat(args, item),
        Function::Array => Ok(Value::list(parts(args, item)?)),
        Function::Object => object(args, item),
        _ => {
            let values: SmallVec<[Cow<'_, Value>; 3]> =
                args.iter().map(|arg| arg.eval(item)).collect();
            apply(function, &values, semantics)
        }
    }
}

/// `and` ends with the first false, `or` with the first true; an unknown makes the rest unknown.
fn every(args: &[Expr], item: &Item, semantics: Semantics, decisive: bool) -> Value {
    let mut is_unknown = false;
    for arg in args {
        match *arg.eval(item) {
            Value::Bool(truth) if truth == decisive => return Value::Bool(decisive),
            Value::Bool(_) => {}
            Value::Missing | Value::Null => is_unknown = true,
            // JavaScript has it that what is not false is true, and not true is false.
            _ => is_unknown |= semantics == Semantics::Sql,
        }
    }
    if is_unknown { Value::Null } else { Value::Bool(!decisive) }
}

fn coalesce(args: &[Expr], item: &Item) -> Value {
    let mut values = args.iter().map(|arg| arg.eval(item));
    values.find(|value| !value.is_nothing()).map_or(Value::Null, Cow::into_owned)
}

fn case_when(args: &[Expr], item: &Item, semantics: Semantics) -> Value {
    let pairs = args.chunks_exact(2);
    let otherwise = pairs.remainder().first();
    let holds = |condition: &Expr| match semantics {
        Semantics::Sql => condition.holds(item),
        Semantics::Tanstack => javascript::is_truthy(&condition.eval(item)),
    };
    for pair in pairs {
        if holds(&pair[0]) {
            return pair[1].eval(item).into_owned();
        }
    }
    otherwise.map_or(Value::Null, |value| value.eval(item).into_owned())
}

/// The values of many arguments, which stop being made when they are too large together.
fn parts(args: &[Expr], item: &Item) -> Result<Vec<Value>, TooLarge> {
    let mut size = Parts::new();
    let part = |arg: &Expr| {
        let value = arg.eval(item).into_owned();
        size.add(&value).map(|()| value)
    };
    args.iter().map(part).collect()
}

fn object(args: &[Expr], item: &Item) -> Result<Value, TooLarge> {
    let values = parts(args, item)?;
    let field = |pair: &[Value]| (javascript::text(&pair[0]), pair[1].clone());
    Ok(Value::object(values.chunks_exact(2).map(field)))
}

fn concat(args: &[Expr], item: &Item) -> Result<Value, TooLarge> {
    if let [only] = args
        && let value @ (Value::Text(_) | Value::Rope(_)) = only.eval(item).as_ref()
    {
        return Ok(value.clone());
    }
    let mut text = Text::default();
    args.iter().try_for_each(|arg| text.push_value(&arg.eval(item)))?;
    Ok(text.value())
}

type Args<'a> = [Cow<'a, Value>];

fn apply(function: Function, args: &Args<'_>, semantics: Semantics) -> Result<Value, TooLarge> {
    Ok(match function {
        Function::Replace => return replace(args),
        Function::Add if semantics == Semantics::Tanstack => {
            return javascript_sum(&args[0], &args[1]);
        }
        Function::Eq => equal(&args[0], &args[1], semantics),
        Function::Ne => not(&equal(&args[0], &args[1], semantics), semantics),
        Function::Gt => compared(args, semantics, Ordering::is_gt),
        Function::Gte => compared(args, semantics, Ordering::is_ge),
        Function::Lt => compared(args, semantics, Ordering::is_lt),
        Function::Lte => compared(args, semantics, Ordering::is_le),
        Function::In => within(&args[0], &args[1], semantics),
        Function::Not => not(&args[0], semantics),
        Function::IsNull => Value::Bool(match semantics {
            Semantics::Sql => args[0].is_nothing(),
            Semantics::Tanstack => matches!(*args[0], Value::Null),
        }),
        Function::IsUndefined => Value::Bool(matches!(*args[0], Value::Missing)),
        Function::Get => args[1..].iter().fold((*args[0]).clone(), |value, step| {
            if value.is_nothing() { value } else { value.field(&javascript::text(step)) }
        }),
        Function::Add
        | Function::Subtract
        | Function::Multiply
        | Function::Divide
        | Function::Modulo => arithmetic(function, &args[0], &args[1], semantics),
        Function::Abs | Function::Floor | Function::Ceil | Function::Round => {
            rounded(function, &args[0])
        }
        Function::Date | Function::Datetime | Function::Strftime => time(function, args, semantics),
        _ => text_function(function, args, semantics),
    })
}

fn is_unknown(a: &Value, b: &Value) -> bool {
    a.is_nothing() || b.is_nothing()
}

fn equal(a: &Value, b: &Value, semantics: Semantics) -> Value {
    if is_unknown(a, b) {
        return Value::Null;
    }
    Value::Bool(match semantics {
        Semantics::Sql => a == b,
        Semantics::Tanstack => javascript::is_same(a, b),
    })
}

fn compared(args: &Args<'_>, semantics: Semantics, test: fn(Ordering) -> bool) -> Value {
    let (a, b) = (&*args[0], &*args[1]);
    if is_unknown(a, b) {
        return Value::Null;
    }
    match semantics {
        Semantics::Sql if a.kind() == b.kind() => Value::Bool(test(a.cmp(b))),
        Semantics::Sql => Value::Null,
        Semantics::Tanstack => Value::Bool(test(javascript::compare(a, b))),
    }
}

fn not(value: &Value, semantics: Semantics) -> Value {
    match (value, semantics) {
        (Value::Bool(truth), _) => Value::Bool(!truth),
        (Value::Missing | Value::Null, _) | (_, Semantics::Sql) => Value::Null,
        (_, Semantics::Tanstack) => Value::Bool(!javascript::is_truthy(value)),
    }
}

fn within(value: &Value, list: &Value, semantics: Semantics) -> Value {
    if value.is_nothing() {
        return Value::Null;
    }
    let Value::List(list) = list else {
        return if semantics == Semantics::Sql { Value::Null } else { Value::Bool(false) };
    };
    if list.iter().any(|own| matches!(equal(value, own, semantics), Value::Bool(true))) {
        return Value::Bool(true);
    }
    let is_unknown = semantics == Semantics::Sql && list.iter().any(Value::is_nothing);
    if is_unknown { Value::Null } else { Value::Bool(false) }
}

fn arithmetic(function: Function, a: &Value, b: &Value, semantics: Semantics) -> Value {
    if semantics == Semantics::Tanstack {
        return javascript_arithmetic(function, a, b);
    }
    if let (Value::Int(a), Value::Int(b)) = (a, b) {
        let exact = match function {
            Function::Add => a.checked_add(*b),
            Function::Subtract => a.checked_sub(*b),
            Function::Multiply => a.checked_mul(*b),
            Function::Modulo => a.checked_rem(*b),
            _ => None,
        };
        if let Some(exact) = exact {
            return Value::Int(exact);
        }
    }
    let (Some(a), Some(b)) = (a.as_number(), b.as_number()) else { return Value::Null };
    float_arithmetic(function, a, b)
}

fn float_arithmetic(function: Function, a: f64, b: f64) -> Value {
    match function {
        Function::Add => Value::number(a + b),
        Function::Subtract => Value::number(a - b),
        Function::Multiply => Value::number(a * b),
        Function::Divide if b != 0.0 => Value::number(a / b),
        Function::Modulo if b != 0.0 => Value::number(a % b),
        _ => Value::Null,
    }
}

/// A text if one of them is no number.
fn javascript_sum(a: &Value, b: &Value) -> Result<Value, TooLarge> {
    let is_text = |value: &Value| {
        matches!(value, Value::Text(_) | Value::Rope(_) | Value::List(_) | Value::Object(_))
    };
    if !is_text(a) && !is_text(b) {
        return Ok(javascript_arithmetic(Function::Add, a, b));
    }
    let mut text = Text::default();
    for value in [a, b] {
        if value.is_nothing() { text.push("0")? } else { text.push_value(value)? }
    }
    Ok(text.value())
}

fn javascript_arithmetic(function: Function, a: &Value, b: &Value) -> Value {
    let is_zero = matches!(b, Value::Missing | Value::Null | Value::Int(0));
    if function == Function::Divide && !is_zero {
        return Value::number(javascript::number(a) / javascript::number(b));
    }
    float_arithmetic(function, javascript::number(a), javascript::number(b))
}

fn rounded(function: Function, value: &Value) -> Value {
    if let Value::Int(number) = value {
        return match function {
            Function::Abs => number.checked_abs().map_or(Value::Null, Value::Int),
            _ => Value::Int(*number),
        };
    }
    let Some(number) = value.as_number() else { return Value::Null };
    Value::number(match function {
        Function::Abs => number.abs(),
        Function::Floor => number.floor(),
        Function::Ceil => number.ceil(),
        _ => number.round(),
    })
}

fn time(function: Function, args: &Args<'_>, semantics: Semantics) -> Value {
    let (format, value) = match args {
        [format, value] => (format.as_text(), value),
        _ => (None, &args[0]),
    };
    let Some(moment) = moment::read(value) else { return Value::Null };
    match (function, format) {
        (Function::Date, _) => moment::date(moment),
        (Function::Datetime, _) => moment::datetime(moment),
        (_, None) => Value::Null,
        (_, Some(format)) if semantics == Semantics::Sql || format == "%Y-%m-%d" => {
            moment::format(&format, moment)
        }
        _ => moment::datetime(moment),
    }
}

/// Functions of texts: `null` if something else is given, unless said otherwise.
fn text_function(function: Function, args: &Args<'_>, semantics: Semantics) -> Value {
    let text = |index: usize| args.get(index).and_then(|arg| arg.as_text());
    match function {
        Function::Length => length(&args[0], semantics),
        Function::Like | Function::Ilike => liked(function, args, semantics),
        Function::Upper | Function::Lower | Function::Trim => match text(0) {
            Some(text) => Value::from(match function {
                Function::Upper => text.to_uppercase(),
                Function::Lower => text.to_lowercase(),
                _ => text.trim().to_owned(),
            }),
            None if semantics == Semantics::Tanstack => (*args[0]).clone(),
            None => Value::Null,
        },
        Function::StartsWith | Function::EndsWith | Function::Contains => {
            let (Some(text), Some(part)) = (text(0), text(1)) else { return Value::Null };
            Value::Bool(match function {
                Function::StartsWith => text.starts_with(&*part),
                Function::EndsWith => text.ends_with(&*part),
                _ => text.contains(&*part),
            })
        }
        Function::Substr => substr(args),
        _ => Value::Null,
    }
}

fn replace(args: &Args<'_>) -> Result<Value, TooLarge> {
    match [0, 1, 2].map(|index| args[index].as_text()) {
        [Some(text), Some(from), Some(to)] => bounded::replace(&text, &from, &to),
        _ => Ok(Value::Null),
    }
}

fn length(value: &Value, semantics: Semantics) -> Value {
    match value {
        Value::List(list) => list.len().into(),
        Value::Text(_) | Value::Rope(_) => {
            let text = value.as_text().unwrap_or_default();
            match semantics {
                Semantics::Sql => text.chars().count().into(),
                Semantics::Tanstack => text.encode_utf16().count().into(),
            }
        }
        _ if semantics == Semantics::Tanstack => Value::Int(0),
        _ => Value::Null,
    }
}

fn liked(function: Function, args: &Args<'_>, semantics: Semantics) -> Value {
    if is_unknown(&args[0], &args[1]) {
        return Value::Null;
    }
    let (Some(text), Some(pattern)) = (args[0].as_text(), args[1].as_text()) else {
        return if semantics == Semantics::Sql { Value::Null } else { Value::Bool(false) };
    };
    let fits = match function {
        Function::Ilike => like::fits(&text.to_lowercase(), &pattern.to_lowercase(), semantics),
        _ => like::fits(&text, &pattern, semantics),
    };
    fits.map_or(Value::Null, Value::Bool)
}

/// From a character, counted from 1, and so many of them.
fn substr(args: &Args<'_>) -> Value {
    let (Some(text), Some(start)) = (args[0].as_text(), args[1].as_int()) else {
        return Value::Null;
    };
    let count = match args.get(2).map(|count| count.as_int()) {
        Some(Some(count)) => usize::try_from(count).unwrap_or(0),
        Some(None) => return Value::Null,
        None => usize::MAX,
    };
    let before = usize::try_from(start.saturating_sub(1)).unwrap_or(0);
    Value::from(text.chars().skip(before).take(count).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(json: &str, semantics: Semantics) -> Value {
        let list: Vec<Value> = serde_json::from_str(json).unwrap();
        let (name, values) = list.split_first().unwrap();
        let name = name.as_text().unwrap();
        let (function, (least, most)) = Function::by_name(&name).unwrap();
        assert!((least..=most).contains(&values.len()), "{json}");
        let missing = |value: &Value| match value.as_text().as_deref() {
            Some("MISSING") => Expr::Const(Value::Missing),
            _ => Expr::Const(value.clone()),
        };
        let args: Vec<_> = values.iter().map(missing).collect();
        call(function, &args, semantics, &Item::new()).unwrap()
    }

    /// One row: call, what SQL says, what JavaScript says.
    #[track_caller]
    fn check(call: &str, sql: &str, javascript: &str) {
        for (semantics, expected) in [(Semantics::Sql, sql), (Semantics::Tanstack, javascript)] {
            let expected: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(run(call, semantics), expected, "{call} in {semantics:?}");
        }
    }

    #[test]
    fn equality_and_order() {
        check(r#"["eq",1,1.0]"#, "true", "true");
        check(r#"["eq",1,"1"]"#, "false", "false");
        check(r#"["eq",null,null]"#, "null", "null");
        check(r#"["eq",[1],[1]]"#, "true", "false");
        check(r#"["ne",1,2]"#, "true", "true");
        check(r#"["gt","b","a"]"#, "true", "true");
        check(r#"["gt","10",9]"#, "null", "true");
        check(r#"["gte","a",1]"#, "null", "true");
        check(r#"["lt",1,"MISSING"]"#, "null", "null");
        check(r#"["lte",true,1]"#, "null", "true");
    }

    #[test]
    fn three_truths() {
        check(r#"["and",true,null]"#, "null", "null");
        check(r#"["and",false,null]"#, "false", "false");
        check(r#"["and",1,true]"#, "null", "true");
        check(r#"["or",true,null]"#, "true", "true");
        check(r#"["or",false,null]"#, "null", "null");
        check(r#"["or",1,false]"#, "null", "false");
        check(r#"["not",null]"#, "null", "null");
        check(r#"["not",0]"#, "null", "true");
        check(r#"["in",2,[1,null]]"#, "null", "false");
        check(r#"["in",1,[1,null]]"#, "true", "true");
        check(r#"["in",1,1]"#, "null", "false");
        check(r#"["isNull","MISSING"]"#, "true", "false");
        check(r#"["isUndefined","MISSING"]"#, "true", "true");
        check(r#"["coalesce","MISSING",null,0,1]"#, "0", "0");
        check(r#"["caseWhen",null,1,"x",2,3]"#, "3", "2");
        check(r#"["caseWhen",true,1]"#, "1", "1");
    }

    #[test]
    fn sums_and_such() {
        check(r#"["add",1,2]"#, "3", "3");
        check(r#"["add",1,null]"#, "null", "1");
        check(r#"["add","a",null]"#, "null", r#""a0""#);
        check(r#"["subtract","5",2]"#, "null", "3");
        check(r#"["multiply",1.5,2]"#, "3", "3");
        check(r#"["divide",1,0]"#, "null", "null");
        check(r#"["divide",1,4]"#, "0.25", "0.25");
        check(r#"["modulo",7,4]"#, "3", "3");
        check(
            r#"["add",9223372036854775807,1]"#,
            "9.223372036854775807e18",
            "9.223372036854775807e18",
        );
        check(r#"["abs",-2]"#, "2", "2");
        check(r#"["round",2.5]"#, "3", "3");
        check(r#"["floor",-2.5]"#, "-3", "-3");
        check(r#"["ceil","x"]"#, "null", "null");
    }

    #[test]
    fn texts() {
        check(r#"["upper","ß"]"#, r#""SS""#, r#""SS""#);
        check(r#"["lower",1]"#, "null", "1");
        check(r#"["trim"," a "]"#, r#""a""#, r#""a""#);
        check(r#"["length","😀"]"#, "1", "2");
        check(r#"["length",null]"#, "null", "0");
        check(r#"["length",[1,2]]"#, "2", "2");
        check(r#"["concat","a",null,1.5,true,[1,null]]"#, r#""a1.5true1,""#, r#""a1.5true1,""#);
        check(r#"["concat",1e21,1e-7]"#, r#""1e+211e-7""#, r#""1e+211e-7""#);
        check(r#"["like","abc","A%"]"#, "false", "false");
        check(r#"["ilike","abc","A%"]"#, "true", "true");
        check(r#"["like",1,"1"]"#, "null", "false");
        check(r#"["substr","abcd",2,2]"#, r#""bc""#, r#""bc""#);
        check(r#"["replace","aba","a","x"]"#, r#""xbx""#, r#""xbx""#);
        check(r#"["startsWith","ab","a"]"#, "true", "true");
        check(r#"["endsWith","ab","a"]"#, "false", "false");
        check(r#"["contains","ab","b"]"#, "true", "true");
    }

    #[test]
    fn the_rest() {
        check(r#"["date","2024-01-02T03:04:05Z"]"#, r#""2024-01-02""#, r#""2024-01-02""#);
        check(
            r#"["datetime",0]"#,
            r#""1970-01-01T00:00:00.000Z""#,
            r#""1970-01-01T00:00:00.000Z""#,
        );
        check(r#"["strftime","%Y",0]"#, r#""1970""#, r#""1970-01-01T00:00:00.000Z""#);
        check(r#"["get",{"a":[1,{"b":2}]},"a",1,"b"]"#, "2", "2");
        check(r#"["get",null,"a"]"#, "null", "null");
        check(r#"["array",1,"x"]"#, r#"[1,"x"]"#, r#"[1,"x"]"#);
        check(r#"["object","a",1]"#, r#"{"a":1}"#, r#"{"a":1}"#);
    }
}
