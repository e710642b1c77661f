//! The parts of `cargo metadata` that the commands read.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::cargo::{cargo, output_of};

#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: BTreeSet<String>,
    pub(crate) target_directory: PathBuf,
    /// Absent when dependencies were not asked for.
    #[serde(default)]
    pub(crate) resolve: Option<Resolve>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
    pub(crate) features: BTreeMap<String, Vec<String>>,
}

/// A dependency as a manifest declares it, whether or not a feature switches it on.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    #[serde(default, deserialize_with = "kind_or_normal")]
    pub(crate) kind: Kind,
    /// The folder of a dependency that is not from a registry.
    #[serde(default)]
    pub(crate) path: Option<PathBuf>,
    pub(crate) uses_default_features: bool,
    pub(crate) features: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    #[default]
    Normal,
    Build,
    Dev,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

/// Who uses whom once features are settled.
#[derive(Debug, Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) deps: Vec<NodeDependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NodeDependency {
    pub(crate) pkg: String,
    dep_kinds: Vec<NodeDependencyKind>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NodeDependencyKind {
    #[serde(default, deserialize_with = "kind_or_normal")]
    kind: Kind,
}

impl Metadata {
    /// The whole workspace with every feature on, so that no optional edge hides.
    pub(crate) fn load() -> Result<Self> {
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1", "--all-features"]);
        Self::parse(&output_of(&mut command)?)
    }

    /// The packages of another workspace, without their dependencies.
    pub(crate) fn load_members(manifest: &Path) -> Result<Self> {
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"]);
        Self::parse(&output_of(command.arg(manifest))?)
    }

    pub(crate) fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json).context("`cargo metadata` has changed its format")
    }

    /// The packages of the workspace itself.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }
}

impl Package {
    /// The folder its manifest is in.
    pub(crate) fn dir(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }
}

impl NodeDependency {
    /// Whether it ends up in the binary; build scripts' and tests' dependencies do not.
    pub(crate) fn is_linked(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind == Kind::Normal)
    }
}

impl Target {
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|own| own == kind)
    }

    pub(crate) fn is_library(&self) -> bool {
        ["lib", "rlib", "proc-macro"].into_iter().any(|kind| self.is(kind))
    }
}

/// Cargo writes `null` for the most common kind.
fn kind_or_normal<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
    Ok(Option::<Kind>::deserialize(from)?.unwrap_or_default())
}
