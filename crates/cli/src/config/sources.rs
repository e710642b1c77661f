//! Sources: where the value of a setting may stand, in the order in which they win.

use std::{ffi::OsString, fmt, path::Path};

use super::{
    file::ConfigFile,
    flags::Flags,
    settings::{CONFIG, Label, Setting},
};
use crate::failure::Failure;

/// Flags, then the environment, then a file.
#[derive(Debug)]
pub(crate) struct Sources {
    flags: Flags,
    environment: Environment,
    file: Option<ConfigFile>,
}

/// How a variable is looked up.
type Environment = fn(&str) -> Option<OsString>;

/// A value and the place it was found in.
struct Found<'a> {
    text: String,
    place: Place<'a>,
}

enum Place<'a> {
    Flag(&'a Label),
    Variable(String),
    File(&'a Path, &'a Label),
}

impl Sources {
    /// The flags given, this process's environment, and the file that one of them names.
    pub(crate) fn gather(flags: Flags) -> Result<Self, Failure> {
        Self::with_environment(flags, |name| std::env::var_os(name))
    }

    fn with_environment(flags: Flags, environment: Environment) -> Result<Self, Failure> {
        let mut sources = Self { flags, environment, file: None };
        let path = sources.read(&CONFIG)?;
        sources.file = path.map(|path| ConfigFile::read(&path)).transpose()?;
        Ok(sources)
    }

    /// The value of a setting, if anybody gave one.
    pub(crate) fn read<T>(&self, setting: &Setting<T>) -> Result<Option<T>, Failure> {
        let Some(found) = self.find(&setting.label)? else { return Ok(None) };
        match (setting.kind.parse)(&found.text) {
            Some(value) => Ok(Some(value)),
            None => {
                let allowed = setting.kind.allowed;
                Err(Failure::usage(format!("{found} is not allowed; use {allowed}")))
            }
        }
    }

    fn find<'a>(&'a self, label: &'a Label) -> Result<Option<Found<'a>>, Failure> {
        if let Some(text) = self.flags.get(label) {
            return Ok(Some(Found { text: text.to_owned(), place: Place::Flag(label) }));
        }
        let variable = label.variable();
        // An empty variable is how many tools write one that is not set.
        let value = (self.environment)(&variable).filter(|value| !value.is_empty());
        match value.map(OsString::into_string) {
            Some(Ok(text)) => {
                return Ok(Some(Found { text, place: Place::Variable(variable) }));
            }
            Some(Err(_)) => return Err(Failure::usage(format!("{variable} is not UTF-8 text"))),
            None => {}
        }
        Ok(self.file.as_ref().and_then(|file| {
            let text = file.get(label)?.to_owned();
            Some(Found { text, place: Place::File(&file.path, label) })
        }))
    }
}

impl fmt::Display for Found<'_> {
    /// As it was written, where it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match &self.place {
            Place::Flag(label) => write!(f, "--{} {text:?}", label.name),
            Place::Variable(name) => write!(f, "{name}={text:?}"),
            Place::File(path, label) => write!(f, "{}: {} = {text:?}", path.display(), label.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::settings::{BODY_MAX, ENGINE, LONG_POLL_TIMEOUT, RATE},
        *,
    };

    fn sources(flags: &[(&'static str, &str)], file: &str) -> Sources {
        let environment: Environment = |name| match name {
            "HEADWATER_LONG_POLL_TIMEOUT" => Some("2s".into()),
            "HEADWATER_RATE" => Some("many".into()),
            "HEADWATER_BODY_MAX" => Some("".into()),
            _ => None,
        };
        let file = ConfigFile::parse(Path::new("h.toml"), file).unwrap();
        Sources { flags: Flags::of(flags), environment, file: Some(file) }
    }

    #[test]
    fn flags_win_over_variables_and_those_over_files() {
        let file = "long-poll-timeout = \"3s\"\nbody-max = \"4KiB\"";
        let seconds =
            |flags: &[(&'static str, &str)]| sources(flags, file).read(&LONG_POLL_TIMEOUT).unwrap();
        assert_eq!(seconds(&[("long-poll-timeout", "1s")]), Some(Duration::from_secs(1)));
        assert_eq!(seconds(&[]), Some(Duration::from_secs(2)));
        assert_eq!(sources(&[], file).read(&BODY_MAX).unwrap(), Some(4096));
        assert_eq!(sources(&[], "").read(&BODY_MAX).unwrap(), None);
    }

    #[test]
    fn a_bad_value_is_told_with_its_place() {
        let told = |failure: Failure| failure.text().unwrap().to_owned();
        let bad_flag = sources(&[("engine", "flie")], "").read(&ENGINE).unwrap_err();
        assert_eq!(told(bad_flag), "--engine \"flie\" is not allowed; use file or memory");
        let bad_variable = sources(&[], "").read(&RATE).unwrap_err();
        assert_eq!(
            told(bad_variable),
            "HEADWATER_RATE=\"many\" is not allowed; use a whole number of requests above 0"
        );
        let bad_key = sources(&[], "engine = \"disk\"").read(&ENGINE).unwrap_err();
        assert_eq!(told(bad_key), "h.toml: engine = \"disk\" is not allowed; use file or memory");
    }
}
