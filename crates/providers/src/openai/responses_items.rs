//! The items of one answer of the Responses API, and which of them one is that is told again.

use super::{
    responses_decoder::Kind,
    responses_words::{Item, is_provider_run},
};

/// The items that have been streamed.
#[derive(Debug, Default)]
pub(super) struct Items(Vec<Known>);

/// An item, as far as it was told of.
#[derive(Debug)]
struct Known {
    /// Where it stands in the answer.
    index: u32,
    kind: Kind,
    id: String,
    call_id: String,
    /// Whether the whole answer has told of it.
    is_told: bool,
}

impl Items {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Something of this kind stands here.
    pub(super) fn see(&mut self, index: u32, kind: Kind) {
        if self.at(index, kind).is_none() {
            let (id, call_id) = (String::new(), String::new());
            self.0.push(Known { index, kind, id, call_id, is_told: false });
        }
    }

    /// This item stands here.
    pub(super) fn name(&mut self, index: u32, item: &Item<'_>) {
        let kind = kind_of(item);
        self.see(index, kind);
        if let Some(known) = self.at(index, kind) {
            for (known, told) in [(&mut known.id, &item.id), (&mut known.call_id, &item.call_id)] {
                if known.is_empty() {
                    told.as_str().clone_into(known);
                }
            }
        }
    }

    /// Where an item of the whole answer stood in the stream; behind all others if it is new. A
    /// server may leave items out of the whole, so its order says nothing; and some give items
    /// other ids there, so one that is not known is taken for the next of its kind.
    pub(super) fn place(&mut self, item: &Item<'_>) -> u32 {
        let kind = kind_of(item);
        let (id, call_id) = (item.id.as_str(), item.call_id.as_str());
        let is_same = |known: &Known| match !call_id.is_empty() && !known.call_id.is_empty() {
            true => known.call_id == call_id,
            false => !id.is_empty() && known.id == id,
        };
        // Calls are told apart by their ids: two may be alike in all else.
        let may_be =
            |known: &Known| kind != Kind::Call || call_id.is_empty() || known.call_id.is_empty();
        let open = |known: &&mut Known| known.kind == kind && !known.is_told;
        let same = self.0.iter().position(|known| known.kind == kind && is_same(known));
        let known = match same {
            Some(at) => self.0.get_mut(at),
            None => self.0.iter_mut().filter(open).find(|known| may_be(known)),
        };
        if let Some(known) = known {
            known.is_told = true;
            return known.index;
        }
        self.0.iter().map(|known| known.index.saturating_add(1)).max().unwrap_or_default()
    }

    fn at(&mut self, index: u32, kind: Kind) -> Option<&mut Known> {
        self.0.iter_mut().find(|known| known.index == index && known.kind == kind)
    }
}

fn kind_of(item: &Item<'_>) -> Kind {
    match item.kind.as_str() {
        "message" => Kind::Text,
        "reasoning" => Kind::Thinking,
        "function_call" => Kind::Call,
        kind if is_provider_run(kind) => Kind::ProviderCall,
        _ => Kind::Other,
    }
}
