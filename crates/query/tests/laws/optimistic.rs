//! Named tests.
