//! `headwater ask`: one question to a model, its answer on the terminal.

mod screen;
pub(crate) mod weather;

use std::{
    future::pending,
    io::{IsTerminal, Read, stdin},
};

use chat::{Done, Run, Strategy, agui::Event};
use clap::Args as ClapArgs;
use sys::{Cancellation, Sys};

use self::screen::Screen;
use crate::{failure::Failure, output, serve};

/// Bytes of a question that is read from the standard input.
const PROMPT_BYTES_MAX: u64 = 1024 * 1024;
/// How a shell tells of a program that was interrupted.
const EXIT_INTERRUPTED: i32 = 130;

#[derive(Debug, ClapArgs)]
pub(crate) struct AskArgs {
    /// The question; read from the standard input if it is not given
    #[arg(value_name = "PROMPT")]
    prompt: Vec<String>,

    /// scripted, openai:NAME, openai-chat:NAME, anthropic:NAME, gemini:NAME or ollama:NAME
    #[arg(long, value_name = "MODEL", env = "HEADWATER_MODEL", default_value = "scripted")]
    model: String,

    /// What the model should know before anything else
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// The most turns that the model may take
    #[arg(long, value_name = "COUNT", default_value_t = chat::caps::TURNS_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(chat::caps::TURNS_MAX)))]
    turns: u32,

    /// Print AG-UI events, one JSON object on a line
    #[arg(long)]
    events: bool,
}

/// Asks, shows what is said while it is said, and ends with it.
pub(crate) fn run(args: AskArgs) -> Result<(), Failure> {
    let prompt = match args.prompt.is_empty() {
        true => read_prompt()?,
        false => args.prompt.join(" "),
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the question is empty"));
    }
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
        let stop = Stop::listen(&sys);
        if args.events { print_events(run, stop).await } else { show(run, stop).await }
    })
}

/// Ctrl-C: the first stops the run, the second the program.
struct Stop(Cancellation);

impl Stop {
    fn listen(sys: &Sys) -> Self {
        let (canceller, cancellation) = Cancellation::new();
        sys.spawn.task("ctrl-c", async move {
            let Ok(()) = tokio::signal::ctrl_c().await else { return pending().await };
            canceller.cancel();
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(EXIT_INTERRUPTED);
            }
        });
        Self(cancellation)
    }

    /// The next event; if the run is to stop, its end is the last one.
    async fn or_next(&self, run: &mut Run) -> Option<Event> {
        tokio::select! {
            biased;
            () = self.0.cancelled() => run.cancel(),
            event = run.next() => return event,
        }
        run.next().await
    }
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
    Ok(prompt)
}

async fn print_events(mut run: Run, stop: Stop) -> Result<(), Failure> {
    while let Some(event) = stop.or_next(&mut run).await {
        output::json(&event)?;
    }
    end(run).await
}

async fn show(mut run: Run, stop: Stop) -> Result<(), Failure> {
    let mut screen = Screen::new();
    while let Some(event) = stop.or_next(&mut run).await {
        screen.show(&event)?;
    }
    screen.close()?;
    end(run).await
}

async fn end(run: Run) -> Result<(), Failure> {
    match run.finish().await.done {
        Some(Done::Failed(failure)) => Err(Failure::refused(failure)),
        Some(Done::Cancelled { .. }) => Err(Failure::refused("stopped")),
        Some(Done::TurnsExhausted) => {
            Err(Failure::refused("the model would go on; allow it more turns with --turns"))
        }
        _ => Ok(()),
    }
}
