//! Which places a question is about.

use super::caps::PLACES_MAX;

/// Text that lead to places.
const BEFORE: [&str; 6] = ["in", "for", "at", "of", "between", "from"];
/// Text between places.
const BETWEEN: [&str; 7] = ["and", "or", "versus", "vs", "than", "with", "to"];
/// Text that end the name of a place.
const AFTER: [&str; 26] = [
    "today",
    "tonight",
    "tomorrow",
    "now",
    "right",
    "this",
    "next",
    "on",
    "at",
    "please",
    "like",
    "is",
    "will",
    "be",
    "weather",
    "forecast",
    "look",
    "looking",
    "currently",
    "these",
    "days",
    "again",
    "look",
    "during",
    "over",
    "it",
];
/// Text that are no place though they may begin with a capital, or stand before one.
const NO_PLACE: [&str; 36] = [
    "i", "i'd", "what", "what's", "whats", "how", "how's", "is", "will", "can", "could", "tell",
    "please", "compare", "show", "give", "me", "the", "a", "an", "hello", "hi", "hey", "does",
    "do", "it", "weather", "and", "or", "in", "for", "of", "should", "where", "which", "both",
];

/// The places in a question, in the order they are named.
pub(super) fn places(question: &str) -> Vec<String> {
    let named = by_capitals(question);
    let found = if named.is_empty() { by_words(question) } else { named };
    let mut places = Vec::new();
    for place in found {
        if !places.contains(&place) && places.len() < PLACES_MAX {
            places.push(place);
        }
    }
    places
}

/// Runs of words that begin with a capital. Once one stands after "in" or such, those before it
/// are but the beginning of a sentence.
fn by_capitals(question: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut run = Vec::new();
    let mut is_led = false;
    for word in question.split_whitespace() {
        let plain = plain(word);
        let is_name = plain.chars().next().is_some_and(char::is_uppercase)
            && !NO_PLACE.contains(&plain.to_lowercase().as_str());
        if is_name {
            run.push(plain);
        } else if !is_led && BEFORE.contains(&plain.to_lowercase().as_str()) {
            is_led = true;
            run.clear();
            found.clear();
        }
        // A comma ends a name, just as any other word does.
        if !is_name || ends_phrase(word) {
            end_run(&mut run, &mut found);
        }
    }
    end_run(&mut run, &mut found);
    found
}

fn end_run(run: &mut Vec<&str>, found: &mut Vec<String>) {
    if !run.is_empty() {
        found.push(run.join(" "));
        run.clear();
    }
}

/// What stands after "in" and such, if nobody cared for capitals.
fn by_words(question: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut run: Vec<String> = Vec::new();
    let mut is_place = false;
    let end = |run: &mut Vec<String>, found: &mut Vec<String>| {
        if !run.is_empty() {
            found.push(std::mem::take(run).join(" "));
        }
    };
    for word in question.split_whitespace() {
        let plain = plain(word).to_lowercase();
        if BEFORE.contains(&plain.as_str()) {
            end(&mut run, &mut found);
            is_place = true;
        } else if is_place && BETWEEN.contains(&plain.as_str()) {
            end(&mut run, &mut found);
        } else if is_place && AFTER.contains(&plain.as_str()) {
            end(&mut run, &mut found);
            is_place = false;
        } else if is_place && !plain.is_empty() && !NO_PLACE.contains(&plain.as_str()) {
            run.push(capitalised(&plain));
        }
        if ends_phrase(word) {
            end(&mut run, &mut found);
            is_place &= word.ends_with(',');
        }
    }
    end(&mut run, &mut found);
    found
}

/// A word without what stands around it.
fn plain(word: &str) -> &str {
    let word = word.trim_matches(|letter: char| !letter.is_alphanumeric());
    word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word)
}

fn ends_phrase(word: &str) -> bool {
    word.ends_with([',', '.', '?', '!', ';', ':'])
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_questions() {
        for (question, expected) in [
            ("How is the weather in Oslo and San Francisco?", vec!["Oslo", "San Francisco"]),
            (
                "What's the weather in Paris, Rome and Berlin today?",
                vec!["Paris", "Rome", "Berlin"],
            ),
            ("what is the weather in oslo and in new york tomorrow", vec!["Oslo", "New York"]),
            ("weather in berlin, paris or rome please", vec!["Berlin", "Paris", "Rome"]),
            ("Compare Oslo's weather with Lima's", vec!["Oslo", "Lima"]),
            ("Will it rain in Oslo? And in Oslo tomorrow?", vec!["Oslo"]),
            ("Wie ist das Wetter in Köln?", vec!["Köln"]),
            ("Check the weather in Oslo.", vec!["Oslo"]),
            ("Oslo or Lima: where is it warm?", vec!["Oslo", "Lima"]),
            ("how is the weather", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(places(question), expected, "{question}");
        }
    }
}
