//! Flags: the command line of a server, made from the table of settings.
//!
//! The texts are kept as they were typed. They are read together with those of the environment and
//! the file, by the same code, so that all three know the same values and complain alike.

use std::collections::BTreeMap;

use agent::rows::KeepChunks;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::{
    settings::{ALL, Label, Section, TRUST_PROXY},
    values::keep_chunks,
};

/// What was typed, by the names of the settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags(BTreeMap<&'static str, String>);

/// The same flags, for a command that shows only the most useful ones in its help.
#[derive(Clone, Debug, Default)]
pub(crate) struct DevFlags {
    pub(crate) flags: Flags,
    /// The model that answers, if one was named.
    pub(crate) model: Option<String>,
    /// How long chunks are kept that a message repeats.
    pub(crate) keep_chunks: KeepChunks,
}

const MODEL: &str = "model";
const KEEP_CHUNKS: &str = "keep-chunks";

/// Settings in the help of `headwater dev`.
const DEV_HELP: [&str; 3] = ["config", "data-dir", "listen"];

impl Flags {
    pub(super) fn get(&self, label: &Label) -> Option<&str> {
        self.0.get(label.name).map(String::as_str)
    }

    #[cfg(test)]
    pub(super) fn of(pairs: &[(&'static str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    }
}

fn argument(label: &Label) -> Arg {
    let argument = Arg::new(label.name).long(label.name).help(label.help);
    let argument = match label.section {
        Section::General => argument,
        Section::Network => argument.help_heading("Network"),
        Section::Access => argument.help_heading("Access"),
        Section::Limits => argument.help_heading("Limits"),
        Section::Hidden => argument.hide(true),
    };
    if label.name == TRUST_PROXY.label.name {
        // A switch: the flag alone says yes, and =false takes back what a file says.
        argument
            .value_name("true|false")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
    } else {
        argument.value_name(label.value_name)
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(ALL.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed =
            |label: &Label| Some((label.name, matches.get_one::<String>(label.name)?.clone()));
        Ok(Self(ALL.iter().filter_map(typed).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for DevFlags {
    fn augment_args(command: Command) -> Command {
        let command = command.args(ALL.iter().map(|label| {
            let argument = argument(label).help_heading(None);
            argument.hide(!DEV_HELP.contains(&label.name))
        }));
        let keep = Arg::new(KEEP_CHUNKS).long(KEEP_CHUNKS).value_name("HOW_LONG");
        let keep = keep.value_parser(keep_chunks).help(
            "How long the pieces of a streamed answer are kept once its message is there: \
             until-message, a time such as 24h, or forever [default: until-message]",
        );
        let command = command.arg(keep);
        let model = Arg::new(MODEL).long(MODEL).value_name("MODEL").env("HEADWATER_MODEL");
        command.arg(model.hide_env_values(true).help(
            "Who answers: scripted, openai:NAME, openai-chat:NAME, anthropic:NAME, gemini:NAME or \
             ollama:NAME [default: the first that has a key or runs here, else scripted]",
        ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DevFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let model = matches.get_one::<String>(MODEL).filter(|name| !name.is_empty()).cloned();
        let keep_chunks = matches.get_one(KEEP_CHUNKS).copied().unwrap_or_default();
        Ok(Self { flags: Flags::from_arg_matches(matches)?, model, keep_chunks })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
