//! Weather for the scripted model: made up, but always the same for a city.

use chat::tool;

const SKIES: [&str; 6] = ["clear", "a few clouds", "overcast", "light rain", "showers", "snow"];

/// Tells the weather in a city, today.
#[tool(effect = "pure")]
pub(crate) async fn weather(
    /// The name of the city.
    city: String,
) -> String {
    let letters = city.trim().to_lowercase();
    let number =
        letters.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let degrees = i64::from(number % 28) - 3;
    let skies = match degrees {
        ..2 => SKIES[5],
        _ => SKIES[(number / 28 % 5) as usize],
    };
    // A tool that never awaits could not be stopped.
    tokio::task::yield_now().await;
    format!("{degrees} °C, {skies}")
}
