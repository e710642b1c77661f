//! Where in the log of a shape we are, and what to ask for next.

use http::HeaderMap;

use crate::{caps::STALE_ANSWERS_MAX, failure::Failure};

/// Where we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// What the server calls this log of the shape.
    handle: Option<String>,
    offset: String,
    /// Lets caches tell live requests of different times apart.
    cursor: Option<String>,
    phase: Phase,
    /// A log that the server has given up. Caches may still have it.
    expired: Option<String>,
    stale_answers: u32,
    /// Makes the next request one that no cache knows.
    buster: Option<u64>,
    start: Start,
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Before everything.
    Beginning,
    /// After everything there is.
    Now,
}

impl Start {
    fn offset(self) -> &'static str {
        match self {
            Self::Beginning => "-1",
            Self::Now => "now",
        }
    }
}

/// How the log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Page by page, as fast as the server gives them.
    CatchUp,
    /// As things happen.
    Live,
}

/// What the headers of an answer say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// This is the next piece of our log.
    Next,
    /// This is a piece of another log.
    Other { handle: String },
}

impl Position {
    pub(crate) fn at(start: Start) -> Self {
        Self {
            handle: None,
            offset: start.offset().to_owned(),
            cursor: None,
            phase: Phase::CatchUp,
            expired: None,
            stale_answers: 0,
            buster: None,
            start,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn offset(&self) -> &str {
        &self.offset
    }

    /// What to add to the URL of the shape.
    pub(crate) fn params(&self) -> Vec<(&'static str, String)> {
        let mut params = vec![("offset", self.offset.clone())];
        params.extend(self.handle.clone().map(|handle| ("handle", handle)));
        params.extend(self.expired.clone().map(|handle| ("expired_handle", handle)));
        params.extend(self.buster.map(|buster| ("cache-buster", format!("{buster:016x}"))));
        if self.phase == Phase::Live {
            params.push(("live", "true".to_owned()));
            params.extend(self.cursor.clone().map(|cursor| ("cursor", cursor)));
        }
        params
    }

    /// What to add to the URL of a subset.
    pub(crate) fn subset_params(&self) -> Vec<(&'static str, String)> {
        let handle = self.handle.clone().map(|handle| ("handle", handle));
        [("offset", self.offset.clone())].into_iter().chain(handle).collect()
    }

    /// Takes in the headers of an answer; `buster` is a number that nobody has used.
    pub(crate) fn accept(&mut self, headers: &HeaderMap, buster: u64) -> Result<Accepted, Failure> {
        let handle = required(headers, "electric-handle")?;
        let offset = required(headers, "electric-offset")?;
        if self.expired.as_deref() == Some(handle) {
            self.stale_answers += 1;
            self.buster = Some(buster);
            let why = "a cache between us and the server gives an old log for a new one; let it \
                       tell requests apart by all of their parameters";
            return Err(match self.stale_answers > STALE_ANSWERS_MAX {
                true => Failure::Final(why.to_owned()),
                false => Failure::passing(why),
            });
        }
        let is_start = self.offset == self.start.offset();
        if !is_start && self.handle.as_deref().is_some_and(|own| own != handle) {
            return Ok(Accepted::Other { handle: handle.to_owned() });
        }
        (self.stale_answers, self.buster) = (0, None);
        self.handle = Some(handle.to_owned());
        self.offset = offset.to_owned();
        if let Some(cursor) = header(headers, "electric-cursor") {
            self.cursor = Some(cursor.to_owned());
        }
        Ok(Accepted::Next)
    }

    /// The server says that this was all.
    pub(crate) fn up_to_date(&mut self) {
        self.phase = Phase::Live;
    }

    /// A stream of events says how far it has come.
    pub(crate) fn reach(&mut self, lsn: u64) {
        self.offset = format!("{lsn}_0");
    }

    /// The log is given up for another one, whose name may be known.
    pub(crate) fn rotate(&mut self, handle: Option<String>, buster: u64) {
        let expired = self.handle.take().or(self.expired.take());
        // A log that is given up for itself cannot be told from the new one.
        let expired = expired.filter(|expired| handle.as_ref() != Some(expired));
        let stale_answers = self.stale_answers;
        *self =
            Self { handle, expired, stale_answers, buster: Some(buster), ..Self::at(self.start) };
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A header without which an answer is no part of a log.
pub(crate) fn required<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, Failure> {
    header(headers, name).ok_or_else(|| {
        Failure::Final(format!(
            "the answer has no header {name}; is the URL that of /v1/shape, and does whatever is \
             between let its headers through?"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(handle: &str, offset: &str) -> HeaderMap {
        let pairs = [("electric-handle", handle), ("electric-offset", offset)];
        pairs
            .into_iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    fn asked(position: &Position) -> String {
        let params = position.params();
        params.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }

    #[test]
    fn a_log_is_followed_from_its_start() {
        let mut position = Position::at(Start::Beginning);
        assert_eq!(asked(&position), "offset=-1");
        assert_eq!(position.accept(&headers("h1", "0_0"), 1), Ok(Accepted::Next));
        assert_eq!(asked(&position), "offset=0_0&handle=h1");
        position.up_to_date();
        let mut next = headers("h1", "5_2");
        next.insert("electric-cursor", "77".parse().unwrap());
        assert_eq!(asked(&position), "offset=0_0&handle=h1&live=true");
        assert_eq!(position.accept(&next, 1), Ok(Accepted::Next));
        assert_eq!(asked(&position), "offset=5_2&handle=h1&live=true&cursor=77");
        position.reach(9);
        assert_eq!(position.offset(), "9_0");
    }

    #[test]
    fn a_log_that_is_given_up_is_not_taken_from_a_cache() {
        let mut position = Position::at(Start::Beginning);
        position.accept(&headers("h1", "0_0"), 1).unwrap();
        position.up_to_date();
        position.rotate(Some("h2".to_owned()), 7);
        let again = "offset=-1&handle=h2&expired_handle=h1&cache-buster=0000000000000007";
        assert_eq!(asked(&position), again);
        for buster in 1..=u64::from(STALE_ANSWERS_MAX) {
            let stale = position.accept(&headers("h1", "0_0"), buster);
            assert!(matches!(stale, Err(Failure::Passing { .. })), "{stale:?}");
        }
        let mut hopeless = position.clone();
        assert!(matches!(hopeless.accept(&headers("h1", "0_0"), 9), Err(Failure::Final(_))));
        assert_eq!(position.accept(&headers("h2", "0_0"), 9), Ok(Accepted::Next));
        assert_eq!(asked(&position), "offset=0_0&handle=h2&expired_handle=h1");
    }

    #[test]
    fn a_piece_of_another_log_is_told_from_ours() {
        let mut position = Position::at(Start::Beginning);
        position.accept(&headers("h1", "0_0"), 1).unwrap();
        let before = position.clone();
        let other = Accepted::Other { handle: "h2".to_owned() };
        assert_eq!(position.accept(&headers("h2", "3_0"), 1), Ok(other));
        assert_eq!(position, before);
        position.rotate(None, 3);
        assert_eq!(position.accept(&headers("h3", "0_0"), 1), Ok(Accepted::Next));
    }

    #[test]
    fn an_answer_without_its_headers_is_no_log() {
        let refused = Position::at(Start::Beginning).accept(&HeaderMap::new(), 1).unwrap_err();
        assert!(refused.to_string().contains("electric-handle"), "{refused}");
    }
}
