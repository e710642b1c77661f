//! `headwater doctor`: is a data directory sound, and can it be mended?

use std::path::{Path, PathBuf};

use log::file::doctor::{self, Finding, Report, Severity};
use serde::Serialize;
use sys::Sys;

use crate::{config::DATA_DIR_DEFAULT, failure::Failure, output};

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// The directory to examine
    #[arg(long, value_name = "DIR", env = "HEADWATER_DATA_DIR", default_value = DATA_DIR_DEFAULT)]
    data_dir: PathBuf,

    /// Mend what can be mended: keep all that stands before the damage, set the rest aside
    #[arg(long)]
    repair: bool,

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
    let mut report = doctor::examine(&sys, dir).map_err(Failure::refused)?;
    let mut repaired = Vec::new();
    if args.repair && !report.is_sound() {
        repaired = doctor::repair(&sys, dir).map_err(Failure::refused)?;
        report = doctor::examine(&sys, dir).map_err(Failure::refused)?;
    }
    if args.json {
        output::json(&Document::new(&report, &repaired))?;
    } else {
        output::raw(describe(dir, &report, &repaired).as_bytes())?;
    }
    if report.is_sound() { Ok(()) } else { Err(Failure::Told) }
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
        true if !repaired.is_empty() => "What is left is sound; what was cut off is set aside.\n",
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
