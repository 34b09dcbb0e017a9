//! What the jobs API reads from requests in its own way: statuses, job types and ids.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, Ending, State};
use windrow_store::inspect::Place;

use crate::error::{Error, Result};
use crate::openai::ids;
use crate::params::{none_if_empty, words};

const JOB_TYPE_CHARS_MAX: usize = 64;

/// Where an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum ItemStatus {
    Pending,
    Processing,
    Done,
    Error,
    NotFound,
    Skipped,
}

impl ItemStatus {
    const ALL: [(ItemStatus, &'static str); 6] = [
        (ItemStatus::Pending, "PENDING"),
        (ItemStatus::Processing, "PROCESSING"),
        (ItemStatus::Done, "DONE"),
        (ItemStatus::Error, "ERROR"),
        (ItemStatus::NotFound, "NOT_FOUND"),
        (ItemStatus::Skipped, "SKIPPED"),
    ];

    /// The outcome; none for an item without one.
    pub(super) fn outcome(self) -> Option<Status> {
        match self {
            ItemStatus::Pending | ItemStatus::Processing => None,
            ItemStatus::Done => Some(Status::Completed),
            ItemStatus::Error => Some(Status::Failed),
            ItemStatus::NotFound => Some(Status::NotFound),
            ItemStatus::Skipped => Some(Status::Skipped),
        }
    }

    /// Where an item without an outcome may be.
    pub(super) fn places(self) -> &'static [Place] {
        match self {
            ItemStatus::Pending => &[Place::Untouched, Place::Returned],
            ItemStatus::Processing => &[Place::Leased],
            _ => &[],
        }
    }
}

impl From<Status> for ItemStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Completed => ItemStatus::Done,
            Status::Failed => ItemStatus::Error,
            Status::NotFound => ItemStatus::NotFound,
            Status::Skipped => ItemStatus::Skipped,
        }
    }
}

impl From<Place> for ItemStatus {
    fn from(place: Place) -> Self {
        match place {
            Place::Untouched | Place::Returned => ItemStatus::Pending,
            Place::Leased => ItemStatus::Processing,
        }
    }
}

/// Statuses of items, separated by commas; empty for all.
pub(super) fn item_statuses(text: Option<&str>) -> Result<Vec<ItemStatus>> {
    words(text).map(item_status).collect()
}

pub(super) fn item_status(word: &str) -> Result<ItemStatus> {
    let found = ItemStatus::ALL.into_iter().find(|(_, known)| known.eq_ignore_ascii_case(word));
    found.map(|(status, _)| status).ok_or_else(|| {
        let known = ItemStatus::ALL.map(|(_, word)| word).join(", ");
        Error::invalid("statuses", format!("`statuses` must be one or more of {known}."))
    })
}

/// Outcomes of items, for calls that know no others; empty for all.
pub(super) fn outcomes(text: Option<&str>) -> Result<Vec<Status>> {
    item_statuses(text)?.into_iter().map(outcome).collect()
}

pub(super) fn outcome(status: ItemStatus) -> Result<Status> {
    status.outcome().ok_or_else(|| {
        let message = "`statuses` must be statuses of finished items here: DONE, ERROR, NOT_FOUND, \
                    SKIPPED.";
        Error::invalid("statuses", message)
    })
}

/// How a finished item ended.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum ItemOutcome {
    Done,
    Error,
    NotFound,
    Skipped,
}

/// Where an item without a result stands.
#[derive(ToSchema)]
#[schema(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(dead_code, reason = "only described: where only unfinished items can be named")]
pub(super) enum ItemPlace {
    Pending,
    Processing,
}

/// How far a job is.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "only described: `job_status` gives the words")]
pub(super) enum JobStatus {
    InProgress,
    Paused,
    Cancelling,
    Finalizing,
    Completed,
    Failed,
    Cancelled,
    Expired,
}

/// What a job's state is called here.
pub(super) fn job_status(state: State) -> &'static str {
    match state {
        State::InProgress => "in_progress",
        State::Paused => "paused",
        State::Cancelling | State::Finalizing(Ending::Cancelled) => "cancelling",
        State::Expiring | State::Finalizing(Ending::Completed | Ending::Expired) => "finalizing",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
        State::Expired => "expired",
    }
}

/// States of jobs, separated by commas; empty for all.
pub(super) fn job_states(text: Option<&str>) -> Result<Vec<State>> {
    let mut states = Vec::new();
    for word in words(text) {
        let before = states.len();
        states.extend(
            State::ALL.into_iter().filter(|state| job_status(*state).eq_ignore_ascii_case(word)),
        );
        if states.len() == before {
            let message = "`statuses` must be one or more of in_progress, paused, cancelling, \
                    finalizing, completed, failed, cancelled, expired.";
            return Err(Error::invalid("statuses", message));
        }
    }
    Ok(states)
}

/// A time, for the description of a filter: empty is as good as left out.
pub(super) fn time_schema() -> Schema {
    or_empty(SchemaFormat::KnownFormat(KnownFormat::DateTime))
}

/// A job's id, for the description of a filter.
pub(super) fn job_id_schema() -> Schema {
    or_empty(SchemaFormat::Custom("uuid".to_owned()))
}

fn or_empty(format: SchemaFormat) -> Schema {
    let formatted = ObjectBuilder::new().schema_type(Type::String).format(Some(format));
    let empty = ObjectBuilder::new().schema_type(Type::String).max_length(Some(0));
    Schema::from(AnyOfBuilder::new().item(formatted).item(empty).build())
}

/// A word of the caller's own for jobs; an empty text is none.
pub(super) fn job_type(text: Option<String>) -> Result<Option<String>> {
    let fits = |text: &String| {
        !text.chars().any(char::is_control) && text.chars().count() <= JOB_TYPE_CHARS_MAX
    };
    match none_if_empty(text) {
        Some(text) if !fits(&text) => {
            let message = format!(
                "`jobType` must have at most {JOB_TYPE_CHARS_MAX} characters, without control \
                    characters."
            );
            Err(Error::invalid("jobType", message))
        }
        text => Ok(text),
    }
}

/// A text that is no id names nothing.
pub(super) fn job_id(text: &str) -> Result<BatchId> {
    ids::parse_batch(text).map_err(|_| job_not_found(text))
}

pub(super) fn job_not_found(text: &str) -> Error {
    Error::missing("job", text)
}

/// The store's reply, or 404 where it knows no such job.
pub(super) fn or_job_not_found<T>(reply: windrow_store::Result<T>, id: BatchId) -> Result<T> {
    reply.map_err(|error| match error.kind {
        windrow_store::Kind::Missing => job_not_found(&id.to_string()),
        _ => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_read_back_and_others_are_refused() {
        for (status, word) in ItemStatus::ALL {
            assert_eq!(item_statuses(Some(&word.to_lowercase())).unwrap(), [status]);
            assert_eq!(serde_json::to_value(status).unwrap(), word);
            assert_eq!(status.outcome().is_none(), !status.places().is_empty());
        }
        assert_eq!(item_statuses(Some(" , ")).unwrap(), []);
        assert!(item_statuses(Some("PENDING,LOST")).is_err());
        assert!(outcomes(Some("PENDING")).is_err());
        for state in State::ALL {
            assert!(job_states(Some(job_status(state))).unwrap().contains(&state));
        }
        assert!(job_states(Some("gone")).is_err());
    }
}
