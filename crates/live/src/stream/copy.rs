//! A copy of the rows in a file, so that the next life need not read the whole stream.
//!
//! ```text
//! {"format":1,"stream":…,"life":…,"offset":…,"covered":…,"client":…,"types":{…},"rows":n}
//! ["message","m1",12,true,{…}]          type, key, position, whether it is ours, row
//! …
//! 1c291ca3                              a checksum of everything before
//! ```
//!
//! The file is replaced as a whole, and holds nothing that did not come from the log. A copy that
//! is damaged, of another stream or of other types is as good as none: the stream is read instead.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
};

use query::{CollectionId, Meta, Origin, Tick, View, Write};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use state::Json;
use sys::{Sys, disk::Disk};
use wire::{Offset, Position};

use super::{
    Codec, Types,
    writer::{StreamWriter, key_text},
};
use crate::{
    caps::{COPY_BYTES_MAX, COPY_TICKS},
    db::Db,
};

const FORMAT: u32 = 1;
/// Hexadecimal digits of the checksum, and the line break before them.
const SUM_BYTES: usize = 9;

/// What a copy says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    format: u32,
    stream: String,
    /// Which life of the stream.
    pub(super) life: u64,
    offset: String,
    covered: u64,
    client: String,
    /// The columns of each type, as they were.
    types: BTreeMap<String, String>,
    rows: usize,
}

/// Where to go on.
pub(super) struct Resume {
    pub(super) life: u64,
    pub(super) offset: Offset,
    pub(super) covered: Position,
}

/// One row of a copy.
#[derive(Debug, Deserialize, Serialize)]
struct Line<'a>(
    #[serde(borrow)] std::borrow::Cow<'a, str>,
    #[serde(borrow)] std::borrow::Cow<'a, str>,
    Option<u64>,
    bool,
    #[serde(borrow)] &'a RawValue,
);

/// The keeper of a copy.
pub(super) struct Copy {
    path: PathBuf,
    sys: Sys,
    stream: String,
    client: String,
    types: Types,
    /// Ticks since the copy was made.
    ticks: usize,
    /// A row did not fit its type, which may be another in the next life: no copy is made.
    is_incomplete: bool,
}

impl Copy {
    pub(super) fn new(
        path: PathBuf,
        sys: &Sys,
        stream: &dyn fmt::Display,
        client: &str,
        types: &Types,
    ) -> Self {
        Self {
            path,
            sys: sys.clone(),
            stream: stream.to_string(),
            client: client.to_owned(),
            types: types.clone(),
            ticks: 0,
            is_incomplete: false,
        }
    }

    /// Shows what an earlier life has kept, and tells where to go on.
    pub(super) async fn load(&self, db: &Db, writer: &StreamWriter) -> Option<Resume> {
        let (disk, path) = (self.sys.disk.clone(), self.path.clone());
        let bytes = self.sys.spawn.blocking(move || read_file(&*disk, &path)).await;
        let shown = match bytes {
            Ok(bytes) => self.show(&bytes, db, writer),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => Err(error.to_string()),
        };
        match shown {
            Ok(resume) => Some(resume),
            Err(why) => {
                let path = self.path.display();
                tracing::warn!(%path, why, "a copy of rows is of no use; the stream is read");
                None
            }
        }
    }

    fn show(&self, bytes: &[u8], db: &Db, writer: &StreamWriter) -> Result<Resume, String> {
        let (header, lines) = parse(bytes)?;
        let resume = self.fits(&header, db)?;
        let is_ours = header.client == self.client;
        let mut rows = Vec::with_capacity(header.rows);
        let writes = db.prepare(|database| {
            let mut writes = Vec::with_capacity(header.rows);
            for line in lines {
                let Line(type_name, key, position, was_ours, row) = line?;
                let Some((id, codec)) = self.types.get(&*type_name) else { continue };
                let row = Json::from(row);
                let record = codec.decode(&key, &row, (*id, &mut *database))?;
                let origin = if was_ours && is_ours { Origin::Local } else { Origin::Remote };
                let meta = Meta { position, is_pending: false, origin };
                writes.push((*id, Write::Put(record, meta)));
                rows.push((SmolStr::new(type_name), SmolStr::new(key), row));
            }
            Ok::<_, String>(writes)
        })?;
        db.apply(Tick { writes, retires: Vec::new() }).map_err(|error| error.to_string())?;
        for (type_name, key, row) in rows {
            writer.note_row(&type_name, &key, Some(&row));
        }
        Ok(resume)
    }

    /// Whether a copy is one of these rows of this stream.
    fn fits(&self, header: &Header, db: &Db) -> Result<Resume, String> {
        if header.stream != self.stream {
            return Err(format!("it is of the stream {}", header.stream));
        }
        for (name, columns) in self.columns(db) {
            if header.types.get(&name) != Some(&columns) {
                return Err(format!("its rows of the type {name:?} are others, or none"));
            }
        }
        let offset = header.offset.parse().map_err(|error| format!("its offset: {error}"))?;
        let covered = Position::new(header.covered);
        Ok(Resume { life: header.life, offset, covered })
    }

    fn columns(&self, db: &Db) -> BTreeMap<String, String> {
        let columns = |id: CollectionId, codec: &Codec| {
            db.look(|database| {
                let text = |column: &query::ColumnDef| {
                    let needed = if column.is_required { "!" } else { "" };
                    format!("{}:{}{needed}", column.name, column.kind)
                };
                let schema = database.schema(id);
                let all: Vec<_> = schema.columns().iter().map(text).collect();
                // Rows that were folded without a rule may be others.
                let rule = if codec.rule.is_some() { "|ruled" } else { "" };
                format!("{}|{}{rule}", schema.key(), all.join(","))
            })
        };
        let types = self.types.iter();
        types.map(|(name, (id, codec))| (name.to_string(), columns(*id, codec))).collect()
    }

    /// Takes note of a tick.
    pub(super) fn ticked(&mut self) {
        self.ticks += 1;
    }

    /// Takes note of a row that is not in the copy though it is in the stream.
    pub(super) fn left_out(&mut self) {
        self.is_incomplete = true;
    }

    /// True if enough has changed for another copy.
    pub(super) fn is_due(&self) -> bool {
        self.ticks >= COPY_TICKS
    }

    /// True if anything has changed.
    pub(super) fn is_stale(&self) -> bool {
        self.ticks > 0
    }

    /// Keeps the rows as they are, which are those of the stream before an offset.
    pub(super) async fn save(&mut self, db: &Db, writer: &StreamWriter, at: Resume) {
        self.ticks = 0;
        if self.is_incomplete {
            return;
        }
        let Some(bytes) = self.bytes(db, writer, &at) else { return };
        let (disk, path) = (self.sys.disk.clone(), self.path.clone());
        let saved = self.sys.spawn.blocking(move || replace_file(&*disk, &path, &bytes)).await;
        if let Err(error) = saved {
            let path = self.path.display();
            tracing::warn!(%path, %error, "a copy of rows could not be kept");
        }
    }

    fn bytes(&self, db: &Db, writer: &StreamWriter, at: &Resume) -> Option<Vec<u8>> {
        let ids = self.types.iter().map(|(name, (id, codec))| (name, *id, codec));
        // The rows themselves are shared, so nobody waits while they are written.
        let entries: Vec<_> = db.look(|database| {
            ids.map(|(name, id, codec)| {
                let rows: Vec<_> = database.rows(id, View::Synced).cloned().collect();
                (name, codec, rows)
            })
            .collect()
        });
        let header = Header {
            format: FORMAT,
            stream: self.stream.clone(),
            life: at.life,
            offset: at.offset.to_string(),
            covered: at.covered.get(),
            client: self.client.clone(),
            types: self.columns(db),
            rows: entries.iter().map(|(.., rows)| rows.len()).sum(),
        };
        let mut bytes = serde_json::to_vec(&header).ok()?;
        for (name, codec, rows) in entries {
            for entry in rows {
                let key = key_text(&entry.key);
                let row = codec.encode(&entry.record, writer.others(name, &key).as_ref())?;
                let is_ours = entry.meta.origin == Origin::Local;
                let row: &RawValue = serde_json::from_str(row.as_str()).ok()?;
                let (name, key) = (name.as_str().into(), key.as_str().into());
                bytes.push(b'\n');
                let line = Line(name, key, entry.meta.position, is_ours, row);
                serde_json::to_writer(&mut bytes, &line).ok()?;
                if bytes.len() > COPY_BYTES_MAX {
                    tracing::warn!(path = %self.path.display(), "too many rows to keep a copy");
                    return None;
                }
            }
        }
        let sum = crc32fast::hash(&bytes);
        bytes.extend(format!("\n{sum:08x}").bytes());
        Some(bytes)
    }
}

type Lines<'a> = Box<dyn Iterator<Item = Result<Line<'a>, String>> + 'a>;

/// What stays the same in all formats.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Reads a copy that is whole.
fn parse(bytes: &[u8]) -> Result<(Header, Lines<'_>), String> {
    let damaged = || "it is damaged".to_owned();
    let (body, sum) =
        bytes.split_at_checked(bytes.len().saturating_sub(SUM_BYTES)).ok_or_else(damaged)?;
    if format!("\n{:08x}", crc32fast::hash(body)).as_bytes() != sum {
        return Err(damaged());
    }
    let mut lines = body.split(|byte| *byte == b'\n');
    let first = lines.next().ok_or_else(damaged)?;
    let Format { format } = serde_json::from_slice(first).map_err(|error| error.to_string())?;
    if format != FORMAT {
        return Err(format!("its format is {format}, not {FORMAT}"));
    }
    let header: Header = serde_json::from_slice(first).map_err(|error| error.to_string())?;
    if lines.clone().count() != header.rows {
        return Err(damaged());
    }
    let line =
        |line| serde_json::from_slice(line).map_err(|error: serde_json::Error| error.to_string());
    Ok((header, Box::new(lines.map(line))))
}

fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    if len > COPY_BYTES_MAX + SUM_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Puts a file in the place of another, which stays until the new one lasts.
fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    disk.create_dir_all(dir)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let _ = disk.remove(&new);
    let file = disk.create(&new)?;
    file.write_all_at(bytes, 0)?;
    file.sync()?;
    disk.rename(&new, path)?;
    disk.sync_dir(dir)
}

/// What the fuzz target may reach.
#[cfg(fuzzing)]
pub fn fuzz(bytes: &[u8]) {
    let mut whole = bytes.to_vec();
    whole.extend(format!("\n{:08x}", crc32fast::hash(bytes)).bytes());
    for bytes in [bytes, &whole] {
        if let Ok((_, lines)) = parse(bytes) {
            lines.for_each(drop);
        }
    }
}
