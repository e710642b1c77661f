//! Plays every row round by round, first our server and then the official one.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::load::Timing;
use crate::report::{Measurement, Outcome, RowResult};
use crate::rows::Row;
use crate::server::{Contestant, DataDir, Running};

/// Long enough to open connections, fill caches and start the first group commits.
const WARM_UP: Duration = Duration::from_millis(500);

pub(crate) struct Contest {
    pub(crate) ours: Contestant,
    pub(crate) official: Contestant,
    /// Holds one directory per round; must be on the disk under test, never in memory.
    pub(crate) data_root: PathBuf,
    pub(crate) rounds: u64,
    pub(crate) seconds: u64,
}

impl Contest {
    /// Measures all rows. A failed round fails its row on that side only, and says why.
    pub(crate) fn play(&self, rows: &[Row]) -> Vec<RowResult> {
        let mut results = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            eprintln!("[{}/{}] {}", index + 1, rows.len(), row.name);
            results.push(self.play_row(row));
        }
        results
    }

    fn play_row(&self, row: &Row) -> RowResult {
        let mut ours = Vec::new();
        let mut official = Vec::new();
        for round in 1..=row.rounds(self.rounds) {
            ours.push(self.play_round(row, &self.ours, round, "ours"));
            official.push(self.play_round(row, &self.official, round, "official"));
        }
        RowResult::new(row, Outcome::of_rounds(ours), Outcome::of_rounds(official))
    }

    fn play_round(
        &self,
        row: &Row,
        contestant: &Contestant,
        round: u64,
        side: &str,
    ) -> Result<Measurement> {
        let result = self.measure(row, contestant);
        match &result {
            Ok(measurement) => eprintln!("    {round} {side:<9} {}", measurement.brief(row.unit)),
            Err(error) => eprintln!("    {round} {side:<9} failed: {error:#}"),
        }
        result
    }

    fn measure(&self, row: &Row, contestant: &Contestant) -> Result<Measurement> {
        let data_dir = DataDir::create(&self.data_root)?;
        // What the last round left dirty must not be written back during this one.
        data_dir.flush_filesystem()?;
        let server = Running::start(contestant, data_dir)?;
        let timing = Timing { warm_up: WARM_UP, measured: Duration::from_secs(self.seconds) };
        let result = row.work.measure(&server, timing);
        if result.is_err() {
            eprintln!("      {}", server.epitaph());
        }
        result
    }
}
