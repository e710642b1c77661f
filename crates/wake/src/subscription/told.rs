//! A subscription as the diary tells it. What follows from the rest is not told, and what was told
//! in another way before is still understood.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Subscription,
    event::{Linked, Wake},
    queue::Queue,
};
use crate::Config;

#[derive(Serialize, Deserialize)]
pub(super) struct Told {
    config: Config,
    base: String,
    created_at: u64,
    links: Vec<Linked>,
    generation: u64,
    #[serde(default)]
    wakes: Vec<Wake>,
    /// The only wake; told before there could be several, and never since.
    #[serde(default, skip_serializing)]
    wake: Option<Wake>,
    /// Of that wake.
    #[serde(default, skip_serializing)]
    failures: u32,
}

impl From<Told> for Subscription {
    fn from(told: Told) -> Self {
        let links = told.links.into_iter().map(|linked| (linked.path, linked.link));
        let links: BTreeMap<_, _> = links.collect();
        let only = told.wake.map(|wake| Wake { failures: told.failures, ..wake });
        let mut subscription = Self {
            config: told.config,
            base: told.base,
            created_at: told.created_at,
            explicit_count: links.values().filter(|link| link.is_explicit).count(),
            links,
            generation: told.generation,
            wakes: BTreeMap::new(),
            busy: BTreeMap::new(),
            queue: Queue::default(),
        };
        told.wakes.into_iter().chain(only).for_each(|wake| subscription.begin(wake));
        subscription
    }
}

impl From<Subscription> for Told {
    fn from(subscription: Subscription) -> Self {
        let links = subscription.links.into_iter().map(|(path, link)| Linked { path, link });
        Self {
            config: subscription.config,
            base: subscription.base,
            created_at: subscription.created_at,
            links: links.collect(),
            generation: subscription.generation,
            wakes: subscription.wakes.into_values().collect(),
            wake: None,
            failures: 0,
        }
    }
}

pub(super) fn is_zero(number: &u32) -> bool {
    *number == 0
}

pub(super) mod offset {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use wire::Offset;

    pub(in super::super) fn serialize<S: Serializer>(
        offset: &Option<Offset>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match offset {
            Some(offset) => serializer.collect_str(offset),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Offset>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }
}
