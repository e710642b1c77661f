//! Tools whose calls are rows: asked for here, run wherever an executor sees them.

use std::{fmt, time::Duration};

use chat::{BadTool, Tool, ToolContext, ToolError, ToolOutcome, agui::Content};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sys::{Cancellation, Elapsed};
use tokio::sync::oneshot;

use crate::{
    caps::{DURABLE_PATIENCE_DEFAULT, DURABLE_PATIENCE_SLACK},
    content::to_result,
    contract::{CallStatus, CancelledBy, Effect, NewCall, ToolCallRow, new_call, step_call},
    rows::now,
    table::{Table, TableError},
};

/// How calls are asked for, and for how long they are waited for.
///
/// Give it the generation that the calls belong to: it is in their rows, and calls of different
/// generations are told apart by it.
#[derive(Clone, Debug)]
#[must_use]
pub struct Asking {
    generation_id: Option<String>,
    patience: Duration,
}

/// What the wait for a call has come to, other than an outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// It took too long.
    #[error("the call {id:?} has no result after {} seconds", .patience.as_secs_f64())]
    Elapsed {
        /// The row of the call.
        id: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// Whoever waited has stopped.
    #[error("nobody waits for the call {id:?} any more")]
    Cancelled {
        /// The row of the call.
        id: String,
    },
    /// Somebody has deleted its row.
    #[error("the row of the call {id:?} was deleted")]
    Deleted {
        /// The row of the call.
        id: String,
    },
    /// The rows cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl WaitError {
    /// True if it may be waited for again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Elapsed { .. } => true,
            Self::Cancelled { .. } | Self::Deleted { .. } => false,
            Self::Table(error) => error.is_retryable(),
        }
    }
}

impl Default for Asking {
    fn default() -> Self {
        Self { generation_id: None, patience: DURABLE_PATIENCE_DEFAULT }
    }
}

impl Asking {
    /// For calls of this generation.
    pub fn of_generation(id: impl Into<String>) -> Self {
        Self { generation_id: Some(id.into()), ..Self::default() }
    }

    /// Waits so long for a result. After that the call is cancelled, and the model is told.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The row of a call.
    fn row_id(&self, context: &ToolContext) -> String {
        match &self.generation_id {
            Some(generation) => format!("{generation}:{}", context.call_id()),
            None => context.idempotency_key().to_string(),
        }
    }
}

/// Makes calls durable.
pub trait ToolExt {
    /// A tool of the same name and schema that does nothing itself: a call becomes a pending row,
    /// and the answer is what an executor writes to it. What the tool does here is never called.
    ///
    /// A call whose row is there already, since it was asked for before a restart, waits for that
    /// one.
    ///
    /// # Errors
    /// Those of [`chat::ToolBuilder::run`]; never for a tool that was made by it.
    fn durable<R: ToolCallRow>(
        &self,
        calls: impl Into<Table<R>>,
        asking: &Asking,
    ) -> Result<Tool, BadTool>;

    /// The same, but nobody waits: the model gets `{"jobId": …, "status": "queued"}` at once.
    /// [`check_job`] is how it asks for the rest; an executor's `on_complete` may tell it.
    ///
    /// # Errors
    /// Those of [`durable`](Self::durable).
    fn background<R: ToolCallRow>(
        &self,
        calls: impl Into<Table<R>>,
        asking: &Asking,
    ) -> Result<Tool, BadTool>;
}

impl ToolExt for Tool {
    fn durable<R: ToolCallRow>(
        &self,
        calls: impl Into<Table<R>>,
        asking: &Asking,
    ) -> Result<Tool, BadTool> {
        wrapped(self, calls.into(), asking, Kind::Waits)
    }

    fn background<R: ToolCallRow>(
        &self,
        calls: impl Into<Table<R>>,
        asking: &Asking,
    ) -> Result<Tool, BadTool> {
        wrapped(self, calls.into(), asking, Kind::Background)
    }
}

/// Makes all of them durable, as [`ToolExt::durable`] does.
///
/// # Errors
/// Those of [`ToolExt::durable`].
pub fn durable_tools<'a, R: ToolCallRow>(
    tools: impl IntoIterator<Item = &'a Tool>,
    calls: impl Into<Table<R>>,
    asking: &Asking,
) -> Result<Vec<Tool>, BadTool> {
    let calls = calls.into();
    tools.into_iter().map(|tool| tool.durable(&calls, asking)).collect()
}

/// Waits until a call is completed, failed or cancelled, however often its row changes before.
///
/// # Errors
/// If it takes longer than that, `cancellation` is over, the row is deleted, or the rows cannot be
/// read. The row is left as it is.
pub async fn wait_for_result<R: ToolCallRow>(
    calls: impl Into<Table<R>>,
    id: &str,
    patience: Duration,
    cancellation: &Cancellation,
) -> Result<ToolOutcome, WaitError> {
    let calls = calls.into();
    let ended = calls.wait_for(id, |row| row.status().is_terminal());
    let waited = tokio::select! {
        biased;
        waited = calls.sys().clock.timeout(patience, ended) => waited,
        () = cancellation.cancelled() => return Err(WaitError::Cancelled { id: id.to_owned() }),
    };
    match waited {
        Ok(Ok(Some(row))) => Ok(outcome_of(&*row)),
        Ok(Ok(None)) => Err(WaitError::Deleted { id: id.to_owned() }),
        Ok(Err(error)) => Err(TableError::from(error).into()),
        Err(Elapsed) => Err(WaitError::Elapsed { id: id.to_owned(), patience }),
    }
}

/// The answer of a tool as a value of a type.
///
/// # Errors
/// If it is none.
pub fn read_answer<T: DeserializeOwned>(answer: &Content) -> Result<T, serde_json::Error> {
    let (result, parts) = to_result(answer);
    match (result, answer) {
        // A number or a truth is written as JSON, too.
        (Some(Value::String(text)), _) => {
            serde_json::from_str(&text).or_else(|_| serde_json::from_value(Value::String(text)))
        }
        (Some(value), _) => serde_json::from_value(value),
        (None, _) => serde_json::from_value(parts.unwrap_or_default()),
    }
}

/// Cancels all calls of a generation that have not ended. Answers how many those were.
///
/// # Errors
/// If one cannot be written; those before it are cancelled.
pub async fn cancel_calls<R: ToolCallRow>(
    calls: impl Into<Table<R>>,
    generation_id: &str,
    by: CancelledBy,
) -> Result<usize, TableError> {
    let calls = calls.into();
    let is_meant =
        |row: &R| row.generation_id() == Some(generation_id) && !row.status().is_terminal();
    let rows = calls.db().once(live::from::<R>().synced())?;
    let mut count = 0;
    for row in rows.iter().filter(|row| is_meant(row)) {
        count += usize::from(cancel(&calls, row.id(), by).await?);
    }
    Ok(count)
}

/// A tool by which a model learns what has become of a background call.
///
/// # Errors
/// Never; the signature is that of [`chat::ToolBuilder::run`].
pub fn check_job<R: ToolCallRow>(calls: impl Into<Table<R>>) -> Result<Tool, BadTool> {
    let calls = calls.into();
    let about = "Tells how far a background job is, and its result once it is completed.";
    Tool::builder("check_job", about)
        .input_schema(json!({
            "type": "object",
            "properties": {"jobId": {"type": "string", "description": "The job, as it was told."}},
            "required": ["jobId"],
        }))
        .effect(chat::Effect::Pure)
        .run(move |arguments: Value, _context| {
            let calls = calls.clone();
            async move {
                let id = arguments["jobId"].as_str().unwrap_or_default();
                let row = calls.get(id)?.filter(|row| row.is_background());
                let Some(row) = row else {
                    return Err(ToolError::new(format_args!("there is no background job {id:?}")));
                };
                Ok(report(&*row))
            }
        })
}

#[derive(Clone, Copy)]
enum Kind {
    Waits,
    Background,
}

fn wrapped<R: ToolCallRow>(
    tool: &Tool,
    calls: Table<R>,
    asking: &Asking,
    kind: Kind,
) -> Result<Tool, BadTool> {
    let spec = tool.spec().clone();
    let mut builder = Tool::builder(spec.name.clone(), spec.description.clone())
        .input_schema(spec.input.clone())
        // The row is asked for once, however often the call is made.
        .effect(chat::Effect::Idempotent)
        .time_max(asking.patience.saturating_add(DURABLE_PATIENCE_SLACK))
        .output_bytes_max(spec.output_bytes_max);
    if spec.lazy {
        builder = builder.lazy();
    }
    if tool.may_need_approval() {
        let asks = tool.clone();
        builder = builder.approve_when(move |arguments: &Value| asks.needs_approval(arguments));
    }
    let is_background = matches!(kind, Kind::Background);
    if let (false, Some(output)) = (is_background, &spec.output) {
        builder = builder.output_schema(output.clone());
    }
    let (asking, effect) = (asking.clone(), Effect::from(spec.effect));
    builder.run(move |args: Value, context: ToolContext| {
        let call = NewCall {
            id: asking.row_id(&context),
            call_id: Some(context.call_id().to_string()),
            generation_id: asking.generation_id.clone(),
            name: spec.name.to_string(),
            args,
            effect,
            is_background,
            at: now(calls.sys()),
        };
        let (calls, patience) = (calls.clone(), asking.patience);
        async move {
            if is_background {
                return queue(&calls, call).await;
            }
            // A call that is over is dropped where it stands; its row must still be cancelled.
            let (tell, told) = oneshot::channel();
            let spawn = calls.sys().spawn.clone();
            let cancellation = context.cancellation().clone();
            spawn.task("durable tool", async move {
                let _ = tell.send(serve(&calls, call, patience, &cancellation).await);
            });
            told.await.unwrap_or_else(|_| Err(ToolError::new("the runtime shuts down")))
        }
    })
}

/// Asks for a call, and waits for what comes of it.
async fn serve<R: ToolCallRow>(
    calls: &Table<R>,
    call: NewCall,
    patience: Duration,
    cancellation: &Cancellation,
) -> Result<Content, ToolError> {
    let id = call.id.clone();
    ask(calls, call).await?;
    match wait_for_result(calls, &id, patience, cancellation).await {
        Ok(ToolOutcome::Done { content }) => Ok(content),
        Ok(ToolOutcome::Failed { why }) => Err(ToolError::new(why)),
        Ok(_) => Err(ToolError::new("the call was cancelled")),
        Err(error) => {
            let by = match error {
                WaitError::Elapsed { .. } => CancelledBy::Timeout,
                WaitError::Cancelled { .. } => CancelledBy::User,
                WaitError::Deleted { .. } | WaitError::Table(_) => CancelledBy::Error,
            };
            if !matches!(error, WaitError::Deleted { .. }) {
                cancel(calls, &id, by).await?;
            }
            // An answer that stands before it in the stream is what the row says.
            match calls.get(&id)?.map(|row| (row.status(), outcome_of(&*row))) {
                Some((CallStatus::Completed, ToolOutcome::Done { content })) => return Ok(content),
                Some((CallStatus::Failed, ToolOutcome::Failed { why })) => {
                    return Err(ToolError::new(why));
                }
                _ => {}
            }
            Err(ToolError::new(match error {
                WaitError::Elapsed { .. } => format!("{error}, and was cancelled"),
                error => error.to_string(),
            }))
        }
    }
}

async fn queue<R: ToolCallRow>(calls: &Table<R>, call: NewCall) -> Result<Content, ToolError> {
    let id = call.id.clone();
    let status = match ask(calls, call).await? {
        CallStatus::Pending => json!("queued"),
        later => json!(later),
    };
    Ok(Content::Text(json!({"jobId": id, "status": status}).to_string()))
}

/// Makes sure that there is a row for a call, and that it lasts. How far the call is.
async fn ask<R: ToolCallRow>(calls: &Table<R>, call: NewCall) -> Result<CallStatus, ToolError> {
    let (id, name, args) = (call.id.clone(), call.name.clone(), call.args.clone());
    if let Some(row) = calls.ready_get(&id).await? {
        if row.name() != name || row.args() != args {
            return Err(ToolError::new(format_args!(
                "the row {id:?} is of another call, of {:?}; give calls of different runs \
                 different generations",
                row.name(),
            )));
        }
        return Ok(row.status());
    }
    calls.insert(vec![new_call::<R>(call)?]).await?;
    Ok(CallStatus::Pending)
}

/// Cancels a call, unless it has ended. Whether it had not.
async fn cancel<R: ToolCallRow>(
    calls: &Table<R>,
    id: &str,
    by: CancelledBy,
) -> Result<bool, TableError> {
    let Some(row) = calls.get(id)?.filter(|row| !row.status().is_terminal()) else {
        return Ok(false);
    };
    let at = now(calls.sys());
    let cancelled = step_call(&*row, &[CallStatus::Cancelled], |row| row.cancel(by, None, &at))?;
    calls.replace(cancelled).await?;
    // Somebody may have answered it while that was on its way.
    let answered = [CallStatus::Completed, CallStatus::Failed];
    Ok(calls.get(id)?.is_none_or(|row| !answered.contains(&row.status())))
}

fn outcome_of<R: ToolCallRow>(row: &R) -> ToolOutcome {
    match row.status() {
        CallStatus::Completed => ToolOutcome::Done { content: row.result().unwrap_or_default() },
        CallStatus::Cancelled => ToolOutcome::Cancelled,
        _ => ToolOutcome::Failed { why: row.error().unwrap_or("the tool failed").to_owned() },
    }
}

fn report<R: ToolCallRow>(row: &R) -> Value {
    let mut report = json!({"jobId": row.id(), "tool": row.name(), "status": row.status()});
    if row.status() == CallStatus::Completed
        && let Some(answer) = row.result()
    {
        let (result, parts) = to_result(&answer);
        report["result"] = result.or(parts).unwrap_or_default();
    }
    if let Some(error) = row.error() {
        report["error"] = error.into();
    }
    report
}

impl fmt::Display for CancelledBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Timeout => "timeout",
            Self::Error => "error",
        })
    }
}
