//! The rules of the companion: those of the demo, with more words around them.

use std::time::Duration;

use chat::{Request, Role};
use serde_json::json;

use super::{
    demo,
    script::{Call, Say, Turn},
};

/// How long a word takes.
pub(super) const WORD: Duration = Duration::from_millis(40);
/// Letters of a question that are said again.
const QUOTE_LETTERS_MAX: usize = 80;

const THOUGHTS: [&str; 3] = [
    "Let me think about that for a moment.",
    "A fair question. What would help most here?",
    "I will keep this short and useful.",
];

const PARAGRAPHS: [&str; 3] = [
    "I am a scripted model, so I cannot know much about it. But every word of this answer is on \
     disk before you see it: reload the page, open a second tab, or stop the server and start \
     it again, and the conversation goes on: what was said to the end stays, and what was half \
     said is said once more.",
    "I follow a few rules and need neither a key nor a network. What is real is everything \
     around me: the answer is an append-only stream, this page only reads it, and whatever was \
     finished once is never lost, even if the process dies in the middle of the next word.",
    "To hear more than a script can say, set a key such as OPENAI_API_KEY, or start Ollama, and \
     run the same command again. Until then, ask me about the weather in two cities, what time \
     it is, or for a long story.",
];

const AFTER_TOOLS: &str = "The tools ran once, and their answers are rows in the stream of this \
    session: whoever opens it later sees the same calls and the same results, and nothing has to \
    run again.";

const STORY: [&str; 8] = [
    "High above the treeline, where the snow gives up its water one drop at a time, there was a \
     spring that kept a diary. It had no paper and no ink, so it wrote into the current: every \
     drop that left was a word, and no page that was full was ever written again.",
    "At first the diary was short. A stone was here. A fox drank. The moon was round. But the \
     brook carried each word down the slope, and those who lived along it began to read. The \
     otter read it in the morning, the heron in the evening, and neither had to ask the other \
     what had happened.",
    "One autumn a landslide came down and the brook went silent. The otter worried. Had the \
     story ended? Would somebody have to tell it again from the beginning, and would it be the \
     same story then? The heron only shook her feathers and said: wait, and remember the last \
     word that you saw.",
    "In the night the water found a way around the fallen rocks. When it came back it did not \
     begin the diary anew, and it did not skip a page. The page that the landslide had torn it \
     told once more, from its first word; all pages before it stood where they had always stood, \
     and the otter, who had remembered, went on reading.",
    "News of this reached the river far below, where a hundred brooks meet. The river was proud \
     and in a hurry, and it asked the spring how it could be so sure that nothing was lost. The \
     spring said: I never show a drop before it has truly left the rock. What you have seen, \
     is.",
    "So the river learned to do the same. It stopped promising water that was still ice, and it \
     stopped telling the same flood twice. Those who lived on its banks slept better for it, \
     and the mills ground exactly as much corn as there was water to turn them.",
    "Years later a child walked all the way up along the bank, from the delta to the snow, and \
     read the diary backwards, word by word, until she stood in front of the spring. She asked \
     what it would write next. The spring said that it did not know, and that this was the best \
     part.",
    "Then she knelt down and drank, and the spring wrote: a child was here. It was only one \
     more word, but it was carried down past the fox and the otter and the heron, through the \
     mills and the meadows, and it arrived at the sea exactly once.",
];

/// What it says to this.
pub(super) fn turn(request: &Request) -> Turn {
    let last = request.messages.iter().rposition(|message| message.role == Role::User);
    let question = last.map(|last| request.messages[last].text_content()).unwrap_or_default();
    let since = request.messages.since(last.map_or(0, |last| last + 1));
    let said = demo::turn(request);
    let is_call = |say: &Say| matches!(say, Say::Call(_) | Say::Calls(_));
    if request.output.is_some() || said.says.iter().any(is_call) {
        return said;
    }
    let called = |name: &str| {
        let mut calls = since.clone().flat_map(|message| message.calls());
        calls.any(|call| call.name == name)
    };
    if let Some(clock) = clock(request, &question).filter(|clock| !called(&clock.name)) {
        return Turn::new().think("I had better look at the clock.").calls([clock]);
    }
    if since.clone().any(|message| message.results().next().is_some()) {
        return said.text(format!("\n\n{AFTER_TOOLS}"));
    }
    if asks_for_much(&question) {
        let thoughts = "A long one, then. I know a story about a spring.";
        return Turn::new().think(thoughts).text(STORY.join("\n\n"));
    }
    small_talk(request, &question, said)
}

/// A look at the clock, if that is what the question is about.
fn clock(request: &Request, question: &str) -> Option<Call> {
    let is_asked = words(question).any(|word| ["time", "clock", "date"].contains(&word.as_str()));
    let tool = request.tools.iter().find(|tool| is_asked && tool.name == "clock")?;
    Some(Call::new(tool.name.clone(), json!({})))
}

fn asks_for_much(question: &str) -> bool {
    words(question)
        .any(|word| ["long", "longer", "story", "tale", "essay"].contains(&word.as_str()))
}

/// The same words of the demo where it has something to say, else a paragraph; which one depends on
/// the conversation alone.
fn small_talk(request: &Request, question: &str, said: Turn) -> Turn {
    let turns = request.messages.iter().filter(|message| message.role == Role::User).count();
    let letters: usize = question.bytes().map(usize::from).sum();
    let pick = turns.wrapping_add(letters);
    let thoughts = THOUGHTS[pick % THOUGHTS.len()];
    let paragraph = PARAGRAPHS[turns.saturating_sub(1) % PARAGRAPHS.len()];
    let is_greeting = words(question)
        .any(|word| ["hello", "hi", "hey", "hallo", "moin"].contains(&word.as_str()));
    let is_weather = said.says.iter().any(|say| match say {
        Say::Text(text) => text.starts_with("For which city"),
        _ => false,
    });
    let turn = Turn::new().think(thoughts);
    match question.trim() {
        "" => turn.text(format!("You have said nothing yet. {paragraph}")),
        _ if is_weather => said,
        _ if is_greeting => turn.text(format!("Hello! It is good to see you. {paragraph}")),
        question => turn.text(format!("You said: “{}” {paragraph}", quoted(question))),
    }
}

fn quoted(question: &str) -> String {
    let line = question.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(QUOTE_LETTERS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use chat::Message;

    use super::*;

    fn said_to(question: &str) -> String {
        let message = Message::text("m", Role::User, question.to_owned());
        let request = Request { messages: [message].into(), ..Request::default() };
        let turn = turn(&request);
        assert_eq!(turn, super::turn(&request), "the same conversation gives the same answer");
        let texts = turn.says.iter().filter_map(|say| match say {
            Say::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn anything_gets_a_paragraph_and_a_long_thing_a_long_one() {
        for question in ["hi", "Why is the sky blue?", "…", "", &"x ".repeat(500)] {
            let words = said_to(question).split_whitespace().count();
            assert!((30..110).contains(&words), "{question:?}: {words}");
        }
        let story = said_to("Tell me a long story");
        let seconds = WORD.as_secs_f64() * story.split_whitespace().count() as f64;
        assert!(seconds > 12.0, "{seconds}");
    }
}
