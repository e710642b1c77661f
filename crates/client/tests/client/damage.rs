//! A log that has lost a pack says over HTTP where its messages go on.

use std::{path::Path, sync::Arc, time::Duration};

use client::{Client, HttpLog, Live, OffsetToken};
use log::{
    Append, Create, Log, ReadError, Unavailable,
    file::{FileLog, Settings},
};
use sys::{
    Disk as _, Sys,
    disk::{SimDisk, SimFaults},
};
use tokio::runtime::Builder;
use wire::{Address, Messages, ReadFrom, StreamPath};

use crate::support::{serving, settings};

const DIR: &str = "/data";
const MESSAGES: u64 = 200;

async fn open(sys: &Sys) -> FileLog {
    let settings = Settings {
        segment_bytes: 16 * 1024,
        commit_bytes_max: 2 * 1024,
        hot_bytes_max: 0,
        regroup_segments: 1,
        ..Settings::default()
    };
    FileLog::open(sys, Path::new(DIR), settings).await.unwrap()
}

fn text(number: u64) -> String {
    format!("{number:03}{}", "x".repeat(200))
}

/// A disk whose log has lost the first pack of its only stream.
fn damaged(address: &Address) -> Sys {
    let disk = SimDisk::new(1, SimFaults::default());
    let sys = Sys { disk: Arc::new(disk.clone()), ..Sys::real() };
    // Time passes when nothing happens, so that regrouping is over at once.
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let log = open(&sys).await;
        let _ = log.create(address, Create::default()).await.unwrap();
        for number in 0..MESSAGES {
            let messages = Messages::one(text(number)).unwrap();
            let _ = log.append(address, Append::messages(messages)).await.unwrap();
        }
        sys.clock.sleep(Duration::from_secs(120)).await;
        log.close().await;
    });
    let packs = Path::new(DIR).join("packs");
    let names = disk.list(&packs).unwrap();
    assert!(names.len() > 1, "{names:?}");
    disk.remove(&packs.join(&names[0])).unwrap();
    sys
}

/// Reads the whole stream, stepping over what is lost; the numbers of what was read, and how many
/// messages are missing.
async fn read_around(log: &dyn Log, address: &Address) -> (Vec<u64>, u64) {
    let (mut from, mut found, mut missing) = (ReadFrom::Start, Vec::new(), 0);
    let tail = log.head(address).await.unwrap().tail;
    loop {
        match log.read(address, from, 4_096).await {
            Ok(chunk) if chunk.next == tail && chunk.runs.is_empty() => return (found, missing),
            Ok(chunk) => {
                let number = |text: &[u8]| std::str::from_utf8(&text[..3]).unwrap().parse::<u64>();
                found.extend(chunk.messages().map(|text| number(text).unwrap()));
                from = ReadFrom::At(chunk.next);
            }
            Err(error) => {
                assert!(!error.is_retryable());
                let ReadError::Unavailable(Unavailable::Damaged(lost)) = error else {
                    panic!("{error}")
                };
                assert!(lost.stream.contains("a/stream"), "{lost}");
                missing += lost.until.position.get() - lost.from.position.get();
                from = ReadFrom::At(lost.until);
            }
        }
    }
}

#[test]
fn a_lost_pack_refuses_its_range_and_says_where_to_read_on() {
    let address: Address = "a/stream".parse::<StreamPath>().unwrap().into();
    let sys = damaged(&address);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let log: Arc<dyn Log> = Arc::new(open(&sys).await);
        let server = serving(log.clone()).await;
        let client = Client::connect(&Sys::real(), settings(server)).await.unwrap();
        let (found, missing) = read_around(&HttpLog::new(client.clone()), &address).await;
        assert!(missing > 0);
        assert_eq!(found.len() as u64 + missing, MESSAGES);
        assert_eq!((found, missing), read_around(&*log, &address).await);

        // A plain reader is told, and may go on from there.
        let stream = client.stream(&"a/stream".parse().unwrap());
        let mut reader = stream.reader(OffsetToken::start(), Live::Off);
        let failure = loop {
            match reader.next().await {
                Ok(batch) => assert!(batch.is_some(), "the end was reached over a gap"),
                Err(failure) => break failure,
            }
        };
        let client::Failure::Refused(refusal) = failure else { panic!("{failure}") };
        assert_eq!((refusal.status.as_u16(), refusal.code.as_str()), (410, "messages-damaged"));
        let next = refusal.headers["stream-next-offset"].to_str().unwrap();
        assert!(refusal.detail.contains(next), "{}", refusal.detail);
        let mut reader = stream.reader(next.parse().unwrap(), Live::Off);
        assert!(reader.next().await.unwrap().is_some());
    });
}
