//! `cargo xtask firewall`: which room may see which.
//!
//! The rules are the table in [`rooms`]; this file holds them against `cargo metadata`. Three
//! things are checked: what a manifest declares, what a room reaches through others, and that
//! test-only dependencies do not bend the graph into a ring.

mod closure;
mod rooms;

use std::{collections::BTreeMap, path::Path, process::ExitCode};

use anyhow::Result;

use self::rooms::{Ban, Reach, Room};
use crate::{
    args::Args,
    metadata::{Dependency, Kind, Metadata, Package},
    offence::{self, Offence},
};

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    args.finish()?;
    Ok(offence::print_all("firewall", &check(&Metadata::load()?)))
}

/// Everything in the workspace that breaks the table.
pub(crate) fn check(metadata: &Metadata) -> Vec<Offence> {
    let house = House::new(metadata);
    let mut offences = Vec::new();
    for place in house.places.values() {
        let Some(name) = place.room else { continue };
        match rooms::find(name) {
            Some(room) => {
                house.check_edges(place, room, &mut offences);
                house.check_bans(place, room, &mut offences);
            }
            None => offences.push(place.offence("has no row in the table of rooms; add one")),
        }
    }
    offences.extend(house.rings());
    offences
}

/// The workspace seen as rooms and tools, by folder.
struct House<'a> {
    metadata: &'a Metadata,
    places: BTreeMap<&'a Path, Place<'a>>,
}

struct Place<'a> {
    package: &'a Package,
    /// The folder's name if it is a room of `crates/`; tools have none and are free.
    room: Option<&'a str>,
}

impl<'a> House<'a> {
    fn new(metadata: &'a Metadata) -> Self {
        let places = metadata.members().map(|package| (package.dir(), Place::new(package)));
        Self { metadata, places: places.collect() }
    }

    /// Checks what the manifest of a room declares, optional dependencies included.
    fn check_edges(&self, place: &Place<'_>, room: &Room, offences: &mut Vec<Offence>) {
        for (dependency, target) in self.dependencies(place) {
            if dependency.kind == Kind::Dev {
                continue;
            }
            let complaint = match target.room {
                None => Some(format!("may not use {}: no room uses a tool", target.package.name)),
                Some(used) => complain_of_edge(room, used, dependency)
                    .or_else(|| complain_of_feature(room, used, dependency, target.package)),
            };
            offences.extend(complaint.map(|complaint| place.offence(&complaint)));
        }
    }

    /// Checks everything a room is linked with, however many steps away.
    ///
    /// Features are those of the whole workspace with everything on, so a room is held to the
    /// worst that a build can give it.
    fn check_bans(&self, place: &Place<'_>, room: &Room, offences: &mut Vec<Offence>) {
        let reached = closure::chains(self.metadata, &place.package.id);
        for ban in room.never.iter().copied().flatten() {
            let Ban::Package(banned) = ban else { continue };
            if let Some(chain) = reached.get(banned) {
                let complaint = format!("must never see {banned}: cut {}", chain.join(" -> "));
                offences.push(place.offence(&complaint));
            }
        }
    }

    /// Cargo allows rings that lead through a test dependency; they confuse readers and tools.
    fn rings(&self) -> Vec<Offence> {
        let ring = closure::find_ring(self.places.keys().copied(), |dir| {
            let place = &self.places[dir];
            let targets = self.dependencies(place).map(|(_, target)| target.package.dir());
            // A crate that tests itself with its own features switched on involves nobody else.
            targets.filter(|target| *target != dir).collect()
        });
        let Some(ring) = ring else { return Vec::new() };
        let names: Vec<_> = ring.iter().map(|dir| self.places[dir].package.name.as_str()).collect();
        let complaint = format!("is part of a ring, cut it: {}", names.join(" -> "));
        ring.first().map(|dir| self.places[dir].offence(&complaint)).into_iter().collect()
    }

    /// The dependencies of a place that are themselves places.
    fn dependencies(
        &self,
        place: &Place<'a>,
    ) -> impl Iterator<Item = (&'a Dependency, &Place<'a>)> {
        place.package.dependencies.iter().filter_map(|dependency| {
            let dir = dependency.path.as_deref()?;
            Some((dependency, self.places.get(dir)?))
        })
    }
}

impl<'a> Place<'a> {
    fn new(package: &'a Package) -> Self {
        let folder = |dir: Option<&'a Path>| dir.and_then(Path::file_name)?.to_str();
        let dir = package.dir();
        let is_room = folder(dir.parent()) == Some("crates");
        Self { package, room: if is_room { folder(Some(dir)) } else { None } }
    }

    fn offence(&self, complaint: &str) -> Offence {
        let folder = self.room.unwrap_or(&self.package.name);
        let group = if self.room.is_some() { "crates" } else { "tools" };
        Offence::of_file(&format!("{group}/{folder}/Cargo.toml"), format!("{folder} {complaint}"))
    }
}

fn complain_of_edge(room: &Room, used: &str, dependency: &Dependency) -> Option<String> {
    match room.may_use {
        Reach::Everything => None,
        Reach::Libraries if used == rooms::PROGRAM => Some(format!("may not use {used}")),
        Reach::Libraries => None,
        Reach::Only(edges) => match edges.iter().find(|edge| edge.room() == used) {
            None => Some(format!("may not use {used}: move the code, or change the design first")),
            Some(edge) if edge.is_bare() && dependency.uses_default_features => {
                Some(format!("may use {used} only with `default-features = false`"))
            }
            Some(_) => None,
        },
    }
}

fn complain_of_feature(
    room: &Room,
    used: &str,
    dependency: &Dependency,
    target: &Package,
) -> Option<String> {
    let active = closure::active_features(dependency, target);
    room.never.iter().copied().flatten().find_map(|ban| match ban {
        Ban::Feature { of, feature } if *of == used && active.contains(feature) => {
            Some(format!("must never see {used}/{feature}: do not switch that feature on"))
        }
        Ban::Feature { .. } | Ban::Package(_) => None,
    })
}

#[cfg(test)]
mod tests;
