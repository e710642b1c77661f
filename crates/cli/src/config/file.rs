//! The configuration file: a flat TOML table with the names of settings.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use toml::Value;

use super::settings::{ALL, CONFIG, Label, Section};
use crate::failure::Failure;

/// What a file says, as text: it is read like what flags and variables say.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    values: BTreeMap<String, String>,
}

impl ConfigFile {
    #[expect(
        clippy::disallowed_methods,
        reason = "the file may be read-only, and is read before there is anything to simulate"
    )]
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("{} cannot be read: {error}; check --config", path.display()))
        })?;
        Self::parse(path, &text)
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let bad = |why: &str| Failure::usage(format!("{}: {why}", path.display()));
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            bad(&format!("this is not TOML: {}", error.to_string().trim_end()))
        })?;
        let mut values = BTreeMap::new();
        for (key, value) in table {
            if !is_known(&key) {
                return Err(bad(&format!(
                    "there is no setting {key}; there are {}",
                    known_names()
                )));
            }
            let Some(text) = plain_text(value) else {
                return Err(bad(&format!("{key} must be a text, a whole number, true or false")));
            };
            values.insert(key, text);
        }
        Ok(Self { path: path.to_owned(), values })
    }

    pub(super) fn get(&self, label: &Label) -> Option<&str> {
        self.values.get(label.name).map(String::as_str)
    }
}

/// A file cannot name another file.
fn is_known(key: &str) -> bool {
    key != CONFIG.label.name && ALL.iter().any(|label| label.name == key)
}

fn known_names() -> String {
    let shown = ALL.iter().filter(|label| label.section != Section::Hidden);
    let names: Vec<_> = shown.map(|label| label.name).filter(|name| is_known(name)).collect();
    names.join(", ")
}

fn plain_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Integer(number) => Some(number.to_string()),
        Value::Boolean(switch) => Some(switch.to_string()),
        Value::Float(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(text: &str, reason: &str) {
        let failure = ConfigFile::parse(Path::new("h.toml"), text).unwrap_err();
        let told = failure.text().unwrap();
        assert!(told.starts_with("h.toml: ") && told.contains(reason), "{told}");
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        check_refused("port = 1", "there is no setting port; there are engine, data-dir");
        check_refused("config = \"other.toml\"", "there is no setting config");
        check_refused("rate = 1.5", "rate must be a text, a whole number, true or false");
        check_refused("[limits]\nrate = 1", "there is no setting limits");
        check_refused("rate", "this is not TOML");
    }

    #[test]
    fn plain_values_become_text() {
        let text = "rate = 5\ntrust-proxy = true\nlisten = \"[::1]:1\"";
        let file = ConfigFile::parse(Path::new("h.toml"), text).unwrap();
        let all: Vec<_> = file.values.values().map(String::as_str).collect();
        assert_eq!(all, ["[::1]:1", "5", "true"]);
    }
}
