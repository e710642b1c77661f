//! A text that grows at its end.

use std::{fmt, sync::Arc};

use smol_str::SmolStr;

/// A text made of pieces. Adding a piece at the end costs the same however long the text is, and
/// every earlier state of it stays what it was.
#[derive(Clone, Default)]
pub struct Rope(Option<Arc<Link>>);

struct Link {
    before: Rope,
    piece: SmolStr,
    len: usize,
}

impl Rope {
    /// This text, and then the piece.
    #[must_use]
    pub fn push(self, piece: SmolStr) -> Self {
        if piece.is_empty() {
            return self;
        }
        let len = self.len() + piece.len();
        Self(Some(Arc::new(Link { before: self, piece, len })))
    }

    /// Its bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |link| link.len)
    }

    /// True if there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// What was added to `earlier` to come to this, if it was added in one piece. It is the cheap
    /// way to show a text that streams in.
    #[must_use]
    pub fn added_to(&self, earlier: &Self) -> Option<&str> {
        let link = self.0.as_ref()?;
        link.before.is_same(earlier).then_some(link.piece.as_str())
    }

    /// True if both are one text in memory.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(this), Some(other)) => Arc::ptr_eq(this, other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Last piece first.
    fn pieces(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(self.0.as_deref(), |link| link.before.0.as_deref())
            .map(|link| link.piece.as_str())
    }
}

impl FromIterator<SmolStr> for Rope {
    fn from_iter<I: IntoIterator<Item = SmolStr>>(pieces: I) -> Self {
        pieces.into_iter().fold(Self::default(), Self::push)
    }
}

impl fmt::Display for Rope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pieces: Vec<_> = self.pieces().collect();
        pieces.reverse();
        pieces.into_iter().try_for_each(|piece| f.write_str(piece))
    }
}

impl fmt::Debug for Rope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// A long text is a long chain, which must not be dropped by recursion.
impl Drop for Rope {
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut link) = next.and_then(Arc::into_inner) {
            next = link.before.0.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_grows_and_goes_without_trouble() {
        let mut rope = Rope::default();
        for _ in 0..200_000 {
            let longer = rope.clone().push("tok ".into());
            assert_eq!(longer.added_to(&rope), Some("tok "));
            rope = longer;
        }
        let earlier = rope.clone();
        drop(rope);
        assert_eq!((earlier.len(), earlier.to_string().len()), (800_000, 800_000));
    }

    #[test]
    fn only_the_very_next_text_tells_what_was_added() {
        let one: Rope = ["a".into(), SmolStr::default()].into_iter().collect();
        let two = one.clone().push("b".into()).push("c".into());
        assert_eq!((two.to_string().as_str(), two.added_to(&one)), ("abc", None));
        assert_eq!((one.added_to(&Rope::default()), one.added_to(&one)), (Some("a"), None));
        assert!(Rope::default().is_empty() && !one.is_empty());
    }
}
