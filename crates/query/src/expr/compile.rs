//! Resolving names: from the expressions of a query to those that can be evaluated.

use std::sync::Arc;

use smol_str::SmolStr;

use super::{Expr, Function, Item, Virtual, bounded, functions};
use crate::{
    Semantics,
    caps::{CONSTANTS_BYTES_MAX, DEPTH_MAX, EXPRESSIONS_MAX},
    catalog::{Catalog, CollectionId, Kind},
    error::QueryError,
    ir,
    record::Shape,
    suggest::short,
    value::Value,
};

/// One source of a query, as expressions see it.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) alias: SmolStr,
    pub(crate) columns: SlotColumns,
}

/// The columns of a source.
#[derive(Clone, Debug)]
pub(crate) enum SlotColumns {
    Collection(CollectionId),
    Fixed(Arc<Shape>),
    /// These, and whatever rows of open collections bring later.
    Growing(Arc<Shape>),
}

/// What the names in an expression mean.
pub(crate) struct Scope<'a> {
    pub(crate) catalog: &'a mut Catalog,
    pub(crate) slots: Vec<Slot>,
    pub(crate) semantics: Semantics,
    /// How many expressions there were.
    count: usize,
    /// What was made of constants so far.
    constants_bytes: usize,
}

/// An expression and what is known of its values.
struct Typed {
    expr: Expr,
    kind: Kind,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(catalog: &'a mut Catalog, semantics: Semantics) -> Self {
        Self { catalog, slots: Vec::new(), semantics, count: 0, constants_bytes: 0 }
    }

    /// The slot of this alias.
    pub(crate) fn slot(&self, alias: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.alias == alias)
    }

    /// Resolves an expression.
    ///
    /// # Errors
    /// If a name means nothing, or a function is given what it cannot take.
    pub(crate) fn resolve(&mut self, expr: &ir::Expr) -> Result<Expr, QueryError> {
        Ok(self.typed(expr, 0)?.expr)
    }

    /// Whether it names one of these sources.
    pub(crate) fn knows(&self, expr: &ir::Expr) -> bool {
        match expr {
            ir::Expr::Ref(path) => path.first().is_some_and(|alias| self.slot(alias).is_some()),
            _ => expr.children().iter().any(|child| self.knows(child)),
        }
    }

    fn typed(&mut self, expr: &ir::Expr, depth: usize) -> Result<Typed, QueryError> {
        self.count += 1;
        if depth > DEPTH_MAX {
            return Err(QueryError::TooDeep);
        }
        if self.count > EXPRESSIONS_MAX {
            return Err(QueryError::TooLarge);
        }
        match expr {
            ir::Expr::Val(value) => {
                Ok(Typed { kind: Kind::of(value), expr: Expr::Const(value.clone()) })
            }
            ir::Expr::Ref(path) => self.reference(path),
            ir::Expr::Call(name, args) => self.call(name, args, depth),
            ir::Expr::Aggregate(name, _) => {
                Err(QueryError::MisplacedAggregate { name: name.clone() })
            }
            ir::Expr::Include(_) => Err(QueryError::MisplacedInclude),
        }
    }

    fn reference(&mut self, path: &[SmolStr]) -> Result<Typed, QueryError> {
        let unknown = || {
            let known = self.slots.iter().map(|slot| slot.alias.clone()).collect();
            QueryError::UnknownAlias { path: path.into(), known }
        };
        let Some(first) = path.first() else { return Err(unknown()) };
        if let Some(slot) = self.slot(first) {
            return match path.get(1) {
                None => Ok(Typed { expr: Expr::Row { slot }, kind: Kind::Object }),
                Some(column) => self.column(slot, column, &path[2..]),
            };
        }
        match self.semantics {
            Semantics::Tanstack => Ok(Typed { expr: Expr::Const(Value::Missing), kind: Kind::Any }),
            // With one source there is no doubt whose column it is.
            Semantics::Sql if self.slots.len() == 1 => self.column(0, first, &path[1..]),
            Semantics::Sql => Err(unknown()),
        }
    }

    fn column(&mut self, slot: usize, name: &str, path: &[SmolStr]) -> Result<Typed, QueryError> {
        if let Some(typed) = self.virtual_column(slot, name) {
            return Ok(typed);
        }
        let columns = &self.slots[slot].columns;
        let (column, kind) = match columns {
            SlotColumns::Collection(id) => match self.catalog.column(*id, name) {
                Some(found) => found,
                None => return Err(self.unknown_column(slot, name, self.catalog.names(*id))),
            },
            SlotColumns::Fixed(shape) | SlotColumns::Growing(shape) => match shape.index(name) {
                Some(column) => (column, Kind::Any),
                None if matches!(columns, SlotColumns::Growing(_)) => {
                    return Ok(self.by_name(slot, name, path));
                }
                None if self.semantics == Semantics::Tanstack => {
                    return Ok(Typed { expr: Expr::Const(Value::Missing), kind: Kind::Any });
                }
                None => {
                    let known = (0..shape.len()).filter_map(|index| shape.name(index));
                    let known = known.map(SmolStr::new).collect();
                    return Err(self.unknown_column(slot, name, known));
                }
            },
        };
        let kind = if path.is_empty() { kind } else { Kind::Any };
        Ok(Typed { expr: Expr::Column { slot, column, path: path.into() }, kind })
    }

    /// A column without a number yet. It is looked for in each row.
    fn by_name(&self, slot: usize, name: &str, path: &[SmolStr]) -> Typed {
        let steps = std::iter::once(name).chain(path.iter().map(SmolStr::as_str));
        let steps = steps.map(|step| Expr::Const(Value::from(step)));
        let args = std::iter::once(Expr::Row { slot }).chain(steps).collect();
        let expr = Expr::Call { function: Function::Get, args, semantics: self.semantics };
        Typed { expr, kind: Kind::Any }
    }

    fn unknown_column(&self, slot: usize, name: &str, known: Vec<SmolStr>) -> QueryError {
        let alias = self.slots[slot].alias.clone();
        QueryError::UnknownColumn { alias, of: self.described(slot), column: name.into(), known }
    }

    /// What a source is, for people.
    fn described(&self, slot: usize) -> String {
        match &self.slots[slot].columns {
            SlotColumns::Collection(id) => format!("collection {:?}", self.catalog.name(*id)),
            SlotColumns::Fixed(_) | SlotColumns::Growing(_) => "a sub-query".into(),
        }
    }

    /// Two kinds that cannot meet, and where.
    fn mismatch(&self, name: &str, args: &[ir::Expr], found: &Mismatch) -> QueryError {
        let call = ir::Expr::Call(name.into(), args.to_vec());
        let source =
            |slot: usize| format!("{} is {}", self.slots[slot].alias, self.described(slot));
        QueryError::TypeMismatch {
            function: found.function.name(),
            call: short(call.to_string()),
            what: short(args[found.arg].to_string()),
            sources: (0..self.slots.len()).map(source).collect::<Vec<_>>().join(", "),
            expected: found.expected,
            found: found.kind,
        }
    }

    fn virtual_column(&self, slot: usize, name: &str) -> Option<Typed> {
        let (what, kind) = match name {
            "$synced" => (Virtual::Synced, Kind::Bool),
            "$origin" => (Virtual::Origin, Kind::Text),
            "$key" => (Virtual::Key, Kind::Any),
            "$position" => (Virtual::Position, Kind::Number),
            "$collection" => {
                let SlotColumns::Collection(id) = &self.slots[slot].columns else { return None };
                let name = Value::from(self.catalog.name(*id).clone());
                return Some(Typed { expr: Expr::Const(name), kind: Kind::Text });
            }
            _ => return None,
        };
        Some(Typed { expr: Expr::Virtual { slot, what }, kind })
    }

    fn call(&mut self, name: &str, args: &[ir::Expr], depth: usize) -> Result<Typed, QueryError> {
        let Some((function, (least, most))) = Function::by_name(name) else {
            return Err(QueryError::UnknownFunction { name: name.into() });
        };
        if args.len() < least || args.len() > most {
            return Err(QueryError::ArgumentCount {
                name: name.into(),
                given: args.len(),
                least,
                most,
            });
        }
        let written = args;
        let args =
            args.iter().map(|arg| self.typed(arg, depth + 1)).collect::<Result<Vec<_>, _>>()?;
        if self.semantics == Semantics::Sql {
            check_kinds(function, &args).map_err(|found| self.mismatch(name, written, &found))?;
        }
        let args: Box<[_]> = args.into_iter().map(|arg| arg.expr).collect();
        let is_constant = args.iter().all(|arg| matches!(arg, Expr::Const(_)));
        let expr = if is_constant {
            let refused = || QueryError::ConstantTooLarge {
                call: short(ir::Expr::Call(name.into(), written.to_vec()).to_string()),
            };
            Expr::Const(self.constant(function, &args).ok_or_else(refused)?)
        } else {
            Expr::Call { function, args, semantics: self.semantics }
        };
        Ok(Typed { expr, kind: result_kind(function) })
    }

    /// What a call of constants comes to, unless that is too large.
    fn constant(&mut self, function: Function, args: &[Expr]) -> Option<Value> {
        let value = functions::call(function, args, self.semantics, &Item::new()).ok()?;
        self.constants_bytes += bounded::size(&value).ok()?;
        (self.constants_bytes <= CONSTANTS_BYTES_MAX).then_some(value)
    }
}

/// What is known of a function's values.
pub(crate) fn result_kind(function: Function) -> Kind {
    use Function as F;
    match function {
        F::Eq
        | F::Ne
        | F::Gt
        | F::Gte
        | F::Lt
        | F::Lte
        | F::In
        | F::Like
        | F::Ilike
        | F::And
        | F::Or
        | F::Not
        | F::IsNull
        | F::IsUndefined
        | F::StartsWith
        | F::EndsWith
        | F::Contains => Kind::Bool,
        F::Upper
        | F::Lower
        | F::Trim
        | F::Concat
        | F::Substr
        | F::Replace
        | F::Date
        | F::Datetime
        | F::Strftime => Kind::Text,
        F::Length
        | F::Add
        | F::Subtract
        | F::Multiply
        | F::Divide
        | F::Modulo
        | F::Abs
        | F::Floor
        | F::Ceil
        | F::Round => Kind::Number,
        F::Array => Kind::List,
        F::Object => Kind::Object,
        F::Coalesce | F::CaseWhen | F::Get => Kind::Any,
    }
}

/// Refuses what can never be anything but unknown.
fn check_kinds(function: Function, args: &[Typed]) -> Result<(), Mismatch> {
    use Function as F;
    let mismatch =
        |arg: usize, expected| Err(Mismatch { function, arg, expected, kind: args[arg].kind });
    let demand = |kind: Kind| match args.iter().position(|arg| !arg.kind.may_be(kind)) {
        Some(arg) => mismatch(arg, kind),
        None => Ok(()),
    };
    match function {
        F::Eq | F::Ne | F::Gt | F::Gte | F::Lt | F::Lte => demand(match args[0].kind {
            Kind::Any => args[1].kind,
            kind => kind,
        }),
        F::And | F::Or | F::Not => demand(Kind::Bool),
        F::Add
        | F::Subtract
        | F::Multiply
        | F::Divide
        | F::Modulo
        | F::Abs
        | F::Floor
        | F::Ceil
        | F::Round => demand(Kind::Number),
        F::Like
        | F::Ilike
        | F::Upper
        | F::Lower
        | F::Trim
        | F::Replace
        | F::StartsWith
        | F::EndsWith
        | F::Contains => demand(Kind::Text),
        F::In if !args[1].kind.may_be(Kind::List) => mismatch(1, Kind::List),
        _ => Ok(()),
    }
}

/// An argument of the wrong kind.
struct Mismatch {
    function: Function,
    arg: usize,
    expected: Kind,
    kind: Kind,
}
