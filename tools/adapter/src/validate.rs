//! Input that the client must refuse before anything is sent.

use std::time::Duration;

use client::{BadProducerSettings, BadRetry, Client, Retry, Settings};
use sys::Sys;
use wire::Epoch;

use crate::{answer::Failed, command::Target};

pub(crate) fn validate(target: &Target) -> Result<(), Failed> {
    match target {
        Target::RetryOptions { max_retries, initial_delay_ms, max_delay_ms, multiplier } => {
            let retries = whole(*max_retries, 3, "maxRetries")?;
            let retries = u32::try_from(retries).unwrap_or(u32::MAX);
            let first = Duration::from_millis(whole(*initial_delay_ms, 100, "initialDelayMs")?);
            let longest = Duration::from_millis(whole(*max_delay_ms, 60_000, "maxDelayMs")?);
            let retry = Retry::new(retries, first, longest, multiplier.unwrap_or(2.0));
            retry.map(|_| ()).map_err(|error| {
                // The suite knows them by these names.
                let name = match error {
                    BadRetry::First => "initialDelayMs",
                    BadRetry::Longest => "maxDelayMs",
                    _ => "multiplier",
                };
                invalid(format!("{name}: {error}"))
            })
        }
        Target::IdempotentProducer { producer_id, epoch, max_batch_bytes, max_batch_items } => {
            let id = producer_id.as_deref().unwrap_or("test-producer");
            let settings = Settings::new("http://127.0.0.1").map_err(invalid)?;
            let stream = Client::new(&Sys::real(), settings).stream(&"a".parse().map_err(invalid)?);
            let producer = stream
                .producer(id.parse().map_err(invalid)?)
                .epoch(Epoch::new(whole(*epoch, 0, "epoch")?))
                .batch_bytes_max(size(*max_batch_bytes, "maxBatchBytes")?)
                .batch_messages_max(size(*max_batch_items, "maxBatchItems")?);
            producer.check().map_err(|error| {
                let name = match error {
                    BadProducerSettings::BatchBytes => "maxBatchBytes",
                    _ => "maxBatchItems",
                };
                invalid(format!("{name}: {error}"))
            })
        }
    }
}

fn invalid(error: impl ToString) -> Failed {
    Failed::new("INVALID_ARGUMENT", error)
}

fn whole(number: Option<i64>, usual: u64, name: &str) -> Result<u64, Failed> {
    number.map_or(Ok(usual), |number| {
        u64::try_from(number).map_err(|_| invalid(format!("{name} must not be negative")))
    })
}

fn size(number: Option<i64>, name: &str) -> Result<usize, Failed> {
    let number = whole(number, 1000, name)?;
    usize::try_from(number).map_err(|_| invalid(format!("{name} is too large")))
}
