//! What a machine was fed that it cannot take. Nothing has changed.

use crate::{
    Block, Id, ModelErrorKind,
    caps::{BLOCKS_PER_TURN_MAX, TURN_BYTES_MAX},
};

/// An input that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misfed {
    /// Something else is the next step.
    #[error("{input} came, but the next step is {step}")]
    NotNow {
        /// What came.
        input: &'static str,
        /// What is the next step.
        step: &'static str,
    },
    /// No such call waits.
    #[error("no call {call_id:?} waits for an outcome")]
    UnknownCall {
        /// The call.
        call_id: Id,
    },
    /// The call has an outcome already; the first one counts.
    #[error("the call {call_id:?} has its outcome already; the first one counts")]
    AlreadyAnswered {
        /// The call.
        call_id: Id,
    },
    /// The call must be decided on before it is answered, or needs no decision.
    #[error("the call {call_id:?} {why}")]
    WrongOrder {
        /// The call.
        call_id: Id,
        /// What is wrong.
        why: &'static str,
    },
    /// Arguments that a person changed, and that do not fit.
    #[error("{why}")]
    BadEdit {
        /// What is wrong.
        why: String,
    },
    /// The answer of a tool of the client, which does not fit what the tool promises.
    #[error("{why}")]
    BadOutput {
        /// What is wrong.
        why: String,
    },
    /// An answer to an interrupt that nobody asked.
    #[error("there is no open interrupt {interrupt_id:?}")]
    UnknownInterrupt {
        /// The interrupt.
        interrupt_id: Id,
    },
    /// The model does not keep to the rules of blocks.
    #[error(transparent)]
    Model(#[from] BadModelEvent),
}

/// What a model streamed that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadModelEvent {
    /// No such block is open.
    #[error("the model went on with block {}, which is not open", block.0)]
    UnknownBlock {
        /// The block.
        block: Block,
    },
    /// The block is open already.
    #[error("the model opened block {} twice", block.0)]
    OpenedTwice {
        /// The block.
        block: Block,
    },
    /// An answer for something that the provider does not run.
    #[error("the model answered block {}, which is no call of its provider's", block.0)]
    NotTheProviders {
        /// The block.
        block: Block,
    },
    /// Too many blocks.
    #[error("the answer has more than {BLOCKS_PER_TURN_MAX} blocks")]
    TooManyBlocks,
    /// Too many bytes.
    #[error("the answer has more than {TURN_BYTES_MAX} bytes")]
    TooLong,
}

impl Misfed {
    /// Whether the same input may be right later: never.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        false
    }
}

impl BadModelEvent {
    /// What it says of the model.
    #[must_use]
    pub const fn kind(&self) -> ModelErrorKind {
        match self {
            Self::TooManyBlocks | Self::TooLong => ModelErrorKind::TooLarge,
            Self::UnknownBlock { .. } | Self::OpenedTwice { .. } | Self::NotTheProviders { .. } => {
                ModelErrorKind::Malformed
            }
        }
    }
}
