//! The format file, in two copies: which version wrote a directory, and the salt of its checksums.
//!
//! ```text
//! headwater log, format 1
//! salt 47329fd2
//! crc 0b1f6a55
//! ```
//!
//! The checksum covers the lines before it. Directories of earlier versions have one copy, without
//! a checksum; the next start completes them. One copy is enough to open a directory, whether the
//! other is missing, damaged, or on a sector that the disk fails to read.

use std::{io, path::Path};

use sys::{Disk, Sys};

use super::{
    files::Layout,
    open_error::{FORMAT_LINE, OpenError},
    record::Salt,
    recovery::at,
};

/// No format file is larger.
const BYTES_MAX: u64 = 1024;
/// What the first line of any version begins with.
const FAMILY: &str = "headwater log, format ";

/// What the two copies say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub(super) salt: Salt,
    /// Whether the first and the second copy are as they should be.
    pub(super) whole: [bool; 2],
    is_of_earlier_version: bool,
}

impl Format {
    /// True if the directory was not opened since there are two copies of everything.
    pub(super) fn is_of_earlier_version(&self) -> bool {
        self.is_of_earlier_version
    }
}

/// What one copy says.
#[derive(Debug)]
enum Copy {
    Missing,
    /// Not what any version writes.
    Damaged,
    /// Of another version.
    Foreign(String),
    /// Of an earlier version, which wrote no checksum.
    Unproven(Salt),
    Whole(Salt),
    /// The disk failed.
    Unreadable(OpenError),
}

/// What is wrong with a directory that holds a log, but no format file.
pub(super) const MISSING: &str = "the format file is missing, but the log is not empty";
/// And with one whose format files are both damaged.
pub(super) const DAMAGED: &str = "no copy of the format file can be read";

/// Reads the format of a directory; none if it has no format file.
///
/// # Errors
/// If neither copy can be used, or the directory is of another version.
pub(super) fn read(disk: &dyn Disk, layout: &Layout) -> Result<Option<Format>, OpenError> {
    let [first, second] = layout.formats();
    let copies = (read_copy(disk, &first), read_copy(disk, &second));
    let whole = [matches!(copies.0, Copy::Whole(_)), matches!(copies.1, Copy::Whole(_))];
    let is_of_earlier_version = matches!(copies, (Copy::Unproven(_), Copy::Missing));
    let salt = match copies {
        (Copy::Missing, Copy::Missing) => return Ok(None),
        (Copy::Whole(salt), _) => salt,
        (Copy::Foreign(found), _) => return Err(OpenError::Format { path: first, found }),
        (_, Copy::Whole(salt)) | (Copy::Unproven(salt), _) => salt,
        (_, Copy::Foreign(found)) => return Err(OpenError::Format { path: second, found }),
        (_, Copy::Unproven(salt)) => salt,
        // What cannot be read now may be whole, so that no other copy is damage.
        (Copy::Unreadable(error), _) | (_, Copy::Unreadable(error)) => return Err(error),
        (Copy::Damaged, _) => return Err(damaged(&first)),
        (_, Copy::Damaged) => return Err(damaged(&second)),
    };
    Ok(Some(Format { salt, whole, is_of_earlier_version }))
}

/// Writes the copies that are not as they should be.
pub(super) fn complete(disk: &dyn Disk, layout: &Layout, format: Format) -> io::Result<()> {
    let wrong = layout.formats().into_iter().zip(format.whole).filter(|(_, whole)| !whole);
    for (path, _) in wrong {
        write_copy(disk, layout, &path, format.salt)?;
    }
    Ok(())
}

/// Makes the format of a new directory.
pub(super) fn make(sys: &Sys, layout: &Layout) -> io::Result<Salt> {
    let salt = Salt(sys.chance.u64() as u32);
    write(sys.disk.as_ref(), layout, salt)?;
    Ok(salt)
}

/// Writes both copies.
pub(super) fn write(disk: &dyn Disk, layout: &Layout, salt: Salt) -> io::Result<()> {
    layout.formats().iter().try_for_each(|path| write_copy(disk, layout, path, salt))
}

fn damaged(path: &Path) -> OpenError {
    OpenError::Damaged { path: path.to_owned(), offset: 0, what: DAMAGED }
}

fn read_copy(disk: &dyn Disk, path: &Path) -> Copy {
    let read = || {
        let file = disk.open(path)?;
        let length = file.len()?.min(BYTES_MAX);
        let mut bytes = vec![0; usize::try_from(length).expect("bounded above")];
        file.read_exact_at(&mut bytes, 0).map(|()| bytes)
    };
    match read() {
        Ok(bytes) => parse(&String::from_utf8_lossy(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Copy::Missing,
        Err(error) => Copy::Unreadable(at(path)(error)),
    }
}

fn parse(text: &str) -> Copy {
    let crc = text.rfind("\ncrc ").map(|at| text.split_at(at + 1));
    let proven = crc.is_some_and(|(body, crc)| crc == crc_line(body));
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let salt = lines.next().and_then(|line| line.strip_prefix("salt "));
    let salt = salt.and_then(|salt| u32::from_str_radix(salt, 16).ok()).map(Salt);
    match salt {
        Some(salt) if first == FORMAT_LINE && proven => Copy::Whole(salt),
        // A checksum that does not fit is damage, whatever else stands there.
        _ if crc.is_some() && !proven => Copy::Damaged,
        // Without a checksum, only the end of the line tells a whole salt from half of one.
        Some(salt) if first == FORMAT_LINE && text.ends_with('\n') && lines.next().is_none() => {
            Copy::Unproven(salt)
        }
        _ if first != FORMAT_LINE && is_version(first) => Copy::Foreign(text.to_owned()),
        _ => Copy::Damaged,
    }
}

fn is_version(line: &str) -> bool {
    let number = line.strip_prefix(FAMILY).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn text(salt: Salt) -> String {
    let body = format!("{FORMAT_LINE}\nsalt {:08x}\n", salt.0);
    let crc = crc_line(&body);
    body + &crc
}

fn crc_line(body: &str) -> String {
    format!("crc {:08x}\n", crc32fast::hash(body.as_bytes()))
}

fn write_copy(disk: &dyn Disk, layout: &Layout, path: &Path, salt: Salt) -> io::Result<()> {
    let unfinished = layout.root().join("FORMAT.unfinished");
    match disk.remove(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(&unfinished)?;
    file.write_all_at(text(salt).as_bytes(), 0)?;
    file.sync()?;
    disk.rename(&unfinished, path)?;
    disk.sync_dir(layout.root())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_of_a_copy_is_noticed() {
        let whole = text(Salt(0x4732_9fd2));
        assert!(matches!(parse(&whole), Copy::Whole(Salt(0x4732_9fd2))));
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let copy = parse(&String::from_utf8_lossy(&bytes));
            assert!(matches!(copy, Copy::Damaged), "bit {bit}: {copy:?}");
        }
    }

    #[test]
    fn earlier_and_other_versions_are_told_apart_from_damage() {
        let rows = [
            ("headwater log, format 1\nsalt 47329fd2\n", "Unproven"),
            ("headwater log, format 9\nsalt 0\n", "Foreign"),
            ("headwater log, format 12\nwhatever\n", "Foreign"),
            ("headwater lag, format 1\nsalt 0\n", "Damaged"),
            ("headwater log, format 1\nsalt x\n", "Damaged"),
            ("headwater log, format 1\nsalt 47329f", "Damaged"),
            ("headwater log, format 1\nsalt 47329fd2", "Damaged"),
            ("", "Damaged"),
        ];
        for (text, expected) in rows {
            let copy = format!("{:?}", parse(text));
            assert!(copy.starts_with(expected), "{text:?}: {copy}");
        }
    }
}
