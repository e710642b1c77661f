//! What all builders of models have in common.

/// The setters that say how a provider is reached.
macro_rules! reached_by {
    ($example:literal) => {
        /// Who we are.
        pub fn key(mut self, key: impl Into<crate::Key>) -> Self {
            self.key = Some(key.into());
            self
        }

        #[doc = concat!("Where the API begins, such as `", $example, "`.")]
        pub fn base_url(mut self, url: impl Into<String>) -> Self {
            self.base_url = Some(url.into());
            self
        }

        /// How patient we are, and where the API may be.
        pub fn settings(mut self, settings: crate::TransportSettings) -> Self {
            self.settings = settings;
            self
        }
    };
}

pub(crate) use reached_by;

/// A variable of the environment that says something.
pub(crate) fn set(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    variable(name).filter(|value| !value.trim().is_empty())
}
