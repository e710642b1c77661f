//! All that `headwater dev` serves beside the streams: the page, and the actions of sessions.

use bytes::Bytes;
use http::Response;
use log::Answer;
use server::{Neighbour, Visit};
use sessions::Door;
use sys::Sys;

use super::page;

/// The page, and the door that it knocks at.
#[derive(Debug)]
pub(super) struct House {
    pub(super) sys: Sys,
    pub(super) door: Door,
}

impl Neighbour for House {
    fn body_bytes_max(&self) -> usize {
        self.door.body_bytes_max()
    }

    fn answer(&self, visit: Visit) -> Answer<'_, Response<Bytes>> {
        if Door::serves(visit.head.uri.path()) {
            return self.door.answer(visit);
        }
        let head = &visit.head;
        let shown = page::answer(&self.sys, &head.method, head.uri.path(), &head.headers);
        Box::pin(std::future::ready(shown))
    }
}
