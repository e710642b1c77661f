//! `headwater stream compact`: a stream that keeps its rows, and little else.

use client::Retry;
use live::Compacted;
use serde::Serialize;
use wire::StreamPath;

use super::{args::CompactArgs, verbs::Session};
use crate::failure::Failure;

/// What a compaction came to, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    path: &'a str,
    outcome: &'static str,
    rows: u64,
    /// Where history begins now.
    kept_from: u64,
    /// The durable effect that needs the rest.
    held_by: Option<&'a str>,
    messages_before: u64,
    messages_after: u64,
    bytes_before: u64,
    bytes_after: u64,
}

impl Session {
    pub(super) async fn compact(&self, args: CompactArgs) -> Result<(), Failure> {
        let CompactArgs { path, keep_from, keep_chunks, drop_unreadable, dry_run } = args;
        // A compaction knows its own appends again only if it repeats them itself.
        let log = self.target.log_with(&self.sys, Retry::NEVER).await?;
        // Streams of other rows have none that this concerns.
        let mut compaction = agent::rows::compaction(live::compact(&log, path.clone(), &self.sys));
        if let Some(keep) = keep_chunks {
            compaction = agent::rows::drop_chunks(compaction, keep, self.sys.clock.unix_ms());
        }
        if drop_unreadable {
            compaction = compaction.drop_unreadable();
        }
        let patient = self.target.log(&self.sys).await?;
        let open = match agent::oldest_open(&patient, path.clone(), &self.sys).await {
            Ok(open) => open,
            Err(error) => {
                // What is wrong with a stream is told best by who wants to compact it.
                compaction.plan().await.map_err(|error| refused(&path, error))?;
                return Err(Failure::about(&path, error));
            }
        };
        for position in keep_from.into_iter().chain(open) {
            compaction = compaction.hold(position);
        }
        let compacted = match dry_run {
            true => compaction.plan().await,
            false => compaction.run().await,
        };
        let compacted = compacted.map_err(|error| refused(&path, error))?;
        let outcome = match (compacted.after == compacted.before, dry_run) {
            (true, _) => "unchanged",
            (false, true) => "planned",
            (false, false) => "compacted",
        };
        self.tell_compacted(&path, outcome, &compacted)
    }

    fn tell_compacted(
        &self,
        path: &StreamPath,
        outcome: &'static str,
        compacted: &Compacted,
    ) -> Result<(), Failure> {
        let Compacted { rows, reach, held_by, before, after, .. } = compacted;
        let shown = Shown {
            path: path.as_str(),
            outcome,
            rows: *rows,
            kept_from: reach.get(),
            held_by: held_by.as_deref(),
            messages_before: before.messages,
            messages_after: after.messages,
            bytes_before: before.bytes,
            bytes_after: after.bytes,
        };
        let sentence = || {
            if outcome == "unchanged" {
                let held = held_by.as_ref().map(|effect| {
                    let from = reach.get();
                    format!("; all from position {from} on is kept for the effect {effect:?}")
                });
                return format!("{path} has nothing to give back{}", held.unwrap_or_default());
            }
            let verb = if outcome == "planned" { "would begin" } else { "begins" };
            let things = if *rows == 1 { "row" } else { "rows" };
            let (from, to) = (before.messages, after.messages);
            let bytes = before.bytes.saturating_sub(after.bytes);
            format!(
                "{path} {verb} with a snapshot of {rows} {things}: {from} messages become {to}, \
                 {bytes} bytes given back"
            )
        };
        self.printer.result(sentence, &shown)
    }
}

fn refused(path: &StreamPath, error: live::CompactError) -> Failure {
    match error {
        live::CompactError::NotState { .. } => {
            Failure::about(path, format!("{error}; --drop-unreadable drops it"))
        }
        error => Failure::about(path, error),
    }
}
