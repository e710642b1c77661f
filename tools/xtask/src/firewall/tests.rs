//! The firewall against made-up workspaces, and against this one.

use serde_json::{Value, json};

use super::*;

/// A package below `/r`, for instance `crates/wire`, that depends on the given folders.
struct Sketch {
    folder: &'static str,
    dependencies: Vec<Value>,
    linked: Vec<&'static str>,
    features: Value,
}

fn package(folder: &'static str) -> Sketch {
    Sketch { folder, dependencies: Vec::new(), linked: Vec::new(), features: json!({}) }
}

impl Sketch {
    fn uses(self, folder: &'static str) -> Self {
        self.linked(folder).declares(folder, json!({ "uses_default_features": true }))
    }

    fn tests_with(self, folder: &'static str) -> Self {
        self.declares(folder, json!({ "uses_default_features": true, "kind": "dev" }))
    }

    /// A dependency declared with the given settings.
    fn declares(mut self, folder: &'static str, mut settings: Value) -> Self {
        settings["path"] = json!(format!("/r/{folder}"));
        if settings.get("features").is_none() {
            settings["features"] = json!([]);
        }
        self.dependencies.push(settings);
        self
    }

    /// A resolved edge, to a folder or to a third-party package.
    fn linked(mut self, id: &'static str) -> Self {
        self.linked.push(id);
        self
    }

    fn features(mut self, features: Value) -> Self {
        self.features = features;
        self
    }
}

/// Checks a workspace of the given packages; an id without `/` is a third party's.
fn check_sketch(sketches: &[Sketch]) -> Vec<String> {
    let members: Vec<_> = sketches.iter().map(|s| s.folder).filter(|id| id.contains('/')).collect();
    let nodes: Vec<_> = sketches
        .iter()
        .map(|sketch| {
            let edge = |id: &&str| json!({ "pkg": id, "dep_kinds": [{ "kind": null }] });
            let edges: Vec<_> = sketch.linked.iter().map(edge).collect();
            json!({ "id": sketch.folder, "deps": edges })
        })
        .collect();
    let packages: Vec<_> = sketches
        .iter()
        .map(|sketch| {
            let name = sketch.folder.rsplit('/').next();
            json!({ "id": sketch.folder, "name": name, "targets": [],
                    "manifest_path": format!("/r/{}/Cargo.toml", sketch.folder),
                    "dependencies": sketch.dependencies, "features": sketch.features })
        })
        .collect();
    let metadata = json!({ "packages": packages, "workspace_members": members,
                           "target_directory": "/r/target", "resolve": { "nodes": nodes } });
    let metadata = Metadata::parse(&metadata.to_string()).unwrap();
    check(&metadata).iter().map(ToString::to_string).collect()
}

#[test]
fn this_workspace_keeps_to_the_table() {
    let offences = check(&Metadata::load().unwrap());
    let lines: Vec<_> = offences.iter().map(ToString::to_string).collect();
    assert!(offences.is_empty(), "\n{}", lines.join("\n"));
}

#[test]
fn allowed_edges_pass() {
    let sketch = [
        package("crates/wire"),
        package("crates/log").uses("crates/wire"),
        package("crates/log-raft").uses("crates/log"),
        package("crates/cli").uses("crates/log").uses("crates/log-raft"),
        package("tools/sim").uses("crates/log").uses("crates/cli"),
    ];
    assert_eq!(check_sketch(&sketch), [""; 0]);
}

#[test]
fn a_forbidden_edge_is_caught() {
    let sketch = [package("crates/wire").uses("crates/sys"), package("crates/sys")];
    assert_eq!(
        check_sketch(&sketch),
        ["crates/wire/Cargo.toml:1: wire may not use sys: \
          move the code, or change the design first"]
    );
}

#[test]
fn an_optional_or_build_dependency_is_an_edge_too() {
    let build = json!({ "uses_default_features": true, "kind": "build", "optional": true });
    let sketch = [package("crates/wire").declares("crates/sys", build), package("crates/sys")];
    assert_eq!(check_sketch(&sketch).len(), 1);
}

#[test]
fn no_room_uses_a_tool_or_the_program() {
    let sketch = [
        package("crates/cli").uses("tools/sim"),
        package("tools/sim"),
        package("crates/headwater").uses("crates/cli"),
    ];
    assert_eq!(
        check_sketch(&sketch),
        [
            "crates/cli/Cargo.toml:1: cli may not use sim: no room uses a tool",
            "crates/headwater/Cargo.toml:1: headwater may not use cli",
        ]
    );
}

#[test]
fn a_banned_package_is_caught_at_any_distance() {
    let sketch = [
        package("crates/wire").linked("framing"),
        package("framing").linked("tokio"),
        package("tokio"),
    ];
    assert_eq!(
        check_sketch(&sketch),
        ["crates/wire/Cargo.toml:1: wire must never see tokio: cut wire -> framing -> tokio"]
    );
}

#[test]
fn defaults_and_banned_features_are_caught() {
    let log = || package("crates/log").features(json!({ "default": ["file"], "file": [] }));
    let live = |settings| [package("crates/live").declares("crates/log", settings), log()];
    let bare = json!({ "uses_default_features": false });
    assert_eq!(check_sketch(&live(bare)), [""; 0]);
    let full = json!({ "uses_default_features": true });
    assert_eq!(
        check_sketch(&live(full)),
        ["crates/live/Cargo.toml:1: live may use log only with `default-features = false`"]
    );
    let engine = json!({ "uses_default_features": false, "features": ["file"] });
    assert_eq!(
        check_sketch(&live(engine)),
        ["crates/live/Cargo.toml:1: live must never see log/file: \
          do not switch that feature on"]
    );
    let agent = [package("crates/agent").uses("crates/log"), log()];
    assert_eq!(check_sketch(&agent).len(), 1, "a default that switches the engine on counts");
}

#[test]
fn tests_may_use_anything_but_may_not_close_a_ring() {
    let free = [package("crates/wire").tests_with("tools/sim"), package("tools/sim")];
    assert_eq!(check_sketch(&free), [""; 0]);
    let itself = [package("crates/log").tests_with("crates/log")];
    assert_eq!(check_sketch(&itself), [""; 0]);
    let ring =
        [package("crates/log").tests_with("tools/sim"), package("tools/sim").uses("crates/log")];
    assert_eq!(
        check_sketch(&ring),
        ["crates/log/Cargo.toml:1: log is part of a ring, cut it: log -> sim -> log"]
    );
}

#[test]
fn a_room_without_a_row_is_caught() {
    assert_eq!(
        check_sketch(&[package("crates/attic")]),
        ["crates/attic/Cargo.toml:1: attic has no row in the table of rooms; add one"]
    );
}
