//! What an MCP server answers, in our words.

use chat::{
    ToolError,
    agui::{Content, ContentPart, Media, Source, TextPart},
};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// The answer of a tool.
pub(super) fn answer(result: CallToolResult) -> Result<Content, ToolError> {
    let mut parts: Vec<_> = result.content.into_iter().map(part).collect();
    if parts.is_empty() {
        parts.extend(result.structured_content.map(|value| text(value.to_string())));
    }
    if result.is_error == Some(true) {
        let said = parts.iter().filter_map(|part| match part {
            ContentPart::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        let said = said.collect::<Vec<_>>().join("\n");
        return Err(ToolError::new(if said.is_empty() { "it does not say why" } else { &said }));
    }
    Ok(match (parts.pop(), parts.is_empty()) {
        (None, _) => Content::Text(String::new()),
        (Some(ContentPart::Text(only)), true) => Content::Text(only.text),
        (Some(last), _) => {
            parts.push(last);
            Content::Parts(parts)
        }
    })
}

fn part(block: ContentBlock) -> ContentPart {
    match block {
        ContentBlock::Text(content) => text(content.text),
        ContentBlock::Image(image) => data(image.data, image.mime_type),
        ContentBlock::Audio(audio) => data(audio.data, audio.mime_type),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text: said, .. } => text(said),
            ResourceContents::BlobResourceContents { blob, mime_type, .. } => {
                data(blob, mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()))
            }
            #[allow(unreachable_patterns, reason = "the list may grow")]
            _ => text("[a resource of an unknown kind]".to_owned()),
        },
        // Only its server can read it, so no provider may try to fetch it.
        ContentBlock::ResourceLink(link) => text(format!("[resource {}: {}]", link.name, link.uri)),
        #[allow(unreachable_patterns, reason = "the list may grow")]
        _ => text("[an answer of an unknown kind]".to_owned()),
    }
}

fn text(text: String) -> ContentPart {
    ContentPart::Text(TextPart { text, ..TextPart::default() })
}

fn data(value: String, mime_type: String) -> ContentPart {
    let kind = mime_type.split('/').next().unwrap_or_default().to_owned();
    let media = Media::from(Source::Data { value, mime_type });
    match kind.as_str() {
        "image" => ContentPart::Image(media),
        "audio" => ContentPart::Audio(media),
        "video" => ContentPart::Video(media),
        _ => ContentPart::Document(media),
    }
}
