//! Stops that are rows, for those that are no agents: who is meant by one.

use live::{Change, DbError, from};

use crate::{rows::Stop, table::Table};

/// The stops of a session.
#[derive(Clone, Debug)]
pub(crate) struct Stops(pub(crate) Table<Stop>);

/// Work that a stop may be meant for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stoppable {
    /// The generation that it is, or is part of.
    pub(crate) generation: Option<String>,
    /// The agent that it is of, if that is known.
    pub(crate) agent: Option<String>,
    /// Where it was asked for. Only what was asked for before is meant by a stop that names no
    /// generation; without a place nobody can tell.
    pub(crate) position: Option<u64>,
}

impl Stops {
    /// The stop that is meant for this, if there is one.
    pub(crate) fn find(&self, work: &Stoppable) -> Result<Option<Stop>, DbError> {
        let stops = self.0.db().once(from::<Stop>().synced())?;
        let found = stops.iter().find(|stop| work.is_meant(stop, stop.meta().position));
        Ok(found.map(|stop| (**stop).clone()))
    }

    /// Waits for one; for ever if stops cannot be read.
    pub(crate) async fn wait(&self, work: &Stoppable) -> Stop {
        let mut changes = match self.0.db().changes(from::<Stop>().synced()) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::error!(%error, "stops cannot be read");
                return std::future::pending().await;
            }
        };
        loop {
            let news = changes.next().await;
            if let Some(stop) = news.iter().find_map(|change| work.meant_in(change)) {
                return stop;
            }
        }
    }
}

impl Stoppable {
    fn meant_in(&self, change: &Change) -> Option<Stop> {
        let entry = change.new.as_ref()?;
        let stop = entry.record.as_typed::<Stop>()?;
        self.is_meant(stop, entry.meta.position).then(|| stop.clone())
    }

    fn is_meant(&self, stop: &Stop, said_at: Option<u64>) -> bool {
        if let Some(generation) = &stop.generation_id {
            return self.generation.as_ref() == Some(generation);
        }
        let is_ours = stop.agent_name.is_none() || stop.agent_name == self.agent;
        let was_before = self.position.zip(said_at).is_some_and(|(asked, said)| asked < said);
        is_ours && was_before
    }
}

/// Why something was stopped, in words.
pub(crate) fn reason_of(stop: &Stop) -> String {
    stop.reason.clone().unwrap_or_else(|| format!("stopped by {}", stop.actor_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stop: (Option<&str>, Option<&str>, Option<u64>), is_meant: bool) {
        let (generation, agent, said_at) = stop;
        let row = Stop {
            id: "s".into(),
            generation_id: generation.map(str::to_owned),
            agent_name: agent.map(str::to_owned),
            actor_id: "ada".into(),
            reason: None,
            created_at: String::new(),
        };
        let work =
            Stoppable { generation: Some("g".into()), agent: Some("a".into()), position: Some(5) };
        assert_eq!(work.is_meant(&row, said_at), is_meant, "{stop:?}");
    }

    #[test]
    fn a_stop_means_what_it_names_or_all_that_was_asked_for_before_it() {
        check((Some("g"), None, Some(1)), true);
        check((Some("g"), None, None), true);
        check((Some("h"), Some("a"), Some(9)), false);
        check((None, None, Some(9)), true);
        check((None, None, Some(1)), false);
        check((None, None, None), false);
        check((None, Some("a"), Some(9)), true);
        check((None, Some("b"), Some(9)), false);
    }
}
