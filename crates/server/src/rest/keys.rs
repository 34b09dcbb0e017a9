//! `/api/keys`: an admin lists, makes and revokes keys.
//!
//! Holds throughout: a key's text leaves once, in the answer to its making; one that was revoked here
//! is refused here at once, and by other processes within the time that they believe a key.

use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windrow_domain::{KeyId, Owner, Role};
use windrow_store::key::{Key, KeysQuery};
use windrow_store::{Kind, Scope};

use super::jobs::Listed;
use super::words;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::extract::{Json, Path, Query};
use crate::secret::{Secret, Terms};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListQuery {
    owner: Option<String>,
    page_size: Option<u32>,
    after: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Create {
    owner: String,
    role: String,
    name: String,
    expires_at: Option<String>,
}

/// A key, never its text.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyObject {
    id: KeyId,
    owner: Owner,
    role: Role,
    name: String,
    hint: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

/// A key that was just made.
#[derive(Serialize)]
pub(crate) struct Made {
    key: KeyObject,
    /// Shown only now.
    secret: String,
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<Listed<KeyObject>>> {
    caller.check_admin()?;
    let scope = match words::after(query.owner) {
        Some(name) => Scope::Owner(owner(&name)?),
        None => Scope::All,
    };
    let page =
        KeysQuery { after: words::after(query.after), limit: words::page_size(query.page_size)? };
    let page = app.store.keys(&scope, page).await?;
    Ok(axum::Json(Listed::of(page)))
}

pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(create): Json<Create>,
) -> Result<(StatusCode, axum::Json<Made>)> {
    caller.check_admin()?;
    let role: Role = create.role.parse().map_err(|_| {
        let known = Role::ALL.map(Role::as_str).join(", ");
        Error::invalid("role", format!("The roles are {known}."))
    })?;
    let expires_at = words::time("expiresAt", create.expires_at.as_deref())?;
    if expires_at.is_some_and(|end| end <= app.clock.now()) {
        return Err(Error::invalid("expiresAt", "`expiresAt` has passed already."));
    }
    let terms = Terms { owner: owner(&create.owner)?, role, name: create.name, expires_at };
    let (id, secret) = Secret::make().map_err(Error::internal)?;
    let key = app.store.add_key(secret.to_new_key(id, terms)).await?;
    tracing::info!(key.id = %key.id, owner = %key.owner, by = %caller.key, "key made");
    let made = Made { key: key.into(), secret: secret.reveal().to_owned() };
    Ok((StatusCode::CREATED, axum::Json(made)))
}

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
    app.guard.forget();
    tracing::info!(key.id = %key.id, owner = %key.owner, by = %caller.key, "key revoked");
    Ok(axum::Json(key.into()))
}

fn owner(name: &str) -> Result<Owner> {
    Owner::new(name).map_err(|bad| Error::invalid("owner", bad.to_string()))
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
