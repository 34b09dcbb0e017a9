//! `/api/keys`: an admin lists, creates and revokes API keys.
//!
//! Holds throughout: the text of a key leaves once, in the response that creates it; a key that was
//! revoked here is refused here at once, and by other processes within `key_ms_max`.

use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windrow_domain::{KeyId, Owner, Role};
use windrow_store::key::{Key, KeysQuery};
use windrow_store::{Kind, Scope};

use super::queries::PageQuery;
use crate::api_key::{ApiKey, KeySpec};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::extract::{Json, Path, Query};
use crate::openapi::error_responses::{
    NotFound, PayloadTooLarge, RequestTimeout, UnsupportedMediaType,
};
use crate::pages::{self, CamelPage};
use crate::params::{none_if_empty, owner, time};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only keys of this owner.
    #[param(max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    owner: Option<String>,
}

/// A key to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewKey)]
pub(crate) struct NewKeyBody {
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    owner: String,
    #[schema(value_type = KeyRole)]
    role: String,
    /// A name for people.
    #[schema(max_length = 200, pattern = "^[^\\u0000]*$")]
    name: String,
    /// When the key expires; in the future. Never, when omitted.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<String>,
}

/// What a key allows.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "the domain's own goes out; here it is only described")]
enum KeyRole {
    /// Everything that belongs to the key's owner.
    Member,
    /// Everything, of every owner.
    Admin,
}

/// A key, without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Key)]
pub(crate) struct KeyObject {
    #[schema(value_type = String, format = "uuid")]
    id: KeyId,
    #[schema(value_type = String)]
    owner: Owner,
    #[schema(value_type = KeyRole)]
    role: Role,
    name: String,
    /// The last characters of the secret, to tell keys apart.
    hint: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    last_used_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    revoked_at: Option<Timestamp>,
}

/// A key that was just created.
#[derive(Serialize, ToSchema)]
#[schema(as = MadeKey)]
pub(crate) struct CreatedKey {
    key: KeyObject,
    /// The API key itself; shown only in this response.
    secret: String,
}

/// Lists keys
///
/// For admins.
#[utoipa::path(
    get, path = "/keys", operation_id = "listKeys", tag = "Keys", security(("key" = [])),
    params(ListQuery, PageQuery),
    responses((status = 200, description = "A page of keys.", body = CamelPage<KeyObject>)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<CamelPage<KeyObject>>> {
    caller.check_admin()?;
    let scope = match none_if_empty(query.owner) {
        Some(name) => Scope::Owner(owner("owner", &name)?),
        None => Scope::All,
    };
    let (after, limit) = page.read()?;
    let has_cursor = after.is_some();
    let page = pages::page(
        app.store.keys(&scope, KeysQuery { after, limit }).await,
        has_cursor,
        Error::from,
    )?;
    Ok(axum::Json(page.into()))
}

/// Makes a key
///
/// For admins.
#[utoipa::path(
    post, path = "/keys", operation_id = "createKey", tag = "Keys", security(("key" = [])),
    request_body = NewKeyBody,
    responses((status = 201, description = "The key, and its secret, which is shown only in this response.", body = CreatedKey),
        RequestTimeout, PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(create): Json<NewKeyBody>,
) -> Result<(StatusCode, axum::Json<CreatedKey>)> {
    caller.check_admin()?;
    let role: Role = create.role.parse().map_err(|_| {
        let known = Role::ALL.map(Role::as_str).join(", ");
        Error::invalid("role", format!("`role` must be one of {known}."))
    })?;
    // Elsewhere an empty time means none; a key must not live for ever because of that.
    if create.expires_at.as_deref() == Some("") {
        return Err(Error::invalid(
            "expiresAt",
            "`expiresAt` is empty; omit it for a key that never expires.",
        ));
    }
    let expires_at = time("expiresAt", create.expires_at.as_deref())?;
    if expires_at.is_some_and(|end| end <= app.clock.now()) {
        return Err(Error::invalid("expiresAt", "`expiresAt` is in the past."));
    }
    let spec =
        KeySpec { owner: owner("owner", &create.owner)?, role, name: create.name, expires_at };
    let (id, secret) = ApiKey::generate().map_err(Error::internal)?;
    let key = app.store.add_key(secret.to_new_key(id, spec)).await?;
    tracing::info!(key.id = %key.id, owner = %key.owner, by = %caller.key, "key created");
    let made = CreatedKey { key: key.into(), secret: secret.reveal().to_owned() };
    Ok((StatusCode::CREATED, axum::Json(made)))
}

/// Revokes a key
///
/// For admins. Other processes refuse it within seconds.
#[utoipa::path(
    delete, path = "/keys/{id}", operation_id = "revokeKey", tag = "Keys", security(("key" = [])),
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The revoked key.", body = KeyObject),
        NotFound))]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<KeyObject>> {
    caller.check_admin()?;
    let key = Uuid::try_parse(&id).map(KeyId).map_err(|_| Error::missing("key", &id))?;
    let key = app.store.revoke_key(&Scope::All, key).await.map_err(|error| match error.kind {
        Kind::Missing => Error::missing("key", &id),
        _ => error.into(),
    })?;
    app.guard.clear_cache();
    tracing::info!(key.id = %key.id, owner = %key.owner, by = %caller.key, "key revoked");
    Ok(axum::Json(key.into()))
}

impl From<Key> for KeyObject {
    fn from(key: Key) -> Self {
        Self {
            id: key.id,
            owner: key.owner,
            role: key.role,
            name: key.name,
            hint: key.hint,
            created_at: key.created_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            revoked_at: key.revoked_at,
        }
    }
}
