//! Answers of the Responses API.
//!
//! The wire says most things twice: in pieces, and whole when an item or the answer is done. What
//! the pieces left out is taken from the whole.

use chat::{Block, BlockKind, Id, ModelError, ModelErrorKind, ModelEvent, StopReason};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    failure::broke_off,
    responses_items::Items,
    responses_words::{Item, Response, arguments_of, is_provider_run, provider_tool, texts},
};
use crate::{
    blocks::Blocks,
    caps::BLOCKS_MAX,
    json::{Loose, object},
    wire::{Decoder, quote},
};

/// Reads one answer of the Responses API.
#[derive(Debug)]
pub struct ResponsesDecoder {
    provider: Id,
    /// How many events were read, so that errors say where.
    events: u64,
    is_named: bool,
    blocks: Blocks,
    slots: Vec<Slot>,
    items: Items,
    has_refused: bool,
    /// Set once the wire said that the answer is whole.
    stop: Option<StopReason>,
}

/// One thing of an answer that becomes a block.
#[derive(Debug)]
struct Slot {
    kind: Kind,
    /// Which item of the answer.
    item: u32,
    /// Which part of a message.
    part: u32,
    block: Option<Block>,
    /// Bytes that were handed on.
    sent: usize,
    /// Pieces that came before the block could be opened.
    early: String,
    /// Which section of thoughts came last; they are set apart.
    section: Option<(Section, u32)>,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Thinking,
    Call,
    ProviderCall,
    /// Something that nobody here knows.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Summary,
    Content,
}

impl ResponsesDecoder {
    /// Reads an answer of this provider.
    #[must_use]
    pub fn new(provider: Id) -> Self {
        Self {
            provider,
            events: 0,
            is_named: false,
            blocks: Blocks::default(),
            slots: Vec::new(),
            items: Items::default(),
            has_refused: false,
            stop: None,
        }
    }

    fn malformed(&self, why: &str) -> ModelError {
        let why = format!("event {} of the answer {why}", self.events);
        ModelError::new(self.provider.clone(), ModelErrorKind::Malformed, why)
    }

    fn read<'a, T: Deserialize<'a>>(&self, what: &str, raw: &'a str) -> Result<T, ModelError> {
        serde_json::from_str(raw).map_err(|error| {
            self.malformed(&format!("is no {what}: {error}; it is {}", quote(raw.as_bytes())))
        })
    }

    fn event(&mut self, event: &Event<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let (item, part) = (event.output_index, event.content_index);
        match event.kind.as_str() {
            "response.output_text.delta" => self.add(Kind::Text, item, part, &event.delta, out),
            "response.function_call_arguments.delta" => {
                self.add(Kind::Call, item, 0, &event.delta, out)
            }
            "response.refusal.delta" => {
                self.has_refused = true;
                self.add(Kind::Text, item, part, &event.delta, out)
            }
            "response.reasoning_summary_text.delta" => {
                let section = (Section::Summary, event.summary_index);
                self.think(item, section, &event.delta, out)
            }
            "response.reasoning_text.delta" => {
                self.think(item, (Section::Content, part), &event.delta, out)
            }
            "response.output_text.done" => self.fill(Kind::Text, item, part, &event.text, out),
            "response.refusal.done" => {
                self.has_refused = true;
                self.fill(Kind::Text, item, part, &event.refusal, out)
            }
            "response.function_call_arguments.done" => {
                self.fill(Kind::Call, item, 0, &event.arguments, out)
            }
            "response.output_item.added" => match event.item {
                Some(raw) => self.begin(item, raw, out),
                None => Ok(()),
            },
            "response.output_item.done" => match event.item {
                Some(raw) => self.settle(item, raw, out),
                None => Ok(()),
            },
            "response.output_text.annotation.added" => {
                let value = event.annotation.map(|raw| self.read("annotation", raw.get()));
                if let Some(value) = value.transpose()? {
                    out.push(ModelEvent::Note { name: "annotation".into(), value });
                }
                Ok(())
            }
            "response.created" => match event.response {
                Some(raw) => {
                    let response: Response<'_> = self.read("response", raw.get())?;
                    self.name(&response, out);
                    Ok(())
                }
                None => Ok(()),
            },
            "response.completed" | "response.incomplete" | "response.done" => {
                let raw = event.response.map_or("{}", RawValue::get);
                self.whole(raw, event.kind.as_str() == "response.incomplete", out)
            }
            "response.failed" => {
                let raw = event.response.map_or("null", RawValue::get);
                let response: Value = self.read("response", raw)?;
                Err(broke_off(&self.provider, &response))
            }
            // A wire or a proxy that fails says so in different ways.
            "error" | "" if event.error.is_some() || !event.message.as_str().is_empty() => {
                let error = match event.error {
                    Some(raw) => self.read("error", raw.get())?,
                    None => serde_json::json!({
                        "message": event.message.as_str(), "code": event.code.as_str(),
                    }),
                };
                Err(broke_off(&self.provider, &error))
            }
            _ => Ok(()),
        }
    }

    /// Where something stands in `slots`, which is made if it is not there.
    fn slot(&mut self, kind: Kind, item: u32, part: u32) -> Result<usize, ModelError> {
        let is_it = |slot: &Slot| slot.kind == kind && slot.item == item && slot.part == part;
        if let Some(at) = self.slots.iter().rposition(is_it) {
            return Ok(at);
        }
        if self.slots.len() >= BLOCKS_MAX {
            return Err(self.malformed(&format!("has more than {BLOCKS_MAX} blocks")));
        }
        self.items.see(item, kind);
        self.slots.push(Slot {
            kind,
            item,
            part,
            block: None,
            sent: 0,
            early: String::new(),
            section: None,
            is_closed: false,
        });
        Ok(self.slots.len() - 1)
    }

    /// Adds a piece to a text, to thoughts or to the arguments of a call.
    fn add(
        &mut self,
        kind: Kind,
        item: u32,
        part: u32,
        delta: &Loose<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let delta = delta.as_str();
        let at = self.slot(kind, item, part)?;
        let Self { slots, blocks, .. } = self;
        let slot = &mut slots[at];
        if slot.is_closed || delta.is_empty() {
            return Ok(());
        }
        slot.sent += delta.len();
        let block = match (slot.block, kind) {
            (Some(block), _) => block,
            (None, Kind::Text) => *slot.block.insert(blocks.open(BlockKind::Text, out)),
            (None, Kind::Thinking) => *slot.block.insert(blocks.open(BlockKind::Thinking, out)),
            // Nobody knows yet what is called.
            (None, _) => {
                slot.early.push_str(delta);
                return Ok(());
            }
        };
        out.push(ModelEvent::More { block, delta: delta.to_owned() });
        Ok(())
    }

    fn think(
        &mut self,
        item: u32,
        section: (Section, u32),
        delta: &Loose<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let at = self.slot(Kind::Thinking, item, 0)?;
        let before = self.slots[at].section.replace(section);
        if before.is_some_and(|before| before != section) {
            let apart = Loose(Some("\n\n".into()));
            self.add(Kind::Thinking, item, 0, &apart, out)?;
        }
        self.add(Kind::Thinking, item, 0, delta, out)
    }

    /// Adds what is missing of the whole.
    fn fill(
        &mut self,
        kind: Kind,
        item: u32,
        part: u32,
        whole: &Loose<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let at = self.slot(kind, item, part)?;
        match whole.as_str().get(self.slots[at].sent..) {
            Some(rest) => self.add(kind, item, part, &Loose(Some(rest.into())), out),
            None => Ok(()),
        }
    }

    /// An item begins.
    fn begin(
        &mut self,
        index: u32,
        raw: &RawValue,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let item: Item<'_> = self.read("item", raw.get())?;
        self.know(index, &item)?;
        match item.kind.as_str() {
            "reasoning" => {
                let at = self.slot(Kind::Thinking, index, 0)?;
                self.open(at, BlockKind::Thinking, out);
            }
            "function_call" => self.open_call(index, &item, out)?,
            kind if is_provider_run(kind) => self.open_provider_call(index, &item, out)?,
            _ => {}
        }
        Ok(())
    }

    fn know(&mut self, index: u32, item: &Item<'_>) -> Result<(), ModelError> {
        if self.items.len() >= BLOCKS_MAX {
            return Err(self.malformed(&format!("has more than {BLOCKS_MAX} items")));
        }
        self.items.name(index, item);
        Ok(())
    }

    fn open(&mut self, at: usize, kind: BlockKind, out: &mut Vec<ModelEvent>) {
        let slot = &mut self.slots[at];
        if slot.block.is_some() || slot.is_closed {
            return;
        }
        let block = self.blocks.open(kind, out);
        slot.block = Some(block);
        if !slot.early.is_empty() {
            out.push(ModelEvent::More { block, delta: std::mem::take(&mut slot.early) });
        }
    }

    fn open_call(
        &mut self,
        index: u32,
        item: &Item<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let at = self.slot(Kind::Call, index, 0)?;
        // The name may come only when the item is done.
        if !item.name.as_str().is_empty() && !item.call_id.as_str().is_empty() {
            let id = Some(item.call_id.as_str().into());
            self.open(at, BlockKind::Call { id, name: item.name.as_str().into() }, out);
        }
        Ok(())
    }

    fn open_provider_call(
        &mut self,
        index: u32,
        item: &Item<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let at = self.slot(Kind::ProviderCall, index, 0)?;
        let id = (!item.id.as_str().is_empty()).then(|| item.id.as_str().into());
        let name = provider_tool(item.kind.as_str(), item.name.as_str());
        self.open(at, BlockKind::ProviderCall { id, name: name.into() }, out);
        Ok(())
    }

    /// An item is whole.
    fn settle(
        &mut self,
        index: u32,
        raw: &RawValue,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let item: Item<'_> = self.read("item", raw.get())?;
        self.know(index, &item)?;
        match item.kind.as_str() {
            "message" => {
                for (part, text) in (0..).zip(texts(item.content)) {
                    self.has_refused |= text.is_refusal;
                    self.fill(Kind::Text, index, part, &Loose(Some(text.text)), out)?;
                }
            }
            "reasoning" => self.settle_thoughts(index, item, out)?,
            "function_call" => {
                self.open_call(index, &item, out)?;
                if self.slots.iter().any(|slot| slot.is(Kind::Call, index) && slot.block.is_none())
                {
                    return Err(self.malformed("is a function_call without a name or a call_id"));
                }
                self.fill(Kind::Call, index, 0, &item.arguments, out)?;
            }
            kind if is_provider_run(kind) => {
                self.open_provider_call(index, &item, out)?;
                let at = self.slot(Kind::ProviderCall, index, 0)?;
                let slot = &self.slots[at];
                if let (Some(block), false) = (slot.block, slot.is_closed) {
                    let result: Value = self.read("item", raw.get())?;
                    out.push(ModelEvent::More { block, delta: arguments_of(&result) });
                    out.push(ModelEvent::ProviderResult { block, result });
                }
            }
            kind => {
                let at = self.slot(Kind::Other, index, 0)?;
                if !std::mem::replace(&mut self.slots[at].is_closed, true) {
                    let value = self.read("item", raw.get())?;
                    out.push(ModelEvent::Note { name: kind.into(), value });
                }
            }
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.item == index) {
            slot.close(out);
        }
        Ok(())
    }

    fn settle_thoughts(
        &mut self,
        index: u32,
        item: Item<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let at = self.slot(Kind::Thinking, index, 0)?;
        if self.slots[at].is_closed {
            return Ok(());
        }
        if self.slots[at].sent == 0 {
            let all = texts(item.summary).into_iter().chain(texts(item.content));
            let all: Vec<String> = all.map(|text| text.text.into_owned()).collect();
            let all = Loose(Some(all.join("\n\n").into()));
            self.add(Kind::Thinking, index, 0, &all, out)?;
        }
        if let Some(signature) = item.encrypted_content.full() {
            self.open(at, BlockKind::Thinking, out);
            if let Some(block) = self.slots[at].block {
                out.push(ModelEvent::Sign { block, signature: signature.into_owned() });
            }
        }
        Ok(())
    }

    fn name(&mut self, response: &Response<'_>, out: &mut Vec<ModelEvent>) {
        let model = response.model.as_str();
        if !model.is_empty() && !std::mem::replace(&mut self.is_named, true) {
            out.push(ModelEvent::Answering { model: model.into() });
        }
    }

    /// The answer is whole, or as much of it as there will be.
    fn whole(
        &mut self,
        raw: &str,
        is_incomplete: bool,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let response: Response<'_> = self.read("response", raw)?;
        self.name(&response, out);
        for raw in response.output.into_iter().flatten() {
            let item: Item<'_> = self.read("item", raw.get())?;
            let index = self.items.place(&item);
            self.settle(index, raw, out)?;
        }
        out.extend(response.usage.map(|usage| ModelEvent::Usage(usage.into())));
        let why = response.incomplete_details.and_then(|details| details.reason.full());
        let has_calls = self.slots.iter().any(|slot| slot.kind == Kind::Call);
        self.stop = Some(match why.as_deref() {
            Some("max_output_tokens") => StopReason::Length,
            Some("content_filter") => StopReason::ContentFilter,
            Some(other) => StopReason::Other(other.into()),
            None if is_incomplete => StopReason::Other("incomplete".into()),
            None if has_calls => StopReason::ToolCalls,
            None if self.has_refused => StopReason::Refusal,
            None => StopReason::End,
        });
        Ok(())
    }
}

impl Decoder for ResponsesDecoder {
    fn push(
        &mut self,
        name: Option<&str>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        self.events += 1;
        if data.trim_ascii() == "[DONE]" {
            return Ok(());
        }
        let mut event: Event<'_> = object(data).map_err(|error| {
            self.malformed(&format!("is no event: {error}; it is {}", quote(data.as_bytes())))
        })?;
        if let (None, Some(name)) = (&event.kind.0, name) {
            event.kind = Loose(Some(name.to_owned().into()));
        }
        self.event(&event, out)
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let Some(stop) = self.stop.clone() else {
            let why = "the answer broke off: neither response.completed nor response.incomplete \
                       came";
            return Err(ModelError::new(self.provider.clone(), ModelErrorKind::Truncated, why));
        };
        if let Some(slot) =
            self.slots.iter().find(|slot| slot.kind == Kind::Call && slot.block.is_none())
        {
            let why = format!("leaves the call of item {} without a name", slot.item);
            return Err(self.malformed(&why));
        }
        for slot in &mut self.slots {
            slot.close(out);
        }
        out.push(ModelEvent::Stop(stop));
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.stop.is_some()
    }
}

impl Slot {
    fn is(&self, kind: Kind, item: u32) -> bool {
        self.kind == kind && self.item == item
    }

    fn close(&mut self, out: &mut Vec<ModelEvent>) {
        if let (Some(block), false) = (self.block, self.is_closed) {
            self.is_closed = true;
            out.push(ModelEvent::Close { block });
        }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Loose<'a>,
    #[serde(default)]
    output_index: u32,
    #[serde(default)]
    content_index: u32,
    #[serde(default)]
    summary_index: u32,
    #[serde(borrow, default)]
    delta: Loose<'a>,
    #[serde(borrow, default)]
    text: Loose<'a>,
    #[serde(borrow, default)]
    refusal: Loose<'a>,
    #[serde(borrow, default)]
    arguments: Loose<'a>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    code: Loose<'a>,
    #[serde(borrow, default)]
    message: Loose<'a>,
}
