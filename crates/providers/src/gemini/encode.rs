//! Puts a request into Gemini's words.

use chat::{ModelError, Request, Settings, Structured, ThinkingEffort, ToolChoice};

use super::{
    PROVIDER,
    body::{
        Body, Calling, Declaration, GenerationConfig, Instruction, ThinkingConfig, Tool, ToolConfig,
    },
    generation::Generation,
    schema,
    turns::{Conversation, unsupported},
};
use crate::{
    caps::{
        GEMINI_NAME_LEN_MAX, GEMINI_THINKING_TOKENS_HIGH, GEMINI_THINKING_TOKENS_LOW,
        GEMINI_THINKING_TOKENS_MEDIUM,
    },
    wire::check_choice,
};

/// The body of a request for this model.
pub(super) fn body<'a>(model: &'a str, request: &'a Request) -> Result<Body<'a>, ModelError> {
    let generation = Generation::of(model);
    let Conversation { system, turns, .. } = Conversation::of(request, generation)?;
    if request.settings.parallel_tools == Some(false) {
        let message =
            "settings.parallelTools is false, which Gemini has no words for; leave it out";
        return Err(unsupported(message));
    }
    let tools = tools(request)?;
    Ok(Body {
        contents: turns,
        system_instruction: (!system.is_empty()).then_some(Instruction { parts: system }),
        tool_config: tool_config(request)?,
        generation_config: generation_config(model, generation, request, !tools.is_empty())?,
        tools,
    })
}

fn generation_config<'a>(
    model: &str,
    generation: Generation,
    request: &'a Request,
    has_tools: bool,
) -> Result<GenerationConfig<'a>, ModelError> {
    let Settings { tokens_max, temperature, top_p, stop, thinking, .. } = &request.settings;
    let mut config = GenerationConfig {
        max_output_tokens: *tokens_max,
        temperature: *temperature,
        top_p: *top_p,
        stop_sequences: stop,
        thinking_config: thinking.map(|effort| thinking_config(effort, generation)),
        ..GenerationConfig::default()
    };
    if let Some(output) = &request.output {
        if has_tools && generation.structured() != Structured::Combined {
            let message = format!(
                "output {:?} has a schema beside tools, but {model} takes only one of them; ask \
                 for the output in a request without tools",
                output.name
            );
            return Err(unsupported(message));
        }
        let schema = schema::of_output(&output.schema)
            .map_err(|refused| refused.of(PROVIDER, format_args!("output {:?}", output.name)))?;
        config.response_mime_type = Some("application/json");
        config.response_json_schema = Some(schema);
    }
    Ok(config)
}

/// New models take a level, older ones a number of tokens, where -1 is as many as needed.
fn thinking_config(effort: ThinkingEffort, generation: Generation) -> ThinkingConfig {
    let level = |word| ThinkingConfig {
        include_thoughts: true,
        thinking_level: Some(word),
        thinking_budget: None,
    };
    let at_most = |tokens| ThinkingConfig {
        include_thoughts: tokens > 0,
        thinking_level: None,
        thinking_budget: Some(tokens),
    };
    let is_new = generation.is_new();
    match effort {
        ThinkingEffort::Off if is_new => {
            ThinkingConfig { include_thoughts: false, ..level("MINIMAL") }
        }
        ThinkingEffort::Low if is_new => level("LOW"),
        ThinkingEffort::Medium if is_new => level("MEDIUM"),
        ThinkingEffort::High if is_new => level("HIGH"),
        ThinkingEffort::Off => at_most(0),
        ThinkingEffort::Low => at_most(GEMINI_THINKING_TOKENS_LOW),
        ThinkingEffort::Medium => at_most(GEMINI_THINKING_TOKENS_MEDIUM),
        ThinkingEffort::High => at_most(GEMINI_THINKING_TOKENS_HIGH),
        ThinkingEffort::Tokens(tokens) => at_most(tokens),
    }
}

fn tools(request: &Request) -> Result<Vec<Tool<'_>>, ModelError> {
    let declarations = request.tools.iter().map(|tool| {
        let name = tool.name.as_str();
        if !is_name(name) {
            let message = format!(
                "tool {name:?} has a name that is not taken; start with a letter or _, use \
                 letters, digits, _, ., : and -, at most {GEMINI_NAME_LEN_MAX} of them"
            );
            return Err(unsupported(message));
        }
        let parameters_json_schema = schema::of_tool(&tool.input)
            .map_err(|refused| refused.of(PROVIDER, format_args!("tool {name:?}")))?;
        Ok(Declaration { name, description: &tool.description, parameters_json_schema })
    });
    let function_declarations = declarations.collect::<Result<Vec<_>, _>>()?;
    let ours = (!function_declarations.is_empty()).then_some(Tool::Ours { function_declarations });
    let theirs = request.settings.provider_tools.iter().map(Tool::Theirs);
    Ok(ours.into_iter().chain(theirs).collect())
}

/// Whether Gemini takes a tool of this name.
pub(super) fn is_name(name: &str) -> bool {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts_well && name.len() <= GEMINI_NAME_LEN_MAX && name.bytes().all(is_taken)
}

fn tool_config(request: &Request) -> Result<Option<ToolConfig<'_>>, ModelError> {
    check_choice(&PROVIDER.into(), request)?;
    let has_tools = !request.tools.is_empty();
    let (mode, allowed_function_names) = match &request.choice {
        ToolChoice::Required | ToolChoice::Tool(_) if !has_tools => {
            return Err(unsupported(
                "choice: Gemini can be made to call tools of yours only, but tools is empty; give \
                 tools or leave it to the model",
            ));
        }
        ToolChoice::Auto => return Ok(None),
        ToolChoice::None if !has_tools => return Ok(None),
        ToolChoice::None => ("NONE", Vec::new()),
        ToolChoice::Required => ("ANY", Vec::new()),
        ToolChoice::Tool(name) => ("ANY", vec![name.as_str()]),
    };
    let function_calling_config = Calling { mode, allowed_function_names };
    Ok(Some(ToolConfig { function_calling_config }))
}
