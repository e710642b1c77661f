//! A list of values that is cheap to clone and cheap to change in one place.

use std::{fmt, mem, sync::Arc};

use smallvec::SmallVec;

use super::Value;

/// Values in order. Clones share what is long: changing one place of a long list copies one block,
/// not the list.
#[derive(Clone, Default)]
pub struct List(Arc<Values>);

#[derive(Clone)]
enum Values {
    /// Two: the keys of joined rows are pairs.
    Pair([Value; 2]),
    /// All of them.
    Few(SmallVec<[Value; 1]>),
    /// Block by block.
    Many { blocks: Vec<Arc<Vec<Value>>>, len: usize },
}

impl Default for Values {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

const BLOCK_MAX: usize = 64;

const _: () = assert!(size_of::<Values>() == 48, "a pair takes no more than its values");

impl List {
    /// Two values.
    pub(crate) fn pair(values: [Value; 2]) -> Self {
        Self(Arc::new(Values::Pair(values)))
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        match &*self.0 {
            Values::Pair(values) => values.len(),
            Values::Few(values) => values.len(),
            Values::Many { len, .. } => *len,
        }
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at this place.
    #[must_use]
    pub fn get(&self, mut index: usize) -> Option<&Value> {
        let (few, blocks) = self.parts();
        if blocks.is_empty() {
            return few.get(index);
        }
        for block in blocks {
            match block.get(index) {
                Some(value) => return Some(value),
                None => index -= block.len(),
            }
        }
        None
    }

    /// In order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Value> {
        let (few, blocks) = self.parts();
        few.iter().chain(blocks.iter().flat_map(|block| block.iter()))
    }

    /// True if both are one list in memory.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A short list is in the first part, a long one in the second.
    pub(super) fn parts(&self) -> (&[Value], &[Arc<Vec<Value>>]) {
        match &*self.0 {
            Values::Pair(values) => (values, &[]),
            Values::Few(values) => (values, &[]),
            Values::Many { blocks, .. } => (&[], blocks),
        }
    }

    /// Where a value is in a list that is sorted, or where it belongs.
    pub(crate) fn search(&self, value: &Value) -> Result<usize, usize> {
        let (few, blocks) = self.parts();
        if blocks.is_empty() {
            return few.binary_search(value);
        }
        let is_before = |block: &Arc<Vec<Value>>| block.last().is_some_and(|last| last < value);
        let at = blocks.partition_point(is_before);
        let before: usize = blocks[..at].iter().map(|block| block.len()).sum();
        let within = blocks.get(at).map_or(Err(0), |block| block.binary_search(value));
        within.map(|index| before + index).map_err(|index| before + index)
    }

    /// Puts a value at this place, which must not lie beyond the end.
    pub(crate) fn insert(&mut self, index: usize, value: Value) {
        match Arc::make_mut(&mut self.0).unpaired() {
            Values::Few(values) if values.len() < BLOCK_MAX => values.insert(index, value),
            values => {
                values.split();
                values.insert(index, value);
            }
        }
    }

    /// Changes the value at this place.
    pub(crate) fn set(&mut self, index: usize, value: Value) {
        match Arc::make_mut(&mut self.0) {
            Values::Pair(values) => values[index] = value,
            Values::Few(values) => values[index] = value,
            Values::Many { blocks, .. } => {
                let (at, within) = place(blocks, index);
                Arc::make_mut(&mut blocks[at])[within] = value;
            }
        }
    }

    /// Takes the value out of this place.
    pub(crate) fn remove(&mut self, index: usize) {
        match Arc::make_mut(&mut self.0).unpaired() {
            Values::Pair(_) => {}
            Values::Few(values) => drop(values.remove(index)),
            Values::Many { blocks, len } => {
                let (at, within) = place(blocks, index);
                let block = Arc::make_mut(&mut blocks[at]);
                block.remove(within);
                if block.is_empty() {
                    blocks.remove(at);
                }
                *len -= 1;
            }
        }
    }
}

impl Values {
    /// From here on there may be more or fewer than two.
    fn unpaired(&mut self) -> &mut Self {
        if let Self::Pair(values) = self {
            *self = Self::Few(mem::take(values).into_iter().collect());
        }
        self
    }

    /// From here on there are blocks.
    fn split(&mut self) {
        if let Self::Few(values) = self {
            let (len, values) = (values.len(), mem::take(values).into_vec());
            *self = Self::Many { blocks: vec![Arc::new(values)], len };
        }
    }

    /// Puts a value into its block.
    fn insert(&mut self, index: usize, value: Value) {
        let Self::Many { blocks, len } = self else { return };
        *len += 1;
        if blocks.is_empty() {
            blocks.push(Arc::default());
        }
        let (at, within) = place(blocks, index);
        let block = Arc::make_mut(&mut blocks[at]);
        block.insert(within, value);
        if block.len() > BLOCK_MAX {
            // A list that only grows at its end keeps full blocks behind it.
            let middle = if within + 1 == block.len() { BLOCK_MAX } else { BLOCK_MAX / 2 };
            let rest = block.split_off(middle);
            blocks.insert(at + 1, Arc::new(rest));
        }
    }
}

/// Which block, and where in it. The end belongs to the last block.
fn place(blocks: &[Arc<Vec<Value>>], mut index: usize) -> (usize, usize) {
    let last = blocks.len().saturating_sub(1);
    for (at, block) in blocks.iter().enumerate() {
        if index < block.len() || at == last {
            return (at, index);
        }
        index -= block.len();
    }
    (0, index)
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        let mut values = values.into_iter();
        let few: SmallVec<[_; 2]> = values.by_ref().take(BLOCK_MAX).collect();
        let few = match few.into_inner() {
            Ok(pair) => return Self::pair(pair),
            Err(few) => few.into_vec(),
        };
        if few.len() < BLOCK_MAX {
            return Self(Arc::new(Values::Few(few.into_iter().collect())));
        }
        let (mut blocks, mut len) = (vec![Arc::new(few)], BLOCK_MAX);
        loop {
            let block: Vec<_> = values.by_ref().take(BLOCK_MAX).collect();
            if block.is_empty() {
                return Self(Arc::new(Values::Many { blocks, len }));
            }
            len += block.len();
            blocks.push(Arc::new(block));
        }
    }
}

/// Blocks that are shared are not looked at.
impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        if self.is_same(other) || self.len() != other.len() {
            return self.is_same(other);
        }
        let ((few, blocks), (other_few, other_blocks)) = (self.parts(), other.parts());
        let is_alike = blocks.len() == other_blocks.len()
            && blocks.iter().zip(other_blocks).all(|(a, b)| a.len() == b.len());
        if !is_alike {
            return self.iter().eq(other.iter());
        }
        let mut pairs = blocks.iter().zip(other_blocks);
        few == other_few && pairs.all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
    }
}

impl Eq for List {}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_vector_and_clones_stay_as_they_were(
            steps in prop::collection::vec((0..3u8, any::<prop::sample::Index>()), 0..400),
        ) {
            let (mut list, mut model) = (List::default(), Vec::new());
            for (n, (step, at)) in steps.into_iter().enumerate() {
                let (earlier, was) = (list.clone(), model.clone());
                let value = Value::Int(n.try_into().unwrap());
                if step < 2 || model.is_empty() {
                    let index = if step == 0 { model.len() } else { at.index(model.len() + 1) };
                    list.insert(index, value.clone());
                    model.insert(index, value);
                } else if n % 2 == 0 {
                    list.remove(at.index(model.len()));
                    model.remove(at.index(model.len()));
                } else {
                    list.set(at.index(model.len()), value.clone());
                    let index = at.index(model.len());
                    model[index] = value;
                }
                prop_assert!(earlier.iter().eq(&was));
                prop_assert!(list.iter().eq(&model));
                prop_assert_eq!(list == earlier, model == was);
                prop_assert!(list == model.iter().cloned().collect::<List>());
                prop_assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(list.get(n), model.get(n));
            }
            prop_assert!(model.iter().cloned().collect::<List>().iter().eq(&model));
            model.sort_unstable();
            let sorted: List = model.iter().cloned().collect();
            for n in 0..400 {
                let value = Value::Int(n);
                prop_assert_eq!(sorted.search(&value), model.binary_search(&value));
            }
        }
    }
}
