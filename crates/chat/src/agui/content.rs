//! What messages say: texts, pictures, sounds, films, documents.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::{Map, Value, json};

use crate::Id;

/// A text, or several parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// A text.
    Text(String),
    /// Parts, in order.
    Parts(Vec<ContentPart>),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", from = "AnyPart")]
#[non_exhaustive]
pub enum ContentPart {
    /// A text.
    Text(TextPart),
    /// A picture.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// A film.
    Video(Media),
    /// A document.
    Document(Media),
}

/// A text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextPart {
    /// What it says.
    pub text: String,
    /// The part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// Extra information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Something that is not text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Media {
    /// Where it is.
    pub source: Source,
    /// The part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// Extra information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Where a part is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Source {
    /// Here, in base 64.
    Data {
        /// The bytes.
        value: String,
        /// What they are.
        mime_type: String,
    },
    /// At an address.
    Url {
        /// The address.
        value: String,
        /// What is there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// With a provider.
    File {
        /// What the provider calls it.
        value: String,
        /// The provider.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
        /// What it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Source> for Media {
    fn from(source: Source) -> Self {
        Self { source, id: None, metadata: None, others: Map::new() }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Content, E> {
        Ok(Content::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Content, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(parts)).map(Content::Parts)
    }
}

/// A part as 1.0 or a version before it writes it.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum AnyPart {
    Text(TextPart),
    Image(Media),
    Audio(Media),
    Video(Media),
    Document(Media),
    Binary(Binary),
}

/// Any media, as the versions before 1.0 wrote them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binary {
    mime_type: String,
    id: Option<Id>,
    url: Option<String>,
    data: Option<String>,
    filename: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl From<AnyPart> for ContentPart {
    fn from(part: AnyPart) -> Self {
        match part {
            AnyPart::Text(text) => Self::Text(text),
            AnyPart::Image(media) => Self::Image(media),
            AnyPart::Audio(media) => Self::Audio(media),
            AnyPart::Video(media) => Self::Video(media),
            AnyPart::Document(media) => Self::Document(media),
            AnyPart::Binary(binary) => binary.into(),
        }
    }
}

impl From<Binary> for ContentPart {
    fn from(binary: Binary) -> Self {
        let Binary { mime_type, id, url, data, filename, mut others } = binary;
        others.remove("source");
        let metadata = others.remove("metadata").filter(|metadata| !metadata.is_null());
        let kind = match mime_type.split('/').next() {
            Some("image") => Self::Image,
            Some("audio") => Self::Audio,
            Some("video") => Self::Video,
            _ => Self::Document,
        };
        let mime = Some(mime_type.clone());
        let source = match (data, url, id) {
            (Some(value), ..) => Source::Data { value, mime_type },
            (None, Some(value), _) => Source::Url { value, mime_type: mime },
            (None, None, Some(id)) => {
                Source::File { value: id.into(), provider: None, mime_type: mime }
            }
            (None, None, None) => Source::Data { value: String::new(), mime_type },
        };
        let metadata = filename.map(|name| json!({ "filename": name })).or(metadata);
        kind(Media { metadata, others, ..Media::from(source) })
    }
}
