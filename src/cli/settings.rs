//! The server's settings as flags: made from the one table, so that none is forgotten.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use crate::config::{Config, Given, SETTINGS, Setting};

use super::Failure;

/// What the flags say.
#[derive(Debug)]
pub struct SettingFlags {
    given: Given,
    file: Option<PathBuf>,
}

impl SettingFlags {
    /// Joins flags, environment, file and defaults.
    pub fn load(&self) -> Result<Config, Failure> {
        Config::load(&self.given, std::env::vars_os(), self.file.as_deref()).map_err(Failure::bad_input)
    }
}

fn flag(setting: &'static Setting) -> Arg {
    let help = format!("{} [default: {}] [env: {}]", setting.help, setting.default, setting.variable());
    let flag = Arg::new(setting.key).long(setting.key).help(help);
    if setting.switch {
        flag.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL")
    } else {
        flag.value_name("VALUE")
    }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .env("PROBITY_CONFIG")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("TOML file of settings; flags and environment go first");
        SETTINGS.iter().fold(command.arg(file), |command, setting| command.arg(flag(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SettingFlags, clap::Error> {
        let mut given = Given::default();
        for setting in SETTINGS {
            if let Some(text) = matches.get_one::<String>(setting.key) {
                given.set(setting.key, text.clone());
            }
        }
        Ok(SettingFlags { given, file: matches.get_one::<PathBuf>("config").cloned() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
