//! The names on a simulated disk: what lookups see, what is durable, and the changes in between.
//!
//! A change is durable once the directory that holds the new name is synced. Until then a crash may
//! keep or lose it, whatever happens to the changes before and after it, except that two changes to
//! the same name keep their order. A name whose directory is lost is lost with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io, iter,
    path::{Component, Path, PathBuf},
};

use super::survival::Survival;

/// Tells files apart, whatever their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileId(pub(super) u64);

/// The directory tree, flat: every path from the root, which is the empty path.
#[derive(Debug, Default)]
pub(super) struct Names {
    seen: Tree,
    durable: Tree,
    /// Oldest first.
    unsynced: Vec<Change>,
}

/// Parents sort before their children.
type Tree = BTreeMap<PathBuf, Node>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Dir,
    File(FileId),
}

#[derive(Clone, Debug)]
enum Change {
    MakeDir { path: PathBuf },
    Create { path: PathBuf, file: FileId },
    Rename { from: PathBuf, to: PathBuf, file: FileId },
    Remove { path: PathBuf },
}

impl Names {
    /// The file at `path`.
    pub(super) fn file(&self, path: &Path) -> io::Result<FileId> {
        match self.node(path) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Every file that has a name.
    pub(super) fn files(&self) -> impl Iterator<Item = FileId> {
        self.seen.values().filter_map(|node| match node {
            Node::File(file) => Some(*file),
            Node::Dir => None,
        })
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.check_dir(dir)?;
        let children = self.seen.keys().filter(|path| path.parent() == Some(dir));
        let names = children.filter_map(|path| path.file_name()?.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let ancestors: Vec<_> = path.ancestors().collect();
        for dir in ancestors.into_iter().rev() {
            match self.node(dir) {
                Some(Node::Dir) => {}
                Some(Node::File(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
                None => self.change(Change::MakeDir { path: dir.to_owned() }),
            }
        }
        Ok(())
    }

    pub(super) fn create(&mut self, path: &Path, file: FileId) -> io::Result<()> {
        self.check_parent(path)?;
        if self.node(path).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(Change::Create { path: path.to_owned(), file });
        Ok(())
    }

    /// Directories do not move.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.file(from)?;
        self.check_parent(to)?;
        if self.node(to) == Some(Node::Dir) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.change(Change::Rename { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.file(path)?;
        self.change(Change::Remove { path: path.to_owned() });
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.check_dir(dir)?;
        let changes = std::mem::take(&mut self.unsynced);
        let (synced, left) = choose(changes, |change| change.path().parent() == Some(dir));
        for change in &synced {
            change.apply(&mut self.durable);
        }
        self.unsynced = left;
        Ok(())
    }

    /// What the power cut left, all of it durable now.
    pub(super) fn after_crash(&self, survival: &Survival) -> Self {
        let mut survivors = self.durable.clone();
        let (kept, _lost) = choose(self.unsynced.clone(), |_| survival.keeps());
        for change in &kept {
            change.apply(&mut survivors);
        }
        let mut rooted = Tree::new();
        for (path, node) in survivors {
            if path.parent().is_some_and(|dir| is_dir(&rooted, dir)) {
                rooted.insert(path, node);
            }
        }
        Self { seen: rooted.clone(), durable: rooted, unsynced: Vec::new() }
    }

    fn node(&self, path: &Path) -> Option<Node> {
        node(&self.seen, path)
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(dir) => self.check_dir(dir),
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn check_dir(&self, dir: &Path) -> io::Result<()> {
        match self.node(dir) {
            Some(Node::Dir) => Ok(()),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.unsynced.push(change);
    }
}

impl Change {
    fn apply(&self, tree: &mut Tree) {
        match self {
            Self::MakeDir { path } => {
                tree.insert(path.clone(), Node::Dir);
            }
            Self::Create { path, file } => {
                tree.insert(path.clone(), Node::File(*file));
            }
            Self::Rename { from, to, file } => {
                tree.remove(from);
                tree.insert(to.clone(), Node::File(*file));
            }
            Self::Remove { path } => {
                tree.remove(path);
            }
        }
    }

    /// The name the change is about; its directory is the one to sync.
    fn path(&self) -> &Path {
        match self {
            Self::MakeDir { path } | Self::Create { path, .. } | Self::Remove { path } => path,
            Self::Rename { to, .. } => to,
        }
    }

    /// The other name that changes in the same stroke.
    fn other_path(&self) -> Option<&Path> {
        match self {
            Self::Rename { from, .. } => Some(from),
            Self::MakeDir { .. } | Self::Create { .. } | Self::Remove { .. } => None,
        }
    }
}

/// Parts `changes` into the chosen ones and the others, both in order.
///
/// A change is chosen too if a later chosen one touches the same name: a file cannot take a name
/// before the file that had it left.
fn choose(
    changes: Vec<Change>,
    mut is_chosen: impl FnMut(&Change) -> bool,
) -> (Vec<Change>, Vec<Change>) {
    let mut touched = BTreeSet::<PathBuf>::new();
    let (mut chosen, mut others) = (Vec::new(), Vec::new());
    for change in changes.into_iter().rev() {
        let mut paths = iter::once(change.path()).chain(change.other_path());
        if is_chosen(&change) || paths.any(|path| touched.contains(path)) {
            touched.insert(change.path().to_owned());
            touched.extend(change.other_path().map(Path::to_owned));
            chosen.push(change);
        } else {
            others.push(change);
        }
    }
    chosen.reverse();
    others.reverse();
    (chosen, others)
}

/// The path from the root, without `.` and `..`. Relative paths start at the root too.
pub(super) fn from_root(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    plain
}

fn node(tree: &Tree, path: &Path) -> Option<Node> {
    if path.as_os_str().is_empty() { Some(Node::Dir) } else { tree.get(path).copied() }
}

fn is_dir(tree: &Tree, path: &Path) -> bool {
    node(tree, path) == Some(Node::Dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chance;

    const A: FileId = FileId(1);
    const B: FileId = FileId(2);

    /// Every state that 500 crashes leave, as names with their files.
    fn crash_states(names: &Names) -> BTreeSet<Vec<(String, u64)>> {
        let crash = |seed| {
            let crashed = names.after_crash(&Survival::draw(&Chance::seeded(seed)));
            let files = crashed.seen.iter().filter_map(|(path, node)| match node {
                Node::File(file) => Some((path.to_str()?.to_owned(), file.0)),
                Node::Dir => None,
            });
            files.collect()
        };
        (0..500).map(crash).collect()
    }

    fn check(names: &Names, expect: &[&[(&str, FileId)]]) {
        let own = |state: &&[(&str, FileId)]| {
            state.iter().map(|(name, file)| ((*name).to_owned(), file.0)).collect()
        };
        assert_eq!(crash_states(names), expect.iter().map(own).collect());
    }

    fn path(path: &str) -> &Path {
        Path::new(path)
    }

    #[test]
    fn unsynced_creates_survive_in_any_combination() -> io::Result<()> {
        let mut names = Names::default();
        names.create(path("a"), A)?;
        names.create(path("b"), B)?;
        check(&names, &[&[], &[("a", A)], &[("b", B)], &[("a", A), ("b", B)]]);
        names.sync_dir(path(""))?;
        check(&names, &[&[("a", A), ("b", B)]]);
        Ok(())
    }

    #[test]
    fn a_rename_leaves_the_old_name_or_the_new_one() -> io::Result<()> {
        let mut names = Names::default();
        names.create(path("new"), B)?;
        names.create(path("live"), A)?;
        names.sync_dir(path(""))?;
        names.rename(path("new"), path("live"))?;
        check(&names, &[&[("live", A), ("new", B)], &[("live", B)]]);
        Ok(())
    }

    #[test]
    fn a_renamed_file_is_not_lost_to_whoever_takes_its_name() -> io::Result<()> {
        let mut names = Names::default();
        names.create(path("a"), A)?;
        names.sync_dir(path(""))?;
        names.rename(path("a"), path("b"))?;
        names.create(path("a"), B)?;
        check(&names, &[&[("a", A)], &[("b", A)], &[("a", B), ("b", A)]]);
        Ok(())
    }

    #[test]
    fn a_removed_file_may_reappear_until_its_directory_is_synced() -> io::Result<()> {
        let mut names = Names::default();
        names.create(path("a"), A)?;
        names.sync_dir(path(""))?;
        names.remove(path("a"))?;
        check(&names, &[&[], &[("a", A)]]);
        names.sync_dir(path(""))?;
        check(&names, &[&[]]);
        Ok(())
    }

    #[test]
    fn names_are_lost_with_a_directory_that_nobody_synced() -> io::Result<()> {
        let mut names = Names::default();
        names.create_dir_all(path("x/y"))?;
        names.create(path("x/y/a"), A)?;
        names.sync_dir(path("x/y"))?;
        check(&names, &[&[], &[("x/y/a", A)]]);
        names.sync_dir(path("x"))?;
        check(&names, &[&[], &[("x/y/a", A)]]);
        names.sync_dir(path(""))?;
        check(&names, &[&[("x/y/a", A)]]);
        Ok(())
    }

    #[test]
    fn a_move_between_directories_never_loses_or_doubles_the_file() -> io::Result<()> {
        let mut names = Names::default();
        names.create_dir_all(path("x"))?;
        names.sync_dir(path(""))?;
        names.create(path("a"), A)?;
        names.rename(path("a"), path("x/a"))?;
        names.sync_dir(path("x"))?;
        check(&names, &[&[("x/a", A)]]);
        names.sync_dir(path(""))?;
        check(&names, &[&[("x/a", A)]]);
        Ok(())
    }

    #[test]
    fn paths_start_at_the_root() {
        for (given, expect) in [("/", ""), ("/a/b", "a/b"), ("./a/../b", "b"), ("..", "")] {
            assert_eq!(from_root(path(given)), path(expect), "{given}");
        }
    }
}
