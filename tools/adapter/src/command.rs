//! What the suite asks for.

use std::collections::BTreeMap;

use serde::Deserialize;

pub(crate) type Headers = BTreeMap<String, String>;

/// One command.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(crate) enum Command {
    Init {
        server_url: String,
    },
    Create {
        path: String,
        content_type: Option<String>,
        ttl_seconds: Option<u64>,
        expires_at: Option<String>,
        headers: Option<Headers>,
        #[serde(default)]
        closed: bool,
        data: Option<String>,
    },
    Connect {
        path: String,
        headers: Option<Headers>,
    },
    Append(Append),
    IdempotentAppend {
        #[serde(flatten)]
        producer: Producer,
        data: String,
    },
    IdempotentAppendBatch {
        #[serde(flatten)]
        producer: Producer,
        items: Vec<String>,
        max_in_flight: Option<usize>,
    },
    IdempotentClose {
        #[serde(flatten)]
        producer: Producer,
        data: Option<String>,
    },
    IdempotentDetach {
        #[serde(flatten)]
        producer: Producer,
    },
    Read(Read),
    Head {
        path: String,
        headers: Option<Headers>,
    },
    Delete {
        path: String,
        headers: Option<Headers>,
    },
    Close {
        path: String,
        data: Option<String>,
        content_type: Option<String>,
    },
    SetDynamicHeader {
        name: String,
        value_type: Kind,
        initial_value: Option<String>,
    },
    SetDynamicParam {
        name: String,
        value_type: Kind,
    },
    ClearDynamic,
    Validate {
        target: Target,
    },
    Shutdown,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Append {
    pub(crate) path: String,
    pub(crate) data: String,
    #[serde(default)]
    pub(crate) binary: bool,
    pub(crate) seq: Option<u64>,
    pub(crate) headers: Option<Headers>,
    pub(crate) producer_id: Option<String>,
    pub(crate) producer_epoch: Option<u64>,
    pub(crate) producer_seq: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Producer {
    pub(crate) path: String,
    pub(crate) producer_id: String,
    pub(crate) epoch: u64,
    #[serde(default)]
    pub(crate) auto_claim: bool,
    pub(crate) headers: Option<Headers>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Read {
    pub(crate) path: String,
    pub(crate) offset: Option<String>,
    #[serde(default)]
    pub(crate) live: LiveAsked,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) max_chunks: Option<usize>,
    #[serde(default)]
    pub(crate) wait_for_up_to_date: bool,
    pub(crate) headers: Option<Headers>,
}

/// How to follow: yes, no, or by a name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum LiveAsked {
    Flag(bool),
    Named(String),
}

impl Default for LiveAsked {
    fn default() -> Self {
        Self::Flag(false)
    }
}

/// How a value changes from request to request.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Counter,
    Timestamp,
    Token,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "target", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(crate) enum Target {
    RetryOptions {
        max_retries: Option<i64>,
        initial_delay_ms: Option<i64>,
        max_delay_ms: Option<i64>,
        multiplier: Option<f64>,
    },
    IdempotentProducer {
        producer_id: Option<String>,
        epoch: Option<i64>,
        max_batch_bytes: Option<i64>,
        max_batch_items: Option<i64>,
    },
}

impl Command {
    /// Its name, as answers repeat it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Init { .. } => "init",
            Self::Create { .. } => "create",
            Self::Connect { .. } => "connect",
            Self::Append(_) => "append",
            Self::IdempotentAppend { .. } => "idempotent-append",
            Self::IdempotentAppendBatch { .. } => "idempotent-append-batch",
            Self::IdempotentClose { .. } => "idempotent-close",
            Self::IdempotentDetach { .. } => "idempotent-detach",
            Self::Read(_) => "read",
            Self::Head { .. } => "head",
            Self::Delete { .. } => "delete",
            Self::Close { .. } => "close",
            Self::SetDynamicHeader { .. } => "set-dynamic-header",
            Self::SetDynamicParam { .. } => "set-dynamic-param",
            Self::ClearDynamic => "clear-dynamic",
            Self::Validate { .. } => "validate",
            Self::Shutdown => "shutdown",
        }
    }

    /// Headers for this command only.
    pub(crate) fn headers(&self) -> Option<&Headers> {
        match self {
            Self::Create { headers, .. }
            | Self::Connect { headers, .. }
            | Self::Head { headers, .. }
            | Self::Delete { headers, .. } => headers.as_ref(),
            Self::Append(append) => append.headers.as_ref(),
            Self::Read(read) => read.headers.as_ref(),
            Self::IdempotentAppend { producer, .. }
            | Self::IdempotentAppendBatch { producer, .. }
            | Self::IdempotentClose { producer, .. }
            | Self::IdempotentDetach { producer } => producer.headers.as_ref(),
            _ => None,
        }
    }
}
