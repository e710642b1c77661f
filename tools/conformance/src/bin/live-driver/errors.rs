//! What `@tanstack/db` calls our errors.

use query::{BadJoin, QueryError, WriteError};

pub(crate) fn query_error(error: &QueryError) -> &'static str {
    match error {
        QueryError::UnknownCollection { .. } | QueryError::ArgumentCount { .. } => "TypeError",
        QueryError::DuplicateAlias { .. } => "QueryCompilationError",
        QueryError::UnknownFunction { .. } => "UnknownFunctionError",
        QueryError::UnknownAggregate { .. } => "UnsupportedAggregateFunctionError",
        QueryError::MisplacedAggregate { .. } => "UnknownExpressionTypeError",
        QueryError::OrderByAggregate => "AggregateFunctionNotInSelectError",
        QueryError::NotGrouped { .. } => "NonAggregateExpressionNotInGroupByError",
        QueryError::HavingWithoutGroups => "HavingRequiresGroupByError",
        QueryError::WindowWithoutOrder => "LimitOffsetRequireOrderByError",
        QueryError::DistinctWithoutSelect => "DistinctRequiresSelectError",
        QueryError::JoinCondition { side, .. } => match side {
            BadJoin::Empty => "JoinConditionMustBeEqualityError",
            BadJoin::NoSource => "InvalidJoinConditionSourceMismatchError",
            BadJoin::SameSource => "InvalidJoinConditionSameSourceError",
            BadJoin::Left => "InvalidJoinConditionLeftSourceError",
            BadJoin::Right => "InvalidJoinConditionRightSourceError",
        },
        _ => "QueryError",
    }
}

/// As a write of a transaction, or as a synced one.
pub(crate) fn write_error(error: &WriteError, is_synced: bool) -> &'static str {
    match error {
        WriteError::DuplicateKey { .. } if is_synced => "DuplicateKeySyncError",
        WriteError::DuplicateKey { .. } => "DuplicateKeyError",
        WriteError::UnknownKey { write: "delete", .. } => "DeleteKeyNotFoundError",
        WriteError::UnknownKey { .. } => "UpdateKeyNotFoundError",
        WriteError::KeyChange { .. } => "KeyUpdateNotAllowedError",
        WriteError::BadKey { found: "nothing", .. } => "UndefinedKeyError",
        WriteError::BadKey { .. } => "InvalidKeyError",
        WriteError::NotOpen { .. } => "TransactionNotPendingMutateError",
        WriteError::UnknownCollection { .. } => "TypeError",
        _ => "WriteError",
    }
}

/// A query that cannot even be read.
pub(crate) fn bad_query(error: &serde_json::Error) -> &'static str {
    let is_join = error.to_string().contains("expected one of `inner`");
    if is_join { "UnsupportedJoinTypeError" } else { "QueryError" }
}
