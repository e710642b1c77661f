//! A list of values that is cheap to clone and cheap to change in one place.

use std::{fmt, sync::Arc};

use super::Value;

/// Values in order, in blocks that clones share: changing one place of a long list copies one
/// block, not the list.
#[derive(Clone, Default)]
pub struct List {
    blocks: Arc<Vec<Arc<Vec<Value>>>>,
    len: usize,
}

const BLOCK_MAX: usize = 64;

impl List {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value at this place.
    #[must_use]
    pub fn get(&self, mut index: usize) -> Option<&Value> {
        for block in self.blocks.iter() {
            match block.get(index) {
                Some(value) => return Some(value),
                None => index -= block.len(),
            }
        }
        None
    }

    /// In order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    /// Puts a value at this place, which must not lie beyond the end.
    pub(crate) fn insert(&mut self, index: usize, value: Value) {
        let (at, within) = self.place(index);
        self.len += 1;
        let blocks = Arc::make_mut(&mut self.blocks);
        if blocks.is_empty() {
            blocks.push(Arc::default());
        }
        let block = Arc::make_mut(&mut blocks[at]);
        block.insert(within, value);
        if block.len() > BLOCK_MAX {
            // A list that only grows at its end keeps full blocks behind it.
            let middle = if within + 1 == block.len() { BLOCK_MAX } else { BLOCK_MAX / 2 };
            let rest = block.split_off(middle);
            blocks.insert(at + 1, Arc::new(rest));
        }
    }

    /// Changes the value at this place.
    pub(crate) fn set(&mut self, index: usize, value: Value) {
        let (at, within) = self.place(index);
        Arc::make_mut(&mut Arc::make_mut(&mut self.blocks)[at])[within] = value;
    }

    /// Takes the value out of this place.
    pub(crate) fn remove(&mut self, index: usize) {
        let (at, within) = self.place(index);
        let blocks = Arc::make_mut(&mut self.blocks);
        let block = Arc::make_mut(&mut blocks[at]);
        block.remove(within);
        if block.is_empty() {
            blocks.remove(at);
        }
        self.len -= 1;
    }

    /// Which block, and where in it. The end belongs to the last block.
    fn place(&self, mut index: usize) -> (usize, usize) {
        let last = self.blocks.len().saturating_sub(1);
        for (at, block) in self.blocks.iter().enumerate() {
            if index < block.len() || at == last {
                return (at, index);
            }
            index -= block.len();
        }
        (0, index)
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        let mut values = values.into_iter();
        let (mut blocks, mut len) = (Vec::new(), 0);
        loop {
            let block: Vec<_> = values.by_ref().take(BLOCK_MAX).collect();
            if block.is_empty() {
                return Self { blocks: Arc::new(blocks), len };
            }
            len += block.len();
            blocks.push(Arc::new(block));
        }
    }
}

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
                prop_assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(list.get(n), model.get(n));
            }
            prop_assert!(model.iter().cloned().collect::<List>().iter().eq(&model));
        }
    }
}
