//! Puts a request into Anthropic's words.

use chat::{ModelError, OutputSpec, Request, Settings, Structured, ThinkingEffort, ToolChoice};

use super::{
    PROVIDER,
    body::{Body, Choice, Format, OutputConfig, Thinking, Tool},
    generation::Generation,
    schema,
    turns::{Conversation, unsupported},
};
use crate::{
    caps::{
        ANTHROPIC_NAME_LEN_MAX, ANTHROPIC_THINKING_TOKENS_HIGH, ANTHROPIC_THINKING_TOKENS_LOW,
        ANTHROPIC_THINKING_TOKENS_MEDIUM, ANTHROPIC_THINKING_TOKENS_MIN,
    },
    wire::check_choice,
};

/// The body of a request for this model.
pub(super) fn body<'a>(model: &'a str, request: &'a Request) -> Result<Body<'a>, ModelError> {
    let generation = Generation::of(model);
    let settings = &request.settings;
    let Conversation { system, turns, .. } = Conversation::of(request)?;
    let tools = tools(request)?;
    let patience = Patience::of(model, generation, settings)?;
    let format = request.output.as_ref().map(|output| format(model, generation, output));
    let body = Body {
        model,
        max_tokens: patience.max_tokens,
        stream: true,
        system,
        messages: turns,
        tool_choice: choice(request, !tools.is_empty())?,
        tools,
        temperature: settings.temperature,
        top_p: settings.top_p,
        stop_sequences: &settings.stop,
        thinking: patience.thinking,
        output_config: OutputConfig { effort: patience.effort, format: format.transpose()? },
    };
    check_sampling(model, generation, &body)?;
    Ok(body)
}

fn format(model: &str, generation: Generation, output: &OutputSpec) -> Result<Format, ModelError> {
    if generation.structured() != Structured::Combined {
        let message = format!(
            "output {:?} has a schema, but {model} takes none; say in words what it should look \
             like, or use a newer model",
            output.name
        );
        return Err(unsupported(message));
    }
    let schema = schema::of_output(&output.schema)
        .map_err(|refused| refused.of(PROVIDER, format_args!("output {:?}", output.name)))?;
    Ok(Format::JsonSchema { schema })
}

fn tools(request: &Request) -> Result<Vec<Tool<'_>>, ModelError> {
    let ours = request.tools.iter().map(|tool| {
        let name = tool.name.as_str();
        let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !(1..=ANTHROPIC_NAME_LEN_MAX).contains(&name.len()) || !name.bytes().all(is_taken) {
            let message = format!(
                "tool {name:?} has a name that is not taken; use letters, digits, _ and -, at most \
                 {ANTHROPIC_NAME_LEN_MAX} of them"
            );
            return Err(unsupported(message));
        }
        let input_schema = schema::of_tool(&tool.input)
            .map_err(|refused| refused.of(PROVIDER, format_args!("tool {name:?}")))?;
        Ok(Tool::Ours { name, description: &tool.description, input_schema })
    });
    let theirs = request.settings.provider_tools.iter().map(|tool| Ok(Tool::Theirs(tool)));
    ours.chain(theirs).collect()
}

fn choice(request: &Request, has_tools: bool) -> Result<Option<Choice<'_>>, ModelError> {
    check_choice(&PROVIDER.into(), request)?;
    let one_at_a_time = request.settings.parallel_tools == Some(false);
    let (kind, name) = match &request.choice {
        _ if !has_tools => return Ok(None),
        ToolChoice::Auto if !one_at_a_time => return Ok(None),
        ToolChoice::Auto => ("auto", None),
        ToolChoice::None => {
            return Ok(Some(Choice { kind: "none", name: None, disable_parallel_tool_use: false }));
        }
        ToolChoice::Required => ("any", None),
        ToolChoice::Tool(name) => ("tool", Some(name.as_str())),
    };
    Ok(Some(Choice { kind, name, disable_parallel_tool_use: one_at_a_time }))
}

/// How long an answer may be and how much of it is thought.
struct Patience {
    max_tokens: u32,
    thinking: Option<Thinking>,
    effort: Option<&'static str>,
}

impl Patience {
    fn of(model: &str, generation: Generation, settings: &Settings) -> Result<Self, ModelError> {
        let max_tokens = settings.tokens_max.unwrap_or_else(|| generation.tokens_default());
        let as_needed = |effort| Self {
            max_tokens,
            thinking: Some(Thinking::Adaptive { display: "summarized" }),
            effort: Some(effort),
        };
        let adapts = generation.thinks_as_needed();
        match settings.thinking {
            None => Ok(Self { max_tokens, thinking: None, effort: None }),
            Some(ThinkingEffort::Off) => {
                Ok(Self { max_tokens, thinking: Some(Thinking::Disabled), effort: None })
            }
            Some(ThinkingEffort::Low) if adapts => Ok(as_needed("low")),
            Some(ThinkingEffort::Medium) if adapts => Ok(as_needed("medium")),
            Some(ThinkingEffort::High) if adapts => Ok(as_needed("high")),
            Some(ThinkingEffort::Low) => {
                Self::at_most(ANTHROPIC_THINKING_TOKENS_LOW, generation, settings)
            }
            Some(ThinkingEffort::Medium) => {
                Self::at_most(ANTHROPIC_THINKING_TOKENS_MEDIUM, generation, settings)
            }
            Some(ThinkingEffort::High) => {
                Self::at_most(ANTHROPIC_THINKING_TOKENS_HIGH, generation, settings)
            }
            Some(ThinkingEffort::Tokens(_)) if !generation.takes_thinking_tokens() => {
                let message = format!(
                    "settings.thinking is a number of tokens, but {model} takes none; use low, \
                     medium or high"
                );
                Err(unsupported(message))
            }
            Some(ThinkingEffort::Tokens(tokens)) => Self::exactly(tokens, generation, settings),
        }
    }

    /// So many tokens, or fewer if the answer must be short.
    fn at_most(
        tokens: u32,
        generation: Generation,
        settings: &Settings,
    ) -> Result<Self, ModelError> {
        let room = settings.tokens_max.map_or(tokens, |max| max / 2);
        let tokens = tokens.min(room).max(ANTHROPIC_THINKING_TOKENS_MIN);
        Self::exactly(tokens, generation, settings)
    }

    fn exactly(
        budget_tokens: u32,
        generation: Generation,
        settings: &Settings,
    ) -> Result<Self, ModelError> {
        let whole = || generation.tokens_default().saturating_add(budget_tokens);
        let max_tokens = settings.tokens_max.unwrap_or_else(whole);
        let message = if budget_tokens < ANTHROPIC_THINKING_TOKENS_MIN {
            format!(
                "settings.thinking is {budget_tokens} tokens; Anthropic wants at least \
                 {ANTHROPIC_THINKING_TOKENS_MIN}"
            )
        } else if budget_tokens >= max_tokens {
            format!(
                "settings.thinking takes {budget_tokens} tokens, but settings.tokens_max is \
                 {max_tokens}; thoughts count too, so make it larger"
            )
        } else {
            let thinking = Some(Thinking::Enabled { budget_tokens });
            return Ok(Self { max_tokens, thinking, effort: None });
        };
        Err(unsupported(message))
    }
}

/// Some models and all thoughts exclude choices about choosing words, and thoughts within a budget
/// exclude that a tool must be called.
fn check_sampling(model: &str, generation: Generation, body: &Body<'_>) -> Result<(), ModelError> {
    let thinks = !matches!(body.thinking, None | Some(Thinking::Disabled));
    let excluded_by = match (generation.takes_sampling(), thinks) {
        (false, _) => format!("{model} does not take it"),
        (true, true) => "settings.thinking excludes it".to_owned(),
        (true, false) => return Ok(()),
    };
    if body.temperature.is_some_and(|temperature| temperature < 1.0) {
        let message = format!("settings.temperature is below 1, but {excluded_by}; leave it out");
        return Err(unsupported(message));
    }
    let top_p_min = if generation.takes_sampling() { 0.95 } else { 0.99 };
    if body.top_p.is_some_and(|top_p| top_p < top_p_min) {
        let message =
            format!("settings.topP is below {top_p_min}, but {excluded_by}; leave it out");
        return Err(unsupported(message));
    }
    let must_call =
        body.tool_choice.as_ref().is_some_and(|choice| matches!(choice.kind, "any" | "tool"));
    if must_call && matches!(body.thinking, Some(Thinking::Enabled { .. })) {
        let message = "choice wants a tool to be called, but settings.thinking excludes that; use \
                       auto, or turn thinking off";
        return Err(unsupported(message));
    }
    Ok(())
}
