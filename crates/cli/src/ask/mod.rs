//! `headwater ask`: one question to a model, its answer on the terminal.

mod screen;
mod weather;

use std::io::{IsTerminal, Read, stdin};

use chat::{
    Run,
    machine::{Done, Strategy},
};
use clap::Args as ClapArgs;
use sys::Sys;

use self::screen::Screen;
use crate::{failure::Failure, output, serve};

/// Bytes of a question that is read from the standard input.
const PROMPT_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, ClapArgs)]
pub(crate) struct AskArgs {
    /// The question; read from the standard input if it is not given
    prompt: Option<String>,

    /// scripted, openai:NAME, anthropic:NAME, gemini:NAME or ollama:NAME
    #[arg(long, value_name = "MODEL", env = "HEADWATER_MODEL", default_value = "scripted")]
    model: String,

    /// What the model should know before anything else
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// The most turns that the model may take
    #[arg(long, value_name = "COUNT", default_value_t = chat::caps::TURNS_DEFAULT)]
    turns: u32,

    /// Print AG-UI events, one JSON object on a line
    #[arg(long)]
    events: bool,
}

/// Asks, shows what is said while it is said, and ends with it.
pub(crate) fn run(args: AskArgs) -> Result<(), Failure> {
    let prompt = args.prompt.clone().map_or_else(read_prompt, Ok)?;
    serve::runtime()?.block_on(async {
        let sys = Sys::real();
        let model = providers::by_name(&args.model, &providers::environment, &sys);
        let model = model.map_err(Failure::refused)?;
        let mut ask = chat::chat(model).user(prompt).strategy(Strategy::TurnsMax(args.turns));
        if let Some(system) = args.system {
            ask = ask.system(system);
        }
        // Real models would take made-up weather for real.
        if args.model == "scripted" {
            ask = ask.tool(weather::weather());
        }
        let run = ask.stream(&sys).map_err(Failure::refused)?;
        if args.events { print_events(run).await } else { show(run).await }
    })
}

fn read_prompt() -> Result<String, Failure> {
    let mut prompt = String::new();
    let input = stdin();
    if input.is_terminal() {
        let how = "headwater ask \"What is the weather in Paris and Oslo?\"";
        return Err(Failure::usage(format!("there is no question; ask one, such as: {how}")));
    }
    let read = input.lock().take(PROMPT_BYTES_MAX + 1).read_to_string(&mut prompt);
    read.map_err(|error| Failure::about("the question cannot be read", error))?;
    if prompt.len() as u64 > PROMPT_BYTES_MAX {
        return Err(Failure::usage(format!(
            "the question is longer than {PROMPT_BYTES_MAX} bytes"
        )));
    }
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the question is empty"));
    }
    Ok(prompt)
}

async fn print_events(mut run: Run) -> Result<(), Failure> {
    while let Some(event) = next_or_stop(&mut run).await {
        output::json(&event)?;
    }
    end(run).await
}

async fn show(mut run: Run) -> Result<(), Failure> {
    let mut screen = Screen::new();
    while let Some(event) = next_or_stop(&mut run).await {
        screen.show(&event)?;
    }
    screen.close()?;
    end(run).await
}

/// The next event; Ctrl-C stops the run, and its end is the last event.
async fn next_or_stop(run: &mut Run) -> Option<chat::agui::Event> {
    let stopped = tokio::select! {
        biased;
        event = run.next() => return event,
        stopped = tokio::signal::ctrl_c() => stopped,
    };
    if stopped.is_ok() {
        run.cancel();
    }
    run.next().await
}

async fn end(run: Run) -> Result<(), Failure> {
    match run.finish().await.done {
        Some(Done::Failed(failure)) => Err(Failure::refused(failure)),
        Some(Done::Cancelled { .. }) => Err(Failure::refused("stopped")),
        Some(Done::TurnsExhausted) => {
            output::note("the model would go on; allow it more turns with --turns");
            Ok(())
        }
        _ => Ok(()),
    }
}
