//! Values that functions make, none of them larger than it may be.

use super::javascript;
use crate::{
    caps::{TEXT_BYTES_MAX, VALUE_BYTES_MAX},
    value::Value,
};

/// What a function made is larger than a value may be. Of a row it is `null`; of constants alone,
/// the query is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// A text that grows up to [`TEXT_BYTES_MAX`].
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn push(&mut self, piece: &str) -> Result<(), TooLarge> {
        if self.0.len() + piece.len() > TEXT_BYTES_MAX {
            return Err(TooLarge);
        }
        self.0.push_str(piece);
        Ok(())
    }

    /// Adds what JavaScript has for the text of a value, without making that of a list first.
    pub(super) fn push_value(&mut self, value: &Value) -> Result<(), TooLarge> {
        match value {
            Value::Text(text) => self.push(text),
            Value::List(list) => {
                for (place, own) in list.iter().enumerate() {
                    self.push(if place == 0 { "" } else { "," })?;
                    self.push_value(own)?;
                }
                Ok(())
            }
            _ => self.push(&javascript::text(value)),
        }
    }

    pub(super) fn value(self) -> Value {
        Value::from(self.0)
    }
}

/// `text` with `to` wherever it has `from`.
pub(super) fn replace(text: &str, from: &str, to: &str) -> Result<Value, TooLarge> {
    let mut made = Text::default();
    let mut end = 0;
    for (start, found) in text.match_indices(from) {
        made.push(&text[end..start])?;
        made.push(to)?;
        end = start + found.len();
    }
    made.push(&text[end..])?;
    Ok(made.value())
}

/// A list or an object that may be made of parts of this size, if they come to no more than
/// [`VALUE_BYTES_MAX`].
pub(super) struct Parts {
    left: usize,
}

impl Parts {
    pub(super) fn new() -> Self {
        Self { left: VALUE_BYTES_MAX }
    }

    pub(super) fn add(&mut self, value: &Value) -> Result<(), TooLarge> {
        spend(&mut self.left, value)
    }
}

/// The size of a value, if it may be made: that of its JSON, roughly. What several lists share
/// counts each time.
pub(super) fn size(value: &Value) -> Result<usize, TooLarge> {
    let mut parts = Parts::new();
    parts.add(value)?;
    Ok(VALUE_BYTES_MAX - parts.left)
}

fn spend(left: &mut usize, value: &Value) -> Result<(), TooLarge> {
    let own = match value {
        Value::Text(text) => text.len(),
        Value::Rope(rope) => rope.len(),
        _ => 0,
    };
    *left = left.checked_sub(own + 1).ok_or(TooLarge)?;
    match value {
        Value::List(list) => list.iter().try_for_each(|own| spend(left, own)),
        Value::Object(object) => object.present().try_for_each(|(_, own)| spend(left, own)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_replaced_as_ever() {
        for (text, from, to) in
            [("aba", "a", "x"), ("", "a", "x"), ("ab", "", "-"), ("", "", "-"), ("aaa", "aa", "")]
        {
            assert_eq!(replace(text, from, to), Ok(text.replace(from, to).into()), "{text} {from}");
        }
    }

    #[test]
    fn a_text_may_be_as_long_as_the_cap_and_no_longer() {
        let half = "a".repeat(TEXT_BYTES_MAX / 2);
        assert_eq!(replace(&half, "a", "bb"), Ok("b".repeat(TEXT_BYTES_MAX).into()));
        assert_eq!(replace(&half, "a", "bbb"), Err(TooLarge));
        let mut text = Text::default();
        assert_eq!(
            text.push_value(&Value::list([half.clone().into(), half.into()])),
            Err(TooLarge)
        );
    }

    #[test]
    fn what_is_shared_counts_each_time() {
        let mut list = Value::list([Value::from("0123456789")]);
        assert_eq!(size(&list), Ok(12));
        for _ in 0..40 {
            list = Value::list([list.clone(), list]);
        }
        assert_eq!(size(&list), Err(TooLarge));
    }
}
