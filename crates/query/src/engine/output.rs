//! What is shown of a row.

use std::sync::Arc;

use crate::{
    expr::{Expr, Item},
    record::{Entry, Key, Meta, Origin, Record, Shape, Tuple},
};

/// Named expressions.
#[derive(Debug)]
pub(super) struct Select {
    pub(super) shape: Arc<Shape>,
    pub(super) exprs: Box<[Expr]>,
}

impl Select {
    pub(super) fn tuple(&self, item: &Item) -> Tuple {
        let values = self.exprs.iter().map(|expr| expr.eval(item).into_owned());
        Tuple::new(self.shape.clone(), values.collect::<Arc<[_]>>())
    }
}

/// What a row becomes in the end.
#[derive(Debug)]
pub(super) enum Output {
    /// The only entry it has.
    Same,
    /// What is selected of it.
    Select(Select),
}

impl Output {
    pub(super) fn entry(&self, key: &Key, mut item: Item) -> Option<Arc<Entry>> {
        match self {
            Self::Same => item.pop().flatten(),
            Self::Select(select) => {
                let record = Record::Tuple(select.tuple(&item));
                Some(Arc::new(Entry { key: key.clone(), record, meta: meta(&item) }))
            }
        }
    }
}

/// A row made of several is as pending as any of them, and stands where the first stands.
fn meta(item: &Item) -> Meta {
    let entries = || item.iter().flatten().map(|entry| entry.meta);
    let is_local = entries().any(|meta| meta.origin == Origin::Local);
    Meta {
        position: entries().next().and_then(|meta| meta.position),
        is_pending: entries().any(|meta| meta.is_pending),
        origin: if is_local { Origin::Local } else { Origin::Remote },
    }
}
