//! JSON as it arrives, read in place.

use std::{borrow::Cow, fmt, ops::Deref};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// An object. Serde would take a list for one, too.
pub(crate) fn object<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    match json.trim_ascii_start().starts_with('{') {
        true => serde_json::from_str(json).map_err(|error| error.to_string()),
        false => Err("it should be an object".to_owned()),
    }
}

/// A text that stays where it is if nothing in it was escaped. In an `Option`, serde borrows this
/// where it would copy a `Cow`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// A text, or something else that is passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loose<'a>(pub(crate) Option<Cow<'a, str>>);

/// A text, or parts whose texts are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts<'a>(pub(crate) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> Loose<'a> {
    /// The text, if there is any.
    pub(crate) fn full(self) -> Option<Cow<'a, str>> {
        self.0.filter(|text| !text.is_empty())
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor).map(Loose)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Texts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextsVisitor).map(Texts)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(number.to_string())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(number.to_string())))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        #[derive(Deserialize)]
        struct Piece<'a> {
            #[serde(borrow, default)]
            text: Loose<'a>,
        }
        let mut texts = String::new();
        while let Some(piece) = seq.next_element::<Piece<'de>>()? {
            texts.push_str(piece.text.as_str());
        }
        Ok(Cow::Owned(texts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_in_place_where_they_can_be() {
        let Texts(text) = serde_json::from_str(r#""plain""#).unwrap();
        assert!(matches!(text, Cow::Borrowed("plain")));
        let Texts(text) = serde_json::from_str(r#""a\nb""#).unwrap();
        assert_eq!(text, "a\nb");
        let parts = r#"[{"type":"text","text":"a"},{"type":"other"},{"text":"b"}]"#;
        let Texts(text) = serde_json::from_str(parts).unwrap();
        assert_eq!(text, "ab");
        assert!(serde_json::from_str::<Texts<'_>>("7").is_err());
    }

    #[test]
    fn what_is_loose_takes_anything() {
        for json in ["null", "true", "1.5", "[1,{}]", r#"{"a":[]}"#] {
            assert_eq!(serde_json::from_str::<Loose<'_>>(json).unwrap(), Loose(None), "{json}");
        }
        assert_eq!(serde_json::from_str::<Loose<'_>>("-7").unwrap().as_str(), "-7");
        let Text(text) = serde_json::from_str(r#""a""#).unwrap();
        assert!(matches!(text, Cow::Borrowed("a")));
    }
}
