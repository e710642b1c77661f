//! Commands that are killed at each of their durable writes while a server has the directory open:
//! the server does not notice, and what they leave is the old state, the new one, or plainly no
//! state at all.

use std::{fs, path::Path};

use serde_json::Value;
use sys::disk::{End, KillPoint, sweep};

use crate::{
    Client, Model, Server, block_on, is_regrouped, launch, model, scratch, story,
    support::{Output, Program},
    tell,
};

/// Commands at a time.
const HANDS: usize = 2;

/// A server that was told the story, and what it shows.
fn served(dir: &Path) -> (Server, Model) {
    let mut server = launch(&dir.join("data")).start().unwrap();
    let (client, mut model) = (Client::new(&server.address), Model::default());
    assert_eq!(block_on(tell(&client, &story::story(), &mut model)), None);
    assert!(is_regrouped(&mut server, &dir.join("data")), "it is not to die");
    (server, model)
}

fn assert_undisturbed(server: Server, model: &Model) {
    assert_eq!(block_on(model::observe(&Client::new(&server.address))), model.shown());
    assert!(server.stop().0.success());
}

fn headwater(dir: &Path, args: &[&str]) -> Program {
    Program::in_dir(dir).args(args)
}

/// Runs a command that is killed at a write.
fn deadly(dir: &Path, args: &[&str], point: KillPoint) -> Option<Output> {
    headwater(dir, args).env("HEADWATER_KILL_AT_WRITE", point.to_string()).run_deadly()
}

/// What the doctor says of a log; none if the directory holds nothing that can be opened as one.
fn examined(dir: &Path, data: &str) -> Option<Value> {
    let doctor = headwater(dir, &["doctor", "--json", "--data-dir", data]).run();
    if doctor.stdout.is_empty() {
        assert!(doctor.stderr.contains("no log") || doctor.stderr.contains("no such directory"));
        return None;
    }
    let found: Value = serde_json::from_str(&doctor.stdout).unwrap();
    // What makes it a log is written last: without that its files are told to be a remnant.
    let format = format!("{data}/FORMAT");
    let is_remnant = found["findings"].as_array().unwrap().iter().any(|one| {
        one["severity"] == "damage" && one["path"] == format.as_str() && one["offset"] == 0
    });
    assert!(is_remnant || found["sound"] == true, "{found}");
    (!is_remnant).then_some(found)
}

#[test]
fn a_backup_that_is_killed_at_any_write_passes_for_none_or_is_whole() {
    let dir = scratch();
    let (server, model) = served(dir.path());
    let keys = fs::read(dir.path().join("data/keys.json")).unwrap();
    let whole = headwater(dir.path(), &["backup", "whole"]).env("HEADWATER_DATA_DIR", "data");
    whole.run().ok();
    let whole = examined(dir.path(), "whole").unwrap();
    let killed = sweep(HANDS, |point| {
        let copy = format!("copy-{point}");
        let _ = fs::remove_dir_all(dir.path().join(&copy));
        let args = ["backup", &copy, "--data-dir", "data"];
        let end = match deadly(dir.path(), &args, point) {
            Some(output) => {
                output.ok();
                End::Whole
            }
            None => End::Killed,
        };
        let found = examined(dir.path(), &copy);
        assert!(end == End::Killed || found.is_some(), "{point}: a copy that was made is a log");
        if let Some(found) = found {
            for told in ["sound", "streams", "messages", "bytes"] {
                assert_eq!(found[told], whole[told], "{point}: {found}");
            }
            assert_eq!(fs::read(dir.path().join(&copy).join("keys.json")).unwrap(), keys);
        } else {
            let again = headwater(dir.path(), &args).run().failed(1);
            assert!(again.contains("not empty"), "{point}: {again}");
        }
        end
    });
    println!("a backup died at each of {killed} writes, in both ways");
    assert!(killed >= 20, "{killed}");
    assert_undisturbed(server, &model);
}

#[test]
fn a_rotation_of_keys_that_is_killed_at_any_write_is_done_or_not_done() {
    let dir = scratch();
    let (server, model) = served(dir.path());
    let listed = |data: &str| {
        let told = headwater(dir.path(), &["keys", "list", "--data-dir", data]).run().ok();
        told.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let old = listed("data");
    let killed = sweep(HANDS, |point| {
        // What is rotated is the whole of the state: a directory of its own for each point.
        let data = format!("keys-{point}");
        fs::create_dir_all(dir.path().join(&data)).unwrap();
        let file = Path::new(&data).join("keys.json");
        fs::copy(dir.path().join("data/keys.json"), dir.path().join(file)).unwrap();
        let rotated = deadly(dir.path(), &["keys", "rotate", "--data-dir", &data], point);
        let left = listed(&data);
        let is_done = left.len() == 2 && left[1] == old[0];
        assert!(is_done || left == old, "{point}: {left:?}");
        assert!(is_done || rotated.is_none(), "{point}: it said that it was done");
        headwater(dir.path(), &["keys", "rotate", "--data-dir", &data]).run().ok();
        assert_eq!(listed(&data).len(), left.len() + 1, "{point}: it can be done again");
        if rotated.is_some() { End::Whole } else { End::Killed }
    });
    println!("a rotation died at each of {killed} writes, in both ways");
    assert!(killed >= 5, "{killed}");
    assert_undisturbed(server, &model);
}
