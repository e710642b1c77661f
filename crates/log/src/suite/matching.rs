//! Assertions that show what they got.

/// Panics with the value unless it matches.
macro_rules! assert_matches {
    ($value:expr, $pattern:pat $(if $guard:expr)? $(,)?) => {
        match $value {
            $pattern $(if $guard)? => {}
            other => panic!(
                "got {other:?} instead of {}",
                stringify!($pattern $(if $guard)?)
            ),
        }
    };
}
