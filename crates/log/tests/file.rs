//! The file engine keeps the contract, on a simulated disk with segments so small that every test
//! rolls and regroups, and on a real one.

use std::{path::Path, sync::Arc};

use log::{
    file::{FileLog, Settings},
    suite::Subject,
};
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};

mod tiny_segments {
    use super::*;

    async fn subject() -> Subject {
        let disk = SimDisk::new(1, SimFaults::default());
        let sys = Sys::simulated(1, disk, UnixMs::new(1_800_000_000_000));
        let settings = Settings {
            segment_bytes: 16 * 1024,
            hot_bytes_max: 4 * 1024,
            commit_bytes_max: 2 * 1024,
            regroup_segments: 1,
            ..Settings::default()
        };
        let log = FileLog::open(&sys, Path::new("/data"), settings).await.expect("an empty disk");
        Subject { log: Arc::new(log), sys, is_remote: false }
    }

    log::suite!(subject);
}
