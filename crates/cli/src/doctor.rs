//! `headwater doctor`: is a data directory sound, and can it be mended?

use std::{
    io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use log::file::doctor::{self, Finding, Report, Severity};
use serde::Serialize;
use sys::Sys;

use crate::{config::DATA_DIR_DEFAULT, failure::Failure, keys, output};

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// The directory to examine
    #[arg(long, value_name = "DIR", env = "HEADWATER_DATA_DIR", default_value = DATA_DIR_DEFAULT)]
    data_dir: PathBuf,

    /// Mend what can be mended; what does not fit is set aside in lost+found, nothing is removed
    #[arg(long)]
    repair: bool,

    /// Print every message that can be read in this file, such as one in lost+found
    #[arg(long, value_name = "FILE", conflicts_with = "repair")]
    salvage: Option<PathBuf>,

    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

/// The report, for programs.
#[derive(Serialize)]
struct Document<'a> {
    sound: bool,
    streams: u64,
    messages: u64,
    bytes: u64,
    segments: u32,
    packs: u32,
    findings: Vec<Entry<'a>>,
    repaired: &'a [String],
}

#[derive(Serialize)]
struct Entry<'a> {
    severity: &'static str,
    path: &'a Path,
    offset: u64,
    what: &'a str,
    remedy: &'a str,
}

/// Examines, mends if asked to, and reports. Damage that is left is a failure.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let sys = Sys::real();
    let dir = &args.data_dir;
    if !dir.is_dir() {
        let advice = "there is no such directory; name one with --data-dir";
        return Err(Failure::about(dir.display(), advice));
    }
    if let Some(file) = &args.salvage {
        return salvage(&sys, dir, file);
    }
    let mut report = examine(&sys, dir)?;
    let mut repaired = Vec::new();
    if args.repair && !report.is_sound() {
        repaired = doctor::repair(&sys, dir).map_err(Failure::refused)?;
        report = examine(&sys, dir)?;
    }
    if args.json {
        output::json(&Document::new(&report, &repaired))?;
    } else {
        output::raw(describe(dir, &report, &repaired).as_bytes())?;
    }
    if report.is_sound() { Ok(()) } else { Err(Failure::Told) }
}

/// Examines the log, and what else a server needs of the directory.
fn examine(sys: &Sys, dir: &Path) -> Result<Report, Failure> {
    let mut report = doctor::examine(sys, dir).map_err(Failure::refused)?;
    report.findings.extend(keys::unreadable(sys, dir).map(|path| {
        Finding {
            severity: Severity::Damage,
            path,
            offset: 0,
            // What stands in it is secret, so no error is quoted.
            what: "the keys of webhooks cannot be read, and no server starts".to_owned(),
            remedy:
                "restore it from a backup; or remove it: the next start makes new keys, and what \
                 was signed with the old ones is no longer believed"
                    .to_owned(),
        }
    }));
    Ok(report)
}

/// A message that was found, for programs.
#[derive(Serialize)]
struct Message<'a> {
    stream: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    offset: String,
    #[serde(flatten)]
    body: Body<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Body<'a> {
    Text(&'a str),
    Base64(String),
}

/// Prints what can be read in a file, one object per line.
fn salvage(sys: &Sys, dir: &Path, file: &Path) -> Result<(), Failure> {
    let mut failure = None;
    let done = doctor::salvage(sys, dir, file, |found| {
        let body = match std::str::from_utf8(&found.message) {
            Ok(text) => Body::Text(text),
            Err(_) => Body::Base64(BASE64_STANDARD.encode(&found.message)),
        };
        let name = found.name.as_deref();
        let offset = found.offset.to_string();
        output::json(&Message { stream: found.stream, name, offset, body }).map_err(|error| {
            failure = Some(error);
            io::ErrorKind::BrokenPipe.into()
        })
    });
    match failure {
        Some(failure) => Err(failure),
        None => done.map_err(Failure::refused),
    }
}

fn describe(dir: &Path, report: &Report, repaired: &[String]) -> String {
    let counts = [
        count(report.streams, "stream"),
        count(report.messages, "message"),
        count(report.bytes, "byte"),
        count(report.segments.into(), "segment"),
        count(report.packs.into(), "pack"),
    ];
    let mut text = format!("{}: {}\n", dir.display(), counts.join(", "));
    for done in repaired {
        text.push_str(&format!("mended: {done}\n"));
    }
    for Finding { severity, path, offset, what, remedy } in &report.findings {
        let severity = name(*severity);
        let path = path.display();
        text.push_str(&format!("{severity}: {path} at byte {offset}: {what}\n  {remedy}\n"));
    }
    text.push_str(match report.is_sound() {
        true if !repaired.is_empty() => {
            "What is left is sound; what did not fit is in lost+found.\n"
        }
        true => "Everything here is sound.\n",
        false => "Something that was acknowledged is damaged or missing.\n",
    });
    text
}

fn count(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Damage => "damage",
    }
}

impl<'a> Document<'a> {
    fn new(report: &'a Report, repaired: &'a [String]) -> Self {
        Self {
            sound: report.is_sound(),
            streams: report.streams,
            messages: report.messages,
            bytes: report.bytes,
            segments: report.segments,
            packs: report.packs,
            findings: report.findings.iter().map(Entry::from).collect(),
            repaired,
        }
    }
}

impl<'a> From<&'a Finding> for Entry<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self {
            severity: name(finding.severity),
            path: &finding.path,
            offset: finding.offset,
            what: &finding.what,
            remedy: &finding.remedy,
        }
    }
}
