//! Notices: how a wake reads to whoever is woken. The inverse of what webhooks are sent and wake
//! streams are told.

use std::{fmt, time::Duration};

use serde::Deserialize;
use thiserror::Error;
use wire::{Offset, StreamPath, caps::INTEGER_MAX};

use crate::{
    LinkKind, LinkView, SubscriptionId, Work,
    caps::{
        CALLBACK_URL_BYTES_MAX, NOTICE_BYTES_MAX, STREAMS_PER_WAKE_MAX, TOKEN_BYTES_MAX,
        WAKE_ID_BYTES_MAX,
    },
};

/// What a webhook is sent. Verify the signature before it is read.
#[derive(Clone, PartialEq, Eq)]
pub struct WakeNotice {
    /// Whose wake.
    pub subscription: SubscriptionId,
    /// Names the wake; the same for every attempt.
    pub wake_id: String,
    /// Counts the subscription's wakes.
    pub generation: u64,
    /// What there is to do.
    pub streams: Vec<Work>,
    /// Where to report, for those who know the server by nothing else.
    pub callback_url: String,
    /// What reports must carry.
    pub callback_token: String,
    /// How long whoever works may stay silent; none if the server does not say.
    pub lease: Option<Duration>,
}

/// What a wake stream says: a subscription has work, and the first who claims it gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Whose work.
    pub subscription: SubscriptionId,
    /// Of the wake.
    pub generation: u64,
}

/// A body that wakes nobody.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the body is no wake: {0}")]
pub struct BadNotice(String);

/// A message of a wake stream that announces nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the message announces no wake: {0}")]
pub struct BadAnnouncement(String);

impl WakeNotice {
    /// Reads a body. Members that it does not know are passed over.
    ///
    /// # Errors
    /// [`BadNotice`] says what is wrong.
    pub fn parse(body: &[u8]) -> Result<Self, BadNotice> {
        if body.len() > NOTICE_BYTES_MAX {
            return Err(BadNotice(format!("it has more than {NOTICE_BYTES_MAX} bytes")));
        }
        let body: Body =
            serde_json::from_slice(body).map_err(|error| BadNotice(error.to_string()))?;
        body.check().map_err(|what| BadNotice(what.to_owned()))?;
        let streams = body.streams.into_iter().map(Pending::work).collect::<Result<_, _>>()?;
        Ok(Self {
            subscription: body.subscription_id,
            wake_id: body.wake_id,
            generation: body.generation,
            streams,
            callback_url: body.callback_url,
            callback_token: body.callback_token,
            lease: body.lease_ttl_ms.map(Duration::from_millis),
        })
    }
}

impl fmt::Debug for WakeNotice {
    /// Hides the token: whoever has it can report.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeNotice")
            .field("subscription", &self.subscription)
            .field("wake_id", &self.wake_id)
            .field("generation", &self.generation)
            .field("streams", &self.streams.len())
            .finish_non_exhaustive()
    }
}

impl Announcement {
    /// Reads a message. Wake streams are ordinary ones, so there may be others.
    ///
    /// # Errors
    /// [`BadAnnouncement`] says what is wrong.
    pub fn parse(message: &[u8]) -> Result<Self, BadAnnouncement> {
        #[derive(Deserialize)]
        struct Said {
            r#type: String,
            #[serde(with = "crate::text")]
            subscription_id: SubscriptionId,
            generation: u64,
        }
        let said: Said =
            serde_json::from_slice(message).map_err(|error| BadAnnouncement(error.to_string()))?;
        if said.r#type != "wake" {
            return Err(BadAnnouncement("its type is not wake".to_owned()));
        }
        Ok(Self { subscription: said.subscription_id, generation: said.generation })
    }
}

#[derive(Deserialize)]
struct Body {
    #[serde(with = "crate::text")]
    subscription_id: SubscriptionId,
    wake_id: String,
    generation: u64,
    streams: Vec<Pending>,
    callback_url: String,
    callback_token: String,
    /// Servers of others do not send it.
    lease_ttl_ms: Option<u64>,
}

/// A stream with work, as the protocol writes it.
#[derive(Deserialize)]
struct Pending {
    #[serde(with = "crate::text")]
    path: StreamPath,
    link_type: LinkKind,
    acked_offset: String,
    #[serde(with = "crate::text")]
    tail_offset: Offset,
}

impl Body {
    fn check(&self) -> Result<(), &'static str> {
        let is_visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = |text: &str, max| (1..=max).contains(&text.len()) && is_visible(text);
        if !fits(&self.wake_id, WAKE_ID_BYTES_MAX) {
            return Err("wake_id is no id");
        }
        if !(1..=INTEGER_MAX).contains(&self.generation) {
            return Err("generation is no number of a wake");
        }
        if self.streams.len() > STREAMS_PER_WAKE_MAX {
            return Err("it lists too many streams");
        }
        // It is judged by whoever calls it; ids of subscriptions may be in any script.
        let url = &self.callback_url;
        if url.len() > CALLBACK_URL_BYTES_MAX || url.chars().any(char::is_control) {
            return Err("callback_url is no URL");
        }
        if !fits(&self.callback_token, TOKEN_BYTES_MAX) {
            return Err("callback_token is no token");
        }
        if self.lease_ttl_ms == Some(0) {
            return Err("lease_ttl_ms is no time to work in");
        }
        Ok(())
    }
}

impl Pending {
    fn work(self) -> Result<Work, BadNotice> {
        let acked = match &*self.acked_offset {
            "-1" => None,
            token => Some(token.parse::<Offset>().map_err(|error| BadNotice(error.to_string()))?),
        };
        let link = LinkView { path: self.path, kind: self.link_type, acked };
        Ok(Work { link, tail: self.tail_offset })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use wire::ReadFrom;

    use super::*;
    use crate::Call;

    const LEASE_MS: u64 = 2_000;

    fn call(streams: Vec<Work>) -> Call {
        Call {
            url: "https://a.example/".to_owned(),
            subscription: "agents of \"mine\"".parse().unwrap(),
            wake_id: "w_1".to_owned(),
            generation: 7,
            streams,
            base: "https://b.example/v1/stream".to_owned(),
            token: "v1.7.secret".to_owned(),
            patience: Duration::from_secs(1),
        }
    }

    fn work(path: &str, kind: LinkKind, acked: Option<Offset>, tail: Offset) -> Work {
        Work { link: LinkView { path: path.parse().unwrap(), kind, acked }, tail }
    }

    #[test]
    fn a_wake_is_read_as_it_was_sent() {
        let streams = vec![
            work("chats/1", LinkKind::Glob, None, Offset::new(1, 5)),
            work("chats/ü", LinkKind::Explicit, Some(Offset::new(3, 9)), Offset::new(4, 10)),
        ];
        let call = call(streams.clone());
        let notice = WakeNotice::parse(call.body(LEASE_MS).as_bytes()).unwrap();
        assert_eq!((&notice.subscription, &notice.wake_id), (&call.subscription, &call.wake_id));
        assert_eq!((notice.generation, &notice.streams), (7, &streams));
        let from: Vec<_> = notice.streams.iter().map(Work::from).collect();
        assert_eq!(from, [ReadFrom::Start, ReadFrom::At(Offset::new(3, 9))]);
        assert_eq!(notice.callback_token, call.token);
        assert!(notice.callback_url.ends_with("/callback"));
        assert_eq!(notice.lease, Some(Duration::from_millis(LEASE_MS)));
        assert!(!format!("{notice:?}").contains("secret"));
    }

    #[test]
    fn the_largest_wake_fits() {
        let segment = r#"""#.repeat(254);
        let link = |n: usize| {
            let path = format!("{segment}/{segment}/{segment}/{segment}/{n}");
            work(&path, LinkKind::Explicit, Some(Offset::START), Offset::new(1, 1))
        };
        let body = call((0..STREAMS_PER_WAKE_MAX).map(link).collect()).body(LEASE_MS);
        assert!(body.len() < NOTICE_BYTES_MAX, "{}", body.len());
        WakeNotice::parse(body.as_bytes()).unwrap();
        let body = call((0..=STREAMS_PER_WAKE_MAX).map(link).collect()).body(LEASE_MS);
        WakeNotice::parse(body.as_bytes()).unwrap_err();
    }

    #[test]
    fn what_is_no_wake_is_told_so() {
        let streams = vec![work("a", LinkKind::Glob, None, Offset::new(1, 5))];
        let good: Value = serde_json::from_str(&call(streams).body(LEASE_MS)).unwrap();
        let check = |place: &str, value: Value| {
            let mut body = good.clone();
            *body.pointer_mut(place).unwrap() = value;
            let read = WakeNotice::parse(body.to_string().as_bytes());
            assert!(read.is_err(), "{body}");
        };
        check("", json!([]));
        check("/subscription_id", json!("a/b"));
        check("/wake_id", json!(""));
        check("/wake_id", json!("a\nb"));
        check("/wake_id", json!("x".repeat(201)));
        for generation in [json!(0), json!(-1), json!("1"), json!(1.5), json!(1u64 << 53)] {
            check("/generation", generation);
        }
        check("/streams", json!({}));
        check("/streams/0/path", json!("../a"));
        check("/streams/0/link_type", json!("other"));
        check("/streams/0/acked_offset", json!("now"));
        check("/streams/0/tail_offset", json!("-1"));
        check("/callback_url", json!("https://a.example/\n"));
        check("/callback_token", json!("a b"));
        for lease in [json!(0), json!(-1), json!("2000")] {
            check("/lease_ttl_ms", lease);
        }
        check("/callback_token", json!("x".repeat(TOKEN_BYTES_MAX + 1)));
    }

    #[test]
    fn a_server_need_not_tell_its_lease() {
        let mut body: Value = serde_json::from_str(&call(Vec::new()).body(LEASE_MS)).unwrap();
        body.as_object_mut().unwrap().remove("lease_ttl_ms");
        assert_eq!(WakeNotice::parse(body.to_string().as_bytes()).unwrap().lease, None);
    }

    #[test]
    fn an_announcement_is_read_and_other_messages_are_none() {
        let said = br#"{"type":"wake","subscription_id":"s","stream":"a","generation":7,"ts":1}"#;
        let read = Announcement::parse(said).unwrap();
        assert_eq!((read.subscription.as_str(), read.generation), ("s", 7));
        for other in ["", "1", "{}", r#"{"type":"sleep","subscription_id":"s","generation":7}"#] {
            assert!(Announcement::parse(other.as_bytes()).is_err(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(body in any::<Vec<u8>>()) {
            let _ = WakeNotice::parse(&body);
            let _ = Announcement::parse(&body);
        }
    }
}
