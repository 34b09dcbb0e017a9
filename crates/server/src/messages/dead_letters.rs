//! `/v1/dead-letters`: lists messages that were given up on, replays and discards them.

use axum::extract::State;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windrow_domain::DeadLetterId;
use windrow_store::Kind;
use windrow_store::message::{DeadLetter, MessagesQuery, SEND_MAX};

use super::messages::{ListQuery, MessageObject};
use super::pages::PageQuery;
use super::params::into_api_error;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::extract::{Json, Path, Query};
use crate::openapi::error_responses::{
    NotFound, PayloadTooLarge, RequestTimeout, UnsupportedMediaType,
};
use crate::pages::SnakePage;

/// A message that was given up on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub(crate) struct DeadLetterObject {
    /// The id to replay or discard it by; not that of the message.
    #[schema(value_type = String, format = "uuid")]
    id: DeadLetterId,
    message: MessageObject,
    /// Its last failures, oldest first.
    #[schema(inline)]
    history: Vec<Failure>,
    /// Why it was given up on.
    error: String,
    #[schema(value_type = String, format = DateTime)]
    dead_at: Timestamp,
}

#[derive(Debug, Serialize, ToSchema)]
struct Failure {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    error: String,
}

impl From<DeadLetter> for DeadLetterObject {
    fn from(letter: DeadLetter) -> Self {
        let history = letter.history.into_iter();
        Self {
            id: letter.id,
            message: letter.message.into(),
            history: history.map(|past| Failure { at: past.at, error: past.error }).collect(),
            error: letter.error,
            dead_at: letter.dead_at,
        }
    }
}

/// The dead letters to replay or discard.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeadLetterIds)]
pub(crate) struct DeadLetterIds {
    #[schema(min_items = 1, max_items = 1000, value_type = Vec<DeadLetterIdText>, inline)]
    ids: Vec<String>,
}

/// The id of a dead letter.
#[derive(ToSchema)]
#[schema(value_type = String, format = "uuid")]
#[expect(dead_code, reason = "only described")]
struct DeadLetterIdText(String);

/// How many were replayed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Replayed {
    replayed: u64,
}

/// How many were discarded.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Discarded {
    discarded: u64,
}

/// Lists dead letters
///
/// Messages that were given up on, the newest first.
#[utoipa::path(
    get, path = "/dead-letters", operation_id = "listDeadLetters", tag = "Messages",
    security(("key" = [])), params(ListQuery, PageQuery),
    responses((status = 200, description = "A page of dead letters.", body = SnakePage<DeadLetterObject>), NotFound))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<SnakePage<DeadLetterObject>>> {
    let (scope, mut page) = page.read(&caller)?;
    let (asked, message_store) = (query.asked()?, app.messages()?.message_store());
    while let Some((after, limit)) = page.next() {
        let step = message_store
            .dead_letters(&scope, MessagesQuery { after, limit, ..asked.clone() })
            .await;
        page.add(step, |letter: &DeadLetter| letter.message.payload.len())?;
    }
    Ok(page.finish())
}

/// Sends dead letters again
///
/// Each at the end of its stream, with its attempts reset. All or none.
#[utoipa::path(
    post, path = "/dead-letters/replay", operation_id = "replayDeadLetters", tag = "Messages",
    security(("key" = [])), request_body = DeadLetterIds,
    responses((status = 200, description = "The messages will be delivered again.", body = Replayed),
        NotFound, RequestTimeout, PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn replay(
    State(app): State<App>,
    caller: Caller,
    Json(ids): Json<DeadLetterIds>,
) -> Result<axum::Json<Replayed>> {
    replay_all(&app, &caller, &parse_ids(ids.ids)?).await
}

/// Sends a dead letter again
///
/// At the end of its stream, with its attempts reset.
#[utoipa::path(
    post, path = "/dead-letters/{id}/replay", operation_id = "replayDeadLetter", tag = "Messages",
    security(("key" = [])), params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The message will be delivered again.", body = Replayed), NotFound))]
pub(crate) async fn replay_one(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Replayed>> {
    replay_all(&app, &caller, &[parse_id(&id)?]).await
}

async fn replay_all(
    app: &App,
    caller: &Caller,
    ids: &[DeadLetterId],
) -> Result<axum::Json<Replayed>> {
    let messages = app.messages()?;
    let replayed = messages.client.replay_dead(&caller.scope(), ids).await;
    let replayed = replayed.map_err(|error| match error.kind {
        Kind::Missing => {
            let message = "At least one of these dead letters was not found; none was replayed.";
            Error::new(Code::NotFound, message).at("ids")
        }
        _ => into_api_error(error),
    })?;
    tracing::info!(letters = replayed.len(), by = %caller.key, "dead letters replayed");
    Ok(axum::Json(Replayed { replayed: replayed.len() as u64 }))
}

/// Forgets dead letters
///
/// For good. Ids that do not exist are ignored.
#[utoipa::path(
    post, path = "/dead-letters/discard", operation_id = "discardDeadLetters", tag = "Messages",
    security(("key" = [])), request_body = DeadLetterIds,
    responses((status = 200, description = "The dead letters were discarded.", body = Discarded),
        NotFound, RequestTimeout, PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn discard(
    State(app): State<App>,
    caller: Caller,
    Json(ids): Json<DeadLetterIds>,
) -> Result<axum::Json<Discarded>> {
    let discarded = discard_all(&app, &caller, &parse_ids(ids.ids)?).await?;
    Ok(axum::Json(Discarded { discarded }))
}

/// Forgets a dead letter
///
/// For good.
#[utoipa::path(
    post, path = "/dead-letters/{id}/discard", operation_id = "discardDeadLetter", tag = "Messages",
    security(("key" = [])), params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The dead letter was discarded.", body = Discarded), NotFound))]
pub(crate) async fn discard_one(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Discarded>> {
    match discard_all(&app, &caller, &[parse_id(&id)?]).await? {
        0 => Err(Error::missing("dead letter", &id)),
        discarded => Ok(axum::Json(Discarded { discarded })),
    }
}

async fn discard_all(app: &App, caller: &Caller, ids: &[DeadLetterId]) -> Result<u64> {
    let message_store = app.messages()?.message_store();
    let discarded =
        message_store.discard_dead(&caller.scope(), ids).await.map_err(into_api_error)?;
    tracing::info!(letters = discarded, by = %caller.key, "dead letters discarded");
    Ok(discarded)
}

fn parse_id(id: &str) -> Result<DeadLetterId> {
    id.parse().map_err(|_| Error::missing("dead letter", id))
}

/// Each id once, however often it is named.
fn parse_ids(ids: Vec<String>) -> Result<Vec<DeadLetterId>> {
    if !(1..=SEND_MAX).contains(&ids.len()) {
        return Err(Error::invalid("ids", format!("`ids` must have 1 to {SEND_MAX} entries.")));
    }
    let ids = ids.iter().map(|id| id.parse::<DeadLetterId>());
    let bad = |_| Error::invalid("ids", "`ids` must be ids of dead letters.");
    let mut ids = ids.collect::<Result<Vec<_>, _>>().map_err(bad)?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
